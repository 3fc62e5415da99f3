/* usherctl describe: everything about one thing, in sections. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "directory-answer.h"
#include "health-view.h"
#include "human.h"
#include "kinds.h"
#include "record-view.h"
#include "verbs.h"

static void describe_freshness(const struct ctl *ctl, const json_t *answer)
{
	const json_t *freshness = json_object_get(answer, "freshness");
	char age[HUMAN_TEXT_MAX];

	section_field(0, "Revision", "%" PRIu64, field_number(answer, "revision"));
	section_state(ctl, 0, "State", field_text(freshness, "state"));
	section_field(0, "Age", "%s", human_age(field_msec(freshness, "age_ms"), age));
	section_field(0, "Max age", "%s", human_age(field_msec(freshness, "max_age_ms"), age));
	section_field(0, "Source", "%s", field_text(freshness, "source"));
}

static void describe_held(int indent, const json_t *held)
{
	json_t *endpoints = json_object_get(held, "endpoints");
	char since[HUMAN_TEXT_MAX], until[HUMAN_TEXT_MAX];

	if (!json_is_object(held))
		return;
	section_field(indent, "Held back",
			"the removal of %" PRIu64 " of %" PRIu64 ", since %s, for another %s",
			field_number(held, "removed"), field_number(held, "of"),
			human_age(field_msec(held, "since_ms"), since),
			human_age(field_msec(held, "until_ms"), until));
	if (json_is_array(endpoints))
		section_value(indent, "endpoints_held", endpoints);
}

static const struct column feed_columns[] = { { "SOURCE" }, { "NAME" }, { "PORT" }, { "STATE" },
	{ "AGE", .right = true }, { "ENDPOINTS", .right = true }, { "REVISION" }, { "HELD BACK" },
	{ "ERROR" }, {} };

static void describe_feed(struct table *table, const json_t *feed)
{
	const json_t *held = json_object_get(feed, "held");
	char age[HUMAN_TEXT_MAX];

	table_row(table);
	table_cell(table, 0, "%s", field_text(feed, "source"));
	table_cell(table, 1, "%s", field_text(feed, "name"));
	table_cell(table, 2, "%s", field_text(feed, "port"));
	table_cell(table, 3, "%s%s", field_text(feed, "state"),
			json_is_true(json_object_get(feed, "restored")) ? ", from disk" : "");
	table_tint(table, 3, tint_of(field_text(feed, "state")));
	table_cell(table, 4, "%s", human_age(field_msec(feed, "age_ms"), age));
	table_cell(table, 5, "%" PRIu64, field_number(feed, "endpoints"));
	cell_of_value(table, 6, json_object_get(feed, "revision"));
	if (json_is_object(held))
		table_cell(table, 7, "%" PRIu64 " of %" PRIu64, field_number(held, "removed"),
				field_number(held, "of"));
	table_cell(table, 8, "%s", field_text(feed, "error"));
}

static int describe_feeds(const struct ctl *ctl, const json_t *feeds)
{
	cleanup(table_freep) struct table *table = table_new(ctl, feed_columns);
	int r;

	if (json_array_size(feeds) == 0) {
		section_field(0, "Feeds", "none");
		return EXIT_DONE;
	}
	section_field(0, "Feeds", "%s", "");
	for (size_t i = 0; table && i < json_array_size(feeds); i++)
		describe_feed(table, json_array_get(feeds, i));
	r = table_print(table, stdout, "  ");
	for (size_t i = 0; i < json_array_size(feeds); i++)
		describe_held(2, json_object_get(json_array_get(feeds, i), "held"));
	return r;
}

static void describe_rule(const json_t *rule, size_t number)
{
	json_t *when = json_object_get(rule, "when");
	char text[2 * USHER_TEXT_MAX];
	const char *name, *and = "when ";
	json_t *value;
	int used;

	used = snprintf(text, sizeof(text), "     rule %zu: ", number);
	json_object_foreach(when, name, value) {
		used += snprintf(text + used, sizeof(text) - (size_t) used, "%s%.100s is %.100s",
				and, name, json_string_value(value));
		if (used > (int) sizeof(text) - 300)
			break;
		and = " and ";
	}
	(void) snprintf(text + used, sizeof(text) - (size_t) used, "%s; when empty, %s",
			json_is_object(when) ? "" : "always", field_text(rule, "on_empty"));
	(void) printf("  %s\n", human_printable(text));
}

/* "left nobody 12 times (pass 12)" */
static void add_emptied(const json_t *stage, char *text, size_t size)
{
	static const char *const words[] = { "pass", "fail", "next" };
	const json_t *emptied = json_object_get(stage, "emptied");
	const char *before = "; left nobody: ";

	for (size_t i = 0; i < ELEMENTS(words); i++) {
		uint64_t count = field_number(emptied, words[i]);
		size_t used = strlen(text);

		if (count == 0)
			continue;
		(void) snprintf(text + used, size - used, "%s%s %" PRIu64 " times", before,
				words[i], count);
		before = ", ";
	}
	if (field_number(stage, "faults") > 0)
		(void) snprintf(text + strlen(text), size - strlen(text),
				"; answered nonsense %" PRIu64 " times",
				field_number(stage, "faults"));
}

static void describe_stage(const json_t *stage, size_t number)
{
	const json_t *rules = json_object_get(stage, "rules");
	bool plain = json_array_size(rules) <= 1 &&
			!json_is_object(json_object_get(json_array_get(rules, 0), "when"));
	char text[USHER_TEXT_MAX];

	(void) snprintf(text, sizeof(text), "%zu. %s: %s%s%s%s", number, field_text(stage, "stage"),
			plain ? "when empty, " : "", plain ? field_text(stage, "on_empty") : "",
			plain ? "; " : "",
			json_is_true(json_object_get(stage, "shared"))
					? "the same for every request"
					: "for each request");
	add_emptied(stage, text, sizeof(text));
	(void) printf("  %s\n", human_printable(text));
	for (size_t i = 0; !plain && i < json_array_size(rules); i++)
		describe_rule(json_array_get(rules, i), i + 1);
}

static void describe_chain(const json_t *chain)
{
	section_field(0, "Chain", "%s", json_array_size(chain) > 0 ? "" : "none");
	for (size_t i = 0; i < json_array_size(chain); i++)
		describe_stage(json_array_get(chain, i), i + 1);
}

static int describe_service(struct ctl *ctl, const char *name)
{
	autofree char *path = ctl_path_add(
			ctl_path("/v1/services/%s", name), "max_age", ctl->options.max_age);
	cleanup(json_decrefp) json_t *answer = NULL;
	char health[HEALTH_TEXT_MAX];
	const json_t *endpoints;
	int r;

	r = ctl_get(ctl, path, &answer);
	if (r != EXIT_DONE)
		return r;
	if (output_is_data(ctl))
		return output_data(ctl, answer);
	endpoints = json_object_get(answer, "endpoints");
	section_field(0, "Service", "%s", field_text(answer, "service"));
	section_field(0, "Declared", "%s",
			json_is_true(json_object_get(answer, "eager")) ? "yes"
								       : "no, made on first use");
	describe_freshness(ctl, answer);
	section_field(0, "Endpoints", "%" PRIu64 " chosen of %" PRIu64 ", %" PRIu64 " draining",
			field_number(endpoints, "chosen"), field_number(endpoints, "total"),
			field_number(endpoints, "draining"));
	if (json_is_object(json_object_get(answer, "health")))
		section_field(0, "Health", "%s",
				health_counts(json_object_get(answer, "health"), health));
	if (json_is_true(json_object_get(answer, "panic")))
		section_field(0, "Panic",
				"too few endpoints are well, so those that are not are used, too");
	if (field_number(answer, "conflicts") > 0)
		section_field(0, "Conflicts", "%" PRIu64 " endpoints on which sources disagree",
				field_number(answer, "conflicts"));
	if (field_number(answer, "weight_invalid") > 0)
		section_field(0, "Invalid weights", "%" PRIu64 ", which count as 1",
				field_number(answer, "weight_invalid"));
	describe_held(0, json_object_get(answer, "held"));
	r = describe_feeds(ctl, json_object_get(answer, "feeds"));
	describe_chain(json_object_get(answer, "chain"));
	section_value(0, "select", json_object_get(answer, "select"));
	if (json_object_get(answer, "policy"))
		section_value(0, "policy", json_object_get(answer, "policy"));
	return r;
}

static void describe_weight(const json_t *endpoint)
{
	const json_t *ramp = json_object_get(endpoint, "ramp");
	char part[64] = "";

	if (json_is_number(ramp))
		(void) snprintf(part, sizeof(part), ", of which it is given %.0f%% for now",
				json_number_value(ramp) * 100);
	section_field(0, "Weight", "%" PRIu64 "%s%s", field_number(endpoint, "weight"),
			json_is_true(json_object_get(endpoint, "weight_invalid"))
					? " (what the registry says is no weight)"
					: "",
			part);
}

/* Which sources show it, and which of them has decided a field. */
static void describe_origin(const json_t *endpoint)
{
	const json_t *shown_by = json_object_get(endpoint, "shown_by");
	json_t *origins = json_object_get(endpoint, "origins");
	const char *field;
	const json_t *source;
	char text[512] = "";
	size_t used = 0;

	section_field(0, "Source", "%s%s", field_text(endpoint, "source"),
			json_is_true(json_object_get(endpoint, "conflict")) ? " (sources disagree)"
									    : "");
	json_object_foreach(origins, field, source) {
		(void) snprintf(text, sizeof(text), "%s from", field);
		section_field(2, text, "%s", json_string_value(source));
	}
	for (size_t i = 0; i < json_array_size(shown_by) && used < sizeof(text); i++)
		used += (size_t) snprintf(text + used, sizeof(text) - used, "%s%s", i ? ", " : "",
				json_string_value(json_array_get(shown_by, i)));
	if (json_array_size(shown_by) > 0)
		section_field(0, "Shown by", "%s", text);
}

static int describe_endpoint(struct ctl *ctl, char *name)
{
	const char *service, *id;
	char state[ENDPOINT_STATE_MAX], authority[USHER_AUTHORITY_MAX];
	cleanup(json_decrefp) json_t *answer = NULL;
	const json_t *left_out;
	json_t *endpoint;
	int r;

	r = ctl_split_target(ctl, name, &service, &id);
	if (r == EXIT_DONE)
		r = get_endpoints(ctl, service, id, &answer);
	if (r != EXIT_DONE)
		return r;
	endpoint = json_array_get(json_object_get(answer, "endpoints"), 0);
	if (output_is_data(ctl))
		return output_data(ctl, endpoint);
	left_out = json_object_get(endpoint, "left_out");
	section_field(0, "Endpoint", "%s", field_text(endpoint, "id"));
	section_field(0, "Service", "%s", field_text(answer, "service"));
	section_field(0, "UID", "%s", field_text(endpoint, "uid"));
	section_field(0, "Address", "%s", endpoint_authority(endpoint, authority));
	section_value(0, "secure", json_object_get(endpoint, "secure"));
	section_field(0, "Zone", "%s", field_text(endpoint, "zone"));
	describe_weight(endpoint);
	section_state(ctl, 0, "State", endpoint_state(endpoint, state));
	if (json_is_object(left_out))
		section_field(0, "Left out", "%s: %s", field_text(left_out, "stage"),
				field_text(left_out, "reason"));
	health_describe(ctl, json_object_get(endpoint, "health"));
	describe_origin(endpoint);
	section_value(0, "conditions", json_object_get(endpoint, "conditions"));
	(void) printf("Metadata:%s\n",
			json_object_size(json_object_get(endpoint, "metadata")) ? ""
										: "          none");
	section_labels(2, json_object_get(endpoint, "metadata"));
	return EXIT_DONE;
}

/* The one of a list with this name. */
static int find_named(struct ctl *ctl, const struct kind *kind, const char *name, json_t **ret)
{
	cleanup(json_decrefp) json_t *answer = NULL;
	const json_t *list;
	int r;

	r = ctl_get(ctl, kind->path, &answer);
	if (r != EXIT_DONE)
		return r;
	list = json_object_get(answer, kind->list);
	for (size_t i = 0; i < json_array_size(list); i++) {
		json_t *item = json_array_get(list, i);

		if (strcmp(field_text(item, kind->key), name) != 0)
			continue;
		*ret = json_incref(item);
		return EXIT_DONE;
	}
	return ctl_fail(EXIT_NOT_FOUND, "there is no %s \"%s\"", kind->singular, name);
}

/* " (2 live, 1 failed)"; empty: there are none. */
static const char *services_by_state(const json_t *source, char *ret, size_t size)
{
	json_t *services = json_object_get(source, "services");
	const char *state, *comma = " (";
	const json_t *count;
	size_t used = 0;

	ret[0] = '\0';
	json_object_foreach(services, state, count) {
		if (json_integer_value(count) == 0 || used >= size)
			continue;
		used += (size_t) snprintf(ret + used, size - used, "%s%" JSON_INTEGER_FORMAT " %s",
				comma, json_integer_value(count), state);
		comma = ", ";
	}
	if (used > 0 && used < size)
		(void) snprintf(ret + used, size - used, ")");
	return ret;
}

static void describe_source(const struct ctl *ctl, const json_t *source)
{
	const char *remedy = json_string_value(json_object_get(source, "remedy"));
	char age[HUMAN_TEXT_MAX], states[128];

	section_field(0, "Source", "%s", field_text(source, "name"));
	section_field(0, "Plugin", "%s", field_text(source, "plugin"));
	section_state(ctl, 0, "State", field_text(source, "state"));
	section_value(0, "running", json_object_get(source, "running"));
	section_field(0, "Last contact", "%s",
			human_age(field_msec(source, "last_contact_ms"), age));
	section_field(0, "Last change", "%s", human_age(field_msec(source, "last_change_ms"), age));
	section_field(0, "Wanted", "%" PRIu64 " services%s", field_number(source, "wanted"),
			services_by_state(source, states, sizeof(states)));
	section_field(0, "Known", "%" PRIu64 " services", field_number(source, "known"));
	section_field(0, "Restarts", "%" PRIu64, field_number(source, "restarts"));
	section_field(0, "Error", "%s", field_text(source, "error"));
	if (remedy)
		section_field(0, "What to do", "%s", remedy);
}

static const struct column option_columns[] = { { "OPTION" }, { "TYPE" }, { "REQUIRED" },
	{ "DEFAULT" }, { "MEANING" }, {} };

static void describe_option(struct table *table, const json_t *option)
{
	const json_t *choices = json_object_get(option, "choices");
	char type[512];

	(void) snprintf(type, sizeof(type), "%s",
			json_array_size(choices) > 0 ? "" : field_text(option, "type"));
	for (size_t i = 0; i < json_array_size(choices); i++)
		(void) snprintf(type + strlen(type), sizeof(type) - strlen(type), "%s%s",
				i > 0 ? "|" : "", json_string_value(json_array_get(choices, i)));
	table_row(table);
	table_cell(table, 0, "%s", field_text(option, "name"));
	table_cell(table, 1, "%s", type);
	table_cell(table, 2, "%s",
			json_is_true(json_object_get(option, "required")) ? "yes" : "no");
	table_cell(table, 3, "%s", field_text(option, "default"));
	table_cell(table, 4, "%s", field_text(option, "help"));
}

static int describe_plugin(const struct ctl *ctl, const json_t *plugin)
{
	cleanup(table_freep) struct table *table = table_new(ctl, option_columns);
	const json_t *options = json_object_get(plugin, "options");

	section_field(0, "Plugin", "%s", field_text(plugin, "name"));
	section_field(0, "Summary", "%s", field_text(plugin, "summary"));
	section_field(0, "Version", "%s", field_text(plugin, "version"));
	section_field(0, "ABI", "%s", field_text(plugin, "abi"));
	section_field(0, "Path", "%s", field_text(plugin, "path"));
	section_value(0, "loaded", json_object_get(plugin, "loaded"));
	if (json_is_string(json_object_get(plugin, "refusal")))
		section_field(0, "Refused", "%s", field_text(plugin, "refusal"));
	if (json_is_array(json_object_get(plugin, "facets")))
		section_value(0, "facets", json_object_get(plugin, "facets"));
	if (json_array_size(options) == 0) {
		section_field(0, "Options", "none");
		return EXIT_DONE;
	}
	section_field(0, "Options", "%s", "");
	for (size_t i = 0; table && i < json_array_size(options); i++)
		describe_option(table, json_array_get(options, i));
	return table_print(table, stdout, "  ");
}

static int describe_drain(struct ctl *ctl, char *name)
{
	cleanup(json_decrefp) json_t *record = NULL;
	int r;

	r = record_find(ctl, name, false, &record);
	if (r != EXIT_DONE)
		return r;
	if (output_is_data(ctl))
		return output_data(ctl, record);
	record_describe(ctl, record);
	return EXIT_DONE;
}

static const struct column registry_columns[] = { { "REGISTRY" }, { "NAME" }, { "STATE" },
	{ "TOLD", .right = true }, { "RENEWED", .right = true }, { "NEXT", .right = true },
	{ "FAILURES", .right = true }, { "ERROR" }, {} };

static void describe_registry(struct table *table, const json_t *place)
{
	const char *state = field_text(place, "state");
	uint64_t waiting_msec = field_msec(place, "waiting_ms");
	char age[HUMAN_TEXT_MAX];

	table_row(table);
	table_cell(table, 0, "%s", field_text(place, "source"));
	table_cell(table, 1, "%s", field_text(place, "name"));
	table_cell(table, 2, "%s", state);
	table_tint(table, 2, tint_of(state));
	table_cell(table, 3, "%s", human_age(field_msec(place, "told_ms"), age));
	table_cell(table, 4, "%s", human_age(field_msec(place, "renewed_ms"), age));
	table_cell(table, 5, "%s", human_age(field_msec(place, "next_ms"), age));
	if (waiting_msec != UINT64_MAX)
		table_cell(table, 5, "asked %s ago", human_elapsed(waiting_msec, age));
	table_cell(table, 6, "%" PRIu64, field_number(place, "failures"));
	table_cell(table, 7, "%s", field_text(place, "error"));
}

static int describe_registries(const struct ctl *ctl, const json_t *list)
{
	cleanup(table_freep) struct table *table = table_new(ctl, registry_columns);

	if (json_array_size(list) == 0) {
		section_field(0, "Registries", "none");
		return EXIT_DONE;
	}
	section_field(0, "Registries", "%s", "");
	for (size_t i = 0; table && i < json_array_size(list); i++)
		describe_registry(table, json_array_get(list, i));
	return table_print(table, stdout, "  ");
}

static void describe_instance(const json_t *endpoint)
{
	json_t *metadata = json_object_get(endpoint, "metadata");
	char authority[USHER_AUTHORITY_MAX];

	if (!json_is_object(endpoint)) {
		section_field(0, "Address", "-");
		return;
	}
	section_field(0, "Address", "%s", endpoint_authority(endpoint, authority));
	section_value(0, "secure", json_object_get(endpoint, "secure"));
	section_field(0, "Zone", "%s", field_text(endpoint, "zone"));
	section_field(0, "Weight", "%" PRIu64, field_number(endpoint, "weight"));
	if (json_object_size(metadata) == 0)
		return;
	(void) printf("Metadata:\n");
	section_labels(2, metadata);
}

static int describe_registration(struct ctl *ctl, char *name)
{
	cleanup(json_decrefp) json_t *answer = NULL;
	autofree char *path = NULL;
	const char *service, *id;
	char age[HUMAN_TEXT_MAX];
	int r = ctl_split_target(ctl, name, &service, &id);

	if (r != EXIT_DONE)
		return r;
	path = ctl_path("/v1/registrations/%s/%s", service, id);
	r = ctl_get(ctl, path, &answer);
	if (r != EXIT_DONE)
		return r;
	if (output_is_data(ctl))
		return output_data(ctl, answer);
	section_field(0, "Registration", "%s", field_text(answer, "id"));
	section_field(0, "Service", "%s", field_text(answer, "service"));
	section_state(ctl, 0, "State", field_text(answer, "state"));
	section_field(0, "Since", "%s", human_age(field_msec(answer, "since_ms"), age));
	section_field(0, "Why", "%s", field_text(answer, "why"));
	section_field(0, "Origin", "%s", field_text(answer, "origin"));
	section_field(0, "By", "%s", field_text(answer, "requested_by"));
	describe_instance(json_object_get(answer, "endpoint"));
	health_describe(ctl, json_object_get(answer, "health"));
	section_field(0, "On unhealthy", "%s", field_text(answer, "on_unhealthy"));
	section_field(0, "On stop", "%s", field_text(answer, "on_stop"));
	return describe_registries(ctl, json_object_get(answer, "registries"));
}

static int describe_listed(struct ctl *ctl, const struct kind *kind, const char *name)
{
	cleanup(json_decrefp) json_t *item = NULL;
	int r;

	r = find_named(ctl, kind, name, &item);
	if (r != EXIT_DONE)
		return r;
	if (output_is_data(ctl))
		return output_data(ctl, item);
	if (kind->id == KIND_PLUGIN)
		return describe_plugin(ctl, item);
	if (kind->id == KIND_SOURCE)
		describe_source(ctl, item);
	else
		section_value(0, kind->singular, item);
	return EXIT_DONE;
}

static int describe_one(struct ctl *ctl, const struct kind *kind, char *name)
{
	switch (kind->id) {
	case KIND_SERVICE:
		return describe_service(ctl, name);
	case KIND_ENDPOINT:
		return describe_endpoint(ctl, name);
	case KIND_DRAIN:
		return describe_drain(ctl, name);
	case KIND_REGISTRATION:
		return describe_registration(ctl, name);
	case KIND_SOURCE:
	case KIND_CONSUMER:
	case KIND_PLUGIN:
		return describe_listed(ctl, kind, name);
	}
	return EXIT_USAGE;
}

int verb_describe(struct ctl *ctl)
{
	const struct kind *kind = kind_find(ctl, ctl->arguments[0]);
	int r = EXIT_DONE;

	if (!kind)
		return EXIT_USAGE;
	for (size_t i = 1; i < ctl->count; i++) {
		int one;

		if (i > 1 && !output_is_data(ctl))
			(void) printf("\n\n");
		one = describe_one(ctl, kind, ctl->arguments[i]);
		if (one != EXIT_DONE)
			r = one;
	}
	return r;
}
