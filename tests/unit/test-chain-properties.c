/* What holds for every choice, whatever the directory, the chain, the request and the selector: no
 * endpoint is chosen that drains or is withdrawn, has weight 0, is down outside panic, or was left
 * out by a strict stage; and where the model in chain-model.h can tell who is left, one of those is
 * chosen, or none if there is none.
 *
 * Each world is made from its number, so that it is the same one tomorrow. A number as the argument
 * runs that world alone. The loader, the plug-in files, the chain and the context are the real
 * ones; sources and checks say what they are told to. */

#include <fcntl.h>
#include <unistd.h>

#include "chain-model.h"
#include "directory-private.h"
#include "loader.h"
#include "log.h"
#include "stand-in-health.h"
#include "stand-in-source.h"

#define WORLDS 1500
#define SEED   UINT64_C(0x7573686572) /* and the number of the world */
#define PICKS  24                     /* in one world */

static const char *const selectors[] = { "round_robin", "random", "weighted_round_robin",
	"weighted_random", "{least_request: {choices: 3}}", "least_request", "peak_ewma",
	"ring_hash", "{ring_hash: {bounded_load: 125%}}", "{maglev: {table_size: 251}}" };

static const char *const consumers[] = { NULL, "alpha", "beta", "gamma" };

struct world {
	unsigned number;
	sd_event *event;
	struct directory *directory;
	struct context *context;
	struct model_endpoint endpoints[MODEL_ENDPOINTS_MAX];
	struct model_chain chain;
	const char *selector;
	struct yaml_text yaml;
	const char *last[ELEMENTS_OF(consumers)]; /* that each was given */
};

/* What was seen, so that nothing is proven about what never happens. */
static struct seen {
	unsigned refused, worlds, picks, chosen, none, exact, panics, rules, marked;
	unsigned stages[MODEL_KINDS], selectors[ELEMENTS_OF(selectors)];
} seen;

static struct plugins *plugins;

/* ---- what is told when something does not hold ---- */

static void print_endpoint(const struct model_endpoint *e)
{
	print_message("  %s zone=%s weight=%s tier=%s track=%s hint=%s version=%s source=%zu "
		      "ready=%d serving=%d terminating=%d admin=%d health=%d",
			e->id, e->zone, e->weight, e->tier, e->track, e->hint,
			endpoint_versions[e->version], e->source, e->ready, e->serving,
			e->terminating, (int) e->admin, (int) e->health);
	if (e->overridden)
		print_message(" override: withdrawn=%d admin=%d share=%g", e->withdrawn,
				(int) e->override_admin, e->share);
	print_message("\n");
}

__attribute__((format(printf, 4, 5), noreturn)) static void broken(const struct world *w,
		const struct model_request *q, const struct model_result *r, const char *format,
		...)
{
	va_list args;

	print_message("world %u\n%s", w->number, w->yaml.text);
	for (size_t i = 0; i < MODEL_ENDPOINTS_MAX; i++)
		if (w->endpoints[i].present)
			print_endpoint(&w->endpoints[i]);
	print_message("request: hint=%s%s version=%s%s sticky=%s%s ring=%s key=%s consumer=%s "
		      "beta=%s last=%s exclude=",
			q->hint, q->hint_in_header ? " (header)" : "",
			q->version == NO_VERSION ? NULL : asked_versions[q->version].text,
			q->version_in_header ? " (header)" : "", q->sticky,
			q->sticky_in_cookie ? " (cookie)" : "", q->ring, q->key, q->consumer,
			q->beta, q->last);
	for (size_t i = 0; i < q->exclude_count; i++)
		print_message("%s ", q->exclude[i]);
	print_message("\nthe model (%s):", r->exact ? "exact" : "not exact");
	for (size_t i = 0; i < MODEL_ENDPOINTS_MAX; i++)
		if (r->in[i])
			print_message(" %s", w->endpoints[i].id);
	print_message("\n");
	va_start(args, format);
	vprint_error(format, args);
	va_end(args);
	fail_msg("world %u", w->number);
	abort();
}

/* ---- a world ---- */

static void random_endpoint(struct model_endpoint *e)
{
	static const char *const zones[] = { NULL, "east", "East", "west", "north" };
	static const char *const weights[] = { "1", "1", "1", "2", "5", "100000", "0", "many" };
	static const char *const hints[] = { NULL, "stable", "canary" };
	static const char *const tiers[] = { NULL, "gold", "silver", "" };
	static const char *const tracks[] = { NULL, "stable", "canary" };

	e->present = !one_in(3);
	e->zone = any_of(zones);
	e->weight = any_of(weights);
	e->hint = any_of(hints);
	e->tier = any_of(tiers);
	e->track = any_of(tracks);
	e->version = below(ELEMENTS_OF(endpoint_versions));
	e->ready = !one_in(5);
	e->serving = !one_in(4);
	e->terminating = one_in(6);
	e->admin = one_in(8) ? 1 + (enum usher_admin_state) below(2) : USHER_ADMIN_READY;
}

static void random_health(struct model_endpoint *e)
{
	static const enum usher_health states[] = { USHER_HEALTH_UP, USHER_HEALTH_UP,
		USHER_HEALTH_UP, USHER_HEALTH_DOWN, USHER_HEALTH_UNKNOWN, USHER_HEALTH_DEGRADED,
		USHER_HEALTH_EJECTED };

	e->health = any_of(states);
}

static void add_label(
		struct usher_label *labels, size_t *count, const char *name, const char *value)
{
	if (value)
		labels[(*count)++] = (struct usher_label){ name, value };
}

static void add_endpoint(struct usher_endpoints *set, const struct model_endpoint *m, size_t number)
{
	struct usher_endpoint e = USHER_ENDPOINT_INIT;
	struct usher_label labels[8];
	size_t count = 0;

	add_label(labels, &count, "hint", m->hint);
	add_label(labels, &count, "tier", m->tier);
	add_label(labels, &count, "track", m->track);
	add_label(labels, &count, "API_VERSION", endpoint_versions[m->version]);
	add_label(labels, &count, "weight", m->weight);
	e.id = m->id;
	e.address = "10.0.0.1";
	e.port = (uint16_t) (8000 + number); /* one address is one endpoint to a union */
	e.zone = m->zone;
	e.ready = m->ready;
	e.serving = m->serving;
	e.terminating = m->terminating;
	e.admin_state = m->admin;
	e.metadata = labels;
	e.metadata_count = count;
	assert_ok(usher_endpoints_add(set, &e, NULL));
}

/* Who is not there any more is nobody's last. */
static void forget_last(struct world *w)
{
	for (size_t i = 0; i < ELEMENTS_OF(consumers); i++)
		for (size_t k = 0; w->last[i] && k < MODEL_ENDPOINTS_MAX; k++)
			if (!w->endpoints[k].present && strcmp(w->endpoints[k].id, w->last[i]) == 0)
				w->last[i] = NULL;
}

static void offer(struct world *w, size_t source)
{
	struct usher_endpoints *set = usher_endpoints_new();
	struct source *s = fake_source(source == 0 ? "one" : "two");
	struct observation *o;

	for (size_t i = 0; i < MODEL_ENDPOINTS_MAX; i++)
		if (w->endpoints[i].present && w->endpoints[i].source == source)
			add_endpoint(set, &w->endpoints[i], i);
	usher_endpoints_seal(set);
	o = observation_new(set, USHER_FRESH, "r", fake_boot_usec);
	assert_non_null(o);
	s->events->offered(s->userdata, s, "catalog", o);
	forget_last(w);
}

static const struct model_endpoint *model_of(const struct world *w, const char *id)
{
	for (size_t i = 0; i < MODEL_ENDPOINTS_MAX; i++)
		if (strcmp(w->endpoints[i].id, id) == 0)
			return &w->endpoints[i];
	return NULL;
}

static enum usher_health health_of(void *userdata, const char *id)
{
	return model_of(userdata, id)->health;
}

static int configure(struct world *w)
{
	char path[] = "/tmp/usher-test-XXXXXX.yaml";
	struct directory_plan *plan = NULL;
	struct config *config = NULL;
	struct usher_error err = {};
	int fd = mkstemps(path, 5), r;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, w->yaml.text, w->yaml.length), w->yaml.length);
	(void) close(fd);
	r = config_load(path, &config, &err);
	(void) unlink(path);
	if (r >= 0)
		r = directory_prepare(w->directory, config, &plan, &err);
	(void) config_unref(config);
	if (r >= 0)
		directory_apply(w->directory, plan);
	else if (r != -EINVAL)
		fail_msg("world %u: %s\n%s", w->number, err.text, w->yaml.text);
	return r;
}

static void write_yaml(struct world *w)
{
	static const char *const thresholds[] = { "0%", "30%", "70%" };

	w->yaml.length = 0;
	yaml_add(&w->yaml,
			"node: {name: n, zone: east}\n"
			"sources:\n"
			"  - {name: one, plugin: file, options: {path: /nowhere}}\n"
			"  - {name: two, plugin: file, options: {path: /nowhere}}\n"
			"services:\n"
			"  catalog:\n"
			"    sources: [one, two]\n"
			"    merge: union\n"
			"    removal_guard: {share: 100%%}\n"
			"    freshness: {max_age: 1h}\n"
			"    health: {tcp: {}, on_all_down: %s%s%s}\n",
			w->chain.panics ? "panic" : "fail",
			w->chain.panics ? ", panic_threshold: " : "",
			w->chain.panics ? any_of(thresholds) : "");
	chain_to_yaml(&w->yaml, &w->chain);
	yaml_add(&w->yaml, "    select: %s\n", w->selector);
}

/* false: the order of the chain is refused. */
static bool world_init(struct world *w, unsigned number)
{
	size_t selector;

	*w = (struct world){ .number = number };
	chance_state = SEED + number;
	random_chain(&w->chain);
	selector = below(ELEMENTS_OF(selectors));
	w->selector = selectors[selector];
	write_yaml(w);
	for (size_t i = 0; i < MODEL_ENDPOINTS_MAX; i++) {
		(void) snprintf(w->endpoints[i].id, sizeof(w->endpoints[i].id), "e%zu", i);
		w->endpoints[i].source = below(2);
		random_endpoint(&w->endpoints[i]);
		random_health(&w->endpoints[i]);
	}
	assert_ok(sd_event_new(&w->event));
	assert_ok(directory_new(w->event, NULL, plugins, &w->directory));
	if (configure(w) < 0)
		return false;

	w->context = directory_find(w->directory, "catalog");
	fake_health_of = health_of;
	fake_health_userdata = w;
	offer(w, 0);
	offer(w, 1);
	seen.selectors[selector]++;
	for (size_t i = 0; i < w->chain.count; i++) {
		seen.stages[w->chain.stages[i].kind]++;
		seen.rules += w->chain.stages[i].rule_count > 1;
	}
	return true;
}

static void world_done(struct world *w)
{
	(void) directory_free(w->directory);
	(void) sd_event_unref(w->event);
	(void) fake_store_told();
}

/* ---- what happens meanwhile ---- */

static void override(struct world *w, struct model_endpoint *e)
{
	static const double shares[] = { 1, 1, 0.5, 0.001, 0 };

	e->overridden = !e->overridden;
	if (!e->overridden) {
		assert_ok(directory_clear_override(w->directory, "catalog", e->id, NULL));
		return;
	}
	e->withdrawn = one_in(3);
	e->override_admin = (enum usher_admin_state) below(3);
	e->share = any_of(shares);
	assert_ok(directory_set_override(w->directory, "catalog",
			&(struct override){ .id = e->id,
					.admin_state = e->override_admin,
					.withdrawn = e->withdrawn,
					.weight_share = e->share },
			NULL));
}

static void report(struct world *w, const struct model_endpoint *e)
{
	const struct usher_report told = { .size = sizeof(told),
		.outcome = (enum usher_outcome) below(4),
		.count = 1 + (uint32_t) below(3),
		.latency_usec = below(200000),
		.now_usec = fake_boot_usec };
	int r = context_report(w->context, e->id, &told);

	assert_true(r >= 0 || r == -ENOENT);
}

static void wind(struct world *w, uint64_t usec)
{
	fake_boot_usec += usec;
	fake_wall_usec += usec;
	directory_do_due(w->directory, fake_boot_usec);
	directory_end_turn(w->directory);
}

static void something_happens(struct world *w)
{
	struct model_endpoint *e = &w->endpoints[below(MODEL_ENDPOINTS_MAX)];

	switch (below(6)) {
	case 0:
		random_endpoint(e);
		offer(w, 0);
		offer(w, 1);
		break;
	case 1:
		override(w, e);
		break;
	case 2:
		random_health(e);
		fake_health_changed(w->context->health);
		break;
	case 3:
		wind(w, below(40000000));
		break;
	default:
		report(w, e);
		break;
	}
}

/* ---- requests ---- */

static void random_request(const struct world *w, struct model_request *q, size_t consumer)
{
	static const char *const hints[] = { "stable", "canary", "nobody" };
	static const char *const keys[] = { "k1", "k2", "a much longer key than those", "k4" };

	*q = (struct model_request){ .version = NO_VERSION,
		.hint = one_in(2) ? any_of(hints) : NULL,
		.key = one_in(2) ? any_of(keys) : NULL,
		.beta = one_in(3) ? one_in(2) ? "yes" : "no" : NULL,
		.consumer = consumers[consumer],
		.last = w->last[consumer],
		.hint_in_header = one_in(3),
		.version_in_header = one_in(3),
		.sticky_in_cookie = one_in(3) };
	if (!one_in(3))
		q->version = below(NO_VERSION);
	if (q->version == EMPTY_VERSION)
		q->version_in_header = true;
	if (one_in(3))
		q->sticky = one_in(6) ? "nobody" : any_of(w->endpoints).id;
	if (one_in(5))
		q->ring = any_of(w->endpoints).id;
	for (size_t i = one_in(3) ? below(MODEL_EXCLUDE_MAX + 1) : 0; i > 0; i--)
		q->exclude[q->exclude_count++] = one_in(6) ? "nobody" : any_of(w->endpoints).id;
}

/* The request as a consumer makes it. */
struct asked {
	struct usher_request request;
	struct usher_label headers[4];
	char cookie[64];
};

static void add_cookies(struct asked *a, const struct model_request *q)
{
	const char *session = q->sticky_in_cookie ? q->sticky : NULL;

	if (!session && !q->ring)
		return;
	(void) snprintf(a->cookie, sizeof(a->cookie), "%s%s; a=1; %s%s",
			session ? "sc-lb-instance-id=" : "", session ? session : "b",
			q->ring ? "ring=" : "", q->ring ? q->ring : "c");
	a->headers[a->request.header_count++] = (struct usher_label){ "Cookie", a->cookie };
}

static void asked_init(struct asked *a, const struct model_request *q)
{
	const char *version = q->version == NO_VERSION ? NULL : asked_versions[q->version].text;
	size_t count = 0;

	*a = (struct asked){ .request = { .size = sizeof(a->request),
					     .key = q->key,
					     .consumer = q->consumer,
					     .exclude = q->exclude,
					     .exclude_count = q->exclude_count,
					     .headers = a->headers } };
	if (q->hint_in_header)
		add_label(a->headers, &count, "x-sc-lb-hint", q->hint);
	else
		a->request.hint = q->hint;
	if (q->version_in_header)
		add_label(a->headers, &count, "X-API-Version", version);
	else
		a->request.version = version;
	if (!q->sticky_in_cookie)
		a->request.sticky = q->sticky;
	add_label(a->headers, &count, "x-beta", q->beta);
	a->request.header_count = count;
	add_cookies(a, q);
}

/* ---- what must hold ---- */

static bool is_candidate(const struct model_endpoint *e)
{
	return e->present && e->admin == USHER_ADMIN_READY &&
			!(e->overridden &&
					(e->withdrawn || e->override_admin != USHER_ADMIN_READY));
}

static size_t shared_count(const struct model_chain *chain)
{
	size_t count = 0;

	while (count < chain->count && !stage_looks_at_request(&chain->stages[count]))
		count++;
	return count;
}

static bool sees_to_exclude(const struct model_chain *chain)
{
	for (size_t i = 0; i < chain->count; i++)
		if (chain->stages[i].kind == MODEL_EXCLUDE)
			return true;
	return false;
}

/* What the host does by itself before the stages that look at the request. */
static void begin_request(
		const struct world *w, const struct model_request *q, struct model_result *r)
{
	for (size_t i = 0; i < MODEL_ENDPOINTS_MAX; i++)
		r->in[i] = r->in[i] &&
				(sees_to_exclude(&w->chain) || not_excluded(q, w->endpoints[i].id));
}

static void model_run(const struct world *w, const struct model_request *q, struct model_result *r)
{
	size_t shared = shared_count(&w->chain);

	*r = (struct model_result){ .exact = true };
	for (size_t i = 0; i < MODEL_ENDPOINTS_MAX; i++)
		r->in[i] = is_candidate(&w->endpoints[i]);
	for (size_t i = 0; i <= w->chain.count; i++) {
		if (i == shared && r->exact)
			begin_request(w, q, r);
		if (i < w->chain.count && r->exact && count_in(r->in) > 0)
			model_run_stage(&w->chain, &w->chain.stages[i], w->endpoints, q, r);
	}
}

static void check_chosen(const struct world *w, const struct model_request *q,
		const struct model_result *r, const struct pick *pick)
{
	const char *id = usher_endpoints_id(pick->snapshot->all, pick->endpoint);
	const struct model_endpoint *e = model_of(w, id);

	if (!e || !is_candidate(e))
		broken(w, q, r, "%s is chosen, which drains or is not there\n", id);
	if (!weighs(e))
		broken(w, q, r, "%s is chosen, and has weight 0\n", id);
	if (!sees_to_exclude(&w->chain) && !not_excluded(q, id))
		broken(w, q, r, "%s is chosen, which the request excludes\n", id);
	for (size_t i = 0; i < w->chain.count; i++)
		if (!stage_allows(&w->chain.stages[i], e, q, pick->panic))
			broken(w, q, r, "%s is chosen, which %s never lets through\n", id,
					model_kinds[w->chain.stages[i].kind].name);
	if (r->exact && !r->in[e - w->endpoints])
		broken(w, q, r, "%s is chosen, which is not left\n", id);
}

static void check_pick(const struct world *w, const struct model_request *q,
		const struct model_result *r, const struct pick *pick)
{
	if (pick->result == PICK_OK) {
		check_chosen(w, q, r, pick);
		return;
	}
	if (pick->result != PICK_FILTERED && pick->result != PICK_ALL_UNHEALTHY &&
			pick->result != PICK_EMPTY)
		broken(w, q, r, "%s\n", pick_result_to_string(pick->result));
	if (r->exact && any_weighs(w->endpoints, r->in))
		broken(w, q, r, "nobody is chosen (%s, %s)\n", pick_result_to_string(pick->result),
				pick->stage ? pick->stage : "-");
}

static void print_explanation(const struct explanation *e)
{
	for (size_t i = 0; i < e->stage_count; i++) {
		const struct explain_stage *stage = &e->stages[i];

		print_message("  %s: %zu to %zu, rule %zd%s: %s\n", stage->name, stage->step.in,
				stage->step.out, (ssize_t) stage->step.rule,
				stage->step.emptied ? ", emptied" : "", stage->told);
		for (size_t k = 0; k < stage->left_count; k++)
			print_message("    %s: %s\n",
					usher_endpoints_id(e->pick.snapshot->all,
							stage->left[k].endpoint),
					stage->left[k].reason);
	}
}

/* Told stage by stage, who is chosen has left at none of them, and each gets what the one before
 * gave. */
static void check_explanation(const struct world *w, const struct model_request *q,
		const struct model_result *r, const struct explanation *e)
{
	check_pick(w, q, r, &e->pick);
	if (r->exact && e->pick.result == PICK_OK && e->candidate_count != count_in(r->in)) {
		print_explanation(e);
		broken(w, q, r, "it is chosen from %zu\n", e->candidate_count);
	}
	for (size_t i = 0; i < e->stage_count && e->pick.result == PICK_OK; i++) {
		const struct explain_stage *stage = &e->stages[i];

		if (i > 0 && stage->step.in != e->stages[i - 1].step.out)
			broken(w, q, r, "%s gets %zu, and %s gave %zu\n", stage->name,
					stage->step.in, e->stages[i - 1].name,
					e->stages[i - 1].step.out);
		if (stage->left_count != stage->step.in - stage->step.out)
			broken(w, q, r, "%zu left at %s\n", stage->left_count, stage->name);
		for (size_t k = 0; k < stage->left_count; k++)
			if (stage->left[k].endpoint == e->pick.endpoint)
				broken(w, q, r, "it is chosen, and left at %s\n", stage->name);
	}
}

/* Who is left of the chosen for the request. */
static size_t run_with(const struct context *c, const struct usher_request *request,
		const uint64_t *marks, uint32_t *candidates)
{
	const struct snapshot *s = c->snapshot;
	uint32_t scratch[MODEL_ENDPOINTS_MAX];
	struct usher_view view;
	struct chain_work work = { .view = &view,
		.request = request,
		.candidates = candidates,
		.count = s->chosen_count,
		.scratch = scratch,
		.marks = marks };

	context_view(c, s, &c->tally, request->now_usec, &view);
	memcpy(candidates, s->chosen, s->chosen_count * sizeof(*candidates));
	return chain_run(
			c->chain, c->chain->shared_count, c->chain->stage_count, &work, NULL, NULL);
}

/* What was marked at publication says the same as a look at the endpoints. */
static void check_marks(const struct world *w, const struct model_request *q,
		const struct model_result *r, const struct usher_request *request)
{
	const struct context *c = w->context;
	uint32_t marked[MODEL_ENDPOINTS_MAX], looked_at[MODEL_ENDPOINTS_MAX];
	size_t count;

	if (!c->marks)
		return;
	seen.marked++;
	count = run_with(c, request, c->marks, marked);
	if (run_with(c, request, NULL, looked_at) != count ||
			memcmp(marked, looked_at, count * sizeof(*marked)) != 0)
		broken(w, q, r, "without marks others are left than with them, which are %zu\n",
				count);
}

static void choose(struct world *w)
{
	size_t consumer = below(ELEMENTS_OF(consumers));
	struct explanation explanation;
	struct model_request q;
	struct model_result r;
	struct asked a;
	struct pick pick;

	random_request(w, &q, consumer);
	model_run(w, &q, &r);
	asked_init(&a, &q);
	assert_ok(context_explain(w->context, &a.request, fake_boot_usec, &explanation));
	check_explanation(w, &q, &r, &explanation);
	explanation_done(&explanation);
	context_pick(w->context, &a.request, fake_boot_usec, &pick);
	check_pick(w, &q, &r, &pick);
	check_marks(w, &q, &r, &a.request);

	seen.picks++;
	seen.exact += r.exact;
	seen.panics += pick.panic;
	if (pick.result != PICK_OK) {
		seen.none++;
		return;
	}
	seen.chosen++;
	w->last[consumer] = consumers[consumer]
			? model_of(w, usher_endpoints_id(pick.snapshot->all, pick.endpoint))->id
			: NULL;
}

static void run_world(unsigned number)
{
	struct world w;

	if (!world_init(&w, number)) {
		seen.refused++;
		world_done(&w);
		return;
	}
	seen.worlds++;
	for (size_t i = 0; i < PICKS; i++) {
		if (one_in(3))
			something_happens(&w);
		choose(&w);
	}
	world_done(&w);
}

/* ---- the test ---- */

static unsigned first_world, last_world = WORLDS - 1;

static void what_must_not_be_chosen_never_is(void **state)
{
	(void) state;
	print_message("worlds %u to %u, from seed %llu\n", first_world, last_world,
			(unsigned long long) SEED);
	for (unsigned number = first_world; number <= last_world; number++)
		run_world(number);
	print_message("%u worlds, %u refused for their order, %u with rules; %u picks, %u of them "
		      "exact in the model; %u chosen, %u not, %u in panic\n",
			seen.worlds, seen.refused, seen.rules, seen.picks, seen.exact, seen.chosen,
			seen.none, seen.panics);
}

/* The proof above is about all stages and selectors, and about choices that are made. */
static void no_stage_and_no_selector_went_unseen(void **state)
{
	(void) state;
	if (first_world == last_world)
		skip();
	for (size_t i = 0; i < MODEL_KINDS; i++)
		if (seen.stages[i] < WORLDS / 20)
			fail_msg("%s was in %u chains", model_kinds[i].name, seen.stages[i]);
	for (size_t i = 0; i < ELEMENTS_OF(selectors); i++)
		if (seen.selectors[i] < WORLDS / 40)
			fail_msg("%s was in %u worlds", selectors[i], seen.selectors[i]);
	assert_true(seen.worlds > WORLDS / 2);
	assert_true(seen.rules > WORLDS / 20);
	assert_true(seen.chosen > seen.picks / 4);
	assert_true(seen.none > seen.picks / 20);
	assert_true(seen.exact > seen.picks / 4);
	assert_true(seen.panics > seen.picks / 100);
	assert_true(seen.marked > seen.picks / 4);
}

static int load_plugins(void **state)
{
	char *dirs[] = { (char *) (uintptr_t) USHER_PLUGIN_DIR, NULL };

	(void) state;
	log_set_priority(LOG_EMERG);
	return plugins_new(dirs, &plugins);
}

static int forget_plugins(void **state)
{
	(void) state;
	plugins_free(plugins);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_must_not_be_chosen_never_is),
		cmocka_unit_test(no_stage_and_no_selector_went_unseen),
	};

	if (argc > 1)
		first_world = last_world = (unsigned) strtoul(argv[1], NULL, 10);
	return cmocka_run_group_tests(tests, load_plugins, forget_plugins);
}
