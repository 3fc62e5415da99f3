#include "plugin-options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config-forms.h"
#include "ownership.h"
#include "place.h"

#define OPTIONS_MAX 256   /* of one plug-in */
#define STRINGS_MAX 10000 /* of one option */

/* What the fields point to: the document of the configuration, those of default texts, and the
 * arrays of lists. */
struct plugin_options {
	struct usher_document *documents[OPTIONS_MAX + 1];
	size_t document_count;
	const char **lists[OPTIONS_MAX];
	size_t list_count;
};

DEFINE_CLEANUP(struct plugin_options, plugin_options_free);

struct plugin_options *plugin_options_free(struct plugin_options *o)
{
	if (!o)
		return NULL;
	for (size_t i = 0; i < o->document_count; i++)
		usher_document_unref(o->documents[i]);
	for (size_t i = 0; i < o->list_count; i++)
		free(o->lists[i]);
	free(o);
	return NULL;
}

/* Counting a reference changes nothing that the const of a node protects. */
static struct usher_document *ref_document(const struct usher_node *n)
{
	const union {
		const struct usher_document *borrowed;
		struct usher_document *counted;
	} document = { .borrowed = usher_node_document(n) };

	return usher_document_ref(document.counted);
}

static int out_of_memory(struct usher_error *reterr)
{
	return usher_error_set(reterr, -ENOMEM, "out of memory");
}

/* Row i as this host knows it; a plug-in that was built with shorter rows has zeros at their end.
 */
static struct usher_option get_row(const struct usher_option *table, size_t option_size, size_t i)
{
	struct usher_option row = {};

	memcpy(&row, (const char *) table + i * option_size,
			option_size < sizeof(row) ? option_size : sizeof(row));
	return row;
}

static int count_rows(const struct usher_option *table, size_t option_size, size_t *ret,
		struct usher_error *reterr)
{
	size_t count = 0;

	if (table && option_size < offsetof(struct usher_option, help))
		return usher_error_set(reterr, -EINVAL,
				"the plug-in's table of options has rows of %zu bytes; at least %zu are needed",
				option_size, offsetof(struct usher_option, help));
	while (table && get_row(table, option_size, count).name)
		if (++count > OPTIONS_MAX)
			return usher_error_set(reterr, -E2BIG,
					"the plug-in has more than %d options", OPTIONS_MAX);
	*ret = count;
	return 0;
}

static int check_keys(const struct usher_option *table, size_t option_size, size_t count,
		const struct usher_node *given, struct usher_error *reterr)
{
	const char *words[OPTIONS_MAX + 1] = {};

	for (size_t i = 0; i < count; i++)
		words[i] = get_row(table, option_size, i).name;
	for (size_t k = 0; given && k < usher_node_count(given); k++) {
		const char *key = usher_node_key(given, k);
		bool known = config_is_host_word(key);

		for (size_t i = 0; i < count && !known; i++)
			known = strcmp(key, words[i]) == 0;
		if (!known)
			return place_unknown_key(reterr, given, k, words);
	}
	return 0;
}

/* ---- one value ---- */

static int read_string(const struct usher_node *n, const char **field, struct usher_error *reterr)
{
	int r = usher_node_string(n, field, reterr);

	return r < 0 ? place_add_path(reterr, n, r) : 0;
}

static int read_path(const struct usher_node *n, const char **field, struct usher_error *reterr)
{
	const char *path;
	int r;

	r = read_string(n, &path, reterr);
	if (r < 0)
		return r;
	if (path[0] != '/')
		return place_error(reterr, n, -EINVAL,
				"\"%s\" is not an absolute path; start it with /", path);
	*field = path;
	return 0;
}

static int read_choice(const struct usher_option *row, const struct usher_node *n, int *field,
		struct usher_error *reterr)
{
	static const char *const nothing[] = { NULL };
	const char *const *choices = row->choices ? row->choices : nothing;
	const char *text;
	int r;

	r = read_string(n, &text, reterr);
	if (r < 0)
		return r;
	for (int i = 0; choices[i]; i++)
		if (strcmp(choices[i], text) == 0) {
			*field = i;
			return 0;
		}
	return place_unknown_word(reterr, n, "a choice", choices);
}

static int read_strings(const struct usher_node *n, const char *const **field,
		struct plugin_options *owned, struct usher_error *reterr)
{
	bool is_list = usher_node_kind(n) == USHER_NODE_LIST;
	size_t count = is_list ? usher_node_count(n) : 1;
	const char **list;
	int r;

	if (!is_list && usher_node_kind(n) != USHER_NODE_SCALAR)
		return place_error(reterr, n, -EINVAL, "must be a text or a list of texts, not %s",
				usher_node_kind_name(n));
	if (count > STRINGS_MAX)
		return place_error(reterr, n, -E2BIG, "has %zu items; at most %d are possible",
				count, STRINGS_MAX);
	list = calloc(count + 1, sizeof(*list));
	if (!list)
		return out_of_memory(reterr);
	owned->lists[owned->list_count++] = list;
	for (size_t i = 0; i < count; i++) {
		r = read_string(is_list ? usher_node_at(n, i) : n, &list[i], reterr);
		if (r < 0)
			return r;
	}
	*field = list;
	return 0;
}

static int read_integer(const struct usher_option *row, const struct usher_node *n, int64_t *field,
		struct usher_error *reterr)
{
	bool bounded = row->max > row->min;

	return usher_node_integer(n, bounded ? row->min : INT64_MIN, bounded ? row->max : INT64_MAX,
			field, reterr);
}

static int read_share(const struct usher_option *row, const struct usher_node *n, double *field,
		struct usher_error *reterr)
{
	if (row->max > row->min)
		return usher_node_percent(n, row->min, row->max, field, reterr);
	return usher_node_share(n, field, reterr);
}

static int read_value(const struct usher_option *row, const struct usher_node *n, void *field,
		struct plugin_options *owned, struct usher_error *reterr)
{
	int r = -EINVAL;

	switch (row->type) {
	case USHER_OPTION_STRING:
		return read_string(n, field, reterr);
	case USHER_OPTION_PATH:
		return read_path(n, field, reterr);
	case USHER_OPTION_CHOICE:
		return read_choice(row, n, field, reterr);
	case USHER_OPTION_STRINGS:
		return read_strings(n, field, owned, reterr);
	case USHER_OPTION_NODE:
		*(const struct usher_node **) field = n;
		return 0;
	case USHER_OPTION_BOOL:
		r = usher_node_bool(n, field, reterr);
		break;
	case USHER_OPTION_INTEGER:
		r = read_integer(row, n, field, reterr);
		break;
	case USHER_OPTION_DURATION:
		r = usher_node_duration(n, field, reterr);
		break;
	case USHER_OPTION_SHARE:
		r = read_share(row, n, field, reterr);
		break;
	case USHER_OPTION_SIZE:
		r = usher_node_size(n, field, reterr);
		break;
	}
	return r < 0 ? place_add_path(reterr, n, r) : 0;
}

/* The value as such never reaches a message. */
static int read_secret(const struct usher_option *row, const struct usher_node *n, void *field,
		struct plugin_options *owned, struct usher_error *reterr)
{
	int r = read_value(row, n, field, owned, NULL);

	if (r == -ENOMEM)
		return out_of_memory(reterr);
	return r < 0 ? place_error(reterr, n, r,
				       "is not of the kind that this option takes (its value is a secret and not shown): %s",
				       row->help ? row->help : "")
		     : 0;
}

/* ---- defaults ---- */

/* Texts stand for themselves; everything else is YAML. */
static int read_default(const struct usher_option *row, void *field, struct plugin_options *owned,
		struct usher_error *reterr)
{
	struct usher_document *document;
	int r;

	if (row->type == USHER_OPTION_STRING || row->type == USHER_OPTION_PATH) {
		*(const char **) field = row->default_text;
		return 0;
	}
	r = usher_document_parse(
			"default", row->default_text, strlen(row->default_text), &document, reterr);
	if (r >= 0) {
		owned->documents[owned->document_count++] = document;
		r = read_value(row, usher_document_root(document), field, owned, reterr);
	}
	return r < 0 ? usher_error_prefix(reterr, r, "the plug-in's option \"%s\"", row->name) : 0;
}

static int missing_option(const struct usher_option *row, const struct usher_node *place,
		struct usher_error *reterr)
{
	const char *plugin = place ? usher_node_text(place) : NULL;

	return place_error(reterr, place, -EINVAL, "%s needs the option \"%s\"%s%s",
			plugin ? plugin : "the plug-in", row->name, row->help ? ": " : "",
			row->help ? row->help : "");
}

static int read_row(const struct usher_option *row, const struct usher_node *given,
		const struct usher_node *place, void *instance, struct plugin_options *owned,
		struct usher_error *reterr)
{
	const struct usher_node *n = usher_node_get(given, row->name);
	void *field = (char *) instance + row->offset;

	if (n && row->flags & USHER_SECRET)
		return read_secret(row, n, field, owned, reterr);
	if (n)
		return read_value(row, n, field, owned, reterr);
	if (row->flags & USHER_REQUIRED)
		return missing_option(row, place, reterr);
	return row->default_text ? read_default(row, field, owned, reterr) : 0;
}

/* NOLINTNEXTLINE(readability-function-size): table, given and result are two things each */
int plugin_options_parse(const struct usher_option *table, size_t option_size,
		const struct usher_node *given, const struct usher_node *place, void *instance,
		struct plugin_options **ret_owned, struct usher_error *reterr)
{
	cleanup(plugin_options_freep) struct plugin_options *owned = NULL;
	size_t count = 0;
	int r;

	r = count_rows(table, option_size, &count, reterr);
	if (r < 0)
		return r;
	owned = calloc(1, sizeof(*owned));
	if (!owned)
		return out_of_memory(reterr);
	if (given)
		owned->documents[owned->document_count++] = ref_document(given);
	r = check_keys(table, option_size, count, given, reterr);
	if (r < 0)
		return r;
	for (size_t i = 0; i < count; i++) {
		const struct usher_option row = get_row(table, option_size, i);

		r = read_row(&row, given, place, instance, owned, reterr);
		if (r < 0)
			return r;
	}
	*ret_owned = take(owned);
	return 0;
}
