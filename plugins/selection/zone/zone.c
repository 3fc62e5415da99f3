/* Keeps the endpoints of one zone: the node's own, or the one that is named.
 *
 * An endpoint without a zone is in none. Where neither the option nor the node names a zone nothing
 * matches, and on_empty rules: pass uses all, fail uses none, so strict stays strict. */

#include <stdio.h>
#include <strings.h>
#include <usher/plugin.h>

struct zone {
	const char *prefer; /* option */
};

static const char *wanted_zone(const struct zone *z, const struct usher_view *view)
{
	return z->prefer ? z->prefer : view->zone;
}

static size_t zone_filter(const void *instance, const struct usher_view *view,
		const struct usher_request *request, uint32_t *candidates, size_t count)
{
	const char *wanted = wanted_zone(instance, view);
	size_t kept = 0;

	(void) request;
	if (!wanted)
		return 0;
	for (size_t i = 0; i < count; i++) {
		struct usher_endpoint e = USHER_ENDPOINT_INIT;

		usher_endpoints_get(view->endpoints, candidates[i], &e);
		if (e.zone && strcasecmp(e.zone, wanted) == 0)
			candidates[kept++] = candidates[i];
	}
	return kept;
}

static void zone_explain(const void *instance, const struct usher_view *view,
		const struct usher_request *request, uint32_t candidate, char *ret_text,
		size_t size)
{
	const char *wanted = wanted_zone(instance, view);
	struct usher_endpoint e = USHER_ENDPOINT_INIT;

	(void) request;
	usher_endpoints_get(view->endpoints, candidate, &e);
	if (!wanted)
		(void) snprintf(ret_text, size,
				"the zone of this node is not known: set node.zone, or prefer");
	else if (!e.zone)
		(void) snprintf(ret_text, size, "has no zone, %s is preferred", wanted);
	else
		(void) snprintf(ret_text, size, "zone %s is not %s", e.zone, wanted);
}

static const struct usher_option zone_options[] = {
	{ .name = "prefer",
			.type = USHER_OPTION_STRING,
			.offset = offsetof(struct zone, prefer),
			.help = "The zone to keep, in any case of letters; the node's own when not "
				"given." },
	{},
};

USHER_PLUGIN(.name = "zone", .summary = "Those of one zone", .instance_size = sizeof(struct zone),
		.options = zone_options,
		.stage = &(const struct usher_stage){
				.size = sizeof(struct usher_stage),
				.filter = zone_filter,
				.explain = zone_explain,
		});
