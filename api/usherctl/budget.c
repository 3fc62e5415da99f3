/* usherctl budget: the worst-case window of a service, before anyone starts, and what checks cost.
 */

#include <inttypes.h>
#include <stdio.h>

#include "human.h"
#include "kinds.h"
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

static const struct column check_columns[] = { { "SERVICE" }, { "CHECK" },
	{ "EVERY", .right = true }, { "ENDPOINTS", .right = true }, { "PROBES/S", .right = true },
	{ "CONNECTIONS/S", .right = true }, { "BYTES/S", .right = true }, { "HOW KNOWN" },
	{ "PROBES", .right = true, .wide = true }, { "CONNECTIONS", .right = true, .wide = true },
	{ "BYTES", .right = true, .wide = true }, {} };

static void cell_of_rate(struct table *table, size_t column, const json_t *cost, const char *name)
{
	double value = json_number_value(json_object_get(cost, name));

	table_cell(table, column, value < 10 ? "%.2f" : "%.0f", value);
}

/* checks has "estimate" and, once there was a probe, "measured". */
static void table_add_checks(struct table *table, const char *service, const json_t *checks)
{
	const json_t *measured = json_object_get(checks, "measured");
	bool known = json_is_object(measured);
	const json_t *cost = known ? measured : json_object_get(checks, "estimate");
	char duration[USHER_DURATION_TEXT_MAX];

	table_row(table);
	table_cell(table, 0, "%s", service);
	table_cell(table, 1, "%s", field_text(checks, "kind"));
	table_cell(table, 2, "%s", duration_of(field_msec(checks, "interval_ms"), duration));
	table_cell(table, 3, "%" PRIu64, field_number(cost, "endpoints"));
	cell_of_rate(table, 4, cost, "probes_per_s");
	cell_of_rate(table, 5, cost, "connections_per_s");
	cell_of_rate(table, 6, cost, "bytes_per_s");
	table_cell(table, 7, "%s", known ? "measured" : "estimated");
	table_tint(table, 7, tint_of(known ? "measured" : "estimated"));
	cell_of_value(table, 8, json_object_get(cost, "probes"));
	cell_of_value(table, 9, json_object_get(cost, "connections"));
	cell_of_value(table, 10, json_object_get(cost, "bytes"));
}

static void prober_print(const json_t *prober)
{
	const json_t *late = json_object_get(prober, "late_ms");
	double stretch = json_number_value(json_object_get(prober, "stretch"));

	section_field(0, "Probes", "%" PRIu64 " so far, %.4g per second of %" PRIu64 " endpoints",
			field_number(prober, "probes"),
			json_number_value(json_object_get(prober, "rate_per_s")),
			field_number(prober, "targets"));
	if (!json_is_integer(json_object_get(prober, "max_rate_per_s")))
		section_field(0, "Cap", "none");
	else if (stretch > 1)
		section_field(0, "Cap",
				"%" PRIu64
				" per second, and the intervals ask for %.4g: each is %.3g times as long",
				field_number(prober, "max_rate_per_s"),
				json_number_value(json_object_get(prober, "wanted_per_s")),
				stretch);
	else
		section_field(0, "Cap", "%" PRIu64 " per second, which is not reached",
				field_number(prober, "max_rate_per_s"));
	section_field(0, "Begun late by",
			"%.2f ms at half of them, %.2f ms at 99%%, %.2f ms at most",
			json_number_value(json_object_get(late, "p50")),
			json_number_value(json_object_get(late, "p99")),
			json_number_value(json_object_get(late, "max")));
	if (field_number(prober, "discarded") > 0)
		section_field(0, "Discarded",
				"%" PRIu64 " results that came too late to be believed",
				field_number(prober, "discarded"));
	if (field_number(prober, "local") > 0)
		section_field(0, "Own faults",
				"%" PRIu64 " probes that failed on this node, and prove nothing",
				field_number(prober, "local"));
}

static int totals_print(const struct ctl *ctl, const json_t *answer)
{
	cleanup(table_freep) struct table *table = table_new(ctl, check_columns);
	const json_t *services = json_object_get(answer, "services");
	int r = EXIT_DONE;

	for (size_t i = 0; table && i < json_array_size(services); i++) {
		const json_t *service = json_array_get(services, i);

		table_add_checks(table, field_text(service, "service"), service);
	}
	if (json_array_size(services) == 0) {
		(void) fprintf(stderr, "No service has checks.\n");
		return EXIT_DONE;
	}
	if (table && json_array_size(services) > 1)
		table_add_checks(table, "(all)", json_object_get(answer, "total"));
	r = table_print(table, stdout, "");
	(void) printf("\n");
	prober_print(json_object_get(answer, "prober"));
	return r;
}

static int budget_of_all(struct ctl *ctl)
{
	cleanup(json_decrefp) json_t *answer = NULL;
	int r;

	if (ctl->options.rate || ctl->options.endpoints)
		return ctl_usage(ctl, "--%s is for one service: usherctl budget SERVICE --%s %s",
				ctl->options.rate ? "rate" : "endpoints",
				ctl->options.rate ? "rate" : "endpoints",
				ctl->options.rate ? ctl->options.rate : ctl->options.endpoints);
	r = ctl_get(ctl, "/v1/budget", &answer);
	if (r != EXIT_DONE)
		return r;
	return output_is_data(ctl) ? output_data(ctl, answer) : totals_print(ctl, answer);
}

static int checks_print(const struct ctl *ctl, const json_t *answer)
{
	cleanup(table_freep) struct table *table = NULL;
	json_t *checks = json_object_get(answer, "checks");
	const json_t *estimate = json_object_get(checks, "estimate");

	if (!json_is_object(checks))
		return EXIT_DONE;
	(void) printf("\n");
	table = table_new(ctl, check_columns);
	if (table)
		table_add_checks(table, field_text(answer, "service"), checks);
	/* Asked for another number than there are: that is what is wanted, beside what happens. */
	if (table && ctl->options.endpoints &&
			json_is_object(json_object_get(checks, "measured")) && estimate) {
		(void) json_object_set_new(checks, "measured", json_null());
		table_add_checks(table, field_text(answer, "service"), checks);
	}
	return table_print(table, stdout, "");
}

int verb_budget(struct ctl *ctl)
{
	autofree char *path = NULL;
	cleanup(json_decrefp) json_t *answer = NULL;
	int r;

	if (ctl->count == 0)
		return budget_of_all(ctl);
	path = ctl_path_add(ctl_path("/v1/services/%s/budget", ctl->arguments[0]), "rate",
			ctl->options.rate);
	path = ctl_path_add(take(path), "endpoints", ctl->options.endpoints);
	r = ctl_get(ctl, path, &answer);
	if (r != EXIT_DONE)
		return r;
	if (output_is_data(ctl))
		return output_data(ctl, answer);
	r = budget_print(ctl, answer);
	return r != EXIT_DONE ? r : checks_print(ctl, answer);
}
