/* What plug-ins do wrong, each said once. */

#include "context-private.h"
#include "log.h"

void context_note_stage_fault(
		const struct context *c, const struct chain *chain, size_t stage, uint64_t faults)
{
	const struct usher_plugin *plugin = chain->stages[stage].plugin;

	if (faults != 1)
		return;
	log_error(FIELDS(.value[LOG_SERVICE] = c->service, .value[LOG_PLUGIN] = plugin->name),
			"The stage %s of %s answers with candidates that are not part of what it got: the "
			"plug-in (version %s) is at fault; such picks fail, whatever on_empty says",
			plugin->name, c->service, plugin->version ? plugin->version : "unknown");
}

void context_note_selector_fault(struct context *c, ssize_t position, size_t count)
{
	const struct usher_plugin *plugin = c->chain->selector->plugin;

	if (++c->selector_faults != 1)
		return;
	log_error(FIELDS(.value[LOG_SERVICE] = c->service, .value[LOG_PLUGIN] = plugin->name),
			"The selector %s of %s picks number %zd of %zu candidates: the plug-in (version "
			"%s) is at fault; such picks fail",
			plugin->name, c->service, position, count,
			plugin->version ? plugin->version : "unknown");
}
