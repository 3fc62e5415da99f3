/* From observations and decisions to the next snapshot. */

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "context-private.h"
#include "directory-private.h"
#include "endpoints-walk.h"
#include "log.h"
#include "ownership.h"

/* Lines about single endpoints that one publication writes at most. */
#define LINES_MAX 10

/* ---- merge ---- */

static int context_merge(struct context *c)
{
	struct usher_endpoints *sets[CONFIG_FEEDS_MAX];
	struct merged merged;
	int r;

	if (c->merged_valid)
		return 0;
	assert(c->feed_count <= CONFIG_FEEDS_MAX);
	for (size_t i = 0; i < c->feed_count; i++) {
		const struct observation *o = c->feeds[i].feed.observation;

		sets[i] = o ? o->endpoints : NULL;
	}
	r = merge(c->config->merge, sets, c->feed_count, &merged);
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
 * each one before the one that is taken, unless it fails, for then the next one stands in. */
static bool is_whole(const struct context *c)
{
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
static bool may_publish(const struct context *c, uint64_t now_usec)
{
	if (!c->merged.endpoints)
		return false;
	if (c->snapshot)
		return true;
	if (usher_endpoints_count(c->merged.endpoints) == 0)
		return every_feed_has_answered(c);
	return is_whole(c) || now_usec >= context_patient_until(c);
}

/* ---- entries ---- */

/* In thousandths, rounded, but nothing only where the share is. */
static uint32_t scaled_weight(uint32_t weight, double share)
{
	uint32_t scaled = (uint32_t) ((double) weight * USHER_WEIGHT_UNIT * share + 0.5);

	return scaled == 0 && weight > 0 && share > 0 ? 1 : scaled;
}

static void apply_override(struct snapshot_entry *entry, const struct override *o)
{
	if ((uint8_t) o->admin_state > entry->admin_state)
		entry->admin_state = (uint8_t) o->admin_state;
	entry->withdrawn = o->withdrawn;
	entry->ramped = scaled_weight(entry->weight, o->weight_share);
}

static void apply_overrides(const struct context *c, struct snapshot_entry *entries)
{
	for (size_t i = 0; i < c->override_count; i++) {
		const struct override *o = &c->overrides[i].override;
		struct usher_endpoint e = USHER_ENDPOINT_INIT;
		ssize_t k = usher_endpoints_find(c->merged.endpoints, o->id);

		if (k < 0)
			continue;
		usher_endpoints_get(c->merged.endpoints, (size_t) k, &e);
		if (override_binds(o, e.uid))
			apply_override(&entries[k], o);
	}
}

void context_set_health(struct context *c, const struct usher_endpoints *set, const uint8_t *states)
{
	c->health_set = set;
	c->health_states = states;
}

/* enum usher_health of each endpoint that is merged; NULL: not known. */
static const uint8_t *health_of_merged(const struct context *c)
{
	return c->health_set == c->merged.endpoints ? c->health_states : NULL;
}

/* ready: the endpoint's own condition. */
static bool may_be_used(const struct snapshot_entry *entry, bool ready)
{
	return ready && !entry->withdrawn && entry->admin_state == USHER_ADMIN_READY &&
			entry->health != USHER_HEALTH_DOWN && entry->health != USHER_HEALTH_EJECTED;
}

/* Who was there before the first publication, has been there for as long as anybody knows. */
static uint64_t used_since(const struct snapshot *previous, const struct snapshot_entry *before,
		bool usable, uint64_t now_usec)
{
	if (!previous)
		return 0;
	return before && before->usable && usable ? before->since_usec : now_usec;
}

/* ---- computing ---- */

struct computing {
	const struct context *context;
	struct chain *chain;
	const struct snapshot *previous;
	uint64_t now_usec;
	size_t count; /* of all */
	struct usher_view view;
	struct snapshot_entry *entries;
	uint32_t *origins; /* of each, its index in `previous`, or TALLY_NEW */
	uint32_t *weights, *before;
	uint64_t *since_usec;
	struct chain_work work;
	struct chain_counts *counts; /* of the chain's stages, for this once */
	struct tally tally;
	const char *filtered_stage;
	bool filtered_by_health;
};

/* The index before of the same endpoint: the same id, and no other incarnation. */
static uint32_t origin_of(const struct computing *k, struct endpoints_walk *walk,
		const struct usher_endpoint *e, size_t i)
{
	struct usher_endpoint before = USHER_ENDPOINT_INIT;
	ssize_t index;

	if (!k->previous)
		return TALLY_NEW;
	if (k->previous->all == k->context->merged.endpoints)
		return (uint32_t) i;
	index = endpoints_walk_to(walk, e->id);
	if (index < 0)
		return TALLY_NEW;
	if (e->uid) {
		usher_endpoints_get(k->previous->all, (size_t) index, &before);
		if (before.uid && strcmp(before.uid, e->uid) != 0)
			return TALLY_NEW;
	}
	return (uint32_t) index;
}

static void fill_entry(struct computing *k, struct endpoints_walk *walk, size_t i)
{
	const struct merged *m = &k->context->merged;
	struct usher_endpoint e = USHER_ENDPOINT_INIT;

	usher_endpoints_get(m->endpoints, i, &e);
	k->origins[i] = origin_of(k, walk, &e, i);
	k->entries[i] = (struct snapshot_entry){ .weight = e.weight,
		.ramped = e.weight * USHER_WEIGHT_UNIT,
		.admin_state = (uint8_t) e.admin_state,
		.source = m->sources ? m->sources[i] : (uint8_t) m->only,
		.stage = SNAPSHOT_NO_STAGE,
		.usable = e.ready,
		.conflict = m->conflict && m->conflict[i],
		.weight_invalid = e.weight_invalid };
}

static void fill_entries(struct computing *k)
{
	struct endpoints_walk walk = { .set = k->previous ? k->previous->all : NULL };
	const uint8_t *health = health_of_merged(k->context);

	for (size_t i = 0; i < k->count; i++)
		fill_entry(k, &walk, i);
	apply_overrides(k->context, k->entries);
	for (size_t i = 0; i < k->count; i++) {
		struct snapshot_entry *entry = &k->entries[i];
		const struct snapshot_entry *before = k->origins[i] == TALLY_NEW
				? NULL
				: &k->previous->entries[k->origins[i]];

		entry->health = health ? health[i] : USHER_HEALTH_UNKNOWN;
		entry->usable = may_be_used(entry, entry->usable);
		entry->since_usec = used_since(k->previous, before, entry->usable, k->now_usec);
	}
}

static size_t collect(struct computing *k, bool with_draining)
{
	size_t count = 0;

	for (uint32_t i = 0; i < k->count; i++) {
		const struct snapshot_entry *entry = &k->entries[i];

		if (!entry->withdrawn &&
				(entry->admin_state == USHER_ADMIN_READY ||
						(with_draining &&
								entry->admin_state ==
										USHER_ADMIN_DRAINING)))
			k->work.candidates[count++] = i;
	}
	return count;
}

/* What is in before, but not any more among the candidates, was dropped by the stage. Both keep the
 * order. */
static void mark_dropped(struct computing *k, size_t stage, size_t rule, size_t before)
{
	size_t next = 0;

	for (size_t i = 0; i < before; i++) {
		if (next < k->work.count && k->work.candidates[next] == k->before[i]) {
			next++;
			continue;
		}
		k->entries[k->before[i]].stage = (uint8_t) stage;
		k->entries[k->before[i]].rule = (uint8_t) rule;
	}
}

static void note_filtered(struct computing *k, size_t stage)
{
	k->filtered_stage = chain_stage_name(k->chain, stage);
	k->filtered_by_health =
			context_stage_result(k->chain, stage, k->work.fault) == PICK_ALL_UNHEALTHY;
}

static void reset_weights(struct computing *k)
{
	for (size_t i = 0; i < k->count; i++)
		k->weights[i] = k->entries[i].ramped;
}

static void choose(struct computing *k)
{
	const struct chain *chain = k->chain;

	k->work.count = collect(k, false);
	if (k->work.count == 0)
		k->filtered_stage = "drain";
	for (size_t i = 0; i < chain->shared_count && k->work.count > 0; i++) {
		size_t before = k->work.count, failed = SIZE_MAX;
		struct chain_step step;

		memcpy(k->before, k->work.candidates, before * sizeof(*k->before));
		(void) chain_run(chain, i, i + 1, &k->work, &failed, &step);
		mark_dropped(k, i, step.fault ? SNAPSHOT_NO_RULE : step.rule, before);
		if (failed != SIZE_MAX)
			note_filtered(k, i);
	}
	for (size_t i = 0; i < k->count; i++)
		k->entries[i].effective = k->weights[i];
	for (size_t i = 0; i < k->work.count; i++) {
		struct snapshot_entry *entry = &k->entries[k->work.candidates[i]];

		entry->chosen = entry->listed = true;
	}
}

/* One that drains is listed where it would be if it did not: what a stage keeps from consumers does
 * not come to them by draining. That changes nothing for the others, neither their weights. */
static void list_draining(struct computing *k)
{
	struct chain_work work = k->work;

	reset_weights(k);
	work.counts = NULL;
	work.count = k->work.count = collect(k, true);
	(void) chain_run(k->chain, 0, k->chain->shared_count, &work, NULL, NULL);
	for (size_t i = 0; i < work.count; i++) {
		struct snapshot_entry *entry = &k->entries[work.candidates[i]];

		if (entry->admin_state == USHER_ADMIN_DRAINING)
			entry->listed = true;
	}
}

static bool any_drains(const struct computing *k)
{
	for (size_t i = 0; i < k->count; i++)
		if (k->entries[i].admin_state == USHER_ADMIN_DRAINING && !k->entries[i].withdrawn)
			return true;
	return false;
}

static int computing_allocate(struct computing *k)
{
	size_t count = k->count;
	int r;

	k->entries = calloc(count ? count : 1, sizeof(*k->entries));
	k->weights = calloc(5 * count + 1, sizeof(*k->weights));
	k->counts = calloc(k->chain->stage_count + 1, sizeof(*k->counts));
	if (!k->entries || !k->weights || !k->counts)
		return -ENOMEM;
	k->before = k->weights + count;
	k->origins = k->weights + 2 * count;
	k->work = (struct chain_work){ .view = &k->view,
		.candidates = k->weights + 3 * count,
		.scratch = k->weights + 4 * count,
		.weights = k->weights,
		.counts = k->counts };
	r = tally_init(&k->tally, count, chain_selector(k->chain)->slot_size, k->now_usec);
	return r;
}

/* The view that the shared part has: what the snapshot will say, but for the weights. */
static int computing_view(struct computing *k)
{
	size_t count = k->count;
	const struct context *c = k->context;
	uint8_t *bytes;

	k->since_usec = calloc(count ? count : 1, sizeof(*k->since_usec) + 3);
	if (!k->since_usec)
		return -ENOMEM;
	bytes = (uint8_t *) (k->since_usec + count);
	for (size_t i = 0; i < count; i++) {
		k->since_usec[i] = k->entries[i].since_usec;
		bytes[i] = k->entries[i].health;
		bytes[count + i] = k->entries[i].admin_state;
		bytes[2 * count + i] = k->entries[i].source;
	}
	k->view = (struct usher_view){ .size = sizeof(k->view),
		.endpoints = c->merged.endpoints,
		.weights = k->weights,
		.zone = directory_zone(c->directory),
		.service = c->service,
		.node = directory_node(c->directory),
		.health = health_of_merged(c) ? bytes : NULL,
		.admin_states = bytes + count,
		.ranks = bytes + 2 * count,
		.since_usec = k->since_usec,
		.active = k->tally.active,
		.slots = k->tally.slots,
		.panic_threshold = context_panic_threshold(c->config),
		.now_usec = k->now_usec };
	return 0;
}

static int computing_init(struct computing *k, const struct context *c, uint64_t now_usec)
{
	int r;

	*k = (struct computing){ .context = c,
		.chain = context_wanted_chain(c),
		.previous = c->snapshot,
		.now_usec = now_usec,
		.count = usher_endpoints_count(c->merged.endpoints) };
	r = computing_allocate(k);
	if (r < 0)
		return r;
	fill_entries(k);
	reset_weights(k);
	if (k->previous)
		tally_carry(&k->tally, &c->tally, k->origins, c->chain == k->chain);
	return computing_view(k);
}

static void computing_done(struct computing *k)
{
	free(k->entries);
	free(k->weights);
	free(k->counts);
	free(k->since_usec);
	tally_done(&k->tally);
}

static int compute(struct computing *k, struct snapshot **ret)
{
	struct snapshot *s;

	choose(k);
	if (any_drains(k))
		list_draining(k);
	s = snapshot_new(k->context->merged.endpoints, k->entries);
	if (!s)
		return -ENOMEM;
	s->computed_usec = k->now_usec;
	s->panic = k->work.panic;
	s->has_health = health_of_merged(k->context);
	*ret = s;
	return 0;
}

/* ---- the selector ---- */

static int prepare(const struct computing *k, const struct snapshot *s, void **ret)
{
	const struct usher_selector *selector = chain_selector(k->chain);
	struct usher_view view;

	*ret = NULL;
	if (!selector->prepare || s->chosen_count == 0)
		return 0;
	context_view(k->context, s, &k->tally, k->now_usec, &view);
	return selector->prepare(k->chain->selector->data, &view, s->chosen, s->chosen_count, ret);
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

/* Faults and changes of single endpoints, each once, when it begins. */
static void note_endpoints(
		const struct context *c, const struct snapshot *s, const struct snapshot *previous)
{
	struct endpoints_walk walk = { .set = previous ? previous->all : NULL };
	unsigned invalid = 0, incarnations = 0;

	if (previous && previous->all == s->all)
		return;
	for (size_t i = 0; i < s->count; i++) {
		struct usher_endpoint e = USHER_ENDPOINT_INIT, before = USHER_ENDPOINT_INIT;
		ssize_t k;

		usher_endpoints_get(s->all, i, &e);
		if (!e.weight_invalid && !e.uid)
			continue;
		k = previous ? endpoints_walk_to(&walk, e.id) : -ENOENT;
		if (k >= 0)
			usher_endpoints_get(previous->all, (size_t) k, &before);
		if (e.weight_invalid && (k < 0 || !before.weight_invalid) && invalid++ < LINES_MAX)
			note_invalid_weight(c, s, i);
		if (k >= 0 && e.uid && before.uid && strcmp(e.uid, before.uid) != 0 &&
				incarnations++ < LINES_MAX)
			note_incarnation(c, &e, before.uid);
	}
	if (invalid > LINES_MAX)
		log_warning(FIELDS(.value[LOG_SERVICE] = c->service),
				"So are the weights of %u more endpoints of %s",
				invalid - LINES_MAX, c->service);
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
	size_t count = k->chain->stage_count;

	if (!c->counts || c->chain != k->chain) {
		free(c->counts);
		c->counts = take(k->counts);
		c->selector_faults = 0;
		for (size_t i = 0; i < count; i++)
			context_note_stage_fault(c, k->chain, i, c->counts[i].faults);
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
			context_note_stage_fault(c, k->chain, i, c->counts[i].faults);
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

static void put_in_force(struct context *c, struct computing *k, struct snapshot *s, void *prepared,
		struct last_choices *fresh)
{
	if (fresh)
		c->last = fresh;
	else if (c->last && !(k->chain->flags & USHER_STAGE_LAST))
		c->last = last_choices_free(c->last);
	if (c->last && c->snapshot)
		last_choices_move(c->last, c->snapshot->all, s->all);
	directory_retire(c->directory, c->snapshot);
	drop_prepared(c);
	if (c->next_chain) {
		(void) chain_unref(c->chain);
		c->chain = take(c->next_chain);
	}
	c->snapshot = s;
	c->prepared = prepared;
	tally_done(&c->tally);
	c->tally = k->tally;
	k->tally = (struct tally){};
	c->filtered_stage = k->filtered_stage;
	c->filtered_by_health = k->filtered_by_health;
	c->panic_threshold = k->view.panic_threshold;
	c->again_usec = k->work.again_usec;
	if (c->again_usec != 0 && c->again_usec < k->now_usec + CONTEXT_AGAIN_USEC)
		c->again_usec = k->now_usec + CONTEXT_AGAIN_USEC;
	c->recompute_due = false;
}

static int publish(struct context *c, struct computing *k)
{
	struct snapshot *s = NULL, *previous = c->snapshot;
	struct last_choices *fresh = NULL;
	void *prepared = NULL;
	bool differs, was_all_down = c->filtered_by_health;
	int r;

	r = compute(k, &s);
	if (r >= 0)
		r = directory_reserve(c->directory, s->count);
	if (r >= 0)
		r = prepare_last_choices(c, k->chain, &fresh);
	if (r >= 0)
		r = prepare(k, s, &prepared);
	if (r < 0) {
		(void) last_choices_free(fresh);
		(void) snapshot_unref(s);
		return r;
	}

	differs = !previous || !snapshot_equal(previous, s);
	s->revision = differs ? directory_next_revision(c->directory) : previous->revision;
	s->published_wall_usec = differs ? clock_wall_usec() : previous->published_wall_usec;
	note_endpoints(c, s, previous);
	take_counts(c, k, differs);
	put_in_force(c, k, s, prepared, fresh);
	context_note_outage(c, previous, was_all_down);
	if (differs)
		directory_tell_published(c->directory, c, previous);
	return differs;
}

int context_recompute(struct context *c)
{
	cleanup(computing_done) struct computing k = {};
	uint64_t now_usec = clock_boot_usec();
	int r;

	r = context_merge(c);
	if (r >= 0)
		r = context_follow_health(c);
	if (r < 0)
		return r;
	if (!may_publish(c, now_usec))
		return 0;
	r = computing_init(&k, c, now_usec);
	return r < 0 ? r : publish(c, &k);
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
