/* usherctl budget: the worst-case window of a service, before anyone starts. */

#include <inttypes.h>
#include <stdio.h>

#include "human.h"
#include "output.h"
#include "verbs.h"

static const struct column window_columns[] = { { "WINDOW" }, { "TIME", .right = true },
	{ "HOW KNOWN" }, {} };

static const char *duration_of(uint64_t msec, char *ret)
{
	if (msec == UINT64_MAX)
		(void) snprintf(ret, USHER_DURATION_TEXT_MAX, "-");
	else
		(void) usher_duration_format(msec * 1000, ret);
	return ret;
}

static int budget_print(const struct ctl *ctl, const json_t *answer)
{
	cleanup(table_freep) struct table *table = table_new(ctl, window_columns);
	const json_t *windows = json_object_get(answer, "windows");
	const json_t *picks = json_object_get(answer, "stale_picks");
	char duration[USHER_DURATION_TEXT_MAX];
	int r;

	for (size_t i = 0; table && i < json_array_size(windows); i++) {
		const json_t *window = json_array_get(windows, i);
		const char *how = json_is_true(json_object_get(window, "proven")) ? "proven"
										  : "assumed";

		table_row(table);
		table_cell(table, 0, "%s", field_text(window, "name"));
		table_cell(table, 1, "%s", duration_of(field_msec(window, "ms"), duration));
		table_cell(table, 2, "%s", how);
		table_tint(table, 2, tint_of(how));
	}
	r = table_print(table, stdout, "");
	(void) printf("\n");
	section_field(0, "Worst case", "%s",
			duration_of(field_msec(answer, "worst_case_ms"), duration));
	section_field(0, "Only assumed", "%s",
			duration_of(field_msec(answer, "assumed_ms"), duration));
	if (json_is_number(json_object_get(picks, "worst_case")))
		section_field(0, "Stale picks", "up to %.0f, at %.0f requests per second",
				json_number_value(json_object_get(picks, "worst_case")),
				json_number_value(json_object_get(picks, "rate_per_s")));
	return r;
}

int verb_budget(struct ctl *ctl)
{
	autofree char *path = ctl_path_add(ctl_path("/v1/services/%s/budget", ctl->arguments[0]),
			"rate", ctl->options.rate);
	cleanup(json_decrefp) json_t *answer = NULL;
	int r;

	r = ctl_get(ctl, path, &answer);
	if (r != EXIT_DONE)
		return r;
	return output_is_data(ctl) ? output_data(ctl, answer) : budget_print(ctl, answer);
}
