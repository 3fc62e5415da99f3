/* Drops the endpoints that the request excludes: those that it has tried already.
 *
 * Every one of them, for a third attempt at the first that failed is no better than the second. An
 * id that the service does not have excludes nothing. The host does the same by itself where no
 * chain has this stage; having it says where in the chain, and what happens when none is left. */

#include <stdio.h>
#include <string.h>
#include <usher/plugin.h>

static bool excludes(const struct usher_request *request, const struct usher_view *view,
		uint32_t candidate)
{
	const char *id = usher_endpoints_id(view->endpoints, candidate);

	for (size_t i = 0; request && i < request->exclude_count; i++)
		if (strcmp(request->exclude[i], id) == 0)
			return true;
	return false;
}

static size_t drop(uint32_t *candidates, size_t count, uint32_t dropped)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++)
		if (candidates[i] != dropped)
			candidates[kept++] = candidates[i];
	return kept;
}

static size_t exclude_filter(const void *instance, const struct usher_view *view,
		const struct usher_request *request, uint32_t *candidates, size_t count)
{
	(void) instance;
	for (size_t i = 0; request && i < request->exclude_count; i++) {
		ssize_t found = usher_endpoints_find(view->endpoints, request->exclude[i]);

		if (found >= 0)
			count = drop(candidates, count, (uint32_t) found);
	}
	return count;
}

static void exclude_explain(const void *instance, const struct usher_view *view,
		const struct usher_request *request, uint32_t candidate, char *ret_text,
		size_t size)
{
	(void) instance;
	(void) snprintf(ret_text, size, "%s",
			excludes(request, view, candidate) ? "excluded by the request"
							   : "not excluded");
}

/* An id that is misspelt excludes nothing, and nobody would see it. */
static void exclude_tell(const void *instance, const struct usher_pass *pass,
		const uint32_t *candidates, size_t count, size_t kept, char *ret_text, size_t size)
{
	const struct usher_request *request = pass->request;
	const char *unknown = NULL;
	size_t unknown_count = 0;

	(void) instance;
	(void) candidates;
	(void) count;
	(void) kept;
	for (size_t i = 0; request && i < request->exclude_count; i++) {
		if (usher_endpoints_find(pass->view->endpoints, request->exclude[i]) >= 0)
			continue;
		unknown_count++;
		if (!unknown)
			unknown = request->exclude[i];
	}
	if (!request || request->exclude_count == 0)
		(void) snprintf(ret_text, size, "the request excludes nothing");
	else if (unknown_count == 1)
		(void) snprintf(ret_text, size, "no endpoint is called %.64s", unknown);
	else if (unknown_count > 1)
		(void) snprintf(ret_text, size,
				"%zu excluded ids are no endpoint's, the first is %.64s",
				unknown_count, unknown);
}

static const struct usher_option exclude_options[] = { {} };

USHER_PLUGIN(.name = "exclude", .summary = "Those that the request has not tried yet",
		.options = exclude_options,
		.stage = &(const struct usher_stage){
				.size = sizeof(struct usher_stage),
				.looks_at_request = true,
				.filter = exclude_filter,
				.explain = exclude_explain,
				.flags = USHER_STAGE_STRICT | USHER_STAGE_EXCLUDES,
				.tell = exclude_tell,
		});
