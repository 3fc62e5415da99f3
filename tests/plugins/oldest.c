/* A plug-in as it was built against ABI 1.0: with the structs of then, byte for byte. */

#include <usher/plugin.h>

#include "trace.h"

struct stage_1_0 {
	size_t size;
	bool looks_at_request;
	size_t (*filter)(const void *instance, const struct usher_view *view,
			const struct usher_request *request, uint32_t *candidates, size_t count);
	void (*explain)(const void *instance, const struct usher_view *view,
			const struct usher_request *request, uint32_t candidate, char *ret_text,
			size_t size);
};

struct selector_1_0 {
	size_t size;
	int (*prepare)(const void *instance, const struct usher_view *view,
			const uint32_t *candidates, size_t count, void **ret_prepared);
	void (*release)(void *prepared);
	ssize_t (*pick)(const void *instance, const void *prepared, const struct usher_view *view,
			const struct usher_request *request, const uint32_t *candidates,
			size_t count);
	double (*share)(const void *instance, const struct usher_view *view,
			const uint32_t *candidates, size_t count, size_t position);
};

static size_t oldest_filter(const void *instance, const struct usher_view *view,
		const struct usher_request *request, uint32_t *candidates, size_t count)
{
	(void) instance;
	(void) view;
	(void) request;
	(void) candidates;
	return count;
}

static void oldest_explain(const void *instance, const struct usher_view *view,
		const struct usher_request *request, uint32_t candidate, char *ret_text,
		size_t size)
{
	(void) instance;
	(void) view;
	(void) request;
	(void) candidate;
	(void) ret_text;
	(void) size;
}

static ssize_t oldest_pick(const void *instance, const void *prepared,
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

static double oldest_share(const void *instance, const struct usher_view *view,
		const uint32_t *candidates, size_t count, size_t position)
{
	(void) instance;
	(void) view;
	(void) candidates;
	(void) count;
	return position == 0 ? 1 : 0;
}

/* What lies behind them in memory belongs to nobody, and must not be read as their end. */
static const struct {
	struct stage_1_0 stage;
	uintptr_t behind_stage;
	struct selector_1_0 selector; /* that does not say its size, which was allowed then, too */
	uintptr_t behind_selector[4];
} oldest = {
	.stage = { sizeof(struct stage_1_0), true, oldest_filter, oldest_explain },
	.behind_stage = UINTPTR_MAX,
	.selector = { 0, NULL, NULL, oldest_pick, oldest_share },
	.behind_selector = { UINTPTR_MAX, UINTPTR_MAX, UINTPTR_MAX, UINTPTR_MAX },
};

#undef USHER_ABI_MINOR
#define USHER_ABI_MINOR 0
USHER_PLUGIN(.name = "oldest", .summary = "Of ABI 1.0", .stage = (const void *) &oldest.stage,
		.selector = (const void *) &oldest.selector);
