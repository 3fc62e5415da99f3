#include "config-forms.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config-tables.h"
#include "ownership.h"
#include "place.h"
#include "table-values.h"

static int out_of_memory(struct usher_error *reterr)
{
	return usher_error_set(reterr, -ENOMEM, "out of memory");
}

/* ---- plug-ins and their options ---- */

bool config_is_host_word(const char *key)
{
	return strcmp(key, CONFIG_ON_EMPTY) == 0 || strcmp(key, CONFIG_WHEN) == 0;
}

/* The host's own words are no options of a source or selector. */
static int check_no_host_word(const struct usher_node *options, struct usher_error *reterr)
{
	for (size_t i = 0; options && i < usher_node_count(options); i++)
		if (config_is_host_word(usher_node_key(options, i)))
			return place_key_error(reterr, options, i, -EINVAL,
					"only a stage of a chain has \"%s\"",
					usher_node_key(options, i));
	return 0;
}

int config_read_options(
		const struct usher_node *n, struct plugin_use *use, struct usher_error *reterr)
{
	if (usher_node_kind(n) == USHER_NODE_MAP)
		use->options = n;
	else if (usher_node_kind(n) != USHER_NODE_NULL)
		return place_error(reterr, n, -EINVAL, "must be a map of options, not %s",
				usher_node_kind_name(n));
	return 0;
}

static int options_read(const struct usher_node *n, void *field, struct usher_error *reterr)
{
	int r = config_read_options(n, field, reterr);

	return r < 0 ? r : check_no_host_word(n, reterr);
}

const struct config_form config_form_options = { options_read, NULL, "options" };

int config_set_plugin(const struct usher_node *place, const char *name, struct plugin_use *use,
		struct usher_error *reterr)
{
	struct usher_error why = {};
	int r;

	r = config_check_name(name, &why);
	if (r < 0)
		return place_error(reterr, place, r, "%s", usher_error_text(&why, r));
	use->plugin = strdup(name);
	if (!use->plugin)
		return out_of_memory(reterr);
	use->place = place;
	return 0;
}

/* Whether it is a NAME or one {NAME: OPTIONS}. what is "a stage", "a selector". */
int config_check_use(const struct usher_node *n, const char *what, struct usher_error *reterr)
{
	if (usher_node_kind(n) == USHER_NODE_SCALAR)
		return 0;
	if (usher_node_kind(n) != USHER_NODE_MAP)
		return place_error(reterr, n, -EINVAL, "must be NAME or NAME: {OPTIONS}, not %s",
				usher_node_kind_name(n));
	if (usher_node_count(n) != 1)
		return place_error(reterr, n, -EINVAL,
				"has %zu keys; %s is one NAME: {OPTIONS}, with everything else among the options",
				usher_node_count(n), what);
	return 0;
}

static int read_use(const struct usher_node *n, const char *what, struct plugin_use *use,
		struct usher_error *reterr)
{
	int r;

	r = config_check_use(n, what, reterr);
	if (r < 0)
		return r;
	if (usher_node_kind(n) == USHER_NODE_SCALAR)
		return config_set_plugin(n, usher_node_text(n), use, reterr);
	r = config_set_plugin(usher_node_key_node(n, 0), usher_node_key(n, 0), use, reterr);
	return r < 0 ? r : config_read_options(usher_node_at(n, 0), use, reterr);
}

static int select_read(const struct usher_node *n, void *field, struct usher_error *reterr)
{
	struct plugin_use *use = field;
	int r;

	r = read_use(n, "a selector", use, reterr);
	return r < 0 ? r : check_no_host_word(use->options, reterr);
}

static void use_done(void *field)
{
	struct plugin_use *use = field;

	free(use->plugin);
}

const struct config_form config_form_select = { select_read, use_done, "select" };

/* ---- lists ---- */

/* A list with at most max items, for count * size bytes of zeros. */
int config_start_list(const struct usher_node *n, size_t max, size_t size, void **ret,
		struct usher_error *reterr)
{
	void *items;

	if (usher_node_kind(n) != USHER_NODE_LIST)
		return place_error(reterr, n, -EINVAL, "must be a list, not %s",
				usher_node_kind_name(n));
	if (usher_node_count(n) > max)
		return place_error(reterr, n, -E2BIG, "has %zu items; at most %zu are possible",
				usher_node_count(n), max);
	items = calloc(usher_node_count(n) + 1, size);
	if (!items)
		return out_of_memory(reterr);
	*ret = items;
	return 0;
}

/* ---- feeds ---- */

static int decides_read(const struct usher_node *n, void *field, struct usher_error *reterr)
{
	const char *words[MERGE_FIELDS + 1] = {};
	const struct config_row row = { "decides", ROW_CHOICE, .choices = words };
	unsigned *decides = field;

	for (int i = 0; i < MERGE_FIELDS; i++)
		words[i] = merge_field_to_string((enum merge_field) i);
	if (usher_node_kind(n) != USHER_NODE_LIST)
		return place_error(reterr, n, -EINVAL,
				"must be a list such as [weight, zone], not %s",
				usher_node_kind_name(n));
	for (size_t i = 0; i < usher_node_count(n); i++) {
		int word;
		int r = config_row_read(&row, usher_node_at(n, i), &word, reterr);

		if (r < 0)
			return r;
		*decides |= 1u << word;
	}
	return 0;
}

const struct config_form config_form_decides = { decides_read, NULL, "decides" };

static int read_feed(const struct usher_node *n, const struct feeds_kind *kind,
		struct feed_config *feed, struct usher_error *reterr)
{
	int r;

	feed->place = n;
	if (usher_node_kind(n) == USHER_NODE_SCALAR)
		return config_row_read(&kind->rows[0], n, feed, reterr);
	if (usher_node_kind(n) != USHER_NODE_MAP)
		return place_error(reterr, n, -EINVAL,
				"must be the name of a source or {%s}, not %s", kind->keys,
				usher_node_kind_name(n));
	r = config_table_check(kind->rows, &n, 1, reterr);
	if (r < 0)
		return r;
	return config_table_read(kind->rows, &n, 1, feed, reterr);
}

int config_read_feeds(const struct usher_node *n, const struct feeds_kind *kind,
		struct feed_config **feeds, size_t *count, struct usher_error *reterr)
{
	void *items = NULL;
	int r;

	r = config_start_list(n, CONFIG_FEEDS_MAX, sizeof(struct feed_config), &items, reterr);
	if (r < 0)
		return r;
	assert(items);
	*feeds = items;
	for (size_t i = 0; i < usher_node_count(n); i++) {
		*count = i + 1;
		r = read_feed(usher_node_at(n, i), kind, &(*feeds)[i], reterr);
		if (r < 0)
			return r;
	}
	if (*count == 0)
		return place_error(reterr, n, -EINVAL,
				"is an empty list; name a source, or leave it out for %s",
				kind->otherwise);
	return 0;
}

void config_feeds_free(struct feed_config *feeds, size_t count)
{
	for (size_t i = 0; i < count; i++)
		config_table_done(config_feed_rows, &feeds[i]);
	free(feeds);
}

static int feeds_read(const struct usher_node *n, void *field, struct usher_error *reterr)
{
	static const struct feeds_kind kind = { config_feed_rows, "source, name, port, decides",
		"all of them" };
	struct service_config *service = field;

	return config_read_feeds(n, &kind, &service->feeds, &service->feed_count, reterr);
}

static void feeds_done(void *field)
{
	struct service_config *service = field;

	config_feeds_free(service->feeds, service->feed_count);
}

const struct config_form config_form_feeds = { feeds_read, feeds_done, "feeds" };

/* ---- what is counted as in flight ---- */

static int from_read(const struct usher_node *n, void *field, struct usher_error *reterr)
{
	static const char *const words[] = { "tcp", "consumers", NULL };
	static const struct config_row row = { "from", ROW_CHOICE, .choices = words };
	struct drain_config *drain = field;
	bool counted[ELEMENTS(words) - 1] = {};
	int r;

	if (usher_node_kind(n) != USHER_NODE_LIST || usher_node_count(n) == 0)
		return place_error(
				reterr, n, -EINVAL, "must be a list of \"tcp\" and \"consumers\"");
	for (size_t i = 0; i < usher_node_count(n); i++) {
		int word;

		r = config_row_read(&row, usher_node_at(n, i), &word, reterr);
		if (r < 0)
			return r;
		counted[word] = true;
	}
	drain->from_tcp = counted[0];
	drain->from_consumers = counted[1];
	return 0;
}

const struct config_form config_form_from = { from_read, NULL, "from" };
