/* usherctl explain: how a choice comes about, stage by stage. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "directory-answer.h"
#include "health-view.h"
#include "human.h"
#include "output.h"
#include "pick-request.h"
#include "verbs.h"

enum {
	COLUMN_STAGE,
	COLUMN_IN,
	COLUMN_OUT,
	COLUMN_ON_EMPTY,
	COLUMN_SHARED,
	COLUMN_LEFT_OUT,
	COLUMN_WHY,
};

static const struct column stage_columns[] = { { "STAGE" }, { "IN", .right = true },
	{ "OUT", .right = true }, { "ON-EMPTY" }, { "SHARED" }, { "LEFT OUT" }, { "WHY" }, {} };

/* With the rule that applied, where there are several. */
static void cell_of_stage(struct table *table, const json_t *stage)
{
	uint64_t rules = field_number(stage, "rules");
	const json_t *rule = json_object_get(stage, "rule");

	if (rules > 0 && !json_is_integer(rule))
		table_cell(table, COLUMN_STAGE, "%s (no rule applies)", field_text(stage, "stage"));
	else if (rules > 1)
		table_cell(table, COLUMN_STAGE, "%s (rule %" PRIu64 " of %" PRIu64 ")",
				field_text(stage, "stage"), field_number(stage, "rule") + 1, rules);
	else
		table_cell(table, COLUMN_STAGE, "%s", field_text(stage, "stage"));
}

/* What on_empty ruled, and what else is out of the ordinary. */
static void cell_of_ruling(struct table *table, const json_t *stage)
{
	const json_t *ruled = json_object_get(stage, "on_empty");
	bool panic = json_is_true(json_object_get(stage, "panic"));
	bool fault = json_is_true(json_object_get(stage, "fault"));

	if (fault)
		table_cell(table, COLUMN_ON_EMPTY, "fault");
	else if (panic)
		table_cell(table, COLUMN_ON_EMPTY, "panic");
	else
		table_cell(table, COLUMN_ON_EMPTY, "%s", field_text(stage, "on_empty"));
	if (fault || panic || json_is_string(ruled))
		table_tint(table, COLUMN_ON_EMPTY, fault ? TINT_BAD : TINT_WARNING);
}

static void row_behind(struct table *table)
{
	table_row(table);
	for (size_t column = 0; column < COLUMN_WHY; column++)
		table_cell(table, column, "%s", "");
}

static void cells_of_left(struct table *table, const json_t *left)
{
	char error[HEALTH_TEXT_MAX];

	table_cell(table, COLUMN_LEFT_OUT, "%s", field_text(left, "id"));
	(void) health_error(json_object_get(left, "health"), error);
	table_cell(table, COLUMN_WHY, "%s%s%s", field_text(left, "reason"), *error ? ": " : "",
			error);
}

static void explain_add_stage(struct table *table, const json_t *stage)
{
	const json_t *left = json_object_get(stage, "left");
	const char *told = json_string_value(json_object_get(stage, "told"));

	table_row(table);
	cell_of_stage(table, stage);
	table_cell(table, COLUMN_IN, "%" PRIu64, field_number(stage, "in"));
	table_cell(table, COLUMN_OUT, "%" PRIu64, field_number(stage, "out"));
	cell_of_ruling(table, stage);
	table_cell(table, COLUMN_SHARED, "%s",
			json_is_true(json_object_get(stage, "shared")) ? "yes" : "no");
	if (told) {
		table_cell(table, COLUMN_LEFT_OUT, "%s", "");
		table_cell(table, COLUMN_WHY, "%s", told);
	}
	for (size_t i = 0; i < json_array_size(left); i++) {
		if (i > 0 || told)
			row_behind(table);
		cells_of_left(table, json_array_get(left, i));
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

static void explain_end(const json_t *answer)
{
	const json_t *share = json_object_get(answer, "share");
	const char *stage = json_string_value(json_object_get(answer, "stage"));

	section_field(0, "Selector", "%s%s", field_text(answer, "selector"),
			json_is_true(json_object_get(answer, "selector_fault"))
					? " (its plug-in answered nonsense)"
					: "");
	explain_candidates(json_object_get(answer, "candidates"));
	if (json_is_true(json_object_get(answer, "panic")))
		section_field(0, "Panic",
				"too few endpoints are well, so those that are not are used, too");
	section_field(0, "Choice", "%s", field_text(answer, "choice"));
	if (json_is_number(share))
		section_field(0, "Share", "%.1f%%", json_number_value(share) * 100);
	if (json_is_string(json_object_get(answer, "code")))
		section_field(0, "Why none", "%s%s%s", field_text(answer, "code"),
				stage ? " by " : "", stage ? stage : "");
}

static int explain_print(const struct ctl *ctl, const json_t *answer)
{
	cleanup(table_freep) struct table *table = table_new(ctl, stage_columns);
	const json_t *stages = json_object_get(answer, "stages");
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
	explain_end(answer);
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
