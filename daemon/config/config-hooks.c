/* Hooks: a command, a URL or a systemd unit, in a short form and a long one. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config-forms.h"
#include "config-tables.h"
#include "defaults.h"
#include "ownership.h"
#include "place.h"
#include "table-values.h"

#define PLACEHOLDER_MAX 32 /* bytes of a word that may be a misspelt placeholder */

/* ---- texts with placeholders ---- */

/* A word in braces that nearly is a placeholder is a slip; any other text in braces is the
 * command's own affair. */
static int check_placeholders(
		const struct usher_node *n, const char *text, struct usher_error *reterr)
{
	static const char *const words[] = { "id", "address", "port", "service", "uid", "zone",
		"ready", NULL };
	const char *open = text;

	while ((open = strchr(open, '{'))) {
		size_t length = strspn(++open, "abcdefghijklmnopqrstuvwxyz_");
		char word[PLACEHOLDER_MAX];
		const char *nearest;

		if (length == 0 || length >= sizeof(word) || open[length] != '}')
			continue;
		memcpy(word, open, length);
		word[length] = '\0';
		nearest = usher_nearest_word(word, words);
		if (nearest && strcmp(nearest, word) != 0)
			return place_error(reterr, n, -EINVAL,
					"unknown placeholder \"{%s}\"; did you mean \"{%s}\"?",
					word, nearest);
	}
	return 0;
}

static int read_hook_text(const struct usher_node *n, char **field, struct usher_error *reterr)
{
	int r = config_read_text(n, field, reterr);

	return r < 0 ? r : check_placeholders(n, *field, reterr);
}

static void text_free(void *field)
{
	freep(field);
}

static int command_read(const struct usher_node *n, void *field, struct usher_error *reterr)
{
	char **command;
	int r;

	r = config_read_texts(n, field, reterr);
	if (r < 0)
		return r;
	command = *(char ***) field;
	if (command[0][0] != '/')
		return place_error(reterr, usher_node_at(n, 0), -EINVAL,
				"\"%s\" is not an absolute path; there is no shell to look for it",
				command[0]);
	for (size_t i = 0; command[i]; i++) {
		r = check_placeholders(usher_node_at(n, i), command[i], reterr);
		if (r < 0)
			return r;
	}
	return 0;
}

static void command_free(void *field)
{
	config_texts_free(*(char ***) field);
}

const struct config_form config_form_command = { command_read, command_free, "command" };

static int url_read(const struct usher_node *n, void *field, struct usher_error *reterr)
{
	char **url = field;
	int r;

	r = read_hook_text(n, url, reterr);
	if (r < 0)
		return r;
	if (strncmp(*url, "http://", 7) != 0 && strncmp(*url, "https://", 8) != 0)
		return place_error(reterr, n, -EINVAL,
				"is not a URL of http:// or https:// (not shown, for a password may stand in it)");
	return 0;
}

const struct config_form config_form_url = { url_read, text_free, "url" };

static int unit_read(const struct usher_node *n, void *field, struct usher_error *reterr)
{
	char **unit = field;
	int r;

	r = read_hook_text(n, unit, reterr);
	if (r < 0)
		return r;
	if (!strrchr(*unit, '.'))
		return place_error(reterr, n, -EINVAL,
				"\"%s\" is not the name of a unit; did you mean \"%s.service\"?",
				*unit, *unit);
	return 0;
}

const struct config_form config_form_unit = { unit_read, text_free, "unit" };

static int url_path_read(const struct usher_node *n, void *field, struct usher_error *reterr)
{
	char **path = field;
	int r;

	r = config_read_text(n, path, reterr);
	if (r < 0)
		return r;
	if (**path != '/')
		return place_error(reterr, n, -EINVAL, "\"%s\" does not start with /", *path);
	if (strlen(*path) > CHECK_TEXT_MAX)
		return place_error(reterr, n, -E2BIG, "has %zu bytes; at most %d are possible",
				strlen(*path), CHECK_TEXT_MAX);
	for (const unsigned char *c = (const unsigned char *) *path; *c; c++)
		if (*c <= ' ' || *c > '~' || *c == '#')
			return place_error(reterr, n, -EINVAL,
					"has a byte that a request cannot have in its path; write it as %%%02X",
					*c);
	return 0;
}

const struct config_form config_form_url_path = { url_path_read, text_free, "url_path" };

/* ---- hooks ---- */

/* A map is the long form; anything else is the first row's value. */
static int read_kind(const struct config_row *rows, const struct usher_node *n,
		struct hook_config *hook, struct usher_error *reterr)
{
	cleanup(usher_document_unrefp) struct usher_document *defaults = NULL;
	const struct usher_node *layers[2];
	int r;

	r = config_defaults_parse(rows, &defaults, reterr);
	if (r < 0)
		return r;
	layers[0] = n;
	layers[1] = usher_document_root(defaults);
	if (usher_node_kind(n) != USHER_NODE_MAP) {
		r = config_row_read(&rows[0], n, hook, reterr);
		return r < 0 ? r : config_table_read(rows + 1, layers + 1, 1, hook, reterr);
	}
	r = config_table_check(rows, layers, 1, reterr);
	return r < 0 ? r : config_table_read(rows, layers, 2, hook, reterr);
}

static int set_action(struct hook_config *hook, const char *action, struct usher_error *reterr)
{
	if (hook->kind != HOOK_SYSTEMD || hook->action)
		return 0;
	hook->action = strdup(action);
	return hook->action ? 0 : usher_error_set(reterr, -ENOMEM, "out of memory");
}

static int read_hook(const struct usher_node *n, const char *action, struct hook_config *hook,
		struct usher_error *reterr)
{
	static const enum hook_kind kinds[] = { HOOK_EXEC, HOOK_HTTP, HOOK_SYSTEMD };
	const char *words[ELEMENTS(kinds) + 1] = {};
	int r;

	if (usher_node_kind(n) == USHER_NODE_SCALAR && strcmp(usher_node_text(n), "none") == 0)
		return 0;
	if (usher_node_kind(n) != USHER_NODE_MAP || usher_node_count(n) != 1)
		return place_error(reterr, n, -EINVAL,
				"must be \"none\" or a map with one of exec, http and systemd");
	for (size_t i = 0; i < ELEMENTS(kinds); i++) {
		words[i] = config_hook_rows[i].key;
		if (strcmp(usher_node_key(n, 0), words[i]) != 0)
			continue;
		hook->kind = kinds[i];
		r = read_kind(config_hook_rows[i].table, usher_node_at(n, 0), hook, reterr);
		return r < 0 ? r : set_action(hook, action, reterr);
	}
	return place_unknown_key(reterr, n, 0, words);
}

static int hook_read(const struct usher_node *n, void *field, struct usher_error *reterr)
{
	return read_hook(n, "stop", field, reterr);
}

static int open_hook_read(const struct usher_node *n, void *field, struct usher_error *reterr)
{
	return read_hook(n, "start", field, reterr);
}

/* The kinds have their fields apart, so that all may be freed whichever it is. */
static void hook_free(void *field)
{
	struct hook_config *hook = field;

	config_texts_free(hook->command);
	free(hook->method);
	free(hook->url);
	free(hook->unit);
	free(hook->action);
}

const struct config_form config_form_hook = { hook_read, hook_free, "hook" };
const struct config_form config_form_open_hook = { open_hook_read, hook_free, "hook" };
