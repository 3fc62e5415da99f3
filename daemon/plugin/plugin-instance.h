#pragma once

/* One configured use of a plug-in: its instance, with the options parsed into it. Reference
 * counted, for the thread of a source may outlive the configuration that made it. */

#include <usher/plugin.h>

#include "config.h"
#include "loader.h"

struct plugin_instance {
	_Atomic unsigned refs;
	const struct usher_plugin *plugin;
	void *data; /* the instance proper */
	struct plugin_options *options;
	struct usher_document *document; /* what the options point into */
};

enum plugin_facet {
	FACET_DISCOVERY,
	FACET_STAGE,
	FACET_SELECTOR
};

/* Errors: what plugins_find and the options say; EINVAL (no such facet: "file is no selector;
 * selectors are round_robin, ..."); with the place. */
int plugin_instance_new(struct plugins *plugins, const struct plugin_use *use,
		enum plugin_facet facet, struct plugin_instance **ret, struct usher_error *reterr);
struct plugin_instance *plugin_instance_ref(struct plugin_instance *i);
struct plugin_instance *plugin_instance_unref(struct plugin_instance *i);
