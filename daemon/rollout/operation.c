/* One rollout: what is on disk of it, how its steps begin and end. */

#include "operation.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "log.h"
#include "ownership.h"
#include "petition.h"

#define MESSAGE_STEP "7a1d0f3c5b7e4c1f9a38e4d7c2b60f51"
#define MESSAGE_END  "7a1d0f3c5b7e4c1f9a38e4d7c2b60f52"
#define MESSAGE_HELD "7a1d0f3c5b7e4c1f9a38e4d7c2b60f53"
#define MESSAGE_DISK "7a1d0f3c5b7e4c1f9a38e4d7c2b60f54"
#define RECORD_FIELDS(which, message)                                    \
	FIELDS(.value[LOG_SERVICE] = (which)->record.service,            \
			.value[LOG_ENDPOINT] = (which)->record.endpoint, \
			.value[LOG_DRAIN] = (which)->record.id, .value[LOG_MESSAGE_ID] = message)

struct operation *operation_new(struct rollout *r)
{
	struct operation *op = calloc(1, sizeof(*op));

	if (op)
		op->rollout = r;
	return op;
}

struct operation *operation_free(struct operation *op)
{
	if (!op)
		return NULL;
	if (op->job)
		source_forget(op->job);
	(void) hook_free(op->running_hook);
	(void) probe_forget(op->probe);
	drain_record_done(&op->record);
	free(op);
	return NULL;
}

uint64_t operation_backoff(unsigned failures)
{
	uint64_t usec = OPERATION_BACKOFF_MIN_USEC;

	for (unsigned i = 1; i < failures && usec < OPERATION_BACKOFF_MAX_USEC; i++)
		usec *= 2;
	return usec < OPERATION_BACKOFF_MAX_USEC ? usec : OPERATION_BACKOFF_MAX_USEC;
}

void operation_touch(struct operation *op)
{
	op->version++;
	op->changed = true;
}

static bool is_elsewhere(const struct usher_endpoints *before, const struct usher_endpoints *now)
{
	struct usher_endpoint a, b;

	usher_endpoints_get(before, 0, &a);
	usher_endpoints_get(now, 0, &b);
	return a.port != b.port || strcmp(a.address, b.address) != 0;
}

void operation_refresh_saved(struct operation *op)
{
	const struct rollout *r = op->rollout;
	struct drain_record *record = &op->record;
	struct usher_endpoints *now;

	if (!r->registered || !record->saved || !steps_going_back(record))
		return;
	now = r->registered(r->registered_userdata, record->service, record->endpoint);
	if (!now || usher_endpoints_equal(record->saved, now))
		return;
	if (is_elsewhere(record->saved, now))
		op->probes_passed = 0;
	(void) usher_endpoints_unref(record->saved);
	record->saved = usher_endpoints_ref(now);
	operation_touch(op);
}

void operation_look_again(struct operation *op, uint64_t usec)
{
	if (usec < op->again_usec)
		op->again_usec = usec;
}

bool operation_may_act(const struct operation *op)
{
	return op->entry_version > 0 && op->committed >= op->entry_version;
}

void operation_note(struct operation *op, const char *kind, bool proven, const char *format, ...)
{
	char text[DRAIN_TEXT_MAX];
	va_list ap;

	va_start(ap, format);
	(void) vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);

	/* evidence that finds no memory is only told later */
	if (step_record_note(drain_record_current(&op->record), kind, proven, clock_wall_usec(),
			    "%s", text) > 0)
		op->changed = true;
}

/* ---- the disk ---- */

static void operation_disk_failed(struct operation *op, int r, const char *reason)
{
	const char *why = reason ? reason : strerrordesc_np(-r);

	op->disk_failures++;
	op->disk_again_usec = clock_boot_usec() + operation_backoff(op->disk_failures);
	operation_note(op, "disk", false,
			"the record cannot be written: %s; nothing acts until it "
			"is",
			why);
	if (op->disk_failures == 1)
		log_error(RECORD_FIELDS(op, MESSAGE_DISK),
				"Cannot write the record of %s %s of %s/%s: %s; trying again, and "
				"doing nothing until it is written",
				rollout_kind_to_string(op->record.kind), op->record.id,
				op->record.service, op->record.endpoint, why);
}

static void operation_on_disk(void *userdata, int r, const char *reason)
{
	struct operation *op = userdata;

	op->posting = false;
	if (r < 0) {
		operation_disk_failed(op, r, reason);
	} else {
		if (op->disk_failures > 0)
			operation_note(op, "disk", true, "the record is written");
		op->committed = op->posted;
		op->disk_failures = 0;
		if (op->rollout->above.recorded)
			op->rollout->above.recorded(op->rollout->above_userdata, &op->record);
		petitions_note(op->rollout, &op->record);
	}
	rollout_wake(op);
}

static int operation_post(struct operation *op)
{
	json_t *json = drain_record_to_json(&op->record);
	autofree char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;

	json_decref(json);
	if (!text)
		return -ENOMEM;
	return store_put_drain(op->rollout->store, op->record.id, text,
			drain_record_finished(&op->record), operation_on_disk, op);
}

void operation_commit(struct operation *op, uint64_t now_usec)
{
	int r;

	if (op->posting || op->committed == op->version)
		return;
	if (now_usec < op->disk_again_usec) {
		operation_look_again(op, op->disk_again_usec);
		return;
	}

	op->posting = true;
	op->posted = op->version;
	r = operation_post(op);
	if (r < 0) {
		op->posting = false;
		operation_disk_failed(op, r, NULL);
		operation_look_again(op, op->disk_again_usec);
	}
}

/* ---- a step ---- */

void operation_begin_step(struct operation *op)
{
	operation_reset_acts(op);
	op->serial++;
	op->step_started_usec = clock_boot_usec();
	op->entry_version = 0;
	op->began_usec = 0;
	op->acted = false;
	op->quiet = (struct quiet){};
	op->noted_usec = 0;
	op->probes_passed = 0;
	op->probe_next_usec = 0;
}

static void operation_set_budget(struct operation *op)
{
	const struct service_config *config = rollout_config(op->rollout, op->record.service);
	const struct drain_record *record = &op->record;
	uint64_t total_usec = record->deadline_wall_usec - record->requested_wall_usec;
	struct step_budgets budgets;
	int r;

	/* a configuration that has changed meanwhile may not fit any more */
	if (steps_going_back(record))
		r = steps_budget_restore(
				&config->restore, &config->drain, total_usec, &budgets, NULL);
	else
		r = steps_budget_drain(&config->drain, record->order, total_usec, &budgets, NULL);

	op->step_until_usec = r < 0 ? op->deadline_usec
				    : steps_budget_end(record, &budgets, op->step_started_usec,
						      op->deadline_usec);
}

static bool step_waits(enum drain_step step)
{
	return step != STEP_REQUESTED && step != STEP_DONE;
}

/* Say what will run before it does, for what comes after a crash to read. */
static void operation_announce(struct operation *op, struct step_record *step)
{
	const struct evidence *last = step_record_find(step, "hook");
	const bool finished = last && last->proven;
	uint64_t now = clock_wall_usec();
	const char *name;

	if (op->interrupted)
		(void) step_record_append(step, "restart", true, now,
				"usherd was interrupted here: attempt %u", step->attempts);
	if (operation_hook(op, &name) && !finished)
		(void) step_record_append(step, "hook", false, now,
				op->interrupted ? "ran again after usherd was interrupted: attempt "
						  "%u, with the same token"
						: "attempt %u starts",
				step->attempts);
}

void operation_enter(struct operation *op, uint64_t now_usec)
{
	struct step_record *step = drain_record_current(&op->record);
	uint64_t wall = clock_wall_usec();

	if (step->started_wall_usec == 0) {
		step->started_wall_usec = wall;
		step->revision = directory_revision(op->rollout->directory);
	}
	step->state = STEP_ACTIVE;
	step->attempts++;
	operation_set_budget(op);
	if (step_waits(step->step))
		step->deadline_wall_usec = wall +
				(op->step_until_usec > now_usec ? op->step_until_usec - now_usec
								: 0);
	operation_announce(op, step);
	op->interrupted = false;
	operation_touch(op);
	op->entry_version = op->version;
	log_debug(RECORD_FIELDS(op, NULL), "%s %s of %s/%s: %s, attempt %u",
			rollout_kind_to_string(op->record.kind), op->record.id, op->record.service,
			op->record.endpoint, drain_step_to_string(step->step), step->attempts);
}

/* An act that failed is repeated: again on disk first. */
void operation_enter_again(struct operation *op, uint64_t now_usec)
{
	if (op->registry.state == ACT_FAILED)
		op->registry.state = ACT_IDLE;
	if (op->hook.state == ACT_FAILED)
		op->hook.state = ACT_IDLE;
	operation_enter(op, now_usec);
}

/* ---- ends ---- */

static void operation_end(struct operation *op, enum drain_state state)
{
	op->record.state = state;
	op->record.finished_wall_usec = clock_wall_usec();
	operation_touch(op);
	log_notice(RECORD_FIELDS(op, MESSAGE_END), "%s %s of %s/%s is %s%s%s%s%s",
			op->record.kind == ROLLOUT_DRAIN ? "Drain" : "Restore", op->record.id,
			op->record.service, op->record.endpoint, drain_state_to_string(state),
			op->record.forced ? ", forced" : "", op->record.partial ? ", partial" : "",
			op->record.failure ? ": " : "",
			op->record.failure ? op->record.failure : "");
}

void operation_fail(struct operation *op, const char *format, ...)
{
	struct step_record *step = drain_record_current(&op->record);
	char text[DRAIN_TEXT_MAX];
	va_list ap;

	va_start(ap, format);
	(void) vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	drain_text_clean(text);

	step->state = STEP_FAILED;
	step->finished_wall_usec = clock_wall_usec();
	free(op->record.failure);
	op->record.failure = strdup(text);
	operation_end(op, DRAIN_FAILED);
}

void operation_say_why_waiting(const struct step_record *step, char *ret, size_t size)
{
	static const char *const told_elsewhere[] = { "hook", "restart", "recheck", "plan" };
	const struct evidence *hook = step_record_find(step, "hook");
	size_t used = 0;

	ret[0] = '\0';
	if (hook && !hook->proven)
		used = (size_t) snprintf(ret, size, "%s", hook->text);
	for (size_t i = 0; i < step->evidence_count; i++) {
		const struct evidence *e = &step->evidence[i];
		bool skip = e->proven;

		for (size_t k = 0; k < ELEMENTS(told_elsewhere); k++)
			skip = skip || strcmp(e->kind, told_elsewhere[k]) == 0;
		if (!skip && used < size)
			used += (size_t) snprintf(ret + used, size - used, "%s%s",
					used > 0 ? "; " : "", e->text);
	}
	if (used == 0)
		(void) snprintf(ret, size, "no evidence came in time");
}

void operation_end_step(struct operation *op, enum step_state state)
{
	struct step_record *step = drain_record_current(&op->record);
	uint64_t now = clock_boot_usec();

	step->state = state;
	step->finished_wall_usec = clock_wall_usec();
	if (state == STEP_FORCED)
		op->record.forced = true;
	if (step->step == STEP_DEREGISTER)
		op->deregistered_usec = now;
	log_info(RECORD_FIELDS(op, MESSAGE_STEP), "%s %s of %s/%s: %s %s",
			op->record.kind == ROLLOUT_DRAIN ? "Drain" : "Restore", op->record.id,
			op->record.service, op->record.endpoint, drain_step_to_string(step->step),
			step_state_to_string(state));

	if (op->record.current + 1 < op->record.step_count) {
		op->record.current++;
		operation_begin_step(op);
		operation_touch(op);
		return;
	}
	operation_end(op, op->record.state == DRAIN_CANCELLING ? DRAIN_CANCELLED : DRAIN_DONE);
}

static void operation_hold(struct operation *op, const char *why)
{
	op->record.state = DRAIN_HELD;
	operation_note(op, "budget", false, "held: %s; cancel it, or drain again to go on", why);
	operation_touch(op);
	log_warning(RECORD_FIELDS(op, MESSAGE_HELD),
			"Drain %s of %s/%s is held at %s: %s; cancel it, or drain again to go on",
			op->record.id, op->record.service, op->record.endpoint,
			drain_step_to_string(drain_record_current(&op->record)->step), why);
}

void operation_spend(struct operation *op)
{
	const struct service_config *config = rollout_config(op->rollout, op->record.service);
	const struct step_record *step = drain_record_current(&op->record);
	char why[DRAIN_TEXT_MAX / 2];

	operation_say_why_waiting(step, why, sizeof(why));
	switch (steps_policy(step->step, &config->drain)) {
	case BUDGET_CONTINUE:
		if (step->step == STEP_DEREGISTER)
			op->record.partial = true;
		operation_note(op, "budget", false, "its time is spent, going on: %s", why);
		operation_end_step(op, STEP_FORCED);
		return;
	case BUDGET_HOLD:
		operation_hold(op, why);
		return;
	case BUDGET_FAIL:
		operation_fail(op,
				"%s: %s. %s stays out of service; bring it back with `usherctl "
				"restore %s/%s`",
				drain_step_to_string(step->step), why, op->record.endpoint,
				op->record.service, op->record.endpoint);
		return;
	}
}

/* ---- after a restart ---- */

/* A time of day of an earlier life in this life's time; the wall clock may have jumped. */
static uint64_t boot_of(uint64_t wall_usec, uint64_t now_wall, uint64_t now_boot)
{
	uint64_t ago = now_wall > wall_usec ? now_wall - wall_usec : 0;

	return ago < now_boot ? now_boot - ago : 0;
}

void operation_resume(struct operation *op)
{
	struct drain_record *record = &op->record;
	struct step_record *step = drain_record_current(record);
	const struct step_record *deregister = drain_record_find(record, STEP_DEREGISTER);
	uint64_t wall = clock_wall_usec(), boot = clock_boot_usec();
	uint64_t total = record->deadline_wall_usec - record->requested_wall_usec;
	uint64_t left = record->deadline_wall_usec > wall ? record->deadline_wall_usec - wall : 0;

	op->resumed = true;
	op->version = op->posted = op->committed = 1;
	if (drain_record_finished(record))
		return;

	if (left < OPERATION_RESUME_USEC)
		left = OPERATION_RESUME_USEC;
	if (left > total)
		left = total;
	op->deadline_usec = boot + left;
	operation_begin_step(op);
	if (step->state == STEP_ACTIVE) {
		op->interrupted = record->state != DRAIN_HELD;
		op->step_started_usec = boot_of(step->started_wall_usec, wall, boot);
	}
	if (deregister && deregister->finished_wall_usec > 0)
		op->deregistered_usec = boot_of(deregister->finished_wall_usec, wall, boot);
}
