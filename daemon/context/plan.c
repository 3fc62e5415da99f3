/* From one configuration to the next: what can be refused is refused while planning, and carrying a
 * plan out cannot fail half way. */

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "background.h"
#include "clock.h"
#include "directory-private.h"
#include "log.h"
#include "ownership.h"
#include "place.h"

struct planned_service {
	const struct service_config *config;
	struct chain *chain;
	struct check *check; /* NULL: its endpoints are not asked */
	struct feed_state *feeds;
	struct context *fresh; /* NULL: the context that is there goes on */
};

struct directory_plan {
	const struct config *before; /* the configuration that it follows */
	struct config *config;
	struct planned_service *services;
	size_t service_count;
	struct origin **origins; /* NULL where the one that runs goes on */
	size_t origin_count;
	struct chain *default_chain;
	struct check *default_check;
	struct context **contexts, **heap, **leaving; /* arrays to build in; capacity each */
	size_t capacity;
};

DEFINE_CLEANUP(struct directory_plan, directory_plan_free);

struct directory_plan *directory_plan_free(struct directory_plan *plan)
{
	if (!plan)
		return NULL;
	for (size_t i = 0; plan->services && i < plan->service_count; i++) {
		struct planned_service *s = &plan->services[i];

		(void) chain_unref(s->chain);
		(void) check_unref(s->check);
		(void) feeds_free(s->feeds, s->feeds ? s->config->feed_count : 0);
		(void) context_free(s->fresh);
	}
	for (size_t i = 0; plan->origins && i < plan->origin_count; i++)
		(void) origin_free(plan->origins[i]);
	(void) chain_unref(plan->default_chain);
	(void) check_unref(plan->default_check);
	(void) config_unref(plan->config);
	free(plan->services);
	free(plan->origins);
	free(plan->contexts);
	free(plan->heap);
	free(plan->leaving);
	free(plan);
	return NULL;
}

/* ---- planning ---- */

static int plan_origins(
		struct directory *d, struct directory_plan *plan, struct usher_error *reterr)
{
	const struct config *config = plan->config;

	plan->origins = calloc(
			config->source_count ? config->source_count : 1, sizeof(struct origin *));
	if (!plan->origins)
		return -ENOMEM;
	plan->origin_count = config->source_count;
	for (size_t i = 0; i < config->source_count; i++) {
		const struct source_config *source = &config->sources[i];
		const struct origin *running = directory_find_origin(d, source->name);
		struct origin *o;
		int r;

		if (running && plugin_use_equal(&running->config->use, &source->use))
			continue;
		o = plan->origins[i] = calloc(1, sizeof(*o));
		if (!o)
			return -ENOMEM;
		o->config = source;
		r = plugin_instance_new(
				d->plugins, &source->use, FACET_DISCOVERY, &o->instance, reterr);
		if (r < 0)
			return r;
	}
	return 0;
}

static int default_chain(struct directory *d, struct directory_plan *plan, struct chain **ret,
		struct usher_error *reterr)
{
	int r;

	if (!plan->default_chain && d->lazy_chain &&
			chain_config_equal(&d->config->defaults, &plan->config->defaults))
		plan->default_chain = chain_ref(d->lazy_chain);
	if (!plan->default_chain) {
		r = chain_new(d->plugins, &plan->config->defaults, &plan->default_chain, reterr);
		if (r < 0)
			return r;
	}
	*ret = plan->default_chain;
	return 0;
}

/* The chain that is there, the one of the defaults, or a new one. */
static int plan_chain(struct directory *d, struct directory_plan *plan, struct planned_service *s,
		const struct context *running, struct usher_error *reterr)
{
	struct chain *chain;
	int r;

	if (running && chain_config_equal(running->config, s->config)) {
		s->chain = chain_ref(context_wanted_chain(running));
		return 0;
	}
	if (!chain_config_equal(&plan->config->defaults, s->config))
		return chain_new(d->plugins, s->config, &s->chain, reterr);
	r = default_chain(d, plan, &chain, reterr);
	if (r < 0)
		return r;
	s->chain = chain_ref(chain);
	return 0;
}

static int make_check(
		const struct service_config *config, struct check **ret, struct usher_error *reterr)
{
	struct usher_error why = {};
	int r;

	if (config->health.check.kind == CHECK_NONE)
		return 0;
	r = check_new(&config->health.check, ret, &why);
	if (r >= 0 || r == -ENOMEM)
		return r;
	return place_error(reterr, config->place, r, "%shealth: %s",
			config->place ? "" : "defaults: ", usher_error_text(&why, r));
}

/* The check of the defaults, or one of its own. */
static int plan_check(
		struct directory_plan *plan, struct planned_service *s, struct usher_error *reterr)
{
	if (plan->default_check &&
			check_config_equal(check_config(plan->default_check),
					&s->config->health.check)) {
		s->check = check_ref(plan->default_check);
		return 0;
	}
	return make_check(s->config, &s->check, reterr);
}

static int plan_service(struct directory *d, struct directory_plan *plan,
		const struct service_config *config, struct usher_error *reterr)
{
	struct planned_service *s = &plan->services[plan->service_count++];
	const struct context *running;
	size_t i;
	int r;

	s->config = config;
	running = directory_search(d, config->name, &i) ? d->contexts[i] : NULL;
	r = plan_chain(d, plan, s, running, reterr);
	if (r < 0)
		return r;
	r = plan_check(plan, s, reterr);
	if (r < 0)
		return r;
	s->feeds = feeds_new(config);
	if (!s->feeds)
		return -ENOMEM;
	/* A lazy one may be gone when the plan is carried out. */
	if (running && running->eager)
		return 0;
	return context_new(d, config->name, &s->fresh);
}

static int plan_services(
		struct directory *d, struct directory_plan *plan, struct usher_error *reterr)
{
	const struct config *config = plan->config;
	struct chain *chain;
	int r = 0;

	plan->services = calloc(
			config->service_count ? config->service_count : 1, sizeof(*plan->services));
	if (!plan->services)
		return -ENOMEM;
	if (config->lazy_allow)
		r = default_chain(d, plan, &chain, reterr);
	for (size_t i = 0; r >= 0 && i < config->service_count; i++)
		r = plan_service(d, plan, &config->services[i], reterr);
	return r;
}

static int plan_arrays(const struct directory *d, struct directory_plan *plan)
{
	/* Whatever comes and goes until the plan is carried out. */
	size_t capacity = plan->config->service_count + 1;

	if (d->config)
		capacity += d->config->service_count + d->config->lazy_limit;
	plan->contexts = calloc(capacity, sizeof(struct context *));
	plan->heap = calloc(capacity, sizeof(struct context *));
	plan->leaving = calloc(capacity, sizeof(struct context *));
	plan->capacity = capacity;
	return plan->contexts && plan->heap && plan->leaving ? 0 : -ENOMEM;
}

int directory_prepare(struct directory *d, struct config *config, struct directory_plan **ret,
		struct usher_error *reterr)
{
	cleanup(directory_plan_freep) struct directory_plan *plan = calloc(1, sizeof(*plan));
	int r = -ENOMEM;

	if (plan) {
		plan->before = d->config;
		plan->config = config_ref(config);
		r = plan_arrays(d, plan);
	}
	if (r >= 0 && !d->office)
		r = health_office_new(d->event, d->inbox, &config->prober, &d->office);
	if (r >= 0)
		r = plan_origins(d, plan, reterr);
	if (r >= 0)
		r = make_check(&config->defaults, &plan->default_check, reterr);
	if (r >= 0)
		r = plan_services(d, plan, reterr);
	if (r == -ENOMEM)
		return usher_error_set(reterr, r, "out of memory");
	if (r < 0)
		return r;
	*ret = take(plan);
	return 0;
}

/* ---- carrying out ---- */

struct applying {
	struct directory *d;
	struct directory_plan *plan;
	struct config *before;
	bool node_changed;
	uint64_t now_usec;
	size_t kept, leaving, lazy;
};

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* Take over what the feed of the same source knows. */
static bool move_feed(struct context *c, struct feed_state *to)
{
	for (size_t i = 0; i < c->feed_count; i++) {
		struct feed_state *from = &c->feeds[i];
		const struct feed_config *config = to->feed.config;

		if (!from->feed.config || strcmp(from->feed.config->source, config->source) != 0)
			continue;
		*to = *from;
		to->feed.config = config;
		*from = (struct feed_state){};
		return true;
	}
	return false;
}

static void drop_feeds(struct context *c)
{
	for (size_t i = 0; i < c->feed_count; i++) {
		const struct feed_state *f = &c->feeds[i];

		if (f->feed.config && f->on_disk && c->directory->store)
			(void) store_remove_feed(
					c->directory->store, c->service, f->feed.config->source);
	}
	c->feeds = feeds_free(c->feeds, c->feed_count);
}

/* Whether what the merge sees is other than before. */
static bool replace_feeds(struct context *c, struct feed_state *feeds, size_t count)
{
	bool differs = count != c->feed_count;

	for (size_t i = 0; i < count; i++) {
		const struct feed_config *before = differs ? NULL : c->feeds[i].feed.config;
		const struct feed_config *config = feeds[i].feed.config;

		if (before &&
				(strcmp(before->source, config->source) != 0 ||
						before->decides != config->decides))
			differs = true;
	}
	for (size_t i = 0; i < count; i++)
		(void) move_feed(c, &feeds[i]);
	drop_feeds(c);
	c->feeds = feeds;
	c->feed_count = count;
	return differs;
}

/* A hold that began under another rule ends as the new one says. */
static void shorten_holds(struct context *c, uint64_t now_usec)
{
	for (size_t i = 0; i < c->feed_count; i++) {
		struct feed *f = &c->feeds[i].feed;

		if (!f->held)
			continue;
		f->held_until_usec = f->held_since_usec + c->config->guard_hold_usec;
		if (c->config->guard_share >= 1)
			f->held_until_usec = now_usec;
	}
}

static bool same_threshold(double a, double b)
{
	return a >= b && a <= b;
}

/* The new feeds, chain and check; merge_before is the policy that c->merged was made with. */
static void reconfigure(const struct applying *a, struct context *c, struct feed_state *feeds,
		struct chain *chain, struct check *check, enum merge_policy merge_before)
{
	bool differs = replace_feeds(c, feeds, c->config->feed_count);

	if (differs || merge_before != c->config->merge)
		c->merged_valid = false;
	if (!c->merged_valid || context_wanted_chain(c) != chain || a->node_changed)
		c->recompute_due = true;
	if (!same_threshold(c->panic_threshold, context_panic_threshold(c->config)))
		c->recompute_due = true;
	if (context_observe(c, check))
		c->recompute_due = true;
	context_replace_chain(c, chain);
	shorten_holds(c, a->now_usec);
}

static void keep(struct applying *a, struct context *c)
{
	a->plan->contexts[a->kept++] = c;
	a->lazy += !c->eager;
}

static void go_on(struct applying *a, struct context *c, struct planned_service *s)
{
	enum merge_policy merge_before = c->config ? c->config->merge : s->config->merge;
	bool is_new = c == s->fresh;
	struct feed_config *own_feeds = take(c->own_feeds);

	c->eager = true;
	c->config = s->config;
	reconfigure(a, c, take(s->feeds), s->chain, s->check, merge_before);
	free(own_feeds);
	if (is_new) {
		s->fresh = NULL;
		restored_give(a->d, c, a->now_usec);
		c->recompute_due = true;
	}
	keep(a, c);
}

/* One that nobody declares: a lazy one may go on under the new defaults. */
static void go_on_or_leave(struct applying *a, struct context *c)
{
	const struct config *config = a->plan->config;
	struct feed_config *own_feeds = c->own_feeds;
	enum merge_policy merge_before = c->config->merge;
	struct feed_state *feeds;

	if (c->eager || !config->lazy_allow || a->lazy >= config->lazy_limit ||
			context_reconfigure_lazy(c, config, &feeds) < 0) {
		a->plan->leaving[a->leaving++] = c;
		return;
	}
	reconfigure(a, c, feeds, a->plan->default_chain, a->plan->default_check, merge_before);
	free(own_feeds);
	keep(a, c);
}

/* Both lists are in the order of names. */
static void apply_services(struct applying *a)
{
	struct directory *d = a->d;
	size_t i = 0, k = 0;

	while (i < d->count || k < a->plan->service_count) {
		struct planned_service *s =
				k < a->plan->service_count ? &a->plan->services[k] : NULL;
		struct context *c = i < d->count ? d->contexts[i] : NULL;
		int order = s && c ? strcmp(c->service, s->config->name) : 0;

		if (c && (!s || order < 0)) {
			go_on_or_leave(a, c);
			i++;
		} else if (s && (!c || order > 0)) {
			go_on(a, s->fresh, s);
			k++;
		} else if (s && c) {
			go_on(a, c, s);
			i++;
			k++;
		}
	}
}

static void swap_contexts(struct applying *a)
{
	struct directory *d = a->d;
	struct directory_plan *plan = a->plan;

	assert(a->kept <= plan->capacity && d->heap_count <= plan->capacity);
	if (d->heap_count > 0)
		memcpy(plan->heap, d->heap, d->heap_count * sizeof(struct context *));
	free(d->heap);
	free(d->contexts);
	d->heap = take(plan->heap);
	d->contexts = take(plan->contexts);
	d->capacity = plan->capacity;
	d->count = a->kept;
	d->lazy_count = a->lazy;
}

/* Those that go on move over; what stays behind in *ret_before has gone from the configuration. */
static void swap_origins(struct applying *a, struct origin ***ret_before, size_t *ret_count)
{
	struct directory *d = a->d;
	struct directory_plan *plan = a->plan;

	for (size_t i = 0; i < plan->origin_count; i++) {
		const struct source_config *config = &plan->config->sources[i];

		for (size_t k = 0; !plan->origins[i] && k < d->origin_count; k++) {
			struct origin *o = d->origins[k];

			if (!o || strcmp(o->config->name, config->name) != 0)
				continue;
			plan->origins[i] = take(d->origins[k]);
		}
		assert(plan->origins[i]);
		plan->origins[i]->config = config;
	}
	*ret_before = d->origins;
	*ret_count = d->origin_count;
	d->origins = take(plan->origins);
	d->origin_count = plan->origin_count;
}

static void start_sources(struct applying *a)
{
	struct directory *d = a->d;

	for (size_t i = 0; i < d->origin_count; i++) {
		if (!d->origins[i]->source)
			origin_start(d, d->origins[i], a->now_usec);
		d->origins[i]->wants_changed = true;
	}
	for (size_t i = 0; i < d->count; i++)
		context_connect(d->contexts[i]);
}

static void end_sources(struct applying *a, struct origin **origins, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (!origins[i])
			continue;
		if (origins[i]->report.due_usec != 0)
			report_write(origins[i]);
		directory_let_go(a->d, take(origins[i]->source), a->now_usec);
		(void) origin_free(origins[i]);
	}
	free(origins);
}

static void end_services(struct applying *a)
{
	for (size_t i = 0; i < a->leaving; i++)
		directory_remove(a->d, a->plan->leaving[i], true);
}

static void publish(struct applying *a)
{
	struct directory *d = a->d;

	for (size_t i = 0; i < d->count; i++) {
		struct context *c = d->contexts[i];

		if (c->recompute_due) {
			c->recompute_due = false;
			(void) context_recompute_or_retry(c, a->now_usec);
		}
		if (context_note_freshness(c, a->now_usec))
			directory_tell_renewed(d, c);
		context_schedule(c, a->now_usec);
	}
}

void directory_apply(struct directory *d, struct directory_plan *plan)
{
	struct applying a = {
		.d = d, .plan = plan, .before = d->config, .now_usec = clock_boot_usec()
	};
	struct origin **origins_before;
	size_t origins_before_count;

	assert(plan->before == d->config);
	for (size_t i = 0; i < d->count; i++)
		background_finish(d->contexts[i], a.now_usec);

	a.node_changed = d->config &&
			!(same_text(d->config->node_zone, plan->config->node_zone) &&
					same_text(d->config->node_name, plan->config->node_name));
	apply_services(&a);
	swap_contexts(&a);
	swap_origins(&a, &origins_before, &origins_before_count);
	d->config = take(plan->config);
	(void) chain_unref(d->lazy_chain);
	d->lazy_chain = d->config->lazy_allow ? take(plan->default_chain) : NULL;
	(void) check_unref(d->lazy_check);
	d->lazy_check = take(plan->default_check);
	health_office_configure(d->office, &d->config->prober);
	start_sources(&a);
	end_services(&a);
	end_sources(&a, origins_before, origins_before_count);
	restored_prune(d, a.now_usec);
	publish(&a);
	directory_tell_wants(d);
	directory_wake_at(d, d->restored.until_usec);
	(void) directory_plan_free(plan);
	(void) config_unref(a.before);
}
