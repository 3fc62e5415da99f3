/* Keeps the endpoints whose conditions say that they take new requests.
 *
 * Conditions are those of Kubernetes EndpointSlices, with unknown values already resolved by the
 * source: ready (not told counts as true), serving (not told: as ready), terminating (not told:
 * false). An endpoint that terminates and still serves is the question on which people differ, so
 * they choose. */

#include <stdio.h>
#include <usher/plugin.h>

enum terminating {
	TERMINATING_AVOID,
	TERMINATING_FALLBACK,
	TERMINATING_INCLUDE
};

struct ready {
	int terminating; /* option, enum terminating */
};

static bool takes_requests(const struct usher_endpoint *e)
{
	return e->ready && !e->terminating;
}

/* On its way out, but still answering. A terminating endpoint that is called ready is one that its
 * owner publishes regardless (publishNotReadyAddresses). */
static bool still_serves(const struct usher_endpoint *e)
{
	return e->terminating && (e->ready || e->serving);
}

static size_t keep(const struct usher_view *view, uint32_t *candidates, size_t count,
		bool terminating, bool regular)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		struct usher_endpoint e = USHER_ENDPOINT_INIT;

		usher_endpoints_get(view->endpoints, candidates[i], &e);
		if ((regular && takes_requests(&e)) || (terminating && still_serves(&e)))
			candidates[kept++] = candidates[i];
	}
	return kept;
}

static bool any_takes_requests(
		const struct usher_view *view, const uint32_t *candidates, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct usher_endpoint e = USHER_ENDPOINT_INIT;

		usher_endpoints_get(view->endpoints, candidates[i], &e);
		if (takes_requests(&e))
			return true;
	}
	return false;
}

static size_t ready_filter(const void *instance, const struct usher_view *view,
		const struct usher_request *request, uint32_t *candidates, size_t count)
{
	const struct ready *r = instance;
	bool regular;

	(void) request;
	switch ((enum terminating) r->terminating) {
	case TERMINATING_AVOID:
		return keep(view, candidates, count, false, true);
	case TERMINATING_FALLBACK:
		regular = any_takes_requests(view, candidates, count);
		return keep(view, candidates, count, !regular, regular);
	case TERMINATING_INCLUDE:
		return keep(view, candidates, count, true, true);
	}
	return 0;
}

static void ready_explain(const void *instance, const struct usher_view *view,
		const struct usher_request *request, uint32_t candidate, char *ret_text,
		size_t size)
{
	const struct ready *r = instance;
	struct usher_endpoint e = USHER_ENDPOINT_INIT;

	(void) request;
	usher_endpoints_get(view->endpoints, candidate, &e);
	if (!e.terminating)
		(void) snprintf(ret_text, size, "not ready");
	else if (!still_serves(&e))
		(void) snprintf(ret_text, size, "terminating, and does not serve any more");
	else if (r->terminating == TERMINATING_AVOID)
		(void) snprintf(ret_text, size, "terminating, and terminating is avoid");
	else
		(void) snprintf(ret_text, size, "terminating, and others are ready");
}

/* That the stage had to fall back. */
static void ready_tell(const void *instance, const struct usher_pass *pass,
		const uint32_t *candidates, size_t count, size_t kept, char *ret_text, size_t size)
{
	const struct ready *r = instance;

	if (r->terminating == TERMINATING_FALLBACK && kept > 0 &&
			!any_takes_requests(pass->view, candidates, count))
		(void) snprintf(ret_text, size,
				"none of %zu is ready: %zu that terminate and still serve are used",
				count, kept);
}

static const char *const terminating_choices[] = {
	[TERMINATING_AVOID] = "avoid",
	[TERMINATING_FALLBACK] = "fallback",
	[TERMINATING_INCLUDE] = "include",
	NULL,
};

static const struct usher_option ready_options[] = {
	{ .name = "terminating",
			.type = USHER_OPTION_CHOICE,
			.offset = offsetof(struct ready, terminating),
			.help = "What to do with endpoints that terminate and still serve: avoid "
				"them, use them when no other is ready (fallback), or include "
				"them.",
			.default_text = "fallback",
			.choices = terminating_choices },
	{},
};

USHER_PLUGIN(.name = "ready", .summary = "Those that take new requests",
		.instance_size = sizeof(struct ready), .options = ready_options,
		.stage = &(const struct usher_stage){
				.size = sizeof(struct usher_stage),
				.filter = ready_filter,
				.explain = ready_explain,
				.tell = ready_tell,
		});
