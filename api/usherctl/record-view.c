#include "record-view.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "human.h"

#define STEP_WIDTH  12
#define STATE_WIDTH 9

bool record_is(const json_t *record, const char *state)
{
	return strcmp(field_text(record, "state"), state) == 0;
}

bool record_finished(const json_t *record)
{
	return record_is(record, "done") || record_is(record, "cancelled") ||
			record_is(record, "failed");
}

const char *record_kind(const json_t *record)
{
	return strcmp(field_text(record, "kind"), "restore") == 0 ? "restore" : "drain";
}

uint64_t record_elapsed_msec(const json_t *record, const json_t *object, const char *name)
{
	int64_t from = human_time_parse(field_text(record, "requested_at"));
	int64_t until = human_time_parse(field_text(object, name));

	if (until < 0)
		until = human_now_msec();
	return from >= 0 && until > from ? (uint64_t) (until - from) : 0;
}

static int find_of_endpoint(struct ctl *ctl, const char *service, const char *endpoint,
		bool unfinished, json_t **ret)
{
	autofree char *path = ctl_path_add(ctl_path_add(ctl_path("/v1/drains"), "service", service),
			"endpoint", endpoint);
	cleanup(json_decrefp) json_t *answer = NULL;
	const json_t *list;
	int r;

	r = ctl_get(ctl, path, &answer);
	if (r != EXIT_DONE)
		return r;
	list = json_object_get(answer, "drains");
	for (size_t i = 0; i < json_array_size(list); i++) {
		json_t *record = json_array_get(list, i);

		if (unfinished && record_finished(record))
			continue;
		*ret = json_incref(record);
		return EXIT_DONE;
	}
	return ctl_fail(EXIT_NOT_FOUND, "there is no %sdrain of %s/%s",
			unfinished ? "running " : "", service, endpoint);
}

int record_find(struct ctl *ctl, char *name, bool unfinished, json_t **ret)
{
	autofree char *path = NULL;
	const char *service, *endpoint;
	int r;

	if (strchr(name, '/')) {
		r = ctl_split_target(ctl, name, &service, &endpoint);
		return r != EXIT_DONE ? r
				      : find_of_endpoint(ctl, service, endpoint, unfinished, ret);
	}
	path = ctl_path("/v1/drains/%s", name);
	return ctl_get(ctl, path, ret);
}

static bool is_proven(const json_t *evidence)
{
	return json_is_true(json_object_get(evidence, "proven"));
}

/* What happened on the way, which nothing rests on: that a hook was started or has failed, that a
 * budget was spent, that there is nothing to do. */
static bool is_remark(const json_t *evidence)
{
	const char *kind = field_text(evidence, "kind");

	return strcmp(kind, "hook") == 0 || strcmp(kind, "budget") == 0 ||
			strcmp(kind, "plan") == 0;
}

/* What is not proven is assumed where a step ended as assumed, and missing where it did not end
 * well; a step that is proven without it does not rest on it. */
static const char *evidence_mark(const json_t *step, const json_t *evidence)
{
	const char *state = field_text(step, "state");

	if (is_proven(evidence))
		return "proven";
	if (strcmp(state, "assumed") == 0)
		return "assumed";
	if (is_remark(evidence))
		return "note";
	if (strcmp(state, "active") == 0)
		return "not yet";
	return strcmp(state, "forced") == 0 || strcmp(state, "failed") == 0 ? "missing" : "note";
}

/* The first and the last step are no work of their own. */
static bool is_work(const json_t *step)
{
	const char *name = field_text(step, "step");

	return strcmp(name, "requested") != 0 && strcmp(name, "done") != 0;
}

static void line(const struct ctl *ctl, FILE *stream, const char *elapsed, const char *step,
		const char *word, const char *text)
{
	autofree char *printable = strdup(text);
	enum tint tint = tint_of(word);
	int width = *text ? STATE_WIDTH : 0;

	(void) fprintf(stream, "%8s  %-*s  %s%-*s%s", elapsed, STEP_WIDTH, step, tint_on(ctl, tint),
			width, word, tint_off(ctl, tint));
	if (*text && printable)
		(void) fprintf(stream, "  %s", human_printable(printable));
	(void) fputc('\n', stream);
}

/* The lines of one step's evidence from the k-th on; the first may stand on the step's own line. */
static void evidence_lines(const struct ctl *ctl, FILE *stream, const json_t *step, size_t from)
{
	const json_t *list = json_object_get(step, "evidence");

	for (size_t i = from; i < json_array_size(list); i++)
		line(ctl, stream, "", "", evidence_mark(step, json_array_get(list, i)),
				field_text(json_array_get(list, i), "text"));
}

static void tell_end_of_step(
		const struct ctl *ctl, FILE *stream, const json_t *record, const json_t *step)
{
	const json_t *list = json_object_get(step, "evidence");
	const json_t *only = json_array_size(list) == 1 ? json_array_get(list, 0) : NULL;
	const char *state = field_text(step, "state");
	uint64_t attempts = field_number(step, "attempts");
	char elapsed[HUMAN_TEXT_MAX], text[64] = "";
	bool same = only &&
			(strcmp(state, evidence_mark(step, only)) == 0 ||
					strcmp(state, "skipped") == 0);

	(void) human_elapsed(record_elapsed_msec(record, step, "finished_at"), elapsed);
	if (attempts > 1)
		(void) snprintf(text, sizeof(text), "after %" PRIu64 " attempts", attempts);
	line(ctl, stream, elapsed, field_text(step, "step"), state,
			same ? field_text(only, "text") : text);
	evidence_lines(ctl, stream, step, same ? 1 : 0);
}

static bool step_ended(const json_t *step)
{
	const char *state = field_text(step, "state");

	return strcmp(state, "pending") != 0 && strcmp(state, "active") != 0 &&
			strcmp(state, "-") != 0;
}

static const json_t *step_at(const json_t *record, size_t i)
{
	return json_array_get(json_object_get(record, "steps"), i);
}

static bool has_evidence(const json_t *list, const json_t *evidence)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *other = json_array_get(list, i);

		if (strcmp(field_text(other, "text"), field_text(evidence, "text")) == 0 &&
				is_proven(other) == is_proven(evidence))
			return true;
	}
	return false;
}

/* That the step began, and the evidence that was not there before. */
static void tell_news_of_step(const struct ctl *ctl, FILE *stream, const json_t *record,
		const json_t *before, const json_t *step)
{
	const json_t *list = json_object_get(step, "evidence");
	const json_t *known = json_object_get(before, "evidence");
	bool began = strcmp(field_text(before, "state"), "active") != 0;
	char elapsed[HUMAN_TEXT_MAX];

	if (began) {
		(void) human_elapsed(record_elapsed_msec(record, step, "started_at"), elapsed);
		line(ctl, stream, elapsed, field_text(step, "step"), "waiting", "");
	}
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *evidence = json_array_get(list, i);

		if (has_evidence(known, evidence))
			continue;
		(void) human_elapsed(record_elapsed_msec(record, evidence, "at"), elapsed);
		line(ctl, stream, elapsed, "", evidence_mark(step, evidence),
				field_text(evidence, "text"));
	}
}

void record_tell(const struct ctl *ctl, FILE *stream, const json_t *before, const json_t *now)
{
	bool live = ctl->terminal && stream == stdout;

	if (record_is(now, "cancelling") && !record_is(before, "cancelling"))
		(void) fprintf(stream, "%8s  %s\n", "",
				"cancelling: the endpoint goes back into service");
	for (size_t i = 0; i < json_array_size(json_object_get(now, "steps")); i++) {
		const json_t *was = step_at(before, i), *step = step_at(now, i);

		if (!is_work(step))
			continue;
		if (strcmp(field_text(was, "step"), field_text(step, "step")) != 0)
			was = NULL;
		if (step_ended(step)) {
			if (!step_ended(was) ||
					strcmp(field_text(was, "state"),
							field_text(step, "state")) != 0)
				tell_end_of_step(ctl, stream, now, step);
		} else if (!live && strcmp(field_text(step, "state"), "active") == 0) {
			tell_news_of_step(ctl, stream, now, was, step);
		}
	}
}

void record_waiting(const json_t *record, char *ret, size_t size)
{
	*ret = 0;
	for (size_t i = 0; i < json_array_size(json_object_get(record, "steps")); i++) {
		const json_t *step = step_at(record, i);
		const json_t *list = json_object_get(step, "evidence");
		const json_t *last = json_array_get(list, json_array_size(list) - 1);
		char elapsed[HUMAN_TEXT_MAX];

		if (!is_work(step) || strcmp(field_text(step, "state"), "active") != 0)
			continue;
		(void) human_elapsed(record_elapsed_msec(record, NULL, ""), elapsed);
		(void) snprintf(ret, size, "%8s  %-*s  %-*s%s%s", elapsed, STEP_WIDTH,
				field_text(step, "step"), STATE_WIDTH, "waiting", last ? "  " : "",
				last ? field_text(last, "text") : "");
		(void) human_printable(ret);
	}
}

void record_describe(const struct ctl *ctl, const json_t *record)
{
	const json_t *steps = json_object_get(record, "steps");
	char age[HUMAN_TEXT_MAX];

	section_field(0, "ID", "%s", field_text(record, "id"));
	section_field(0, "Kind", "%s", record_kind(record));
	section_field(0, "Endpoint", "%s/%s", field_text(record, "service"),
			field_text(record, "endpoint"));
	section_field(0, "UID", "%s", field_text(record, "uid"));
	section_state(ctl, 0, "State", field_text(record, "state"));
	section_field(0, "Step", "%s", field_text(record, "step"));
	section_field(0, "Reason", "%s", field_text(record, "reason"));
	section_field(0, "Requested by", "%s", field_text(record, "requested_by"));
	section_field(0, "Requested", "%s (%s ago)", field_text(record, "requested_at"),
			human_age(field_age_msec(record, "requested_at"), age));
	section_field(0, "Deadline", "%s", field_text(record, "deadline_at"));
	section_field(0, "Finished", "%s", field_text(record, "finished_at"));
	section_field(0, "Order", "%s", field_text(record, "order"));
	section_value(0, "removal_revision", json_object_get(record, "removal_revision"));
	section_field(0, "Last stale pick", "%s", field_text(record, "last_stale_pick_at"));
	section_value(0, "forced", json_object_get(record, "forced"));
	section_field(0, "In part", "%s",
			json_is_true(json_object_get(record, "partial"))
					? "yes, the registry could not be told everything"
					: "no");
	if (json_is_string(json_object_get(record, "failure")))
		section_field(0, "Failure", "%s", field_text(record, "failure"));
	section_field(0, "Steps", "%s", json_array_size(steps) > 0 ? "" : "none");
	for (size_t i = 0; i < json_array_size(steps); i++) {
		const json_t *step = json_array_get(steps, i);
		const char *state = field_text(step, "state");

		if (!is_work(step))
			continue;
		if (step_ended(step)) {
			tell_end_of_step(ctl, stdout, record, step);
			continue;
		}
		(void) human_elapsed(record_elapsed_msec(record, step, "started_at"), age);
		line(ctl, stdout, strcmp(state, "active") == 0 ? age : "", field_text(step, "step"),
				state, "");
		evidence_lines(ctl, stdout, step, 0);
	}
}

struct record_counts record_count(const json_t *record)
{
	const json_t *steps = json_object_get(record, "steps");
	struct record_counts counts = {};

	for (size_t i = 0; i < json_array_size(steps); i++) {
		const json_t *step = json_array_get(steps, i);
		const char *state = field_text(step, "state");

		if (!is_work(step))
			continue;
		counts.proven += strcmp(state, "proven") == 0;
		counts.assumed += strcmp(state, "assumed") == 0;
		counts.skipped += strcmp(state, "skipped") == 0;
		counts.forced += strcmp(state, "forced") == 0;
	}
	return counts;
}
