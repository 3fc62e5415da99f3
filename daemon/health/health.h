#pragma once

/* The health of one service's endpoints: their probes, what came of them, and what consumers
 * report.
 *
 * It follows the endpoints that the context knows, whatever becomes of them in the chain: one that
 * drains or is left out is still asked. An endpoint keeps its state as long as its id, uid,
 * address, port and what the check reads of its metadata stay; another instance at a reused address
 * starts anew, and the probe of one that goes stops at once. Thread: the core's. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <systemd/sd-event.h>

#include "judge.h"
#include "prober.h"

/* The prober of the node with the healths of all services. */
struct health_office;
struct health;

struct health_events {
	/* The state of at least one endpoint has changed: health_states() is another. Called at
	 * most once in a turn of the loop, at its end, however many have changed, and never for
	 * more than a part of the time. */
	void (*changed)(void *userdata, struct health *health);
};

int health_office_new(sd_event *event, struct inbox *inbox, const struct prober_config *config,
		struct health_office **ret);
struct health_office *health_office_free(struct health_office *o); /* after all healths */
void health_office_configure(struct health_office *o, const struct prober_config *config);
void health_office_stats(struct health_office *o, struct prober_stats *ret);

/* Of a service that has a check or judges reports. check is that of config, made by check_new()
 * while there still was somebody to refuse it; NULL where the kind is CHECK_NONE. Takes a reference
 * to it; nothing of config is borrowed. NULL when out of memory. */
struct health *health_new(struct health_office *o, const char *service,
		const struct health_config *config, struct check *check,
		const struct health_events *events, void *userdata);
struct health *health_free(struct health *h); /* NULL is fine; its probes stop */
/* Another configuration of the same service. What is judged stays where the same is asked; where
 * another check asks otherwise, it starts anew. In force at once for judging. True: what is asked
 * changes with the next health_follow(). */
bool health_configure(struct health *h, const struct health_config *config, struct check *check);
/* Whether a and b ask and judge alike. */
bool health_config_equal(const struct health_config *a, const struct health_config *b);

/* The endpoints are these now. Takes a reference. Costs nothing when it is the set that is followed
 * already. Errors: ENOMEM; the last set stays in force, and the next call tries again. */
int health_follow(struct health *h, struct usher_endpoints *all);
/* enum usher_health of each endpoint of the followed set, in its order. Borrowed until the loop
 * turns or health_follow() is called. */
const uint8_t *health_states(const struct health *h);
const struct usher_endpoints *health_set(const struct health *h);

/* How calls to an endpoint went. Errors: ENOENT (no such endpoint). */
int health_report(struct health *h, const char *id, const struct usher_report *report);

struct health_detail {
	enum usher_health state;
	bool flapping;
	uint64_t since_usec;           /* of the state; CLOCK_BOOTTIME */
	uint64_t checked_usec;         /* when the last result came; 0: none yet */
	uint64_t took_usec;            /* of the last probe */
	const struct verdict *verdict; /* the last; NULL: none yet */
	const struct verdict *failure; /* the last that was not good; NULL: none yet */
	uint64_t failed_usec;
	unsigned good, bad;          /* results in a row */
	uint64_t ejected_until_usec; /* 0: not ejected */
	unsigned ejections;
};
/* The i-th of the followed set. Borrowed until the loop turns. */
void health_detail(const struct health *h, size_t i, struct health_detail *ret);

/* Probes, connections and bytes: how many a second, of the last half minute or so, and how many so
 * far. */
struct health_cost {
	size_t endpoints;
	double probes_per_second, connections_per_second, bytes_per_second;
	uint64_t probes, connections, bytes; /* since the service is there */
};
void health_cost(const struct health *h, struct health_cost *ret);
/* The same for so many endpoints, before there are any: an estimate from the check alone. */
void health_cost_estimate(
		const struct health_config *config, size_t endpoints, struct health_cost *ret);
