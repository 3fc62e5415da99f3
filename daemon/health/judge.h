#pragma once

/* From results to a state: rise and fall, damping of what flaps, ejection for what consumers
 * report. Pure: time is an argument, nothing is called.
 *
 * Checks: `rise` good results in a row bring up, `fall` bad ones bring down. A first state of
 * unknown is left by the first result that is believed alone (rise and fall do not apply to it, as
 * in HAProxy's first check and Envoy's fast path), from up or down they do. PROBE_IS_NOTHING
 * changes nothing.
 *
 * Flapping: after `flap_changes` changes of state within `flap_window` the endpoint counts as
 * flapping: it stays down until its results have been good for `flap_hold` on end.
 *
 * Outliers, as in Envoy's outlier detection: an endpoint is ejected for `ejection` times the number
 * of its ejections in a row (at most `max_ejection`); an interval without ejection takes one off
 * that number. How many may be ejected at once is asked of whoever keeps all of them
 * (judge_may_eject). */

#include <stdbool.h>
#include <stdint.h>
#include <usher/endpoint.h>
#include <usher/plugin.h>

#include "config.h"
#include "verdict.h"

#define JUDGE_FLAPS_MAX 16 /* changes that are remembered */

struct judge {
	enum usher_health checked; /* unknown, up, degraded, down: what the checks say */
	bool flapping;
	unsigned good, bad;  /* results in a row */
	uint64_t since_usec; /* of the state as judge_health() tells it */
	uint64_t changes[JUDGE_FLAPS_MAX];
	unsigned change_count;
	uint64_t good_since_usec; /* while flapping; 0: the last was bad */

	/* reports */
	uint64_t ejected_until_usec; /* 0: not ejected */
	unsigned ejections;          /* in a row */
	unsigned consecutive_failures;
	uint64_t window_start_usec;
	uint64_t window_calls, window_failures;
};

void judge_init(struct judge *j, const struct health_config *config, uint64_t now_usec);
/* One result of a check. True: judge_health() is another now. */
bool judge_result(struct judge *j, const struct health_config *config, enum probe_outcome outcome,
		uint64_t now_usec);
/* One report. may_eject: whether the cap leaves room. True: judge_health() is another now. */
bool judge_report(struct judge *j, const struct outlier_config *config,
		const struct usher_report *report, bool may_eject, uint64_t now_usec);
/* Let time pass. True: judge_health() is another now. */
bool judge_time(struct judge *j, const struct health_config *config, uint64_t now_usec);
/* When judge_time() has something to do, or USEC_FOREVER. */
uint64_t judge_deadline(const struct judge *j, const struct health_config *config);

/* Down before ejected before degraded before up; a flapping one is down. */
enum usher_health judge_health(const struct judge *j);
/* Whether one more of `count` may be ejected while `ejected` are. */
bool judge_may_eject(const struct outlier_config *config, size_t ejected, size_t count);
