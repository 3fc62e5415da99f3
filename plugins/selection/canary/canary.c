/* Gives a share of the requests to the endpoints that match, and nothing to them of the rest.
 *
 * A key's place in 0..1 is its hash, and it is in when that is below the share: so the same key is
 * always in or always out, and who is in at 5 % is in at 10 %, too. The place depends on the
 * service as well, so that not the same few meet every service's canary. The rest keeps off the
 * canaries whatever on_empty says: one release must not fall onto the other because one of them is
 * gone. */

#include <stdio.h>
#include <usher/match.h>
#include <usher/plugin.h>

#define SEED UINT64_C(0x63616e617279) /* "canary" */

enum by {
	BY_AUTO,
	BY_KEY,
	BY_RANDOM
};

struct canary {
	const char *const *match; /* option */
	double share;             /* option */
	int by;                   /* option, enum by */
	int64_t minimum;          /* option */
	struct usher_match *parsed;
};

static bool has_key(const struct usher_request *request)
{
	return request && request->key && request->key[0];
}

/* Whether the request is of the share. */
static bool is_in(const struct canary *c, const struct usher_view *view,
		const struct usher_request *request)
{
	uint64_t seed;

	if (!request || (c->by == BY_KEY && !has_key(request)))
		return false;
	seed = usher_hash_text(view->service, SEED);
	return usher_request_draw(request, c->by != BY_RANDOM, seed) < c->share;
}

/* Whether it is a canary. */
static uint64_t canary_mark(const void *instance, const struct usher_view *view, uint32_t endpoint)
{
	const struct canary *c = instance;

	return usher_match_holds(c->parsed, view->endpoints, endpoint);
}

static bool is_canary(const struct canary *c, const struct usher_pass *pass, uint32_t i)
{
	return pass->marks ? pass->marks[i] : canary_mark(c, pass->view, i);
}

static size_t count_usable(const struct canary *c, const struct usher_pass *pass,
		const uint32_t *candidates, size_t count)
{
	size_t usable = 0;

	for (size_t i = 0; i < count; i++)
		usable += pass->view->weights[candidates[i]] > 0 &&
				is_canary(c, pass, candidates[i]);
	return usable;
}

static size_t canary_run(
		const void *instance, struct usher_pass *pass, uint32_t *candidates, size_t count)
{
	const struct canary *c = instance;
	bool in = is_in(c, pass->view, pass->request);
	size_t kept = 0;

	if (in && count_usable(c, pass, candidates, count) < (size_t) c->minimum)
		return 0;
	for (size_t i = 0; i < count; i++)
		if (is_canary(c, pass, candidates[i]) == in)
			candidates[kept++] = candidates[i];
	pass->final = !in;
	return kept;
}

static void canary_explain(const void *instance, const struct usher_view *view,
		const struct usher_request *request, uint32_t candidate, char *ret_text,
		size_t size)
{
	const struct canary *c = instance;
	char why[128];

	if (!usher_match_holds(c->parsed, view->endpoints, candidate)) {
		usher_match_explain(c->parsed, view->endpoints, candidate, why, sizeof(why));
		(void) snprintf(ret_text, size, "no canary, and this request is for one: %s", why);
	} else if (is_in(c, view, request)) {
		(void) snprintf(ret_text, size, "a canary, but too few of them are usable");
	} else {
		(void) snprintf(ret_text, size, "a canary, and this request is not for one");
	}
}

static void canary_tell(const void *instance, const struct usher_pass *pass,
		const uint32_t *candidates, size_t count, size_t kept, char *ret_text, size_t size)
{
	const struct canary *c = instance;
	bool by_key = c->by != BY_RANDOM && has_key(pass->request);
	const char *how = by_key ? "by its key" : c->by == BY_KEY ? "without a key" : "by chance";

	if (!is_in(c, pass->view, pass->request))
		(void) snprintf(ret_text, size,
				"this request, %s, is not of the %.3g%% for canaries%s", how,
				100 * c->share, kept == 0 ? ", and there is nobody else" : "");
	else if (kept > 0)
		(void) snprintf(ret_text, size, "this request, %s, is of the %.3g%% for canaries",
				how, 100 * c->share);
	else
		(void) snprintf(ret_text, size,
				"this request, %s, is of the %.3g%% for canaries, but %zu of them "
				"are usable and %lld are wanted",
				how, 100 * c->share, count_usable(c, pass, candidates, count),
				(long long) c->minimum);
}

static int canary_init(void *instance, struct usher_error *reterr)
{
	struct canary *c = instance;

	return usher_match_new(c->match, &c->parsed, reterr);
}

static void canary_done(void *instance)
{
	struct canary *c = instance;

	c->parsed = usher_match_free(c->parsed);
}

static const char *const by_choices[] = {
	[BY_AUTO] = "auto",
	[BY_KEY] = "key",
	[BY_RANDOM] = "random",
	NULL,
};

static const struct usher_option canary_options[] = {
	{ .name = "match",
			.type = USHER_OPTION_STRINGS,
			.offset = offsetof(struct canary, match),
			.flags = USHER_REQUIRED,
			.help = "Which endpoints are canaries: selectors as in Kubernetes, all of "
				"which must match." },
	{ .name = "share",
			.type = USHER_OPTION_SHARE,
			.offset = offsetof(struct canary, share),
			.flags = USHER_REQUIRED,
			.help = "Of the requests, how many go to canaries." },
	{ .name = "by",
			.type = USHER_OPTION_CHOICE,
			.offset = offsetof(struct canary, by),
			.help = "What decides: the request's key, so that who is in stays in; "
				"chance (random); or the key where there is one (auto). By key, a "
				"request without one is never in.",
			.default_text = "auto",
			.choices = by_choices },
	{ .name = "minimum",
			.type = USHER_OPTION_INTEGER,
			.offset = offsetof(struct canary, minimum),
			.help = "Fewer usable canaries than this count as none, and on_empty "
				"rules.",
			.default_text = "1",
			.min = 1,
			.max = USHER_ENDPOINTS_MAX },
	{},
};

USHER_PLUGIN(.name = "canary", .summary = "A share for those that match, the rest for others",
		.instance_size = sizeof(struct canary), .options = canary_options,
		.init = canary_init, .done = canary_done,
		.stage = &(const struct usher_stage){
				.size = sizeof(struct usher_stage),
				.looks_at_request = true,
				.explain = canary_explain,
				.run = canary_run,
				.tell = canary_tell,
				.mark = canary_mark,
		});
