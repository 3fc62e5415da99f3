/* The JSON schema of the file, from the tables that the loader reads by: what an editor accepts is
 * what usherd accepts, but for what takes more than one value to judge.
 *
 * Every function gives a new reference, or NULL when out of memory; jansson's packing and setting
 * pass a NULL member up. */

#include <string.h>

#include <jansson.h>

#include "config-tables.h"
#include "config.h"
#include "defaults.h"
#include "ownership.h"
#include "registration-config.h"

/* What the types and forms look like that no table describes. */
static const char definitions[] =
		"{\"text\": {\"type\": [\"string\", \"integer\"], \"minLength\": 1},"
		" \"name\": {\"type\": [\"string\", \"integer\"], \"pattern\": \"^[^/ ]+$\", \"maxLength\": 253},"
		" \"path\": {\"type\": \"string\", \"pattern\": \"^/\"},"
		" \"socket\": {\"type\": \"string\", \"pattern\": \"^/\", \"maxLength\": 107},"
		" \"listen\": {\"type\": \"string\", \"pattern\": \"^([0-9.]+|\\\\[[0-9A-Fa-f:.]+\\\\]):[0-9]{1,5}$\"},"
		" \"mode\": {\"type\": \"string\", \"pattern\": \"^0?[0-7]{3}$\"},"
		" \"port\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 65535},"
		" \"duration\": {\"anyOf\": [{\"const\": 0}, {\"type\": \"string\", \"pattern\":"
		"  \"^(0|([0-9]{1,18}(\\\\.[0-9]{1,9})?(us|ms|s|m|h|d))+)$\"}]},"
		" \"share\": {\"type\": \"string\", \"pattern\": \"^[0-9]{1,18}(\\\\.[0-9]{1,9})?%$\"},"
		" \"options\": {\"type\": [\"object\", \"null\"]},"
		" \"select\": {\"anyOf\": [{\"$ref\": \"#/$defs/name\"}, {\"type\": \"object\","
		"  \"minProperties\": 1, \"maxProperties\": 1, \"additionalProperties\": {\"$ref\": \"#/$defs/options\"}}]},"
		" \"when\": {\"type\": \"object\", \"minProperties\": 1, \"maxProperties\": 16, \"additionalProperties\": false,"
		"  \"patternProperties\": {\"^(hint|version|sticky|key|consumer|header\\\\..+)$\": {\"$ref\": \"#/$defs/text\"}},"
		"  \"description\": \"What a request must say for the rule to apply: each key `present`, `absent` or this text.\"},"
		" \"rule\": {\"type\": \"object\","
		"   \"properties\": {\"on_empty\": {\"enum\": [\"pass\", \"fail\", \"next\", \"all\", \"none\"],"
		"    \"description\": \"What happens when no candidate would stay: pass (all) goes on with all of them, fail (none) gives none, next tries the next rule; when absent, as the stage has it.\"},"
		"    \"when\": {\"$ref\": \"#/$defs/when\"}}},"
		" \"stage\": {\"anyOf\": [{\"$ref\": \"#/$defs/name\"}, {\"type\": \"object\","
		"  \"minProperties\": 1, \"maxProperties\": 1, \"additionalProperties\": {\"anyOf\": ["
		"   {\"type\": \"null\"}, {\"$ref\": \"#/$defs/rule\"},"
		"   {\"type\": \"array\", \"minItems\": 1, \"maxItems\": 16, \"items\": {\"$ref\": \"#/$defs/rule\"}}]}}]},"
		" \"decides\": {\"type\": \"array\", \"items\": {\"enum\": [\"secure\", \"zone\", \"weight\", \"conditions\","
		"  \"admin_state\", \"metadata\"]}},"
		" \"from\": {\"type\": \"array\", \"minItems\": 1, \"items\": {\"enum\": [\"tcp\", \"consumers\"]}},"
		" \"command\": {\"type\": \"array\", \"minItems\": 1, \"maxItems\": 256,"
		"  \"prefixItems\": [{\"$ref\": \"#/$defs/path\"}], \"items\": {\"$ref\": \"#/$defs/text\"}},"
		" \"url\": {\"type\": \"string\", \"pattern\": \"^https?://\"},"
		" \"unit\": {\"type\": \"string\", \"pattern\": \"\\\\.\"},"
		" \"url_path\": {\"type\": \"string\", \"pattern\": \"^/[!-~]*$\", \"not\": {\"pattern\": \"#\"}},"
		" \"id\": {\"type\": [\"string\", \"integer\"], \"pattern\": \"^[^/ ]+$\"},"
		" \"address\": {\"type\": \"string\", \"pattern\": \"^[^/ ]+$\"},"
		" \"labels\": {\"type\": [\"object\", \"null\"], \"maxProperties\": 128,"
		"  \"additionalProperties\": {\"type\": [\"string\", \"number\", \"boolean\"]}},"
		" \"patterns\": {\"type\": \"array\", \"maxItems\": 64, \"items\": {\"$ref\": \"#/$defs/text\"}},"
		" \"networks\": {\"type\": \"array\", \"maxItems\": 64, \"items\": {\"type\": \"string\","
		"  \"pattern\": \"^(private|[0-9.]+(/[0-9]{1,2})?|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(/[0-9]{1,3})?)$\"}},"
		" \"boolean\": {\"type\": \"boolean\"},"
		" \"bytes\": {\"type\": [\"string\", \"number\", \"boolean\"], \"minLength\": 1},"
		" \"host\": {\"type\": \"string\", \"pattern\": \"^[!-~]+$\"},"
		" \"initial\": {\"enum\": [\"unknown\", \"up\", \"down\"]},"
		" \"pointer\": {\"type\": \"string\", \"pattern\": \"^/([^~]|~[01])*$\"},"
		" \"status\": {\"anyOf\": [{\"type\": \"integer\", \"minimum\": 100, \"maximum\": 599},"
		"  {\"type\": \"string\", \"pattern\": \"^[1-5][0-9][0-9](-[1-5][0-9][0-9])?$\"}]},"
		" \"statuses\": {\"anyOf\": [{\"$ref\": \"#/$defs/status\"}, {\"type\": \"array\", \"minItems\": 1,"
		"  \"maxItems\": 64, \"items\": {\"$ref\": \"#/$defs/status\"}}]}}";

static json_t *reference_to(const char *definition)
{
	return json_pack("{s:s++}", "$ref", "#/$defs/", definition, "");
}

/* The definition that says everything about a row's type, or NULL. */
static const char *definition_of(const struct config_row *row)
{
	static const char *const by_type[] = {
		[ROW_TEXT] = "text",
		[ROW_NAME] = "name",
		[ROW_PATH] = "path",
		[ROW_SOCKET] = "socket",
		[ROW_LISTEN] = "listen",
		[ROW_MODE] = "mode",
		[ROW_PORT] = "port",
		[ROW_DURATION] = "duration",
		[ROW_SHARE] = "share",
		[ROW_ITEMS] = NULL,
	};

	return row->type == ROW_FORM ? row->form->definition : by_type[row->type];
}

static json_t *schema_of_words(const char *const *words)
{
	json_t *list = json_array();

	for (size_t i = 0; words[i]; i++)
		if (json_array_append_new(list, json_string(words[i])) < 0)
			break;
	return json_pack("{s:o}", "enum", list);
}

static json_t *schema_of_table(const struct config_row *rows);

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the tables */
static json_t *schema_of_items(const struct config_row *row)
{
	if (row->table != config_service_rows)
		return json_pack("{s:[s, s], s:i, s:o}", "type", "array", "null", "maxItems",
				row->table == config_source_rows ? CONFIG_SOURCES_MAX
								 : CONFIG_REGISTRATIONS_MAX,
				"items", schema_of_table(row->table));
	return json_pack("{s:[s, s], s:i, s:o, s:o}", "type", "object", "null", "maxProperties",
			CONFIG_SERVICES_MAX, "propertyNames", reference_to("name"),
			"additionalProperties", schema_of_table(row->table));
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the tables */
static json_t *schema_of_value(const struct config_row *row)
{
	const char *definition = definition_of(row);

	if (definition)
		return reference_to(definition);
	switch (row->type) {
	case ROW_WORD:
	case ROW_CHOICE:
		return schema_of_words(row->choices);
	case ROW_BOOL:
		return json_pack("{s:s}", "type", "boolean");
	case ROW_COUNT:
		return json_pack("{s:s, s:I, s:I}", "type", "integer", "minimum",
				(json_int_t) row->min, "maximum", (json_int_t) row->max);
	case ROW_PATHS:
		return json_pack("{s:s, s:i, s:o}", "type", "array", "minItems", 1, "items",
				reference_to("path"));
	case ROW_ITEMS:
		return schema_of_items(row);
	case ROW_TABLE:
		if (row->none)
			return json_pack("{s:[{s:s}, o]}", "anyOf", "const", "none",
					schema_of_table(row->table));
		break;
	case ROW_TEXT:
	case ROW_NAME:
	case ROW_PATH:
	case ROW_SOCKET:
	case ROW_LISTEN:
	case ROW_MODE:
	case ROW_PORT:
	case ROW_DURATION:
	case ROW_SHARE:
	case ROW_FORM:
		break;
	}
	return schema_of_table(row->table);
}

/* NOLINTNEXTLINE(misc-no-recursion): lists in lists, as the default texts have them */
static json_t *json_of_node(const struct usher_node *n)
{
	json_t *list;
	bool flag;
	int64_t number;

	if (usher_node_kind(n) == USHER_NODE_LIST) {
		list = json_array();
		for (size_t i = 0; i < usher_node_count(n); i++)
			if (json_array_append_new(list, json_of_node(usher_node_at(n, i))) < 0)
				break;
		return list;
	}
	if (usher_node_bool(n, &flag, NULL) >= 0)
		return json_boolean(flag);
	if (usher_node_integer(n, INT64_MIN, INT64_MAX, &number, NULL) >= 0)
		return json_integer(number);
	return json_string(usher_node_text(n));
}

static int add_default(const struct config_row *row, json_t *schema)
{
	cleanup(usher_document_unrefp) struct usher_document *document = NULL;

	if (!row->default_text)
		return 0;
	if (usher_document_parse("default", row->default_text, strlen(row->default_text), &document,
			    NULL) < 0)
		return -1;
	return json_object_set_new(schema, "default", json_of_node(usher_document_root(document)));
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the tables */
static json_t *schema_of_row(const struct config_row *row)
{
	json_t *schema = schema_of_value(row);

	if (!schema)
		return NULL;
	if (json_object_set_new(schema, "description", json_string(row->help)) < 0 ||
			add_default(row, schema) < 0) {
		json_decref(schema);
		return NULL;
	}
	return schema;
}

static json_t *required_keys(const struct config_row *rows)
{
	json_t *keys = json_array();

	for (; rows->key; rows++)
		if (rows->required && json_array_append_new(keys, json_string(rows->key)) < 0)
			break;
	return keys;
}

/* That none of the other kinds stands beside this one. */
static json_t *schema_beside_kind(const struct config_row *rows, const struct config_row *kind)
{
	json_t *others = json_object();

	for (; rows->key; rows++)
		if (rows->kind && rows != kind &&
				json_object_set_new(others, rows->key, json_false()) < 0)
			break;
	return json_pack("{s:o}", "properties", others);
}

/* What holds for a map of the table beside its properties; empty but for tables with kinds. */
static json_t *schema_of_kinds(const struct config_row *rows)
{
	json_t *kinds = json_object();

	for (const struct config_row *row = rows; row->key; row++)
		if (row->kind &&
				json_object_set_new(kinds, row->key,
						schema_beside_kind(rows, row)) < 0) {
			json_decref(kinds);
			return NULL;
		}
	if (json_object_size(kinds) > 0)
		return json_pack("{s:o}", "dependentSchemas", kinds);
	return kinds;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the tables */
static json_t *schema_of_table(const struct config_row *rows)
{
	json_t *properties = json_object(), *required = required_keys(rows), *schema;
	json_t *kinds;

	for (const struct config_row *row = rows; row->key; row++)
		if (json_object_set_new(properties, row->key, schema_of_row(row)) < 0) {
			json_decref(properties);
			json_decref(required);
			return NULL;
		}
	if (json_array_size(required) > 0)
		return json_pack("{s:s, s:b, s:o, s:o}", "type", "object", "additionalProperties",
				0, "required", required, "properties", properties);
	schema = json_pack("{s:[s, s], s:b, s:o}", "type", "object", "null", "additionalProperties",
			0, "properties", properties);
	json_decref(required);
	kinds = schema_of_kinds(rows);
	if (json_object_update(schema, kinds) < 0) {
		json_decref(schema);
		schema = NULL;
	}
	json_decref(kinds);
	return schema;
}

/* Either the text, or both of the others. */
static json_t *match_definition(void)
{
	json_t *schema = schema_of_table(config_match_rows);
	json_t *ways = json_pack("{s:s, s:[{s:[s], s:i}, {s:[s, s], s:i}]}", "type", "object",
			"oneOf", "required", "text", "maxProperties", 1, "required", "pointer",
			"value", "maxProperties", 2);

	if (json_object_update(schema, ways) < 0) {
		json_decref(schema);
		schema = NULL;
	}
	json_decref(ways);
	return schema;
}

static json_t *feeds_definition(const struct config_row *rows)
{
	return json_pack("{s:s, s:i, s:i, s:{s:[o, o]}}", "type", "array", "minItems", 1,
			"maxItems", CONFIG_FEEDS_MAX, "items", "anyOf", reference_to("name"),
			schema_of_table(rows));
}

static json_t *chain_definition(void)
{
	return json_pack("{s:s, s:i, s:o}", "type", "array", "maxItems", CONFIG_STAGES_MAX, "items",
			reference_to("stage"));
}

/* One kind: what its first row takes, or all of its rows. */
static json_t *hook_kind(const struct config_row *row)
{
	return json_pack("{s:[o, o], s:s}", "anyOf", schema_of_value(&row->table[0]),
			schema_of_table(row->table), "description", row->help);
}

static json_t *hook_definition(void)
{
	json_t *kinds = json_object();

	for (const struct config_row *row = config_hook_rows; row->key; row++)
		if (json_object_set_new(kinds, row->key, hook_kind(row)) < 0) {
			json_decref(kinds);
			return NULL;
		}
	return json_pack("{s:[{s:s}, {s:s, s:i, s:i, s:b, s:o}]}", "anyOf", "const", "none", "type",
			"object", "minProperties", 1, "maxProperties", 1, "additionalProperties", 0,
			"properties", kinds);
}

static json_t *all_definitions(void)
{
	json_t *all = json_loads(definitions, 0, NULL);

	if (!all || json_object_set_new(all, "feeds", feeds_definition(config_feed_rows)) < 0 ||
			json_object_set_new(all, "registries",
					feeds_definition(config_registry_rows)) < 0 ||
			json_object_set_new(all, "chain", chain_definition()) < 0 ||
			json_object_set_new(all, "match", match_definition()) < 0 ||
			json_object_set_new(all, "hook", hook_definition()) < 0) {
		json_decref(all);
		return NULL;
	}
	return all;
}

char *config_schema(void)
{
	json_t *schema = json_pack("{s:s, s:s, s:s}", "$schema",
			"https://json-schema.org/draft/2020-12/schema", "title", "usher.yaml",
			"description", "The configuration of usherd.");
	json_t *table = schema_of_table(config_rows);
	char *text = NULL;

	if (json_object_update(schema, table) == 0 &&
			json_object_set_new(schema, "$defs", all_definitions()) == 0)
		text = json_dumps(schema, JSON_INDENT(2));
	json_decref(table);
	json_decref(schema);
	return text;
}
