#pragma once

/* Plug-ins for tests of the floors above the loader: stages and selectors are the real files,
 * loaded without any of the loader's checks; "fake" is a discovery plug-in that is never run.
 * Defines what plugin-instance.h declares, so include it in one file of a test. */

#include <dlfcn.h>

#include "ownership.h"
#include "plugin-instance.h"
#include "plugin-options.h"
#include "test.h"

static int fake_run(void *instance, struct usher_source *source)
{
	(void) instance;
	(void) source;
	return 0;
}

struct fake_options {
	const char *path;
};

static const struct usher_option fake_options[] = {
	{ .name = "path",
			.type = USHER_OPTION_STRING,
			.offset = offsetof(struct fake_options, path),
			.help = "Anything." },
	{},
};

static const struct usher_discovery fake_discovery = { .size = sizeof(fake_discovery),
	.run = fake_run };

static const struct usher_plugin fake_plugin = { .size = sizeof(fake_plugin),
	.option_size = sizeof(struct usher_option),
	.name = "fake",
	.instance_size = sizeof(struct fake_options),
	.options = fake_options,
	.discovery = &fake_discovery };

/* A stage that looks at the request: keeps the endpoint that request->sticky names. */
static size_t asked_filter(const void *instance, const struct usher_view *view,
		const struct usher_request *request, uint32_t *candidates, size_t count)
{
	size_t kept = 0;

	(void) instance;
	for (size_t i = 0; i < count; i++)
		if (request && request->sticky &&
				strcmp(usher_endpoints_id(view->endpoints, candidates[i]),
						request->sticky) == 0)
			candidates[kept++] = candidates[i];
	return kept;
}

static const struct usher_stage asked_stage = {
	.size = sizeof(asked_stage), .looks_at_request = true, .filter = asked_filter
};

static const struct usher_plugin asked_plugin = { .size = sizeof(asked_plugin),
	.option_size = sizeof(struct usher_option),
	.name = "asked",
	.options = &fake_options[1],
	.stage = &asked_stage };

static unsigned plugin_instances; /* that live */

/* More of them, of the test itself; NULL-terminated. */
static const struct usher_plugin *const *stand_in_more;

static const struct usher_plugin *stand_in_find(const char *name)
{
	char path[512];
	void *handle;

	if (strcmp(name, fake_plugin.name) == 0)
		return &fake_plugin;
	if (strcmp(name, asked_plugin.name) == 0)
		return &asked_plugin;
	for (size_t i = 0; stand_in_more && stand_in_more[i]; i++)
		if (strcmp(name, stand_in_more[i]->name) == 0)
			return stand_in_more[i];
	(void) snprintf(path, sizeof(path), "%s/%s.so", USHER_PLUGIN_DIR, name);
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	return handle ? dlsym(handle, "usher_plugin") : NULL;
}

static bool stand_in_has(const struct usher_plugin *plugin, enum plugin_facet facet)
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

static const struct usher_option no_options[] = { {} };

int plugin_instance_new(struct plugins *plugins, const struct plugin_use *use,
		enum plugin_facet facet, struct plugin_instance **ret, struct usher_error *reterr)
{
	const struct usher_plugin *plugin = stand_in_find(use->plugin);
	struct plugin_instance *i;
	int r;

	(void) plugins;
	if (!plugin)
		return usher_error_set(reterr, -ENOENT, "no plug-in %s", use->plugin);
	if (!stand_in_has(plugin, facet))
		return usher_error_set(reterr, -EINVAL, "%s has no such facet", use->plugin);
	i = calloc(1, sizeof(*i));
	if (!i)
		return -ENOMEM;
	i->data = calloc(1, plugin->instance_size ? plugin->instance_size : 1);
	if (!i->data) {
		free(i);
		return -ENOMEM;
	}
	i->refs = 1;
	i->plugin = plugin;
	plugin_instances++;
	r = plugin_options_parse(plugin->options ? plugin->options : no_options,
			plugin->option_size, use->options, use->place, i->data, &i->options,
			reterr);
	if (r >= 0 && use->options)
		i->document = usher_document_ref(
				(struct usher_document *) (uintptr_t) usher_node_document(
						use->options));
	if (r >= 0 && plugin->init)
		r = plugin->init(i->data, reterr);
	if (r < 0) {
		i->plugin = &fake_plugin; /* not initialised: nothing to be done */
		(void) plugin_instance_unref(i);
		return r;
	}
	*ret = i;
	return 0;
}

struct plugin_instance *plugin_instance_ref(struct plugin_instance *i)
{
	i->refs++;
	return i;
}

struct plugin_instance *plugin_instance_unref(struct plugin_instance *i)
{
	if (!i || --i->refs > 0)
		return NULL;
	if (i->plugin->done)
		i->plugin->done(i->data);
	plugin_instances--;
	(void) plugin_options_free(i->options);
	(void) usher_document_unref(i->document);
	free(i->data);
	free(i);
	return NULL;
}
