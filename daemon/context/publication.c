/* From observations and decisions to the next snapshot. */

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "background.h"
#include "clock.h"
#include "computing.h"
#include "directory-private.h"
#include "log.h"
#include "ownership.h"

/* ---- merge ---- */

/* Who leads the race now; *ret_before: until now. */
static size_t find_leader(const struct context *c, uint64_t now_usec, size_t *ret_before)
{
	struct racer racers[CONFIG_FEEDS_MAX];

	*ret_before = MERGE_NONE;
	for (size_t i = 0; i < c->feed_count; i++) {
		const struct feed *f = &c->feeds[i].feed;

		racers[i] = (struct racer){ .answered = f->observation,
			.empty = f->observation &&
					usher_endpoints_count(f->observation->endpoints) == 0,
			.age_usec = feed_age(f, now_usec) };
		racers[i].live = f->state == SOURCE_LIVE && !f->restored &&
				racers[i].age_usec <= c->config->max_age_usec;
		if (c->feeds[i].leads)
			*ret_before = i;
	}
	return merge_race(racers, c->feed_count, *ret_before);
}

static void set_leader(struct context *c, size_t leader)
{
	for (size_t i = 0; i < c->feed_count; i++)
		c->feeds[i].leads = i == leader;
}

bool context_race_stands(const struct context *c, size_t leader, uint64_t now_usec)
{
	size_t before, now = find_leader(c, now_usec, &before);

	return now == leader;
}

/* True: another than before. */
static bool choose_leader(struct context *c, uint64_t now_usec)
{
	size_t before, leader = find_leader(c, now_usec, &before);

	set_leader(c, leader);
	return leader != before;
}

void context_fill_rules(const struct context *c, struct merge_rules *ret)
{
	*ret = (struct merge_rules){ .policy = c->config->merge, .leader = MERGE_NONE };
	for (size_t i = 0; i < c->feed_count; i++) {
		ret->decides[i] = c->feeds[i].feed.config->decides;
		if (c->feeds[i].leads)
			ret->leader = i;
	}
}

static int context_merge(struct context *c, uint64_t now_usec)
{
	struct usher_endpoints *sets[CONFIG_FEEDS_MAX];
	struct merge_rules rules;
	struct merged merged;
	int r;

	assert(c->feed_count <= CONFIG_FEEDS_MAX);
	if (c->config->merge == MERGE_RACE && choose_leader(c, now_usec))
		c->merged_valid = false;
	if (c->merged_valid)
		return 0;
	for (size_t i = 0; i < c->feed_count; i++) {
		const struct observation *o = c->feeds[i].feed.observation;

		sets[i] = o ? o->endpoints : NULL;
	}
	context_fill_rules(c, &rules);
	r = merge(&rules, sets, c->feed_count, &merged);
	if (r < 0)
		return r;
	merged_done(&c->merged);
	c->merged = merged;
	c->merged_valid = true;
	return 0;
}

static bool every_feed_has_answered(const struct context *c)
{
	for (size_t i = 0; i < c->feed_count; i++)
		if (!c->feeds[i].feed.observation)
			return false;
	return true;
}

/* Whether what has answered is all that the merge needs: with `union` every source, with `first`
 * each one before the one that is taken, unless it fails, for then the next one stands in, with
 * `race` any that has endpoints. */
static bool is_whole(const struct context *c)
{
	if (c->config->merge == MERGE_RACE)
		return usher_endpoints_count(c->merged.endpoints) > 0;
	for (size_t i = 0; i < c->feed_count; i++) {
		const struct feed *f = &c->feeds[i].feed;

		if (!f->observation && (c->config->merge == MERGE_UNION || !f->error))
			return false;
		if (f->observation && c->config->merge == MERGE_FIRST &&
				usher_endpoints_count(f->observation->endpoints) > 0)
			return true;
	}
	return true;
}

uint64_t context_patient_until(const struct context *c)
{
	return c->snapshot ? USEC_FOREVER : c->created_usec + c->config->startup_timeout_usec;
}

/* Before anything is published, a part of the sources must not pass for the whole; that is waited
 * for no longer than the startup timeout. A first answer that is empty is believed only when
 * everybody has been heard. */
bool context_may_publish(const struct context *c, uint64_t now_usec)
{
	if (!c->merged.endpoints)
		return false;
	if (c->snapshot)
		return true;
	if (usher_endpoints_count(c->merged.endpoints) == 0)
		return every_feed_has_answered(c);
	return is_whole(c) || now_usec >= context_patient_until(c);
}

/* ---- what is said ---- */

static void note_invalid_weight(const struct context *c, const struct snapshot *s, size_t i)
{
	const char *weight = usher_endpoints_metadata(s->all, i, USHER_WEIGHT_LABEL);

	log_warning(FIELDS(.value[LOG_SERVICE] = c->service,
				    .value[LOG_ENDPOINT] = usher_endpoints_id(s->all, i)),
			"The weight of endpoint %s of %s is no whole number in 0..%d%s%.40s%s; "
			"counting it as 1",
			usher_endpoints_id(s->all, i), c->service, USHER_WEIGHT_MAX,
			weight ? " (\"" : "", weight ? weight : "", weight ? "\")" : "");
}

static void note_incarnation(
		const struct context *c, const struct usher_endpoint *e, const char *uid_before)
{
	const struct override *o = context_find_override(c, e->id);

	log_write(o ? LOG_NOTICE : LOG_DEBUG,
			FIELDS(.value[LOG_SERVICE] = c->service, .value[LOG_ENDPOINT] = e->id),
			"Endpoint %s of %s is another instance now (uid %s, was %s)%s", e->id,
			c->service, e->uid, uid_before,
			o && !override_binds(o, e->uid)
					? "; what was decided about the one before does not bind it"
					: "");
}

static void say_notes(const struct context *c, const struct computing *k)
{
	const struct computing_notes *notes = &k->notes;
	const struct snapshot *s = k->snapshot, *previous = k->in.previous;

	for (size_t i = 0; i < notes->invalid && i < COMPUTING_NOTES_MAX; i++)
		note_invalid_weight(c, s, notes->invalid_at[i]);
	if (notes->invalid > COMPUTING_NOTES_MAX)
		log_warning(FIELDS(.value[LOG_SERVICE] = c->service),
				"So are the weights of %zu more endpoints of %s",
				notes->invalid - COMPUTING_NOTES_MAX, c->service);
	for (size_t i = 0; i < notes->incarnations && i < COMPUTING_NOTES_MAX; i++) {
		struct usher_endpoint e = USHER_ENDPOINT_INIT, before = USHER_ENDPOINT_INIT;
		ssize_t at;

		usher_endpoints_get(s->all, notes->incarnation_at[i], &e);
		at = usher_endpoints_find(previous->all, e.id);
		usher_endpoints_get(previous->all, (size_t) at, &before);
		note_incarnation(c, &e, before.uid);
	}
}

/* ---- the chain ---- */

struct chain *context_wanted_chain(const struct context *c)
{
	return c->next_chain ? c->next_chain : c->chain;
}

void context_replace_chain(struct context *c, struct chain *chain)
{
	if (context_wanted_chain(c) == chain)
		return;
	(void) chain_unref(c->next_chain);
	c->next_chain = chain == c->chain ? NULL : chain_ref(chain);
	/* Nothing has been computed with the one that is there. */
	if (!c->snapshot && c->next_chain) {
		(void) chain_unref(c->chain);
		c->chain = take(c->next_chain);
	}
}

double context_panic_threshold(const struct service_config *config)
{
	return config->health.on_all_down == DOWN_PANIC ? config->health.panic_threshold : -1;
}

/* What was counted at publications and picks goes on, or begins anew with another chain. */
static void take_counts(struct context *c, struct computing *k, bool differs)
{
	size_t count = k->in.chain->stage_count;

	if (!c->counts || c->chain != k->in.chain) {
		free(c->counts);
		c->counts = take(k->counts);
		c->selector_faults = 0;
		for (size_t i = 0; i < count; i++)
			context_note_stage_fault(c, k->in.chain, i, c->counts[i].faults);
		return;
	}
	for (size_t i = 0; i < count; i++) {
		/* The same again is no news, but for a fault. */
		if (differs) {
			c->counts[i].passed += k->counts[i].passed;
			c->counts[i].failed += k->counts[i].failed;
			c->counts[i].next += k->counts[i].next;
		}
		c->counts[i].faults += k->counts[i].faults;
		if (k->counts[i].faults > 0)
			context_note_stage_fault(c, k->in.chain, i, c->counts[i].faults);
	}
}

/* ---- publication ---- */

static void drop_prepared(struct context *c)
{
	if (c->prepared)
		chain_selector(c->chain)->release(c->prepared);
	c->prepared = NULL;
}

void context_drop_snapshot(struct context *c)
{
	if (c->chain)
		drop_prepared(c);
	free(c->marks);
	c->marks = NULL;
	c->chain = chain_unref(c->chain);
	c->next_chain = chain_unref(c->next_chain);
	c->snapshot = snapshot_unref(c->snapshot);
	c->last = last_choices_free(c->last);
	tally_done(&c->tally);
	free(c->counts);
	c->counts = NULL;
}

/* The table of last choices, if a stage goes by it. ENOMEM. */
static int prepare_last_choices(
		const struct context *c, const struct chain *chain, struct last_choices **ret_fresh)
{
	*ret_fresh = NULL;
	if (!(chain->flags & USHER_STAGE_LAST) || c->last)
		return 0;
	*ret_fresh = last_choices_new();
	return *ret_fresh ? 0 : -ENOMEM;
}

/* What there was goes to the computing, which frees it where it is done. */
static void put_in_force(struct context *c, struct computing *k, struct last_choices *fresh)
{
	void *prepared;
	uint64_t *marks;
	struct tally tally;

	if (fresh)
		c->last = fresh;
	else if (c->last && !(k->in.chain->flags & USHER_STAGE_LAST))
		c->last = last_choices_free(c->last);
	if (c->last && c->snapshot)
		last_choices_move(c->last, c->snapshot->all, k->snapshot->all);
	directory_retire(c->directory, c->snapshot);
	if (c->chain != k->in.chain)
		drop_prepared(c);
	if (c->next_chain) {
		(void) chain_unref(c->chain);
		c->chain = take(c->next_chain);
	}
	c->snapshot = take(k->snapshot);
	prepared = c->prepared;
	c->prepared = k->prepared;
	k->prepared = prepared;
	marks = c->marks;
	c->marks = k->marks;
	k->marks = marks;
	tally = c->tally;
	c->tally = k->tally;
	k->tally = tally;
	c->why_none = k->why_none;
	c->why_none_stage = k->why_none_stage;
	c->panic_threshold = k->in.panic_threshold;
	c->again_usec = k->work.again_usec;
	if (c->again_usec != 0 && c->again_usec < k->in.now_usec + CONTEXT_AGAIN_USEC)
		c->again_usec = k->in.now_usec + CONTEXT_AGAIN_USEC;
	c->recompute_due = false;
}

/* Consumers are told why there is nobody to choose, so that is a part of what they see. */
static bool why_none_differs(const struct context *c, const struct computing *k)
{
	if (c->why_none != k->why_none)
		return true;
	return k->why_none == PICK_FILTERED && strcmp(c->why_none_stage, k->why_none_stage) != 0;
}

int context_publish(struct context *c, struct computing *k)
{
	struct snapshot *previous = c->snapshot;
	struct last_choices *fresh = NULL;
	bool differs, was_all_down = c->why_none == PICK_ALL_UNHEALTHY;
	int r;

	assert(k->in.previous == previous);
	r = directory_reserve(c->directory, k->snapshot->count);
	if (r >= 0)
		r = prepare_last_choices(c, k->in.chain, &fresh);
	if (r < 0)
		return r;

	differs = k->differs || why_none_differs(c, k);
	k->snapshot->revision =
			differs ? directory_next_revision(c->directory) : previous->revision;
	k->snapshot->published_wall_usec =
			differs ? clock_wall_usec() : previous->published_wall_usec;
	say_notes(c, k);
	take_counts(c, k, differs);
	put_in_force(c, k, fresh);
	context_note_outage(c, previous, was_all_down);
	if (differs)
		directory_tell_published(c->directory, c, previous);
	return differs;
}

int context_recompute(struct context *c)
{
	cleanup(computing_done) struct computing k = {};
	uint64_t now_usec = clock_boot_usec();
	struct computing_input input;
	int r;

	r = context_merge(c, now_usec);
	if (r >= 0)
		r = context_follow_health(c);
	if (r < 0)
		return r;
	if (!context_may_publish(c, now_usec))
		return 0;
	computing_gather(c, &c->merged, now_usec, &input);
	r = computing_run(&k, &input);
	return r < 0 ? r : context_publish(c, &k);
}

/* Nothing that the result depends on has changed since. */
static bool is_current(const struct context *c, uint64_t now_usec)
{
	if (!c->snapshot || !c->merged_valid || c->snapshot->all != c->merged.endpoints)
		return false;
	return !c->next_chain && !c->recompute_due && c->snapshot->count >= BACKGROUND_MIN &&
			(c->again_usec == 0 || now_usec < c->again_usec);
}

int context_refresh(struct context *c, uint64_t now_usec)
{
	if (c->config->merge == MERGE_RACE && choose_leader(c, now_usec))
		c->merged_valid = false;
	if (is_current(c, now_usec))
		return 0;
	if (c->snapshot && background_wants(c, NULL) &&
			background_start(c, NULL, NULL, now_usec) >= 0)
		return 0;
	return context_recompute_or_retry(c, now_usec);
}

int context_recompute_or_retry(struct context *c, uint64_t now_usec)
{
	int r = context_recompute(c);

	if (r >= 0)
		return r;
	if (!c->recompute_due)
		log_error(FIELDS(.value[LOG_SERVICE] = c->service),
				"Cannot compute the directory of %s: %s; the last one stays in force, "
				"trying again",
				c->service, usher_error_text(NULL, r));
	c->recompute_due = true;
	context_schedule(c, now_usec);
	return r;
}
