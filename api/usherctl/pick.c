/* usherctl pick and explain: a choice, and how it comes about. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "directory-answer.h"
#include "human.h"
#include "output.h"
#include "pick-request.h"
#include "verbs.h"

static const struct column pick_columns[] = { { "ENDPOINT" }, { "ADDRESS" }, { "ZONE" },
	{ "SECURE" }, { "STATE" }, { "AGE", .right = true }, { "REVISION", .right = true }, {} };

static int pick_print_wide(const struct ctl *ctl, const json_t *answer)
{
	cleanup(table_freep) struct table *table = table_new(ctl, pick_columns);
	const json_t *endpoint = json_object_get(answer, "endpoint");
	char authority[USHER_AUTHORITY_MAX], age[HUMAN_TEXT_MAX];

	if (table) {
		table_row(table);
		table_cell(table, 0, "%s", field_text(endpoint, "id"));
		table_cell(table, 1, "%s", endpoint_authority(endpoint, authority));
		table_cell(table, 2, "%s", field_text(endpoint, "zone"));
		table_cell(table, 3, "%s",
				json_is_true(json_object_get(endpoint, "secure")) ? "yes" : "no");
		table_cell(table, 4, "%s",
				field_text(json_object_get(answer, "freshness"), "state"));
		table_cell(table, 5, "%s", human_age(answer_age_msec(answer), age));
		table_cell(table, 6, "%" PRIu64, field_number(answer, "revision"));
	}
	return table_print(table, stdout, "");
}

static void warn_when_stale(const json_t *answer)
{
	const json_t *freshness = json_object_get(answer, "freshness");
	char age[HUMAN_TEXT_MAX], max_age[HUMAN_TEXT_MAX];

	if (strcmp(field_text(freshness, "state"), "stale") == 0)
		(void) ctl_fail(EXIT_DONE,
				"warning: this directory of %s is %s old, older than its max_age of %s",
				field_text(answer, "service"),
				human_age(answer_age_msec(answer), age),
				human_age(field_msec(freshness, "max_age_ms"), max_age));
}

int verb_pick(struct ctl *ctl)
{
	autofree char *path = ctl_path_add(ctl_path("/v1/services/%s/pick", ctl->arguments[0]),
			"max_age", ctl->options.max_age);
	cleanup(json_decrefp) json_t *body = request_body(ctl);
	cleanup(json_decrefp) json_t *answer = NULL;
	char authority[USHER_AUTHORITY_MAX];
	int r;

	r = ctl_call(ctl, DOOR_READ, "POST", body ? path : NULL, body, &answer);
	if (r != EXIT_DONE)
		return r;
	if (output_is_data(ctl))
		return output_data(ctl, answer);
	warn_when_stale(answer);
	if (ctl->options.output == OUTPUT_WIDE)
		return pick_print_wide(ctl, answer);
	(void) printf("%s  %s\n", field_text(json_object_get(answer, "endpoint"), "id"),
			endpoint_authority(json_object_get(answer, "endpoint"), authority));
	return EXIT_DONE;
}

static const struct column stage_columns[] = { { "STAGE" }, { "IN", .right = true },
	{ "OUT", .right = true }, { "ON-EMPTY" }, { "SHARED" }, { "LEFT OUT" }, { "WHY" }, {} };

static void explain_add_stage(struct table *table, const json_t *stage)
{
	const json_t *left = json_object_get(stage, "left");

	table_row(table);
	table_cell(table, 0, "%s", field_text(stage, "stage"));
	table_cell(table, 1, "%" PRIu64, field_number(stage, "in"));
	table_cell(table, 2, "%" PRIu64, field_number(stage, "out"));
	table_cell(table, 3, "%s", field_text(stage, "on_empty"));
	table_cell(table, 4, "%s", json_is_true(json_object_get(stage, "shared")) ? "yes" : "no");
	for (size_t i = 0; i < json_array_size(left); i++) {
		if (i > 0) {
			table_row(table);
			for (size_t column = 0; column < 5; column++)
				table_cell(table, column, "%s", "");
		}
		table_cell(table, 5, "%s", field_text(json_array_get(left, i), "id"));
		table_cell(table, 6, "%s", field_text(json_array_get(left, i), "reason"));
	}
}

/* "candidates" is their number, or their ids. */
static void explain_candidates(json_t *candidates)
{
	if (json_is_array(candidates))
		section_field(0, "Candidates", "%zu", json_array_size(candidates));
	else
		section_value(0, "candidates", candidates);
}

static int explain_print(const struct ctl *ctl, const json_t *answer)
{
	cleanup(table_freep) struct table *table = table_new(ctl, stage_columns);
	const json_t *stages = json_object_get(answer, "stages");
	const json_t *share = json_object_get(answer, "share");
	char age[HUMAN_TEXT_MAX];
	int r = EXIT_DONE;

	section_field(0, "Service", "%s", field_text(answer, "service"));
	section_field(0, "Revision", "%" PRIu64, field_number(answer, "revision"));
	section_state(ctl, 0, "State", field_text(json_object_get(answer, "freshness"), "state"));
	section_field(0, "Age", "%s", human_age(answer_age_msec(answer), age));
	for (size_t i = 0; table && i < json_array_size(stages); i++)
		explain_add_stage(table, json_array_get(stages, i));
	if (json_array_size(stages) > 0) {
		section_field(0, "Stages", "%s", "");
		r = table_print(table, stdout, "  ");
	}
	section_field(0, "Selector", "%s", field_text(answer, "selector"));
	explain_candidates(json_object_get(answer, "candidates"));
	section_field(0, "Choice", "%s", field_text(answer, "choice"));
	if (json_is_number(share))
		section_field(0, "Share", "%.1f%%", json_number_value(share) * 100);
	if (json_is_string(json_object_get(answer, "code")))
		section_field(0, "Why none", "%s", field_text(answer, "code"));
	return r;
}

int verb_explain(struct ctl *ctl)
{
	autofree char *path =
			request_query(ctl, ctl_path("/v1/services/%s/explain", ctl->arguments[0]));
	cleanup(json_decrefp) json_t *answer = NULL;
	int r;

	r = ctl_get(ctl, path, &answer);
	if (r != EXIT_DONE)
		return r;
	return output_is_data(ctl) ? output_data(ctl, answer) : explain_print(ctl, answer);
}
