/* Everything that a plug-in can offer, and correct: what tests load, patch and break. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <usher/plugin.h>

#include "trace.h"

struct complete {
	const char *path;
	int64_t count;
	char *greeting;
};

static int complete_init(void *instance, struct usher_error *reterr)
{
	struct complete *c = instance;

	if (c->count == 13)
		return usher_error_set(reterr, -EINVAL, "13 is no count for %s", c->path);
	if (c->count == 14)
		return usher_error_set(reterr, -EINVAL, "count: is not wanted");
	c->greeting = strdup("hello");
	return c->greeting ? 0 : -ENOMEM;
}

static void complete_done(void *instance)
{
	struct complete *c = instance;

	free(c->greeting);
}

static int complete_run(void *instance, struct usher_source *source)
{
	int r;

	(void) instance;
	usher_log(USHER_LOG_INFO, "watching for %s", usher_source_name(source));
	do {
		const struct usher_wanted *wanted;
		size_t count;

		wanted = usher_source_wanted(source, &count);
		for (size_t i = 0; i < count; i++) {
			struct usher_endpoints *set = usher_endpoints_new();
			struct usher_endpoint endpoint = USHER_ENDPOINT_INIT;

			endpoint.address = "10.0.0.1";
			endpoint.port = 80;
			if (set && usher_endpoints_add(set, &endpoint, NULL) == 0)
				(void) usher_source_offer(source, wanted[i].service, set,
						USHER_FRESH, NULL, 0);
			else
				usher_endpoints_unref(set);
		}
		r = usher_source_wait(source, NULL);
	} while (r > 0);
	return r;
}

static int complete_remove(void *instance, const struct usher_wanted *service, const char *id,
		struct usher_error *reterr)
{
	(void) instance;
	(void) service;
	return usher_error_set(reterr, -ENOENT, "%s is not registered", id);
}

static size_t complete_filter(const void *instance, const struct usher_view *view,
		const struct usher_request *request, uint32_t *candidates, size_t count)
{
	(void) instance;
	(void) view;
	(void) request;
	(void) candidates;
	return count > 1 ? 1 : count;
}

static void complete_explain(const void *instance, const struct usher_view *view,
		const struct usher_request *request, uint32_t candidate, char *ret_text,
		size_t size)
{
	(void) instance;
	(void) view;
	(void) request;
	(void) candidate;
	strncpy(ret_text, "it is not the first", size);
}

static ssize_t complete_pick(const void *instance, const void *prepared,
		const struct usher_view *view, const struct usher_request *request,
		const uint32_t *candidates, size_t count)
{
	(void) instance;
	(void) prepared;
	(void) view;
	(void) request;
	(void) candidates;
	(void) count;
	return 0;
}

static double complete_share(const void *instance, const struct usher_view *view,
		const uint32_t *candidates, size_t count, size_t position)
{
	(void) instance;
	(void) view;
	(void) candidates;
	(void) count;
	return position == 0 ? 1 : 0;
}

static const struct usher_option complete_options[] = {
	{ "path", USHER_OPTION_PATH, offsetof(struct complete, path), USHER_REQUIRED,
			"Where to look.", NULL, 0, 0, NULL },
	{ "count", USHER_OPTION_INTEGER, offsetof(struct complete, count), 0, "How often.", "3", 1,
			100, NULL },
	{ 0 },
};

USHER_PLUGIN(.name = "complete", .summary = "For the tests", .version = "2.1",
		.instance_size = sizeof(struct complete), .options = complete_options,
		.init = complete_init, .done = complete_done,
		.discovery =
				&(const struct usher_discovery){
						.size = sizeof(struct usher_discovery),
						.run = complete_run },
		.registration = &(const struct usher_registration){ .remove = complete_remove },
		.stage = &(const struct usher_stage){ .size = sizeof(struct usher_stage),
				.filter = complete_filter,
				.explain = complete_explain },
		.selector = &(const struct usher_selector){ .size = sizeof(struct usher_selector),
				.pick = complete_pick,
				.share = complete_share });
