/* The reference for people, from the tables that the loader reads by. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "config-tables.h"
#include "config.h"
#include "ownership.h"
#include "text.h"

#define KEY_MAX 128

static void add_words(struct text *text, const char *const *words)
{
	for (size_t i = 0; words[i]; i++)
		text_add_format(text, "%s`%s`",
				i == 0                         ? ""
						: words[i + 1] ? ", "
							       : " or ",
				words[i]);
}

static void add_duration_range(struct text *text, const struct config_row *row)
{
	char min[USHER_DURATION_TEXT_MAX], max[USHER_DURATION_TEXT_MAX];

	text_add_format(text, "duration, %s to %s", usher_duration_format(row->min, min),
			usher_duration_format(row->max, max));
}

static void add_form(struct text *text, const struct config_form *form)
{
	static const char *const words[][2] = {
		{ "options", "map" },
		{ "select", "NAME or {NAME: OPTIONS}" },
		{ "feeds", "list of SOURCE or {source, name, port, decides}" },
		{ "registries", "list of SOURCE or {source, name, port}" },
		{ "decides", "list of `secure`, `zone`, `weight`, `conditions`, `admin_state`, `metadata`" },
		{ "chain", "list of NAME, {NAME: OPTIONS} or {NAME: [RULES]}" },
		{ "from", "list of `tcp` and `consumers`" },
		{ "hook", "`none` or a hook" },
		{ "command", "list of texts" },
		{ "url", "URL" },
		{ "unit", "name of a unit" },
		{ "url_path", "path of a URL" },
		{ "boolean", "`true` or `false`" },
		{ "bytes", "text" },
		{ "host", "name or address" },
		{ "initial", "`unknown`, `up` or `down`" },
		{ "match", "a match" },
		{ "pointer", "JSON pointer" },
		{ "statuses", "list of statuses and ranges" },
		{ "id", "text with placeholders" },
		{ "address", "IP address or host name" },
		{ "labels", "map of texts" },
		{ "patterns", "list of patterns, such as `eth*`" },
		{ "networks", "list of networks, such as `10.0.0.0/8`" },
	};

	for (size_t i = 0; i < ELEMENTS(words); i++)
		if (strcmp(form->definition, words[i][0]) == 0)
			text_add_string(text, words[i][1]);
}

static void add_type(struct text *text, const struct config_row *row)
{
	static const char *const words[] = {
		[ROW_TEXT] = "text",
		[ROW_NAME] = "name",
		[ROW_PATH] = "absolute path",
		[ROW_SOCKET] = "absolute path, at most 107 bytes",
		[ROW_LISTEN] = "ADDRESS:PORT",
		[ROW_MODE] = "mode in octal",
		[ROW_BOOL] = "`true` or `false`",
		[ROW_PORT] = "port, 1 to 65535",
		[ROW_SHARE] = "share, 0% to 100%",
		[ROW_PATHS] = "list of absolute paths",
		[ROW_TABLE] = "map",
		[ROW_ITEMS] = NULL,
	};

	if (row->type == ROW_FORM)
		add_form(text, row->form);
	else if (row->none)
		text_add_string(text, "`none` or a map");
	else if (row->choices)
		add_words(text, row->choices);
	else if (row->type == ROW_DURATION)
		add_duration_range(text, row);
	else if (row->type == ROW_COUNT)
		text_add_format(text, "whole number, %" PRIu64 " to %" PRIu64, row->min, row->max);
	else
		text_add_string(text, words[row->type]);
}

static void add_default(struct text *text, const struct config_row *row)
{
	if (row->default_text)
		text_add_format(text, "`%s`", row->default_text);
	else if (row->required)
		text_add_string(text, "required");
}

static void add_table_row(struct text *text, const char *key, const struct config_row *row)
{
	text_add_format(text, "| `%s` | ", key);
	add_type(text, row);
	text_add_string(text, " | ");
	add_default(text, row);
	text_add_format(text, " | %s |\n", row->help);
}

/* A definition list, as pandoc has it. */
static void add_definition(struct text *text, const char *key, const struct config_row *row)
{
	text_add_format(text, "**%s**: ", key);
	add_type(text, row);
	if (row->default_text || row->required) {
		text_add_string(text, row->required ? "; " : "; default ");
		add_default(text, row);
	}
	text_add_format(text, "\n:   %s\n\n", row->help);
}

static void add_key(struct text *text, enum config_reference_style style, const char *key,
		const struct config_row *row)
{
	if (style == CONFIG_REFERENCE_TABLE)
		add_table_row(text, key, row);
	else
		add_definition(text, key, row);
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the tables */
static void add_rows(struct text *text, enum config_reference_style style, const char *prefix,
		const struct config_row *rows)
{
	for (; rows->key; rows++) {
		char key[KEY_MAX];

		(void) snprintf(key, sizeof(key), "%s%s", prefix, rows->key);
		if (rows->type == ROW_ITEMS)
			continue;
		if (rows->type != ROW_TABLE || rows->none || rows->elsewhere)
			add_key(text, style, key, rows);
		if (rows->type == ROW_TABLE && !rows->elsewhere) {
			(void) snprintf(key, sizeof(key), "%s%s.", prefix, rows->key);
			add_rows(text, style, key, rows->table);
		}
	}
}

static void add_section(struct text *text, enum config_reference_style style, const char *title,
		const char *prefix, const struct config_row *rows)
{
	if (style == CONFIG_REFERENCE_TABLE)
		text_add_format(text,
				"### %s\n\n| key | value | default | meaning |\n| --- | --- | --- | --- |\n",
				title);
	else
		text_add_format(text, "## %s\n\n", title);
	add_rows(text, style, prefix, rows);
	if (style == CONFIG_REFERENCE_TABLE)
		text_add_string(text, "\n");
}

/* The rows of a table but those of `defaults`, which are the services' own with `lazy`. */
static void add_top(struct text *text, enum config_reference_style style)
{
	for (const struct config_row *row = config_rows; row->key; row++) {
		const struct config_row alone[] = { *row, {} };
		char title[KEY_MAX];

		if (row->type == ROW_ITEMS || strcmp(row->key, "defaults") == 0)
			continue;
		(void) snprintf(title, sizeof(title), "`%s`", row->key);
		add_section(text, style, title, "", alone);
	}
}

static void add_lazy(struct text *text, enum config_reference_style style)
{
	const struct config_row *defaults = config_rows;

	while (strcmp(defaults->key, "defaults") != 0)
		defaults++;
	for (const struct config_row *row = defaults->table; row->key; row++) {
		const struct config_row alone[] = { *row, {} };

		if (strcmp(row->key, "lazy") == 0)
			add_section(text, style, "Only in `defaults`", "", alone);
	}
}

char *config_reference(enum config_reference_style style)
{
	struct text text = {};

	add_top(&text, style);
	add_section(&text, style, "An item of `sources`", "", config_source_rows);
	add_section(&text, style, "An item of `registrations`", "", config_registration_rows);
	add_section(&text, style, "A service, and `defaults`", "", config_service_rows);
	add_lazy(&text, style);
	add_section(&text, style, "A feed: an item of a service's `sources`", "", config_feed_rows);
	add_section(&text, style, "A match: either `text`, or `pointer` and `value`", "",
			config_match_rows);
	add_section(&text, style, "A hook: one of", "", config_hook_rows);
	return text_take(&text);
}
