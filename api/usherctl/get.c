/* usherctl get: lists, whole or by name. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "directory-answer.h"
#include "follow.h"
#include "health-view.h"
#include "human.h"
#include "kinds.h"
#include "output.h"
#include "record-view.h"
#include "verbs.h"

/* Which of the names matched something. */
struct names {
	char **names;
	size_t count;
	bool found[64];
};

static bool names_match(struct names *names, const char *text)
{
	bool match = names->count == 0;

	for (size_t i = 0; i < names->count; i++) {
		if (strcmp(names->names[i], text) != 0)
			continue;
		match = true;
		if (i < ELEMENTS(names->found))
			names->found[i] = true;
	}
	return match;
}

/* "catalog", "catalog/catalog-a" or the id; of a service's things, the second is the one that
 * `within` names. */
static bool names_match_within(struct names *names, const json_t *item, const char *within)
{
	autofree char *target = NULL;
	bool match;

	if (asprintf(&target, "%s/%s", field_text(item, "service"), field_text(item, within)) < 0)
		return false;
	match = names_match(names, field_text(item, "id"));
	match = names_match(names, field_text(item, "service")) || match;
	return names_match(names, target) || match;
}

static bool names_match_item(struct names *names, const struct kind *kind, const json_t *item)
{
	if (kind->id == KIND_DRAIN)
		return names_match_within(names, item, "endpoint");
	if (kind->id == KIND_REGISTRATION)
		return names_match_within(names, item, "id");
	return names_match(names, field_text(item, kind->key));
}

/* Leave in the list of an answer only what the names ask for. */
static void answer_filter(json_t *answer, const struct kind *kind, struct names *names)
{
	json_t *list = json_object_get(answer, kind->list);

	for (size_t i = json_array_size(list); i-- > 0;) {
		const json_t *item = json_array_get(list, i);
		if (!names_match_item(names, kind, item))
			(void) json_array_remove(list, i);
	}
	if (names->count > 0)
		(void) json_object_del(answer, "known");
}

static int names_report(const struct names *names, const struct kind *kind)
{
	int r = EXIT_DONE;

	for (size_t i = 0; i < names->count && i < ELEMENTS(names->found); i++)
		if (!names->found[i])
			r = ctl_fail(EXIT_NOT_FOUND, "there is no %s \"%s\"", kind->singular,
					names->names[i]);
	return r;
}

/* A list of services is one answer for all; what each may be refused for is decided here. */
static int check_ages(const struct ctl *ctl, const json_t *list)
{
	char age[HUMAN_TEXT_MAX];
	uint64_t max_age_usec;
	int r = EXIT_DONE;

	if (!ctl->options.max_age || usher_duration_parse(ctl->options.max_age, &max_age_usec) < 0)
		return EXIT_DONE;
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *service = json_array_get(list, i);
		uint64_t msec = answer_age_msec(service);

		if (msec > max_age_usec / 1000)
			r = ctl_fail(EXIT_STALE, "the directory of %s is %s old, older than %s",
					field_text(service, "service"),
					msec == UINT64_MAX ? "of unknown age, so perhaps"
							   : human_age(msec, age),
					ctl->options.max_age);
	}
	return r;
}

static int get_list(struct ctl *ctl, const struct kind *kind, struct names *names)
{
	cleanup(table_freep) struct table *table = NULL;
	cleanup(json_decrefp) json_t *answer = NULL;
	const json_t *list;
	int r, missing, stale;

	r = ctl_get(ctl, kind->path, &answer);
	if (r != EXIT_DONE)
		return r;
	answer_filter(answer, kind, names);
	list = json_object_get(answer, kind->list);
	stale = kind->id == KIND_SERVICE ? check_ages(ctl, list) : EXIT_DONE;
	if (output_is_data(ctl)) {
		r = output_data(ctl, answer);
	} else if (json_array_size(list) > 0) {
		table = table_new(ctl, kind->columns);
		for (size_t i = 0; table && i < json_array_size(list); i++)
			kind->add(table, json_array_get(list, i));
		r = table_print(table, stdout, "");
	} else if (names->count == 0) {
		(void) fprintf(stderr, "There are no %s.\n", kind->plural);
	}
	missing = names_report(names, kind);
	if (r != EXIT_DONE)
		return r;
	return missing != EXIT_DONE ? missing : stale;
}

static const struct column endpoint_columns[] = { { "SERVICE" }, { "ENDPOINT" }, { "ADDRESS" },
	{ "ZONE" }, { "WEIGHT", .right = true }, { "STATE" }, { "SOURCE", .wide = true },
	{ "UID", .wide = true }, { "SECURE", .wide = true }, { "READY", .wide = true },
	{ "SERVING", .wide = true }, { "TERMINATING", .wide = true }, { "HEALTH", .wide = true },
	{ "CHECKED", .right = true, .wide = true }, { "LAST ERROR", .wide = true },
	{ "WHY", .wide = true }, {} };

static void cell_of_condition(
		struct table *table, size_t column, const json_t *endpoint, const char *name)
{
	cell_of_value(table, column,
			json_object_get(json_object_get(endpoint, "conditions"), name));
}

static void cells_of_health(struct table *table, size_t column, const json_t *health)
{
	char text[HEALTH_TEXT_MAX], age[HUMAN_TEXT_MAX];

	table_cell(table, column, "%s", health_brief(health, text));
	table_tint(table, column, tint_of(field_text(health, "state")));
	table_cell(table, column + 1, "%s", human_age(field_msec(health, "age_ms"), age));
	if (*health_error(health, text))
		table_cell(table, column + 2, "%s", text);
}

/* Its own, with a mark where it is none; and the part of it that counts for now. */
static void cell_of_weight(struct table *table, size_t column, const json_t *endpoint)
{
	const json_t *ramp = json_object_get(endpoint, "ramp");
	char part[32] = "";

	if (json_is_number(ramp))
		(void) snprintf(part, sizeof(part), " at %.0f%%", json_number_value(ramp) * 100);
	table_cell(table, column, "%" PRIu64 "%s%s", field_number(endpoint, "weight"),
			json_is_true(json_object_get(endpoint, "weight_invalid")) ? "!" : "", part);
}

static void table_add_endpoint(
		struct table *table, bool several, const json_t *answer, const json_t *endpoint)
{
	char state[ENDPOINT_STATE_MAX], authority[USHER_AUTHORITY_MAX];
	/* without the service's column, the others move up */
	size_t at = several ? 1 : 0;

	table_row(table);
	if (several)
		table_cell(table, 0, "%s", field_text(answer, "service"));
	table_cell(table, at, "%s", field_text(endpoint, "id"));
	table_cell(table, at + 1, "%s", endpoint_authority(endpoint, authority));
	table_cell(table, at + 2, "%s", field_text(endpoint, "zone"));
	cell_of_weight(table, at + 3, endpoint);
	table_cell(table, at + 4, "%s%s", endpoint_state(endpoint, state),
			json_is_true(json_object_get(endpoint, "conflict")) ? ", sources disagree"
									    : "");
	table_tint(table, at + 4, strncmp(state, "left out", 8) == 0 ? TINT_DIM : tint_of(state));
	table_cell(table, at + 5, "%s", field_text(endpoint, "source"));
	table_cell(table, at + 6, "%s", field_text(endpoint, "uid"));
	cell_of_value(table, at + 7, json_object_get(endpoint, "secure"));
	cell_of_condition(table, at + 8, endpoint, "ready");
	cell_of_condition(table, at + 9, endpoint, "serving");
	cell_of_condition(table, at + 10, endpoint, "terminating");
	cells_of_health(table, at + 11, json_object_get(endpoint, "health"));
	table_cell(table, at + 14, "%s",
			field_text(json_object_get(endpoint, "left_out"), "reason"));
}

int get_endpoints(struct ctl *ctl, const char *service, const char *endpoint, json_t **ret)
{
	autofree char *path = ctl_path("/v1/services/%s/endpoints", service);
	cleanup(json_decrefp) json_t *answer = NULL;
	json_t *list;
	int r;

	path = ctl_path_add(take(path), "all", ctl->options.chosen ? NULL : "true");
	path = ctl_path_add(take(path), "max_age", ctl->options.max_age);
	r = ctl_get(ctl, path, &answer);
	if (r != EXIT_DONE)
		return r;
	list = json_object_get(answer, "endpoints");
	for (size_t i = endpoint ? json_array_size(list) : 0; i-- > 0;)
		if (strcmp(field_text(json_array_get(list, i), "id"), endpoint) != 0)
			(void) json_array_remove(list, i);
	if (endpoint && json_array_size(list) == 0)
		return ctl_fail(EXIT_NOT_FOUND, "there is no endpoint \"%s\" in %s", endpoint,
				service);
	*ret = take(answer);
	return EXIT_DONE;
}

/* Answers, one for each service that was asked for; those that failed were said so. */
static int collect_endpoints(struct ctl *ctl, json_t *answers)
{
	cleanup(json_decrefp) json_t *services = NULL;
	int r = EXIT_DONE;

	for (size_t i = 0; i < ctl->count; i++) {
		char *slash = strchr(ctl->arguments[i], '/');
		json_t *answer = NULL;
		int failed;

		if (slash)
			*slash++ = 0;
		failed = get_endpoints(ctl, ctl->arguments[i], slash, &answer);
		if (failed != EXIT_DONE)
			r = failed;
		else if (json_array_append_new(answers, answer) < 0)
			return ctl_fail(EXIT_FAILED, "out of memory");
	}
	if (ctl->count > 0)
		return r;
	r = ctl_get(ctl, "/v1/services", &services);
	for (size_t i = 0; r == EXIT_DONE &&
			i < json_array_size(json_object_get(services, "services"));
			i++) {
		const json_t *service = json_array_get(json_object_get(services, "services"), i);
		json_t *answer = NULL;

		r = get_endpoints(ctl, field_text(service, "service"), NULL, &answer);
		if (r == EXIT_DONE && json_array_append_new(answers, answer) < 0)
			return ctl_fail(EXIT_FAILED, "out of memory");
	}
	return r;
}

static void note_none(const json_t *answer)
{
	const char *service = field_text(answer, "service");
	const char *state = field_text(json_object_get(answer, "freshness"), "state");
	char why[ENDPOINT_STATE_MAX];

	if (answer_why_none(answer, why))
		(void) fprintf(stderr, "%s (%s): %s; usherctl explain %s says more.\n", service,
				state, human_printable(why), service);
	else if (json_array_size(json_object_get(answer, "endpoints")) == 0)
		(void) fprintf(stderr, "There are no endpoints of %s (%s).\n", service, state);
}

static int print_endpoints(const struct ctl *ctl, const json_t *answers)
{
	bool several = ctl->count != 1;
	cleanup(table_freep) struct table *table =
			table_new(ctl, endpoint_columns + (several ? 0 : 1));

	for (size_t i = 0; table && i < json_array_size(answers); i++) {
		const json_t *answer = json_array_get(answers, i);
		const json_t *list = json_object_get(answer, "endpoints");

		for (size_t k = 0; k < json_array_size(list); k++)
			table_add_endpoint(table, several, answer, json_array_get(list, k));
		note_none(answer);
	}
	return table && table_rows(table) == 0 ? EXIT_DONE : table_print(table, stdout, "");
}

static int get_all_endpoints(struct ctl *ctl)
{
	cleanup(json_decrefp) json_t *answers = json_array();
	cleanup(json_decrefp) json_t *all = NULL;
	int r, printed;

	if (!answers)
		return ctl_fail(EXIT_FAILED, "out of memory");
	r = collect_endpoints(ctl, answers);
	if (!output_is_data(ctl)) {
		printed = json_array_size(answers) > 0 ? print_endpoints(ctl, answers) : EXIT_DONE;
	} else if (ctl->count == 1) {
		printed = json_array_size(answers) > 0
				? output_data(ctl, json_array_get(answers, 0))
				: EXIT_DONE;
	} else {
		all = json_pack("{s:O}", "services", answers);
		printed = all ? output_data(ctl, all) : ctl_fail(EXIT_FAILED, "out of memory");
	}
	return r != EXIT_DONE ? r : printed;
}

/* The next one that goes on by itself, or NULL. */
static const json_t *next_running(const json_t *drains)
{
	for (size_t i = 0; i < json_array_size(drains); i++) {
		const json_t *record = json_array_get(drains, i);

		if (!record_finished(record) && !record_is(record, "held"))
			return record;
	}
	return NULL;
}

/* Until none of them runs, those included that begin meanwhile. Returns the exit code of the first
 * that did not end as it was meant to. */
static int wait_for_drains(struct ctl *ctl, const struct kind *kind, struct names *names)
{
	cleanup(follow_freep) struct follow *follow = follow_new(ctl, DOOR_READ);
	int worst = EXIT_DONE;

	if (!follow)
		return ctl_fail(EXIT_FAILED, "cannot follow drains: out of memory or threads");
	for (;;) {
		cleanup(json_decrefp) json_t *answer = NULL;
		const json_t *record;
		int r = ctl_get(ctl, kind->path, &answer);

		if (r != EXIT_DONE)
			return r;
		answer_filter(answer, kind, names);
		record = next_running(json_object_get(answer, kind->list));
		if (!record)
			return worst;
		r = follow_record(follow, record,
				record_is(record, "cancelling") ? "cancelled" : "done");
		if (follow_reason(follow) != EXIT_DONE)
			return follow_reason(follow);
		if (worst == EXIT_DONE)
			worst = r;
	}
}

int verb_get(struct ctl *ctl)
{
	const struct kind *kind = kind_find(ctl, ctl->arguments[0]);
	struct names names = {};

	if (!kind)
		return EXIT_USAGE;
	ctl->arguments++;
	ctl->count--;
	if (ctl->options.chosen && kind->id != KIND_ENDPOINT)
		return ctl_usage(ctl, "--chosen is for endpoints");
	if (ctl->options.wait && kind->id != KIND_DRAIN)
		return ctl_usage(ctl, "--wait is for drains");
	if (ctl->options.max_age && kind->id != KIND_ENDPOINT && kind->id != KIND_SERVICE)
		return ctl_usage(ctl, "--max-age is for services and endpoints");
	if (ctl->count > ELEMENTS(names.found))
		return ctl_usage(ctl, "at most %zu names at a time", ELEMENTS(names.found));
	if (kind->id == KIND_ENDPOINT)
		return get_all_endpoints(ctl);
	names.names = ctl->arguments;
	names.count = ctl->count;
	if (ctl->options.wait) {
		int r = wait_for_drains(ctl, kind, &names);

		return r != EXIT_DONE ? r : names_report(&names, kind);
	}
	return get_list(ctl, kind, &names);
}
