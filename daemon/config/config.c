#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config-forms.h"
#include "config-parse.h"
#include "config-tables.h"
#include "utf8.h"

struct config *config_ref(struct config *c)
{
	c->refs++;
	return c;
}

static void source_done(struct source_config *source)
{
	config_table_done(config_source_rows, source);
}

const char *merge_policy_to_string(enum merge_policy policy)
{
	static const char *const words[] = {
		[MERGE_FIRST] = "first",
		[MERGE_UNION] = "union",
		[MERGE_RACE] = "race",
	};

	return words[policy];
}

const char *merge_field_to_string(enum merge_field field)
{
	static const char *const words[MERGE_FIELDS] = {
		[MERGE_SECURE] = "secure",
		[MERGE_ZONE] = "zone",
		[MERGE_WEIGHT] = "weight",
		[MERGE_CONDITIONS] = "conditions",
		[MERGE_ADMIN_STATE] = "admin_state",
		[MERGE_METADATA] = "metadata",
	};

	return words[field];
}

static void service_done(struct service_config *service)
{
	config_table_done(config_service_rows, service);
	free(service->name);
}

struct config *config_unref(struct config *c)
{
	if (!c || --c->refs > 0)
		return NULL;
	for (size_t i = 0; i < c->service_count; i++)
		service_done(&c->services[i]);
	free(c->services);
	for (size_t i = 0; i < c->source_count; i++)
		source_done(&c->sources[i]);
	free(c->sources);
	config_registrations_done(c);
	config_table_done(config_rows, c);
	for (size_t i = 0; i < c->document_count; i++)
		usher_document_unref(c->documents[i]);
	free(c->documents);
	free(c->path);
	free(c);
	return NULL;
}

static int compare_service_name(const void *name, const void *service)
{
	return strcmp(name, ((const struct service_config *) service)->name);
}

const struct service_config *config_find_service(const struct config *c, const char *name)
{
	if (c->service_count == 0)
		return NULL;
	return bsearch(name, c->services, c->service_count, sizeof(*c->services),
			compare_service_name);
}

const struct source_config *config_find_source(const struct config *c, const char *name)
{
	for (size_t i = 0; i < c->source_count; i++)
		if (strcmp(c->sources[i].name, name) == 0)
			return &c->sources[i];
	return NULL;
}

/* The options that are the plug-in's: all but the host's own words. */
static size_t count_options(const struct usher_node *options)
{
	size_t count = 0;

	for (size_t i = 0; options && i < usher_node_count(options); i++)
		count += !config_is_host_word(usher_node_key(options, i));
	return count;
}

bool plugin_use_equal(const struct plugin_use *a, const struct plugin_use *b)
{
	if (strcmp(a->plugin, b->plugin) != 0 ||
			count_options(a->options) != count_options(b->options))
		return false;
	for (size_t i = 0; a->options && i < usher_node_count(a->options); i++) {
		const char *key = usher_node_key(a->options, i);

		if (config_is_host_word(key))
			continue;
		if (!usher_node_equal(
				    usher_node_at(a->options, i), usher_node_get(b->options, key)))
			return false;
	}
	return true;
}

int config_check_name(const char *name, struct usher_error *reterr)
{
	size_t length = strlen(name);

	if (length == 0)
		return usher_error_set(reterr, -EINVAL, "a name is empty");
	if (length > CONFIG_NAME_MAX)
		return usher_error_set(reterr, -EINVAL,
				"a name has %zu bytes; at most %d are possible", length,
				CONFIG_NAME_MAX);
	if (!utf8_is_clean(name))
		return usher_error_set(
				reterr, -EINVAL, "a name is not UTF-8 or has a control character");
	if (strpbrk(name, "/ "))
		return usher_error_set(reterr, -EINVAL,
				"the name \"%s\" has a space or a slash; neither is possible",
				name);
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return usher_error_set(reterr, -EINVAL,
				"\"%s\" is no name: it has a meaning of its own in paths", name);
	return 0;
}
