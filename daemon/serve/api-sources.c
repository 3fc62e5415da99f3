/* What the directory comes from: sources, and the plug-ins behind them. */

#include <microhttpd.h>

#include "api.h"
#include "clock.h"
#include "inside.h"
#include "render.h"

/* How long ago, or null for never. */
static void render_ago(struct text *text, uint64_t then_usec, uint64_t now_usec)
{
	render_age(text, then_usec ? now_usec - then_usec : USEC_FOREVER);
}

/* What somebody can do about it; NULL: nothing is to be done. */
static const char *remedy_of(const struct source_status *status)
{
	switch (status->state) {
	case SOURCE_UNKNOWN:
		if (status->wanted == 0)
			return "no service is looked up in it yet: name it in a service's sources, or ask for a service";
		return "wait for its first answer or its first error; if neither comes, see whether its registry takes connections from here";
	case SOURCE_STALE:
		return "it proves nothing any more though nothing fails: see whether its registry is well, or raise freshness.max_age above its interval";
	case SOURCE_FAILED:
		return "see the error, and whether the registry is up and can be reached from here; it is tried again by itself, and what it said last stays and ages";
	case SOURCE_DENIED:
		return "the registry refuses usherd, or usherd does not trust it: see the error; give the source's credentials the right to read there, or the source other ones, or the registry's CA; it is tried again by itself";
	case SOURCE_LIVE:
		return status->running ? NULL
				       : "its plug-in has ended and is run again: see the log";
	}
	return NULL;
}

static void render_service_counts(struct text *text, const struct source_view *view)
{
	const char *comma = "";

	text_add_string(text, ", \"services\": {");
	for (int i = 0; i <= SOURCE_DENIED; i++) {
		render_comma(text, &comma);
		text_add_json(text, source_state_to_string((enum source_state) i));
		text_add_format(text, ": %u", view->services[i]);
	}
	text_add(text, "}", 1);
}

static void render_source(struct text *text, const struct directory *directory,
		const struct source *source, uint64_t now_usec)
{
	struct source_view view;
	struct source_status status;

	directory_view_source(directory, source, &view);
	status = view.status;
	text_add_string(text, "{\"name\": ");
	text_add_json(text, source_name(source));
	text_add_string(text, ", \"plugin\": ");
	text_add_json(text, source_instance(source)->plugin->name);
	text_add_string(text, ", \"state\": \"");
	text_add_string(text, source_state_to_string(status.state));
	text_add_string(text, "\", \"last_contact_ms\": ");
	render_ago(text, status.last_contact_usec, now_usec);
	text_add_string(text, ", \"last_change_ms\": ");
	render_ago(text, status.last_change_usec, now_usec);
	text_add_format(text, ", \"wanted\": %u, \"known\": ", status.wanted);
	if (status.known)
		text_add_unsigned(text, status.known_count);
	else
		text_add_string(text, "null");
	text_add_format(text, ", \"restarts\": %u, \"running\": ", status.restarts);
	render_bool(text, status.running);
	text_add_string(text, ", \"error\": ");
	render_unclean(text, status.error);
	text_add_string(text, ", \"remedy\": ");
	text_add_json(text, remedy_of(&status));
	render_service_counts(text, &view);
	text_add(text, "}", 1);
}

int api_sources(struct request *q)
{
	struct directory *directory = q->server->directory;
	struct text text = {};
	const char *comma = "";

	if (!request_no_query(q))
		return 0;
	text_add_string(&text, "{\"sources\": [");
	for (size_t i = 0; i < directory_source_count(directory); i++) {
		render_comma(&text, &comma);
		render_source(&text, directory, directory_source_at(directory, i), q->now_usec);
	}
	text_add_string(&text, "]}\n");
	return respond_json(q, MHD_HTTP_OK, &text);
}

static const char *option_type_to_string(enum usher_option_type type)
{
	switch (type) {
	case USHER_OPTION_STRING:
		return "string";
	case USHER_OPTION_PATH:
		return "path";
	case USHER_OPTION_BOOL:
		return "bool";
	case USHER_OPTION_INTEGER:
		return "integer";
	case USHER_OPTION_DURATION:
		return "duration";
	case USHER_OPTION_SHARE:
		return "share";
	case USHER_OPTION_SIZE:
		return "size";
	case USHER_OPTION_CHOICE:
		return "choice";
	case USHER_OPTION_STRINGS:
		return "strings";
	case USHER_OPTION_NODE:
		return "node";
	}
	return "?";
}

static void render_option(struct text *text, const struct usher_option *option)
{
	const char *comma = "";

	text_add_string(text, "{\"name\": ");
	text_add_json(text, option->name);
	text_add_format(text,
			", \"type\": \"%s\", \"required\": ", option_type_to_string(option->type));
	render_bool(text, option->flags & USHER_REQUIRED);
	text_add_string(text, ", \"secret\": ");
	render_bool(text, option->flags & USHER_SECRET);
	text_add_string(text, ", \"default\": ");
	render_unclean(text, option->flags & USHER_SECRET ? NULL : option->default_text);
	text_add_string(text, ", \"help\": ");
	render_unclean(text, option->help);
	text_add_string(text, ", \"choices\": ");
	if (!option->choices) {
		text_add_string(text, "null}");
		return;
	}
	text_add(text, "[", 1);
	for (size_t i = 0; option->choices[i]; i++) {
		render_comma(text, &comma);
		render_unclean(text, option->choices[i]);
	}
	text_add_string(text, "]}");
}

/* The rows are as long as they were where the plug-in was built; ours may be longer. */
static void render_options(struct text *text, const struct usher_plugin *plugin)
{
	const char *row = (const char *) plugin->options;
	const char *comma = "";

	for (; row; row += plugin->option_size) {
		struct usher_option option = {};

		memcpy(&option, row,
				plugin->option_size < sizeof(option) ? plugin->option_size
								     : sizeof(option));
		if (!option.name)
			break;
		render_comma(text, &comma);
		render_option(text, &option);
	}
}

static void render_facets(struct text *text, const struct usher_plugin *plugin)
{
	const struct {
		const char *name;
		bool offered;
	} facets[] = {
		{ "discovery", plugin->discovery },
		{ "registration", plugin->registration },
		{ "stage", plugin->stage },
		{ "selector", plugin->selector },
	};
	const char *comma = "";

	for (size_t i = 0; i < ELEMENTS(facets); i++) {
		if (!facets[i].offered)
			continue;
		render_comma(text, &comma);
		text_add_json(text, facets[i].name);
	}
}

static void render_plugin(struct text *text, const struct plugin_info *info)
{
	const struct usher_plugin *plugin = info->loaded;

	text_add_string(text, "{\"name\": ");
	render_unclean(text, info->name);
	text_add_string(text, ", \"path\": ");
	render_unclean(text, info->path);
	text_add_string(text, ", \"loaded\": ");
	render_bool(text, plugin);
	text_add_string(text, ", \"version\": ");
	render_unclean(text, plugin ? plugin->version : NULL);
	text_add_string(text, ", \"summary\": ");
	render_unclean(text, plugin ? plugin->summary : NULL);
	text_add_string(text, ", \"abi\": ");
	if (plugin)
		text_add_format(text, "\"%u.%u\"", plugin->abi_major, plugin->abi_minor);
	else
		text_add_string(text, "null");
	text_add_string(text, ", \"facets\": [");
	if (plugin)
		render_facets(text, plugin);
	text_add_string(text, "], \"refusal\": ");
	render_unclean(text, info->refusal);
	text_add_string(text, ", \"options\": [");
	if (plugin)
		render_options(text, plugin);
	text_add_string(text, "]}");
}

int api_plugins(struct request *q)
{
	const struct plugins *plugins = directory_plugins(q->server->directory);
	struct text text = {};
	const char *comma = "";

	if (!request_no_query(q))
		return 0;
	text_add_string(&text, "{\"plugins\": [");
	for (size_t i = 0; i < plugins_count(plugins); i++) {
		struct plugin_info info = {};

		plugins_get(plugins, i, &info);
		render_comma(&text, &comma);
		render_plugin(&text, &info);
	}
	text_add_string(&text, "]}\n");
	return respond_json(q, MHD_HTTP_OK, &text);
}
