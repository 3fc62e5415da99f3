#pragma once

/* Which steps a rollout takes, how long each may, and what it wants of the directory meanwhile.
 *
 * Pure decisions: time and configuration come in, words come out. */

#include <stdbool.h>
#include <stdint.h>
#include <usher/error.h>

#include "config.h"
#include "context.h"
#include "record.h"

/* For one call of a registry, with its repetitions. */
#define STEP_REGISTRY_USEC UINT64_C(5000000)

/* Give a new record its steps. Errors: ENOMEM, E2BIG. */
int steps_plan(struct drain_record *record, const struct drain_config *drain);
/* Give a record that is being cancelled its way back: what has not begun goes, what runs is
 * skipped, and the steps back to service follow. Probes and ramps only what was closed. */
int steps_plan_back(
		struct drain_record *record, const struct drain_config *drain, uint64_t wall_usec);
/* Whether the instance has been asked to stop. */
bool steps_closed(const struct drain_record *record);
/* Whether the step belongs to the way back, of a cancelled drain or of a restore. */
bool steps_going_back(const struct drain_record *record);

/* How long each step may take. own: as configured; reserve: what the steps before it leave for it,
 * own scaled down where the deadline does not hold all of them. */
struct step_budgets {
	uint64_t own[STEP_MAX]; /* USEC_FOREVER: what is left of the deadline */
	uint64_t reserve[STEP_MAX];
	uint64_t window_usec; /* declared propagation: cannot be hurried */
	uint64_t sum_usec;    /* of all, the propagation at its window */
	bool scaled;
};
/* Errors: ERANGE (the deadline cannot hold what cannot be hurried; the message says what to do). */
int steps_budget_drain(const struct drain_config *drain, enum drain_order order,
		uint64_t deadline_usec, struct step_budgets *ret, struct usher_error *reterr);
int steps_budget_restore(const struct restore_config *restore, const struct drain_config *drain,
		uint64_t deadline_usec, struct step_budgets *ret, struct usher_error *reterr);
/* When the budget of a step that began at started_usec ends. */
uint64_t steps_budget_end(const struct drain_record *record, const struct step_budgets *budgets,
		uint64_t started_usec, uint64_t deadline_usec);

/* What becomes of a step when its budget is spent. */
enum budget_policy steps_policy(enum drain_step step, const struct drain_config *drain);

/* Share of its own weight that an endpoint has elapsed_usec into a ramp, in small equal steps up to
 * 1; *ret_next_usec: when the next one is due, after the same start. */
double steps_ramp_share(uint64_t elapsed_usec, uint64_t ramp_usec, uint64_t *ret_next_usec);
#define STEP_RAMP_STEPS         20
#define STEP_RAMP_INTERVAL_USEC UINT64_C(200000) /* at least between two */

/* What the record wants the directory to hold. False: nothing. Of a running rollout, only what its
 * step on disk allows: see `acting`. share is the ramp's. Strings are the record's. */
bool steps_override(
		const struct drain_record *record, bool acting, double share, struct override *ret);
