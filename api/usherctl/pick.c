/* usherctl pick: a choice. */

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

static void warn_in_panic(const json_t *answer)
{
	if (json_is_true(json_object_get(answer, "panic")))
		(void) ctl_fail(EXIT_DONE,
				"warning: too few endpoints of %s are well, so those that are not are used, too",
				field_text(answer, "service"));
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
	warn_in_panic(answer);
	if (ctl->options.output == OUTPUT_WIDE)
		return pick_print_wide(ctl, answer);
	(void) printf("%s  %s\n", field_text(json_object_get(answer, "endpoint"), "id"),
			endpoint_authority(json_object_get(answer, "endpoint"), authority));
	return EXIT_DONE;
}
