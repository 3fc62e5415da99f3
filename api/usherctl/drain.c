/* usherctl drain, restore and cancel. */

#include <stdio.h>
#include <string.h>

#include "follow.h"
#include "human.h"
#include "output.h"
#include "record-view.h"
#include "verbs.h"

/* found: it was there already, as running or as done. */
static void say_started(const struct ctl *ctl, const json_t *record, bool found)
{
	const char *kind = record_kind(record);
	const char *was_there = record_finished(record) ? "is done already" : "runs already";
	FILE *stream = output_is_data(ctl) ? stderr : stdout;

	(void) fprintf(stream, "%s %s of %s/%s %s", kind, field_text(record, "id"),
			field_text(record, "service"), field_text(record, "endpoint"),
			found ? was_there : "has started");
	if (json_is_string(json_object_get(record, "order")) && strcmp(kind, "drain") == 0)
		(void) fprintf(stream, " (%s)", field_text(record, "order"));
	(void) fprintf(stream, "\n");
	(void) fflush(stream);
}

/* After the job was asked for: follow it, or say how. */
static int go_on(struct ctl *ctl, struct follow *follow, json_t *record, const char *wanted)
{
	if (follow)
		return follow_record(follow, record, wanted);
	if (output_is_data(ctl))
		return output_data(ctl, record);
	if (record_finished(record))
		return EXIT_DONE;
	(void) printf("Follow it: usherctl %s %s/%s --wait\n", record_kind(record),
			field_text(record, "service"), field_text(record, "endpoint"));
	return EXIT_DONE;
}

static int no_follow(void)
{
	return ctl_fail(EXIT_FAILED,
			"cannot follow what is to be done: out of memory or threads; nothing was started");
}

/* Interrupted before the daemon has answered: nobody knows whether it started. */
static int interrupted_early(struct follow *follow, int r, const char *service)
{
	int reason = follow ? follow_reason(follow) : EXIT_DONE;

	if (reason == EXIT_DONE)
		return r;
	return ctl_fail((enum exit_code) reason,
			"stopped before usherd had answered; it may have started: usherctl get drains %s",
			service);
}

static int start(struct ctl *ctl, const char *path)
{
	const struct ctl_options *options = &ctl->options;
	cleanup(follow_freep) struct follow *follow = NULL;
	cleanup(json_decrefp) json_t *body = NULL, *record = NULL;
	const char *service, *endpoint;
	int r;

	r = ctl_split_target(ctl, ctl->arguments[0], &service, &endpoint);
	if (r != EXIT_DONE)
		return r;
	if (options->wait) {
		follow = follow_new(ctl, DOOR_CHANGE);
		if (!follow)
			return no_follow();
	}
	body = json_pack("{s:s, s:s, s:s*, s:s*, s:s*}", "service", service, "endpoint", endpoint,
			"reason", options->reason, "timeout", options->timeout, "order",
			options->order);
	if (!body)
		return ctl_fail(EXIT_USAGE, "a name or the reason is not valid UTF-8");
	r = ctl_call(ctl, DOOR_CHANGE, "POST", path, body, &record);
	if (r != EXIT_DONE)
		return interrupted_early(follow, r, service);
	say_started(ctl, record, ctl->status == 200);
	return go_on(ctl, follow, record, "done");
}

int verb_drain(struct ctl *ctl)
{
	return start(ctl, "/v1/drains");
}

int verb_restore(struct ctl *ctl)
{
	return start(ctl, "/v1/restores");
}

int verb_cancel(struct ctl *ctl)
{
	cleanup(follow_freep) struct follow *follow = NULL;
	cleanup(json_decrefp) json_t *found = NULL, *answer = NULL;
	autofree char *cancel = NULL;
	json_t *record;
	int r;

	r = record_find(ctl, ctl->arguments[0], true, &found);
	if (r != EXIT_DONE)
		return r;
	cancel = ctl_path("/v1/drains/%s/cancel", field_text(found, "id"));
	if (ctl->options.wait) {
		follow = follow_new(ctl, DOOR_CHANGE);
		if (!follow)
			return no_follow();
	}
	r = ctl_call(ctl, DOOR_CHANGE, "POST", cancel, NULL, &answer);
	if (r != EXIT_DONE)
		return interrupted_early(follow, r, field_text(found, "service"));
	record = json_is_string(json_object_get(answer, "id")) ? answer : found;
	(void) fprintf(output_is_data(ctl) ? stderr : stdout, "%s %s of %s/%s is being cancelled\n",
			record_kind(record), field_text(record, "id"),
			field_text(record, "service"), field_text(record, "endpoint"));
	if (!follow)
		return output_is_data(ctl) ? output_data(ctl, record) : EXIT_DONE;
	return follow_record(follow, record, "cancelled");
}
