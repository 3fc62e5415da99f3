#pragma once

/* How many requests local processes say they have open to an endpoint. A report is its reporter's
 * own: it ends with its time, or with the reporter's connection. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <systemd/sd-event.h>

#include "rollout.h"

#define IN_FLIGHT_REPORTS_MAX 4096 /* of one connection */
#define IN_FLIGHT_TTL_MAX     (UINT64_C(3600) * 1000000)
#define IN_FLIGHT_TTL_DEFAULT (UINT64_C(10) * 1000000)

struct in_flight; /* every report */

/* The reports of one connection; zero-initialised. */
struct in_flight_reporter {
	struct in_flight_report *reports;
	size_t count;
};

/* How many requests all reporters together say they have open to an endpoint; called after each
 * report, and when one ends: with its reporter, or within IN_FLIGHT_SWEEP_USEC of its time. */
typedef void (*in_flight_changed)(
		void *userdata, const char *service, const char *endpoint, uint64_t requests);

#define IN_FLIGHT_SWEEP_USEC UINT64_C(1000000)

/* NULL when out of memory. */
struct in_flight *in_flight_new(sd_event *event, in_flight_changed changed, void *userdata);
struct in_flight *in_flight_free(struct in_flight *f);

struct in_flight_claim {
	const char *service;
	const char *endpoint;
	uint64_t count;
	uint64_t ttl_usec;
	uint64_t revision; /* of the directory, at the time of the report */
};

/* Replaces what the reporter said before of the same endpoint. Copies. Errors: EINVAL (the names
 * are too long), E2BIG, ENOMEM. */
int in_flight_report(struct in_flight *f, struct in_flight_reporter *reporter,
		const struct in_flight_claim *claim, uint64_t now_usec);
/* What the reporter said last of the endpoint: count and revision. ENOENT. */
int in_flight_last(const struct in_flight *f, const struct in_flight_reporter *reporter,
		const char *service, const char *endpoint, uint64_t *ret_count,
		uint64_t *ret_revision);
/* The reporter has gone. */
void in_flight_forget(struct in_flight *f, struct in_flight_reporter *reporter);
/* Drop the reports whose time is over. The loop does so by itself. */
void in_flight_expire(struct in_flight *f, uint64_t now_usec);
/* What the reports say at that time; those whose time is over are dropped. */
void in_flight_evidence(struct in_flight *f, const char *service, const char *endpoint,
		uint64_t now_usec, struct in_flight_evidence *ret);
