#pragma once

/* From results to a state: rise and fall, damping of what flaps, ejection for what consumers
 * report. Pure: time is an argument, nothing is called.
 *
 * Checks: `rise` good results in a row bring up, `fall` bad ones bring down. A first state of
 * unknown is left by the first result alone (as in HAProxy's first check and Envoy's fast path);
 * from up or down rise and fall apply. What is up becomes degraded by `fall` results in a row that
 * say so, and up again by `rise` that do not. PROBE_IS_NOTHING changes nothing.
 *
 * Flapping: an endpoint flaps once it has gone up or down `flap_changes` times within
 * `flap_window`, or its results have turned as often, each time before `rise` or `fall` could
 * believe them: good, bad, good, bad never is two of anything, and yet is no health. While it
 * flaps, bad results in a row still bring it down, and nothing brings it up. It ends with results
 * that have been alike for `flap_hold` on end.
 *
 * Outliers, after Envoy's outlier detection: an endpoint is ejected for `ejection` times the number
 * of its ejections in a row (at most `max_ejection`); each interval without ejection takes one off
 * that number. What is different: the share of failures is looked at with each report and not at
 * the end of the interval; an ejection that the cap forbids comes as soon as there is room; and a
 * good check does not end an ejection, for calls failed while checks were good. How many may be
 * ejected at once is asked of whoever keeps all of them (judge_may_eject). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <usher/endpoint.h>
#include <usher/plugin.h>

#include "config.h"
#include "verdict.h"

#define JUDGE_FLAPS_MAX 16 /* changes that are remembered */

struct judge {
	enum usher_health checked; /* unknown, up, degraded, down: what the checks say */
	bool flapping;
	uint64_t since_usec; /* of the state as judge_health() tells it */

	/* results */
	unsigned good, bad;                     /* in a row */
	unsigned well, degraded;                /* among the good ones, in a row */
	uint64_t alike_usec;                    /* since when they have all been good, or all bad */
	unsigned turns;                         /* in a row that came too early to be believed */
	uint64_t turns_usec;                    /* when the first of these came */
	uint64_t changes_usec[JUDGE_FLAPS_MAX]; /* up or down, newest last */
	unsigned change_count;

	/* reports */
	uint64_t ejected_until_usec; /* 0: not ejected */
	unsigned ejections;          /* in a row; see judge_ejections() */
	uint64_t calm_usec;          /* since when there has been no ejection */
	unsigned failures;           /* in a row */
	uint64_t window_usec;        /* when the interval began; 0: no report yet */
	uint64_t window_calls, window_failures;
};

void judge_init(struct judge *j, const struct health_config *config, uint64_t now_usec);
/* One result of a check. True: judge_health() or flapping is another now. */
bool judge_result(struct judge *j, const struct health_config *config, enum probe_outcome outcome,
		uint64_t now_usec);
/* One report. may_eject: whether the cap leaves room. True: judge_health() is another now. */
bool judge_report(struct judge *j, const struct outlier_config *config,
		const struct usher_report *report, bool may_eject, uint64_t now_usec);
/* Let time pass. True: judge_health() is another now. */
bool judge_time(struct judge *j, const struct health_config *config, uint64_t now_usec);
/* When judge_time() has something to do, or USEC_FOREVER. */
uint64_t judge_deadline(const struct judge *j, const struct health_config *config);

/* Down before ejected before degraded before up. */
enum usher_health judge_health(const struct judge *j);
/* The number of ejections in a row that the next one would add to. */
unsigned judge_ejections(
		const struct judge *j, const struct outlier_config *config, uint64_t now_usec);
/* Whether one more of `count` may be ejected while `ejected` are. */
bool judge_may_eject(const struct outlier_config *config, size_t ejected, size_t count);
