#include "plugin-instance.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ownership.h"
#include "place.h"
#include "plugin-options.h"
#include "text.h"

DEFINE_CLEANUP(struct plugin_instance, plugin_instance_unref);

static const char *facet_name(enum plugin_facet facet)
{
	static const char *const names[] = {
		[FACET_DISCOVERY] = "discovery plug-in",
		[FACET_STAGE] = "stage",
		[FACET_SELECTOR] = "selector",
	};

	return names[facet];
}

static bool has_facet(const struct usher_plugin *plugin, enum plugin_facet facet)
{
	switch (facet) {
	case FACET_DISCOVERY:
		return plugin->discovery;
	case FACET_STAGE:
		return plugin->stage;
	case FACET_SELECTOR:
		return plugin->selector;
	}
	return false;
}

/* "file is no selector; selectors are random, round_robin" */
static int refuse_facet(struct plugins *plugins, const struct plugin_use *use,
		enum plugin_facet facet, struct usher_error *reterr)
{
	struct text names = {};
	int r;

	for (size_t i = 0; i < plugins_count(plugins); i++) {
		struct plugin_info info;

		plugins_get(plugins, i, &info);
		if (!info.loaded || !has_facet(info.loaded, facet))
			continue;
		if (names.length > 0)
			text_add_string(&names, ", ");
		text_add_string(&names, info.name);
	}

	if (names.data)
		r = usher_error_set(reterr, -EINVAL, "%s is no %s; %ss are %s", use->plugin,
				facet_name(facet), facet_name(facet), names.data);
	else
		r = usher_error_set(reterr, -EINVAL,
				"%s is no %s, and no plug-in that is loaded is one", use->plugin,
				facet_name(facet));
	text_done(&names);
	return r;
}

/* Put the place in front of a message that has none yet. */
static int add_place(const struct plugin_use *use, int code, struct usher_error *reterr)
{
	if (!use->place)
		return code;
	return usher_error_prefix(reterr, code, "%s:%u:%u",
			usher_document_name(usher_node_document(use->place)),
			usher_node_line(use->place), usher_node_column(use->place));
}

static int find_facet(struct plugins *plugins, const struct plugin_use *use,
		enum plugin_facet facet, const struct usher_plugin **ret,
		struct usher_error *reterr)
{
	int r;

	r = plugins_find(plugins, use->plugin, ret, reterr);
	if (r >= 0 && !has_facet(*ret, facet))
		r = refuse_facet(plugins, use, facet, reterr);
	return r < 0 ? add_place(use, r, reterr) : 0;
}

/* Counting a reference changes nothing that the const of a node protects. */
static struct usher_document *ref_document(const struct usher_node *node)
{
	const union {
		const struct usher_document *borrowed;
		struct usher_document *counted;
	} document = { .borrowed = usher_node_document(node) };

	return usher_document_ref(document.counted);
}

/* The option, or the item of its list, that a message begins with: "servers[1]: is ...". ret_rest:
 * the message behind it. NULL: it begins with none that is given. */
static const struct usher_node *find_told_option(
		const struct usher_node *options, const char *text, const char **ret_rest)
{
	size_t length = strcspn(text, "[: ");
	const struct usher_node *n;
	char name[64];

	if (length >= sizeof(name))
		return NULL;
	(void) snprintf(name, sizeof(name), "%.*s", (int) length, text);
	n = usher_node_get(options, name);
	text += length;
	if (n && *text == '[') {
		char *end;
		size_t item = strtoul(text + 1, &end, 10);

		if (item < usher_node_count(n)) /* one text stands for a list of one */
			n = usher_node_at(n, item);
		text = end + strspn(end, "]");
	}
	if (!n || strncmp(text, ": ", 2) != 0)
		return NULL;
	*ret_rest = text + 2;
	return n;
}

/* What init has said gets a place: that of the option that it is about, if it tells. */
static int place_refusal(const struct plugin_use *use, int code, struct usher_error *reterr)
{
	const struct usher_node *option;
	const char *rest;
	struct usher_error said;

	if (!reterr)
		return code;
	said = *reterr;
	option = find_told_option(use->options, usher_error_text(&said, code), &rest);
	if (option)
		return place_error(reterr, option, code, "%s", rest);
	return add_place(use, usher_error_prefix(reterr, code, "%s", use->plugin), reterr);
}

static int instance_init(struct plugin_instance *instance, const struct plugin_use *use,
		struct usher_error *reterr)
{
	const struct usher_plugin *plugin = instance->plugin;
	void *data;
	int r;

	data = calloc(1, plugin->instance_size ? plugin->instance_size : 1);
	if (!data)
		return usher_error_set(reterr, -ENOMEM, "out of memory for an instance of %s",
				use->plugin);
	r = plugin_options_parse(plugin->options, plugin->option_size, use->options, use->place,
			data, &instance->options, reterr);
	if (r >= 0 && plugin->init) {
		r = plugin->init(data, reterr);
		if (r < 0)
			r = place_refusal(use, r, reterr);
	}
	if (r < 0) {
		free(data);
		return r;
	}
	instance->data = data; /* from here on `done` is due */
	return 0;
}

int plugin_instance_new(struct plugins *plugins, const struct plugin_use *use,
		enum plugin_facet facet, struct plugin_instance **ret, struct usher_error *reterr)
{
	cleanup(plugin_instance_unrefp) struct plugin_instance *instance = NULL;
	const struct usher_node *node;
	int r;

	assert(plugins);
	assert(use);
	assert(ret);

	instance = calloc(1, sizeof(*instance));
	if (!instance)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	atomic_init(&instance->refs, 1);
	r = find_facet(plugins, use, facet, &instance->plugin, reterr);
	if (r < 0)
		return r;
	node = use->options ? use->options : use->place;
	if (node)
		instance->document = ref_document(node);
	r = instance_init(instance, use, reterr);
	if (r < 0)
		return r;

	*ret = take(instance);
	return 0;
}

struct plugin_instance *plugin_instance_ref(struct plugin_instance *i)
{
	if (i)
		atomic_fetch_add_explicit(&i->refs, 1, memory_order_relaxed);
	return i;
}

struct plugin_instance *plugin_instance_unref(struct plugin_instance *i)
{
	if (!i || atomic_fetch_sub_explicit(&i->refs, 1, memory_order_acq_rel) != 1)
		return NULL;
	if (i->data && i->plugin->done)
		i->plugin->done(i->data);
	free(i->data);
	plugin_options_free(i->options);
	usher_document_unref(i->document);
	free(i);
	return NULL;
}
