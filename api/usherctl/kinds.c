/* The kinds of things, and a row of each one's table. */

#include "kinds.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "directory-answer.h"
#include "health-view.h"
#include "human.h"

static const struct column service_columns[] = { { "SERVICE" }, { "STATE" },
	{ "AGE", .right = true }, { "ENDPOINTS", .right = true }, { "REVISION", .right = true },
	{ "MAX-AGE", .right = true, .wide = true }, { "SOURCE", .wide = true },
	{ "DRAINING", .right = true, .wide = true }, { "CONFLICTS", .right = true, .wide = true },
	{ "DECLARED", .wide = true }, { "HEALTH", .wide = true }, {} };

void table_add_service(struct table *table, const json_t *service)
{
	const json_t *freshness = json_object_get(service, "freshness");
	const json_t *endpoints = json_object_get(service, "endpoints");
	char state[ENDPOINT_STATE_MAX], age[HUMAN_TEXT_MAX], health[HEALTH_TEXT_MAX];

	table_row(table);
	table_cell(table, 0, "%s", field_text(service, "service"));
	table_cell(table, 1, "%s", summary_state(service, state));
	table_tint(table, 1, tint_of(field_text(freshness, "state")));
	table_cell(table, 2, "%s", human_age(field_msec(freshness, "age_ms"), age));
	table_cell(table, 3, "%" PRIu64 "/%" PRIu64, field_number(endpoints, "chosen"),
			field_number(endpoints, "total"));
	table_cell(table, 4, "%" PRIu64, field_number(service, "revision"));
	table_cell(table, 5, "%s", human_age(field_msec(freshness, "max_age_ms"), age));
	table_cell(table, 6, "%s", field_text(freshness, "source"));
	table_cell(table, 7, "%" PRIu64, field_number(endpoints, "draining"));
	table_cell(table, 8, "%" PRIu64, field_number(service, "conflicts"));
	table_cell(table, 9, "%s", json_is_true(json_object_get(service, "eager")) ? "yes" : "no");
	table_cell(table, 10, "%s", health_counts(json_object_get(service, "health"), health));
}

static const struct column source_columns[] = { { "SOURCE" }, { "PLUGIN" }, { "STATE" },
	{ "CONTACT", .right = true }, { "CHANGE", .right = true }, { "WANTED", .right = true },
	{ "KNOWN", .right = true }, { "RESTARTS", .right = true, .wide = true },
	{ "RUNNING", .wide = true }, { "ERROR" }, {} };

static void table_add_source(struct table *table, const json_t *source)
{
	const char *error = json_string_value(json_object_get(source, "error"));
	const char *remedy = json_string_value(json_object_get(source, "remedy"));
	char age[HUMAN_TEXT_MAX];

	table_row(table);
	table_cell(table, 0, "%s", field_text(source, "name"));
	table_cell(table, 1, "%s", field_text(source, "plugin"));
	table_cell(table, 2, "%s", field_text(source, "state"));
	table_tint(table, 2, tint_of(field_text(source, "state")));
	table_cell(table, 3, "%s", human_age(field_msec(source, "last_contact_ms"), age));
	table_cell(table, 4, "%s", human_age(field_msec(source, "last_change_ms"), age));
	table_cell(table, 5, "%" PRIu64, field_number(source, "wanted"));
	table_cell(table, 6, "%" PRIu64, field_number(source, "known"));
	table_cell(table, 7, "%" PRIu64, field_number(source, "restarts"));
	table_cell(table, 8, "%s", json_is_true(json_object_get(source, "running")) ? "yes" : "no");
	table_cell(table, 9, "%s", error ? error : remedy ? remedy : "-");
}

static const struct column consumer_columns[] = { { "CONSUMER" }, { "PID", .right = true },
	{ "UID", .right = true }, { "DOOR" }, { "CONNECTED", .right = true }, { "SERVICE" },
	{ "WATCHING" }, { "READ", .right = true }, { "ACKED", .right = true }, { "BEHIND" },
	{ "SENT", .right = true, .wide = true }, { "ID", .wide = true },
	{ "PROGRAM", .wide = true }, {} };

/* A revision, or whatever else tells how far somebody is. */
void cell_of_value(struct table *table, size_t column, const json_t *value)
{
	if (json_is_integer(value))
		table_cell(table, column, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	else if (json_is_boolean(value))
		table_cell(table, column, "%s", json_is_true(value) ? "yes" : "no");
	else if (json_is_string(value))
		table_cell(table, column, "%s", json_string_value(value));
}

static void table_add_consumer_row(
		struct table *table, const json_t *consumer, const json_t *service)
{
	char age[HUMAN_TEXT_MAX];

	table_row(table);
	table_cell(table, 0, "%s", field_text(consumer, "name"));
	cell_of_value(table, 1, json_object_get(consumer, "pid"));
	cell_of_value(table, 2, json_object_get(consumer, "uid"));
	table_cell(table, 3, "%s", field_text(consumer, "door"));
	table_cell(table, 4, "%s", human_age(field_msec(consumer, "connected_ms"), age));
	table_cell(table, 5, "%s", field_text(service, "service"));
	cell_of_value(table, 6, json_object_get(service, "watching"));
	cell_of_value(table, 7, json_object_get(service, "read"));
	cell_of_value(table, 8, json_object_get(service, "acked"));
	cell_of_value(table, 9, json_object_get(service, "behind"));
	cell_of_value(table, 10, json_object_get(service, "sent"));
	cell_of_value(table, 11, json_object_get(consumer, "id"));
	table_cell(table, 12, "%s", field_text(consumer, "program"));
}

static void table_add_consumer(struct table *table, const json_t *consumer)
{
	const json_t *services = json_object_get(consumer, "services");

	if (json_array_size(services) == 0)
		table_add_consumer_row(table, consumer, NULL);
	for (size_t i = 0; i < json_array_size(services); i++)
		table_add_consumer_row(table, consumer, json_array_get(services, i));
}

static const struct column drain_columns[] = { { "ID" }, { "ENDPOINT" }, { "STATE" }, { "STEP" },
	{ "AGE", .right = true }, { "REASON" }, { "KIND", .wide = true }, { "ORDER", .wide = true },
	{ "REVISION", .right = true, .wide = true }, { "BY", .wide = true },
	{ "FAILURE", .wide = true }, {} };

static void table_add_drain(struct table *table, const json_t *drain)
{
	const char *state = field_text(drain, "state");
	const char *source = json_string_value(json_object_get(drain, "asking_source"));
	const char *reason = json_string_value(json_object_get(drain, "reason"));
	bool forced = json_is_true(json_object_get(drain, "forced"));
	bool partial = json_is_true(json_object_get(drain, "partial"));
	char age[HUMAN_TEXT_MAX];

	table_row(table);
	table_cell(table, 0, "%s", field_text(drain, "id"));
	table_cell(table, 1, "%s/%s", field_text(drain, "service"), field_text(drain, "endpoint"));
	table_cell(table, 2, "%s%s%s%s",
			strcmp(field_text(drain, "kind"), "restore") == 0 ? "restore " : "", state,
			forced ? ", forced" : "", partial ? ", in part" : "");
	table_tint(table, 2, forced || partial ? TINT_WARNING : tint_of(state));
	table_cell(table, 3, "%s", field_text(drain, "step"));
	table_cell(table, 4, "%s", human_age(field_age_msec(drain, "requested_at"), age));
	if (source)
		table_cell(table, 5, "source %s%s%s", source, reason ? ": " : "",
				reason ? reason : "");
	else
		table_cell(table, 5, "%s", field_text(drain, "reason"));
	table_cell(table, 6, "%s", field_text(drain, "kind"));
	table_cell(table, 7, "%s", field_text(drain, "order"));
	cell_of_value(table, 8, json_object_get(drain, "removal_revision"));
	table_cell(table, 9, "%s", field_text(drain, "requested_by"));
	table_cell(table, 10, "%s", field_text(drain, "failure"));
}

static const struct column plugin_columns[] = { { "PLUGIN" }, { "VERSION" }, { "FACETS" },
	{ "LOADED" }, { "SUMMARY" }, { "ABI", .wide = true }, { "PATH", .wide = true }, {} };

static void table_add_plugin(struct table *table, const json_t *plugin)
{
	const json_t *facets = json_object_get(plugin, "facets");
	bool loaded = json_is_true(json_object_get(plugin, "loaded"));
	char text[256] = "";

	for (size_t i = 0; i < json_array_size(facets); i++)
		(void) snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s",
				i > 0 ? "," : "", json_string_value(json_array_get(facets, i)));
	table_row(table);
	table_cell(table, 0, "%s", field_text(plugin, "name"));
	table_cell(table, 1, "%s", field_text(plugin, "version"));
	table_cell(table, 2, "%s", *text ? text : "-");
	table_cell(table, 3, "%s", loaded ? "yes" : "no");
	table_tint(table, 3, loaded ? TINT_GOOD : TINT_BAD);
	table_cell(table, 4, "%s", field_text(plugin, loaded ? "summary" : "refusal"));
	table_cell(table, 5, "%s", field_text(plugin, "abi"));
	table_cell(table, 6, "%s", field_text(plugin, "path"));
}

static const struct column registration_columns[] = { { "REGISTRATION" }, { "STATE" },
	{ "ADDRESS" }, { "REGISTRIES" }, { "SINCE", .right = true }, { "WHY" },
	{ "ORIGIN", .wide = true }, { "HEALTH", .wide = true }, { "ON-UNHEALTHY", .wide = true },
	{ "ON-STOP", .wide = true }, { "BY", .wide = true }, {} };

/* "consul, files (failing)" */
static void add_registries(const json_t *registration, char *text, size_t size)
{
	const json_t *list = json_object_get(registration, "registries");
	const char *whole = field_text(registration, "state");

	text[0] = '\0';
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *place = json_array_get(list, i);
		const char *state = field_text(place, "state");
		bool same = strcmp(state, whole) == 0;
		size_t used = strlen(text);

		(void) snprintf(text + used, size - used, "%s%s%s%s%s", i > 0 ? ", " : "",
				field_text(place, "source"), same ? "" : " (", same ? "" : state,
				same ? "" : ")");
	}
}

static void table_add_registration(struct table *table, const json_t *registration)
{
	json_t *endpoint = json_object_get(registration, "endpoint");
	char text[512], authority[USHER_AUTHORITY_MAX];

	table_row(table);
	table_cell(table, 0, "%s/%s", field_text(registration, "service"),
			field_text(registration, "id"));
	table_cell(table, 1, "%s", field_text(registration, "state"));
	table_tint(table, 1, tint_of(field_text(registration, "state")));
	if (json_is_object(endpoint))
		table_cell(table, 2, "%s", endpoint_authority(endpoint, authority));
	add_registries(registration, text, sizeof(text));
	table_cell(table, 3, "%s", *text ? text : "-");
	table_cell(table, 4, "%s", human_age(field_msec(registration, "since_ms"), text));
	table_cell(table, 5, "%s", field_text(registration, "why"));
	table_cell(table, 6, "%s", field_text(registration, "origin"));
	table_cell(table, 7, "%s", field_text(json_object_get(registration, "health"), "state"));
	table_cell(table, 8, "%s", field_text(registration, "on_unhealthy"));
	table_cell(table, 9, "%s", field_text(registration, "on_stop"));
	table_cell(table, 10, "%s", field_text(registration, "requested_by"));
}

const struct kind kinds[] = {
	{ KIND_SERVICE, "services", "service", "/v1/services", "services", "service",
			service_columns, table_add_service },
	{ KIND_ENDPOINT, "endpoints", "endpoint", NULL, "endpoints", "id", NULL, NULL },
	{ KIND_SOURCE, "sources", "source", "/v1/sources", "sources", "name", source_columns,
			table_add_source },
	{ KIND_CONSUMER, "consumers", "consumer", "/v1/consumers", "consumers", "name",
			consumer_columns, table_add_consumer },
	{ KIND_DRAIN, "drains", "drain", "/v1/drains", "drains", "id", drain_columns,
			table_add_drain },
	{ KIND_PLUGIN, "plugins", "plugin", "/v1/plugins", "plugins", "name", plugin_columns,
			table_add_plugin },
	{ KIND_REGISTRATION, "registrations", "registration", "/v1/registrations", "registrations",
			"id", registration_columns, table_add_registration },
	{ 0 },
};

const struct kind *kind_find(const struct ctl *ctl, const char *name)
{
	const char *words[16] = {};
	const char *near;
	size_t count = 0;

	for (const struct kind *kind = kinds; kind->plural; kind++) {
		if (strcmp(kind->plural, name) == 0 || strcmp(kind->singular, name) == 0)
			return kind;
		words[count++] = kind->plural;
	}
	near = usher_nearest_word(name, words);
	if (near)
		(void) ctl_usage(ctl, "\"%s\" is no kind of thing; did you mean \"%s\"?", name,
				near);
	else
		(void) ctl_usage(ctl,
				"\"%s\" is no kind of thing: services, endpoints, sources, consumers, drains, plugins or registrations",
				name);
	return NULL;
}
