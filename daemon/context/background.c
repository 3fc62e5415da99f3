#include "background.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "chain-order.h"
#include "clock.h"
#include "computing.h"
#include "directory-private.h"
#include "ownership.h"
#include "worker.h"

struct background {
	struct job job;
	struct context *context; /* NULL: nobody waits for it any more */
	unsigned attempts;

	/* What the thread looks at: references and copies. */
	struct config *config; /* that the borrowed texts are of */
	char *service;
	struct chain *chain;
	struct snapshot *previous;
	struct override_entry *overrides;
	size_t override_count;
	struct tally tally;
	struct computing_input input;
	struct merge_rules rules;
	struct observation *answers[CONFIG_FEEDS_MAX];
	size_t feed_count;
	size_t feed;                   /* whose offer it is, or MERGE_NONE */
	struct observation *offer;     /* NULL: none */
	struct observation *reference; /* what it is compared with; NULL: nothing can be removed */
	double guard_share;
	const struct directory_renderer *renderer; /* NULL: nobody wants to hear of the change */
	char *sources[CONFIG_FEEDS_MAX];

	/* What comes of it. */
	struct judgement judgement;
	struct merged merged;
	struct computing computing;
	int r;
};

/* What any thread may free, the large ones all. */
static void free_values(struct background *b)
{
	computing_done(&b->computing);
	b->computing = (struct computing){};
	merged_done(&b->merged);
	for (size_t i = 0; i < b->feed_count; i++)
		b->answers[i] = observation_unref(b->answers[i]);
	b->offer = observation_unref(b->offer);
	b->reference = observation_unref(b->reference);
	b->judgement.retained = observation_unref(b->judgement.retained);
	tally_done(&b->tally);
	b->previous = snapshot_unref(b->previous);
}

/* On the core. */
static struct background *background_free(struct background *b)
{
	if (!b)
		return NULL;
	free_values(b);
	for (size_t i = 0; i < b->feed_count; i++)
		free(b->sources[i]);
	overrides_free(b->overrides, b->override_count);
	(void) chain_unref(b->chain);
	(void) config_unref(b->config);
	free(b->service);
	free(b);
	return NULL;
}
DEFINE_CLEANUP(struct background, background_free);

/* ---- in the thread ---- */

/* A removal that a rollout works for is no surprise. */
static bool is_on_its_way_out(void *userdata, const char *id, const char *uid)
{
	const struct background *b = userdata;

	for (size_t i = 0; i < b->override_count; i++)
		if (strcmp(b->overrides[i].id, id) == 0)
			return override_takes_out(&b->overrides[i].override, uid);
	return false;
}

/* As feed_offered() does on the core; in doubt, for lack of memory, the offer goes through. */
static int judge(struct background *b)
{
	struct judgement *j = &b->judgement;
	const struct observation *in_force = b->answers[b->feed], *reference = b->reference;
	struct usher_endpoints *set;
	int r;

	if (reference &&
			guard_compare(reference->endpoints, b->offer->endpoints, is_on_its_way_out,
					b, &j->removal) >= 0 &&
			guard_holds(&j->removal, b->offer->verdict, b->guard_share)) {
		r = guard_retain(reference->endpoints, b->offer->endpoints, is_on_its_way_out, b,
				&set);
		if (r < 0)
			return r;
		j->held = true;
		j->retained = observation_new(
				set, USHER_FRESH, reference->revision, reference->observed_usec);
		if (!j->retained)
			return -ENOMEM;
	}
	j->same = in_force &&
			usher_endpoints_equal(in_force->endpoints,
					(j->retained ? j->retained : b->offer)->endpoints);
	return 0;
}

/* What fails here is rendered on the core. */
static void render(struct background *b)
{
	struct snapshot *s = b->computing.snapshot;
	struct snapshot_names names = { .origins = b->merged.origins };

	for (size_t i = 0; i < b->feed_count; i++)
		names.sources[i] = b->sources[i];
	s->difference = b->renderer->difference(b->previous, s, &names, &s->difference_length);
	s->before_serial = b->previous->serial;
}

static int compute(struct background *b)
{
	struct usher_endpoints *sets[CONFIG_FEEDS_MAX];
	int r;

	if (b->offer) {
		r = judge(b);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < b->feed_count; i++)
		sets[i] = b->answers[i] ? b->answers[i]->endpoints : NULL;
	if (b->offer && !b->judgement.same)
		sets[b->feed] = (b->judgement.retained ? b->judgement.retained : b->offer)
						->endpoints;
	r = merge(&b->rules, sets, b->feed_count, &b->merged);
	if (r >= 0 && b->merged.endpoints)
		r = computing_run(&b->computing, &b->input);
	if (r >= 0 && b->renderer && b->computing.differs)
		render(b);
	return r;
}

static void background_run(struct job *job)
{
	struct background *b = (struct background *) job;

	b->r = compute(b);
}

/* ---- back on the core ---- */

static void release_sources(struct context *c)
{
	for (size_t i = 0; i < c->feed_count; i++)
		if (c->feeds[i].feed.source)
			source_go_on(c->feeds[i].feed.source, c->service);
}

static void hold_sources(struct context *c)
{
	for (size_t i = 0; i < c->feed_count; i++)
		if (c->feeds[i].feed.source)
			source_hold(c->feeds[i].feed.source, c->service);
}

/* Whether all that it was computed from is still so. */
static bool is_current(const struct background *b, uint64_t now_usec)
{
	struct context *c = b->context;

	if (c->snapshot != b->previous || context_wanted_chain(c) != b->chain ||
			c->directory->config != b->config)
		return false;
	return b->rules.policy != MERGE_RACE || context_race_stands(c, b->rules.leader, now_usec);
}

/* What consumers did meanwhile. */
static void carry_tally(struct background *b)
{
	struct computing *k = &b->computing;

	if (b->previous)
		tally_carry(&k->tally, &b->context->tally, k->origins, k->in.same_chain);
}

/* The offer, once more, on the core; or what else was due. */
static void do_it_here(struct context *c, struct background *b, uint64_t now_usec)
{
	struct observation *offer = take(b->offer);

	if (offer)
		feed_take(c, &c->feeds[b->feed], offer, NULL, now_usec);
	feed_settle(c, offer, context_recompute_or_retry(c, now_usec), now_usec);
}

static bool start_again(struct context *c, struct background *b, uint64_t now_usec)
{
	struct feed_state *f = b->offer ? &c->feeds[b->feed] : NULL;

	if (b->attempts >= BACKGROUND_ATTEMPTS_MAX || !background_wants(c, b->offer) ||
			background_start(c, f, b->offer, now_usec) < 0)
		return false;
	b->offer = NULL;
	c->background->attempts = b->attempts + 1;
	return true;
}

static void put_in_force(struct context *c, struct background *b, uint64_t now_usec)
{
	struct observation *offer = take(b->offer);
	int r = 0;

	if (offer)
		feed_take(c, &c->feeds[b->feed], offer, &b->judgement, now_usec);
	if (offer && b->judgement.held && !c->feeds[b->feed].feed.held) {
		r = context_recompute_or_retry(c, now_usec); /* the hold is over already */
	} else {
		merged_done(&c->merged);
		c->merged = b->merged;
		b->merged = (struct merged){ .only = MERGE_NONE };
		c->merged_valid = true;
		if (context_may_publish(c, now_usec))
			r = context_publish(c, &b->computing);
		if (r < 0)
			r = context_recompute_or_retry(c, now_usec);
	}
	feed_settle(c, offer, r, now_usec);
}

static void run_rubbish(struct job *job)
{
	free_values((struct background *) job);
}

static void rubbish_done(struct job *job, bool cancelled)
{
	(void) cancelled;
	(void) background_free((struct background *) job);
}

/* Giving back many megabytes takes milliseconds, too. */
static void throw_away(struct background *b, struct worker *worker)
{
	b->job.run = run_rubbish;
	b->job.done = rubbish_done;
	if (worker_submit(worker, &b->job) < 0)
		(void) background_free(b);
}

static void take_result(struct context *c, struct background *b, bool cancelled)
{
	uint64_t now_usec = clock_boot_usec();

	assert(c->background == b);
	c->background = NULL;
	if (!cancelled && !is_current(b, now_usec) && start_again(c, b, now_usec))
		return;
	release_sources(c);
	if (!cancelled && b->r >= 0 && b->computing.snapshot && b->computing.count > 0 &&
			is_current(b, now_usec)) {
		carry_tally(b);
		put_in_force(c, b, now_usec);
	} else {
		do_it_here(c, b, now_usec);
	}
}

static void background_done(struct job *job, bool cancelled)
{
	struct background *b = (struct background *) job;
	struct context *c = b->context;

	if (c)
		take_result(c, b, cancelled);
	if (c && !cancelled)
		throw_away(b, c->directory->worker);
	else
		(void) background_free(b);
}

void background_finish(struct context *c, uint64_t now_usec)
{
	struct background *b = c->background;
	struct background copy;

	if (!b)
		return;
	copy = (struct background){ .feed = b->feed, .offer = observation_ref(b->offer) };
	background_abandon(c);
	do_it_here(c, &copy, now_usec);
}

void background_abandon(struct context *c)
{
	if (!c->background)
		return;
	c->background->context = NULL;
	c->background = NULL;
	release_sources(c);
}

/* ---- begin ---- */

bool background_wants(const struct context *c, const struct observation *offer)
{
	size_t count = offer ? usher_endpoints_count(offer->endpoints) : 0;

	if (!c->directory->worker || service_observes_health(c->config))
		return false;
	for (size_t i = 0; i < c->feed_count; i++) {
		const struct observation *o = c->feeds[i].feed.observation;

		count += o ? usher_endpoints_count(o->endpoints) : 0;
	}
	return count >= BACKGROUND_MIN;
}

static int copy_context(struct background *b, const struct context *c)
{
	int r;

	b->service = strdup(c->service);
	b->overrides = calloc(c->override_count + 1, sizeof(*b->overrides));
	if (!b->service || !b->overrides)
		return -ENOMEM;
	for (size_t i = 0; i < c->override_count; i++) {
		r = override_entry_init(&b->overrides[i], &c->overrides[i].override);
		if (r < 0)
			return r;
		b->override_count++;
	}
	return c->snapshot ? tally_copy(&b->tally, &c->tally) : 0;
}

static int take_feeds(struct background *b, const struct context *c)
{
	b->feed_count = c->feed_count;
	for (size_t i = 0; i < c->feed_count; i++) {
		const struct feed *f = &c->feeds[i].feed;

		b->answers[i] = observation_ref(f->observation);
		b->sources[i] = strdup(f->config->source);
		if (!b->sources[i])
			return -ENOMEM;
	}
	context_fill_rules(c, &b->rules);
	return 0;
}

static void take_renderer(struct background *b, const struct context *c)
{
	const struct directory *d = c->directory;

	if (c->snapshot && d->renderer && d->renderer->wanted(d->renderer_userdata, c))
		b->renderer = d->renderer;
}

static void take_offer(struct background *b, const struct context *c, const struct feed_state *f,
		struct observation *offer)
{
	struct observation *reference = f->base ? f->base : f->feed.observation;

	b->feed = (size_t) (f - c->feeds);
	b->offer = offer;
	b->guard_share = c->config->guard_share;
	if (reference && c->config->guard_share < 1 && c->config->guard_hold_usec > 0)
		b->reference = observation_ref(reference);
}

int background_start(struct context *c, struct feed_state *f, struct observation *offer,
		uint64_t now_usec)
{
	cleanup(background_freep) struct background *b = calloc(1, sizeof(*b));
	int r;

	assert(!c->background);
	if (!b)
		return -ENOMEM;
	b->feed = MERGE_NONE;
	b->merged.only = MERGE_NONE;
	b->config = config_ref(c->directory->config);
	b->chain = chain_ref(context_wanted_chain(c));
	b->previous = snapshot_ref(c->snapshot);
	r = copy_context(b, c);
	if (r >= 0)
		r = take_feeds(b, c);
	if (r < 0)
		return r;
	if (f)
		take_offer(b, c, f, offer);
	take_renderer(b, c);
	computing_gather(c, &b->merged, now_usec, &b->input);
	b->input.service = b->service;
	b->input.overrides = b->overrides;
	b->input.tally = &b->tally;
	b->job = (struct job){ .run = background_run, .done = background_done };
	r = worker_submit(c->directory->worker, &b->job);
	if (r < 0) {
		b->offer = NULL; /* the caller's */
		return r;
	}
	hold_sources(c);
	b->context = c;
	c->background = take(b);
	return 0;
}
