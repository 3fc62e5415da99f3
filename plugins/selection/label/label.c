/* Keeps the endpoints whose metadata match selectors in the words of Kubernetes: see usher/match.h.
 */

#include <usher/match.h>
#include <usher/plugin.h>

struct label {
	const char *const *match; /* option */
	struct usher_match *parsed;
};

static void label_done(void *instance)
{
	struct label *l = instance;

	l->parsed = usher_match_free(l->parsed);
}

static int label_init(void *instance, struct usher_error *reterr)
{
	struct label *l = instance;

	return usher_match_new(l->match, &l->parsed, reterr);
}

static size_t label_filter(const void *instance, const struct usher_view *view,
		const struct usher_request *request, uint32_t *candidates, size_t count)
{
	const struct label *l = instance;
	size_t kept = 0;

	(void) request;
	for (size_t i = 0; i < count; i++)
		if (usher_match_holds(l->parsed, view->endpoints, candidates[i]))
			candidates[kept++] = candidates[i];
	return kept;
}

static void label_explain(const void *instance, const struct usher_view *view,
		const struct usher_request *request, uint32_t candidate, char *ret_text,
		size_t size)
{
	const struct label *l = instance;

	(void) request;
	usher_match_explain(l->parsed, view->endpoints, candidate, ret_text, size);
}

static const struct usher_option label_options[] = {
	{ .name = "match",
			.type = USHER_OPTION_STRINGS,
			.offset = offsetof(struct label, match),
			.flags = USHER_REQUIRED,
			.help = "Selectors as in Kubernetes, all of which must match: a=b, a!=b, a "
				"in (x, y), a notin (x, y), a, !a." },
	{},
};

USHER_PLUGIN(.name = "label", .summary = "Those whose metadata match",
		.instance_size = sizeof(struct label), .options = label_options, .init = label_init,
		.done = label_done,
		.stage = &(const struct usher_stage){
				.size = sizeof(struct usher_stage),
				.filter = label_filter,
				.explain = label_explain,
		});
