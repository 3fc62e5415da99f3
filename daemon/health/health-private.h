#pragma once

/* What the files of health.h share. */

#include "health.h"
#include "meter.h"
#include "ownership.h"

/* After a change was told, the next waits so many times as long as the telling took, where that is
 * worth speaking of: a hundred thousand endpoints that come up one after the other must not keep
 * the core busy with nothing else. */
#define HEALTH_QUIET_FACTOR 4
#define HEALTH_BRIEF_USEC   UINT64_C(1000)
/* How often it is tried again to ask endpoints that could not be asked. */
#define HEALTH_RETRY_USEC UINT64_C(1000000)
/* Lines about single endpoints of a service within HEALTH_LINES_USEC; the rest is told as a sum. */
#define HEALTH_LINES_MAX  10
#define HEALTH_LINES_USEC UINT64_C(10000000)

/* ---- watched.c: one endpoint ---- */

struct watched {
	struct health *health;
	size_t index; /* in the followed set */
	bool kept;    /* while another set is being looked at: it is in that, too */

	struct target *target;      /* the probe's, while there is one; NULL: cannot be asked */
	struct target *next_target; /* while another timing is prepared */
	struct probe *probe;        /* NULL: not asked */
	struct probe_timing timing; /* of the probe */

	struct judge judge;
	bool has_verdict;
	struct verdict verdict;  /* the last */
	struct verdict *failure; /* the last that was not good; NULL: none yet */
	uint64_t checked_usec, took_usec, failed_usec;

	/* what the log has said of it */
	enum usher_health told;
	bool told_flapping;
	uint64_t told_usec; /* since when it was that */
};

/* The i-th of a set, and its probe. Errors: ENOMEM. */
int watched_new(struct health *h, const struct usher_endpoints *set, size_t i,
		struct watched **ret);
struct watched *watched_free(struct watched *w);
DEFINE_CLEANUP(struct watched, watched_free);
/* Whether w, of h->set, is the i-th of another set: the same instance, asked the same. ENOMEM. */
int watched_is(const struct watched *w, const struct usher_endpoints *set, size_t i);
void watched_take_result(struct watched *w, const struct probe_result *result, uint64_t now_usec);
/* Start the probe that could not be started, if it can be now. */
void watched_ask(struct watched *w);
/* The interval that its state asks for. */
void watched_set_pace(struct watched *w);
/* Where the probe's timing is not the configuration's and cannot be changed under way: make ready
 * another, for the same endpoint as the i-th of a set, and start it. ENOMEM. */
int watched_prepare_again(struct watched *w, const struct usher_endpoints *set, size_t i);
void watched_ask_again(struct watched *w);

/* ---- health.c: those of a service ---- */

struct health {
	struct health_office *office;
	struct health *previous, *next; /* in the office */
	char *service;
	struct health_config config; /* but for the texts of the check, which are check's */
	struct check *check;         /* NULL: only reports are judged */
	const struct health_events *events;
	void *userdata;

	struct usher_endpoints *set;
	struct watched **watched; /* of each endpoint of the set */
	uint8_t *states;
	size_t count;
	bool check_changed;  /* what is watched was made by another check ... */
	bool timing_changed; /* ... or is asked in other times */
	size_t ejected;
	uint64_t past_probes, past_connections, past_bytes; /* of those that are gone */
	struct meter probes, connections, bytes;            /* of results */

	bool is_dirty; /* something has changed: in the office's list of those to be told, or ... */
	bool is_quiet; /* ... waiting for quiet_until_usec, for it was told a moment ago */
	struct health *next_dirty;
	uint64_t quiet_until_usec;
	uint64_t deadline_usec; /* when something happens by itself; USEC_FOREVER */

	/* the log */
	uint64_t lines_usec; /* since when lines are counted; 0: none yet */
	unsigned lines;
	unsigned untold[USHER_HEALTH_EJECTED +
			1]; /* that became this and were not told one by one */
};

/* w is another than before: to be told at the end of the turn. */
void health_note_changed(struct health *h, struct watched *w);
/* Something falls due then, if not before. */
void health_wake_at(struct health *h, uint64_t usec);
/* Do what is due. */
void health_on_deadline(struct health *h, uint64_t now_usec);

/* ---- health-log.c ---- */

/* Say what has changed since the last time, within bounds. */
void health_tell(struct health *h, uint64_t now_usec);
/* Say what was not told one by one, once its time is over. */
void health_tell_rest(struct health *h, uint64_t now_usec);
uint64_t health_tell_deadline(const struct health *h);

/* ---- health-office.c ---- */

struct health_office {
	sd_event *event;
	struct prober *prober;
	struct health *first;
	struct health *dirty;
	struct health *telling; /* whoever is told of it may free it */
	sd_event_source *timer; /* for the earliest deadline of all */
	uint64_t armed_usec;
	sd_event_source *turn; /* runs at the end of a turn in which something has changed */
};

void office_add(struct health_office *o, struct health *h);
void office_remove(struct health_office *o, struct health *h);
void office_tell_later(struct health_office *o, struct health *h);
void office_wake_at(struct health_office *o, uint64_t usec);
