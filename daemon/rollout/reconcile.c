/* One rollout, looked after: enter its step on disk, act, wait for the evidence, go on. Whatever
 * woke it, it compares what should be with what is, and is harmless to run again. */

#include <errno.h>
#include <string.h>

#include "clock.h"
#include "crash-point.h"
#include "operation.h"

static bool act_is_due(const struct act *act, uint64_t now_usec)
{
	return act->state == ACT_FAILED && now_usec >= act->again_usec;
}

/* A hook that runs is bounded by its own timeout. */
static bool budget_is_spent(const struct operation *op, uint64_t now_usec)
{
	if (op->hook.state == ACT_RUNNING)
		return false;
	return now_usec >= op->step_until_usec ||
			(op->hook.state == ACT_FAILED && op->hook.again_usec == USEC_FOREVER);
}

/* The registry's identity wins over ours: another incarnation at the id is not the one that was
 * drained. */
static void operation_check_identity(struct operation *op)
{
	const struct drain_record *record = &op->record;
	struct echo echo;

	if (op->released || steps_going_back(record) || !record->uid)
		return;
	operation_look(op, &echo);
	if (!echo.answered || !echo.present || !echo.uid || strcmp(echo.uid, record->uid) == 0)
		return;

	op->released = true;
	if (!drain_record_finished(record))
		operation_fail(op,
				"source %s shows another incarnation at %s: uid %s, and the "
				"drain was of uid %s. It is left in service; drain it again if "
				"it is meant",
				echo.source, record->endpoint, echo.uid, record->uid);
}

/* In flight again, between the last sample and the close: the close has not begun. */
static void operation_step_back(struct operation *op)
{
	struct step_record *close = drain_record_current(&op->record);

	step_record_reset(close);
	op->record.current--;
	operation_begin_step(op);
	(void) step_record_append(drain_record_current(&op->record), "recheck", false,
			clock_wall_usec(), "in flight again right before the close: waiting on");
	drain_record_current(&op->record)->finished_wall_usec = 0;
}

/* The close acts only on what is still quiet. > 0: go on; 0: not known yet; negative: it is not,
 * and the step is in_flight again. */
static int operation_may_close(struct operation *op, uint64_t now_usec)
{
	const char *name;
	int r;

	if (drain_record_current(&op->record)->step != STEP_CLOSE || op->hook.state != ACT_IDLE ||
			!operation_hook(op, &name))
		return 1;
	r = operation_recheck(op, now_usec);
	if (r < 0)
		operation_step_back(op);
	return r;
}

static void operation_start_acting(struct operation *op, uint64_t now_usec)
{
	const struct drain_record *record = &op->record;

	if (op->began_usec > 0)
		return;
	op->began_usec = now_usec;
	if (record->current > 0)
		crash_point(record->steps[record->current - 1].step, "after");
	crash_point(drain_record_current(record)->step, "before");
}

/* From that revision on no pick returns it. Before a first answer there is none: then it is the one
 * that will come. */
static void take_removal_revision(struct operation *op, uint64_t revision)
{
	struct drain_record *record = &op->record;

	if (record->removal_revision > 0 || steps_going_back(record) ||
			drain_record_current(record)->step != STEP_DEREGISTER)
		return;
	record->removal_revision =
			revision > 0 ? revision : directory_revision(op->rollout->directory) + 1;
}

/* False: the directory does not take it, now or ever; then the rollout has failed. */
static bool operation_tell_directory(struct operation *op, uint64_t now_usec)
{
	uint64_t revision = 0;
	int r;

	r = operation_apply_override(op, &revision);
	if (r >= 0) {
		take_removal_revision(op, revision);
		return true;
	}
	if (r == -ENOMEM)
		operation_look_again(op, now_usec + OPERATION_SLOW_TICK_USEC);
	else if (r == -ENOENT)
		operation_fail(op, "service %s is not declared any more", op->record.service);
	else
		operation_fail(op, "the directory does not take it: %s", strerrordesc_np(-r));
	return false;
}

/* Act, and look for the evidence. STEP_ACTIVE: not yet. */
static enum step_state operation_progress(struct operation *op, uint64_t now_usec)
{
	if (!operation_act(op))
		return STEP_ACTIVE;
	if (!op->acted)
		crash_point(drain_record_current(&op->record)->step, "acted");
	op->acted = true;
	return operation_until(op, now_usec);
}

/* False: the step may not act yet, for its entry is not on disk. */
static bool operation_open_step(struct operation *op, uint64_t now_usec)
{
	if (op->entry_version == 0)
		operation_enter(op, now_usec);
	else if (act_is_due(&op->registry, now_usec) || act_is_due(&op->hook, now_usec))
		operation_enter_again(op, now_usec);
	operation_commit(op, now_usec);
	if (!operation_may_act(op))
		return false;
	operation_start_acting(op, now_usec);
	return true;
}

/* True: look at once again, for the record has moved on. */
static bool operation_work(struct operation *op, uint64_t now_usec)
{
	enum step_state state = STEP_ACTIVE;
	int r;

	if (!operation_open_step(op, now_usec))
		return false;
	operation_take_share(op, now_usec);
	if (!operation_tell_directory(op, now_usec))
		return false;
	r = operation_may_close(op, now_usec);
	if (r < 0)
		return true;
	if (r > 0)
		state = operation_progress(op, now_usec);

	if (state != STEP_ACTIVE) {
		operation_end_step(op, state);
		return true;
	}
	if (budget_is_spent(op, now_usec)) {
		operation_spend(op);
		return true;
	}
	operation_look_again(op, op->step_until_usec);
	return false;
}

void operation_reconcile(struct operation *op, uint64_t now_usec)
{
	uint64_t revision;

	op->again_usec = USEC_FOREVER;
	operation_check_identity(op);
	while (!drain_record_finished(&op->record) && op->record.state != DRAIN_HELD)
		if (!operation_work(op, now_usec))
			break;

	if (drain_record_finished(&op->record)) {
		if (op->running_hook && op->hook_over)
			op->running_hook = hook_free(op->running_hook);
		if (operation_apply_override(op, &revision) == -ENOMEM)
			operation_look_again(op, now_usec + OPERATION_SLOW_TICK_USEC);
	}
	operation_commit(op, now_usec);
}
