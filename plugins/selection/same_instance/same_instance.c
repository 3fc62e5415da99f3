/* Keeps the endpoint that the consumer was given last, as long as it is there.
 *
 * Which one that was the host remembers, for each service and consumer, by id: an endpoint whose
 * metadata change stays the same one. Once another had to be chosen, that one is the last, so the
 * first is not returned to when it comes back. */

#include <stdio.h>
#include <string.h>
#include <usher/plugin.h>

static const char *last_of(const struct usher_request *request)
{
	return request && request->last && request->last[0] ? request->last : NULL;
}

static size_t same_instance_filter(const void *instance, const struct usher_view *view,
		const struct usher_request *request, uint32_t *candidates, size_t count)
{
	const char *last = last_of(request);
	ssize_t found;

	(void) instance;
	if (!last)
		return count;
	found = usher_endpoints_find(view->endpoints, last);
	for (size_t i = 0; i < count; i++)
		if ((ssize_t) candidates[i] == found) {
			candidates[0] = candidates[i];
			return 1;
		}
	return 0;
}

static void same_instance_explain(const void *instance, const struct usher_view *view,
		const struct usher_request *request, uint32_t candidate, char *ret_text,
		size_t size)
{
	const char *last = last_of(request);

	(void) instance;
	(void) view;
	(void) candidate;
	if (last)
		(void) snprintf(ret_text, size, "the last that this consumer was given is %.64s",
				last);
	else
		(void) snprintf(ret_text, size, "this consumer was given none yet");
}

static void same_instance_tell(const void *instance, const struct usher_pass *pass,
		const uint32_t *candidates, size_t count, size_t kept, char *ret_text, size_t size)
{
	const char *last = last_of(pass->request);

	(void) instance;
	(void) candidates;
	(void) count;
	if (!last)
		(void) snprintf(ret_text, size, "this consumer was given none yet");
	else if (kept == 0)
		(void) snprintf(ret_text, size, "%.64s, which this consumer was given last, %s",
				last,
				usher_endpoints_find(pass->view->endpoints, last) < 0
						? "is gone"
						: "is no candidate");
}

static const struct usher_option same_instance_options[] = { {} };

USHER_PLUGIN(.name = "same_instance", .summary = "The one that the consumer was given last",
		.options = same_instance_options,
		.stage = &(const struct usher_stage){
				.size = sizeof(struct usher_stage),
				.looks_at_request = true,
				.filter = same_instance_filter,
				.explain = same_instance_explain,
				.flags = USHER_STAGE_LAST,
				.tell = same_instance_tell,
		});
