/* The record as a value: its words, its steps, its evidence. */

#include "record.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ownership.h"
#include "utf8.h"

const char *drain_state_to_string(enum drain_state state)
{
	static const char *const names[] = {
		[DRAIN_RUNNING] = "running",
		[DRAIN_HELD] = "held",
		[DRAIN_CANCELLING] = "cancelling",
		[DRAIN_DONE] = "done",
		[DRAIN_CANCELLED] = "cancelled",
		[DRAIN_FAILED] = "failed",
	};

	return (size_t) state < ELEMENTS(names) ? names[state] : NULL;
}

const char *rollout_kind_to_string(enum rollout_kind kind)
{
	static const char *const names[] = {
		[ROLLOUT_DRAIN] = "drain",
		[ROLLOUT_RESTORE] = "restore",
	};

	return (size_t) kind < ELEMENTS(names) ? names[kind] : NULL;
}

const char *drain_order_to_string(enum drain_order order)
{
	static const char *const names[] = {
		[DRAIN_SERVE_STALE] = "serve_stale",
		[DRAIN_REFUSE_FIRST] = "refuse_first",
	};

	return (size_t) order < ELEMENTS(names) ? names[order] : NULL;
}

const char *drain_step_to_string(enum drain_step step)
{
	static const char *const names[] = {
		[STEP_REQUESTED] = "requested",
		[STEP_READINESS] = "readiness",
		[STEP_DEREGISTER] = "deregister",
		[STEP_PROPAGATION] = "propagation",
		[STEP_IN_FLIGHT] = "in_flight",
		[STEP_CLOSE] = "close",
		[STEP_OPEN] = "open",
		[STEP_PROBE] = "probe",
		[STEP_REGISTER] = "register",
		[STEP_OBSERVED] = "observed",
		[STEP_RAMP] = "ramp",
		[STEP_DONE] = "done",
	};

	return (size_t) step < ELEMENTS(names) ? names[step] : NULL;
}

const char *step_state_to_string(enum step_state state)
{
	static const char *const names[] = {
		[STEP_PENDING] = "pending",
		[STEP_ACTIVE] = "active",
		[STEP_PROVEN] = "proven",
		[STEP_ASSUMED] = "assumed",
		[STEP_SKIPPED] = "skipped",
		[STEP_FORCED] = "forced",
		[STEP_FAILED] = "failed",
	};

	return (size_t) state < ELEMENTS(names) ? names[state] : NULL;
}

static void evidence_done(struct evidence *e)
{
	free(e->kind);
	free(e->text);
	*e = (struct evidence){};
}

static void step_record_done(struct step_record *step)
{
	for (size_t i = 0; i < step->evidence_count; i++)
		evidence_done(&step->evidence[i]);
	free(step->evidence);
	*step = (struct step_record){};
}

void step_record_reset(struct step_record *step)
{
	enum drain_step which = step->step;

	step_record_done(step);
	step->step = which;
}

void drain_record_cut_steps(struct drain_record *record, size_t count)
{
	while (record->step_count > count)
		step_record_done(&record->steps[--record->step_count]);
}

void drain_record_done(struct drain_record *record)
{
	if (!record)
		return;

	drain_record_cut_steps(record, 0);
	free(record->steps);
	free(record->service);
	free(record->endpoint);
	free(record->source);
	free(record->uid);
	free(record->reason);
	free(record->requested_by);
	free(record->asking_source);
	free(record->token);
	free(record->failure);
	(void) usher_endpoints_unref(record->saved);
	*record = (struct drain_record){};
}

bool drain_record_finished(const struct drain_record *record)
{
	switch (record->state) {
	case DRAIN_DONE:
	case DRAIN_CANCELLED:
	case DRAIN_FAILED:
		return true;
	case DRAIN_RUNNING:
	case DRAIN_HELD:
	case DRAIN_CANCELLING:
		return false;
	}
	return false;
}

struct step_record *drain_record_current(const struct drain_record *record)
{
	assert(record->current < record->step_count);
	return &record->steps[record->current];
}

struct step_record *drain_record_find(const struct drain_record *record, enum drain_step step)
{
	for (size_t i = record->step_count; i > 0; i--)
		if (record->steps[i - 1].step == step)
			return &record->steps[i - 1];
	return NULL;
}

int drain_record_add_step(struct drain_record *record, enum drain_step step)
{
	if (record->step_count == DRAIN_STEPS_MAX)
		return -E2BIG;
	if (!record->steps)
		record->steps = calloc(DRAIN_STEPS_MAX, sizeof(*record->steps));
	if (!record->steps)
		return -ENOMEM;

	record->steps[record->step_count++] = (struct step_record){ .step = step };
	return 0;
}

/* Room for one more; the oldest goes when there is none. */
static struct evidence *step_record_extend(struct step_record *step)
{
	struct evidence *grown;

	if (step->evidence_count == DRAIN_EVIDENCE_MAX) {
		evidence_done(&step->evidence[0]);
		memmove(step->evidence, step->evidence + 1,
				(DRAIN_EVIDENCE_MAX - 1) * sizeof(*step->evidence));
		step->evidence_count--;
		return &step->evidence[step->evidence_count++];
	}
	grown = reallocarray(step->evidence, step->evidence_count + 1, sizeof(*grown));
	if (!grown)
		return NULL;
	step->evidence = grown;
	return &step->evidence[step->evidence_count++];
}

static struct evidence *step_record_find_mutable(const struct step_record *step, const char *kind)
{
	for (size_t i = step->evidence_count; i > 0; i--)
		if (strcmp(step->evidence[i - 1].kind, kind) == 0)
			return &step->evidence[i - 1];
	return NULL;
}

const struct evidence *step_record_find(const struct step_record *step, const char *kind)
{
	return step_record_find_mutable(step, kind);
}

/* Texts come from programs and registries, and are cut to fit. */
void drain_text_clean(char *text)
{
	while (*text) {
		size_t length = utf8_length(text);

		if (length == 0)
			*text = '?';
		text += length > 0 ? length : 1;
	}
}

static int step_record_add(struct step_record *step, const char *kind, bool proven,
		uint64_t wall_usec, const char *text)
{
	autofree char *kind_copy = strdup(kind);
	autofree char *text_copy = strdup(text);
	struct evidence *e;

	if (!kind_copy || !text_copy)
		return -ENOMEM;
	e = step_record_extend(step);
	if (!e)
		return -ENOMEM;

	*e = (struct evidence){ take(kind_copy), proven, take(text_copy), wall_usec };
	return 1;
}

int step_record_note(struct step_record *step, const char *kind, bool proven, uint64_t wall_usec,
		const char *format, ...)
{
	struct evidence *e = step_record_find_mutable(step, kind);
	char text[DRAIN_TEXT_MAX];
	char *copy;
	va_list ap;

	va_start(ap, format);
	(void) vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	drain_text_clean(text);

	if (!e)
		return step_record_add(step, kind, proven, wall_usec, text);
	if (e->proven == proven && strcmp(e->text, text) == 0)
		return 0;

	copy = strdup(text);
	if (!copy)
		return -ENOMEM;
	free(e->text);
	e->text = copy;
	e->proven = proven;
	e->wall_usec = wall_usec;
	return 1;
}

int step_record_append(struct step_record *step, const char *kind, bool proven, uint64_t wall_usec,
		const char *format, ...)
{
	char text[DRAIN_TEXT_MAX];
	va_list ap;

	va_start(ap, format);
	(void) vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	drain_text_clean(text);

	return step_record_add(step, kind, proven, wall_usec, text);
}
