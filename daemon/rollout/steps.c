/* Which steps, in which order, for how long. */

#include "steps.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <usher/document.h>

#include "clock.h"
#include "ownership.h"

static const enum drain_step serve_stale[] = { STEP_REQUESTED, STEP_DEREGISTER, STEP_PROPAGATION,
	STEP_READINESS, STEP_IN_FLIGHT, STEP_CLOSE, STEP_DONE };
static const enum drain_step refuse_first[] = { STEP_REQUESTED, STEP_READINESS, STEP_DEREGISTER,
	STEP_PROPAGATION, STEP_IN_FLIGHT, STEP_CLOSE, STEP_DONE };

static int add_steps(struct drain_record *record, const enum drain_step *steps, size_t count)
{
	int r = 0;

	for (size_t i = 0; i < count && r >= 0; i++)
		r = drain_record_add_step(record, steps[i]);
	return r;
}

/* A hook that is not configured has no step on the way back: open and readiness are left out. */
static int add_steps_back(struct drain_record *record, bool open, bool readiness, bool probe)
{
	static const enum drain_step rest[] = { STEP_REGISTER, STEP_OBSERVED, STEP_RAMP,
		STEP_DONE };
	int r = 0;

	if (open)
		r = drain_record_add_step(record, STEP_OPEN);
	if (r >= 0 && readiness)
		r = drain_record_add_step(record, STEP_READINESS);
	if (r >= 0 && probe)
		r = drain_record_add_step(record, STEP_PROBE);
	return r < 0 ? r : add_steps(record, rest, ELEMENTS(rest));
}

int steps_plan(struct drain_record *record, const struct drain_config *drain)
{
	int r;

	if (record->kind == ROLLOUT_DRAIN)
		return record->order == DRAIN_SERVE_STALE
				? add_steps(record, serve_stale, ELEMENTS(serve_stale))
				: add_steps(record, refuse_first, ELEMENTS(refuse_first));

	r = drain_record_add_step(record, STEP_REQUESTED);
	return r < 0 ? r
		     : add_steps_back(record, drain->open.kind != HOOK_NONE,
				       drain->readiness.kind != HOOK_NONE, true);
}

static bool step_began(const struct drain_record *record, enum drain_step step)
{
	const struct step_record *s = drain_record_find(record, step);

	return s && s->attempts > 0 && s->state != STEP_SKIPPED;
}

bool steps_closed(const struct drain_record *record)
{
	return step_began(record, STEP_CLOSE);
}

bool steps_going_back(const struct drain_record *record)
{
	return record->kind == ROLLOUT_RESTORE || drain_record_find(record, STEP_REGISTER) != NULL;
}

int steps_plan_back(
		struct drain_record *record, const struct drain_config *drain, uint64_t wall_usec)
{
	struct step_record *step = drain_record_current(record);
	bool closed = steps_closed(record);
	bool readiness = step_began(record, STEP_READINESS) && drain->readiness.kind != HOOK_NONE;
	int r;

	r = step_record_append(step, "cancel", true, wall_usec, "cancelled here");
	if (r < 0)
		return r;

	if (step->step != STEP_CLOSE || !closed)
		step->state = STEP_SKIPPED;
	else
		step->state = STEP_ASSUMED; /* asked to stop: what came of it, the probe finds out
					     */
	step->finished_wall_usec = wall_usec;
	drain_record_cut_steps(record, record->current + 1);
	r = add_steps_back(record, closed && drain->open.kind != HOOK_NONE, readiness, closed);
	if (r < 0)
		return r;
	record->current++;
	return 0;
}

static uint64_t hook_budget(const struct hook_config *hook)
{
	return hook->kind == HOOK_NONE ? 0 : hook->timeout_usec;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Its part of the room, when all that is flexible does not fit. */
static uint64_t scale(uint64_t usec, uint64_t room_usec, uint64_t flexible_usec)
{
	if (flexible_usec <= room_usec)
		return usec;
	return (uint64_t) ((double) usec * (double) room_usec / (double) flexible_usec);
}

int steps_budget_drain(const struct drain_config *drain, enum drain_order order,
		uint64_t deadline_usec, struct step_budgets *ret, struct usher_error *reterr)
{
	struct step_budgets b = { .window_usec = drain->registry_usec +
				drain->consumer_refresh_usec + drain->consumer_cache_usec +
				drain->margin_usec };
	bool counts = drain->from_tcp || drain->from_consumers;
	uint64_t quiet = counts ? drain->quiet_usec : 0, firm, flexible, room;
	char window_text[USHER_DURATION_TEXT_MAX], deadline_text[USHER_DURATION_TEXT_MAX];

	b.own[STEP_READINESS] = hook_budget(&drain->readiness) +
			(order == DRAIN_REFUSE_FIRST ? STEP_REGISTRY_USEC : 0);
	b.own[STEP_DEREGISTER] = STEP_REGISTRY_USEC;
	b.own[STEP_IN_FLIGHT] = counts ? most(drain->in_flight_timeout_usec, quiet) : 0;
	b.own[STEP_CLOSE] = hook_budget(&drain->close);
	b.own[STEP_PROPAGATION] = drain->propagation_timeout_usec
			? most(drain->propagation_timeout_usec, b.window_usec)
			: USEC_FOREVER;

	firm = b.window_usec + quiet + b.own[STEP_CLOSE];
	flexible = b.own[STEP_READINESS] + b.own[STEP_DEREGISTER] + b.own[STEP_IN_FLIGHT] - quiet;
	b.sum_usec = firm + flexible;
	if (firm > deadline_usec)
		return usher_error_set(reterr, -ERANGE,
				"its declared windows and close hook take %s, more than the "
				"deadline of %s: give it more time, or declare less",
				usher_duration_format(firm, window_text),
				usher_duration_format(deadline_usec, deadline_text));

	room = deadline_usec - firm;
	b.scaled = flexible > room;
	b.reserve[STEP_READINESS] = scale(b.own[STEP_READINESS], room, flexible);
	b.reserve[STEP_DEREGISTER] = scale(b.own[STEP_DEREGISTER], room, flexible);
	b.reserve[STEP_IN_FLIGHT] = quiet + scale(b.own[STEP_IN_FLIGHT] - quiet, room, flexible);
	b.reserve[STEP_PROPAGATION] = b.window_usec;
	b.reserve[STEP_CLOSE] = b.own[STEP_CLOSE];
	*ret = b;
	return 0;
}

int steps_budget_restore(const struct restore_config *restore, const struct drain_config *drain,
		uint64_t deadline_usec, struct step_budgets *ret, struct usher_error *reterr)
{
	struct step_budgets b = {};
	char ramp_text[USHER_DURATION_TEXT_MAX], deadline_text[USHER_DURATION_TEXT_MAX];

	if (restore->ramp_usec >= deadline_usec)
		return usher_error_set(reterr, -ERANGE,
				"its ramp takes %s, which the deadline of %s does not hold: give "
				"it more time, or a shorter ramp",
				usher_duration_format(restore->ramp_usec, ramp_text),
				usher_duration_format(deadline_usec, deadline_text));

	b.own[STEP_OPEN] = hook_budget(&drain->open);
	b.own[STEP_READINESS] = hook_budget(&drain->readiness);
	b.own[STEP_PROBE] = USEC_FOREVER;
	b.own[STEP_REGISTER] = STEP_REGISTRY_USEC;
	b.own[STEP_OBSERVED] = restore->observed_timeout_usec;
	b.own[STEP_RAMP] = USEC_FOREVER;
	b.reserve[STEP_RAMP] = restore->ramp_usec;
	b.sum_usec = restore->ramp_usec;
	*ret = b;
	return 0;
}

uint64_t steps_budget_end(const struct drain_record *record, const struct step_budgets *budgets,
		uint64_t started_usec, uint64_t deadline_usec)
{
	uint64_t own = budgets->own[drain_record_current(record)->step];
	uint64_t later = 0;

	for (size_t i = record->current + 1; i < record->step_count; i++)
		later += budgets->reserve[record->steps[i].step];
	deadline_usec -= least(later, deadline_usec);

	return own == USEC_FOREVER ? deadline_usec : least(started_usec + own, deadline_usec);
}

enum budget_policy steps_policy(enum drain_step step, const struct drain_config *drain)
{
	switch (step) {
	case STEP_PROPAGATION:
		return drain->on_propagation_timeout;
	case STEP_IN_FLIGHT:
		return drain->on_in_flight_timeout;
	case STEP_REQUESTED:
	case STEP_READINESS:
	case STEP_DEREGISTER:
	case STEP_RAMP:
	case STEP_DONE:
		return BUDGET_CONTINUE;
	case STEP_CLOSE:
	case STEP_OPEN:
	case STEP_PROBE:
	case STEP_REGISTER:
	case STEP_OBSERVED:
	case STEP_MAX:
		return BUDGET_FAIL;
	}
	return BUDGET_FAIL;
}

double steps_ramp_share(uint64_t elapsed_usec, uint64_t ramp_usec, uint64_t *ret_next_usec)
{
	uint64_t steps = most(1, least(STEP_RAMP_STEPS, ramp_usec / STEP_RAMP_INTERVAL_USEC));
	uint64_t step;

	if (elapsed_usec >= ramp_usec) {
		*ret_next_usec = ramp_usec;
		return 1;
	}
	step = elapsed_usec * steps / ramp_usec;
	*ret_next_usec = ((step + 1) * ramp_usec + steps - 1) / steps;
	return (double) (step + 1) / (double) (steps + 1);
}

/* Of a finished or held one, the furthest that it got; of a running one, what the disk knows of. */
static bool step_reached(const struct drain_record *record, enum drain_step step, bool acting)
{
	const struct step_record *s = drain_record_find(record, step);

	if (!s || s->attempts == 0)
		return false;
	return acting || s != drain_record_current(record) || s->attempts > 1 ||
			s->state != STEP_ACTIVE;
}

static bool way_there_override(const struct drain_record *record, bool acting, struct override *ret)
{
	if (!step_reached(record, STEP_REQUESTED, acting))
		return false;
	ret->uid = record->uid;
	ret->admin_state = USHER_ADMIN_DRAINING;
	ret->withdrawn = step_reached(record, STEP_DEREGISTER, acting);
	return true;
}

/* Another incarnation may come back at the id, so the way back binds whichever. */
static bool way_back_override(
		const struct drain_record *record, bool acting, double share, struct override *ret)
{
	if (record->state == DRAIN_DONE ||
			(record->state == DRAIN_CANCELLED && record->kind == ROLLOUT_DRAIN))
		return false;
	if (record->state != DRAIN_CANCELLED && step_reached(record, STEP_RAMP, acting)) {
		ret->admin_state = USHER_ADMIN_READY;
		ret->weight_share = record->state == DRAIN_FAILED ? 1 : share;
		return true;
	}
	ret->admin_state = USHER_ADMIN_DRAINING;
	ret->withdrawn = record->removal_revision > 0;
	return true;
}

bool steps_override(
		const struct drain_record *record, bool acting, double share, struct override *ret)
{
	*ret = (struct override){ .id = record->endpoint, .weight_share = 1 };

	return steps_going_back(record) ? way_back_override(record, acting, share, ret)
					: way_there_override(record, acting, ret);
}
