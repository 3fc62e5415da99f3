#include "computing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "directory-private.h"
#include "endpoints-walk.h"

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

static void apply_overrides(struct computing *k)
{
	const struct usher_endpoints *all = k->in.merged->endpoints;

	for (size_t i = 0; i < k->in.override_count; i++) {
		const struct override *o = &k->in.overrides[i].override;
		struct usher_endpoint e = USHER_ENDPOINT_INIT;
		ssize_t at = usher_endpoints_find(all, o->id);

		if (at < 0)
			continue;
		usher_endpoints_get(all, (size_t) at, &e);
		if (override_binds(o, e.uid))
			apply_override(&k->entries[at], o);
	}
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

/* The index before of the same endpoint: the same id, and no other incarnation. */
static uint32_t origin_of(const struct computing *k, struct endpoints_walk *walk,
		const struct usher_endpoint *e, size_t i)
{
	struct usher_endpoint before = USHER_ENDPOINT_INIT;
	ssize_t index;

	if (!k->in.previous)
		return TALLY_NEW;
	if (k->in.previous->all == k->in.merged->endpoints)
		return (uint32_t) i;
	index = endpoints_walk_to(walk, e->id);
	if (index < 0)
		return TALLY_NEW;
	if (e->uid) {
		usher_endpoints_get(k->in.previous->all, (size_t) index, &before);
		if (before.uid && strcmp(before.uid, e->uid) != 0)
			return TALLY_NEW;
	}
	return (uint32_t) index;
}

static void fill_entry(struct computing *k, struct endpoints_walk *walk, size_t i)
{
	const struct merged *m = k->in.merged;
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
	struct endpoints_walk walk = { .set = k->in.previous ? k->in.previous->all : NULL };
	const uint8_t *health = k->in.health;

	for (size_t i = 0; i < k->count; i++)
		fill_entry(k, &walk, i);
	apply_overrides(k);
	for (size_t i = 0; i < k->count; i++) {
		struct snapshot_entry *entry = &k->entries[i];
		const struct snapshot_entry *before = k->origins[i] == TALLY_NEW
				? NULL
				: &k->in.previous->entries[k->origins[i]];

		entry->health = health ? health[i] : USHER_HEALTH_UNKNOWN;
		entry->usable = may_be_used(entry, entry->usable);
		entry->since_usec =
				used_since(k->in.previous, before, entry->usable, k->in.now_usec);
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
	k->why_none = context_stage_result(k->in.chain, stage, k->work.fault);
	k->why_none_stage = chain_stage_name(k->in.chain, stage);
}

static void reset_weights(struct computing *k)
{
	for (size_t i = 0; i < k->count; i++)
		k->weights[i] = k->entries[i].ramped;
}

static void choose(struct computing *k)
{
	const struct chain *chain = k->in.chain;

	k->work.count = collect(k, false);
	if (k->count == 0) {
		k->why_none = k->in.emptiness;
	} else if (k->work.count == 0) {
		k->why_none = PICK_FILTERED;
		k->why_none_stage = "drain";
	}
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
	(void) chain_run(k->in.chain, 0, k->in.chain->shared_count, &work, NULL, NULL);
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
	k->counts = calloc(k->in.chain->stage_count + 1, sizeof(*k->counts));
	if (!k->entries || !k->weights || !k->counts)
		return -ENOMEM;
	k->before = k->weights + count;
	k->origins = k->weights + 2 * count;
	k->work = (struct chain_work){ .view = &k->view,
		.candidates = k->weights + 3 * count,
		.scratch = k->weights + 4 * count,
		.weights = k->weights,
		.counts = k->counts };
	r = tally_init(&k->tally, count, chain_selector(k->in.chain)->slot_size, k->in.now_usec);
	return r;
}

/* The view that the shared part has: what the snapshot will say, but for the weights. */
static int computing_view(struct computing *k)
{
	size_t count = k->count;
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
		.endpoints = k->in.merged->endpoints,
		.weights = k->weights,
		.zone = k->in.zone,
		.service = k->in.service,
		.node = k->in.node,
		.health = k->in.health ? bytes : NULL,
		.admin_states = bytes + count,
		.ranks = bytes + 2 * count,
		.since_usec = k->since_usec,
		.active = k->tally.active,
		.slots = k->tally.slots,
		.panic_threshold = k->in.panic_threshold,
		.now_usec = k->in.now_usec };
	return 0;
}

/* ---- what picks need ---- */

/* The view that picks have of the snapshot. */
static struct usher_view view_of_snapshot(const struct computing *k)
{
	const struct snapshot *s = k->snapshot;
	struct usher_view view = k->view;

	view.weights = s->weights;
	view.health = s->has_health ? s->health : NULL;
	view.admin_states = s->admin_states;
	view.ranks = s->ranks;
	view.since_usec = s->since_usec;
	return view;
}

/* For the selector, and for the stages that look at the request. */
static int prepare(struct computing *k)
{
	const struct usher_selector *selector = chain_selector(k->in.chain);
	struct usher_view view = view_of_snapshot(k);
	int r;

	r = chain_mark(k->in.chain, &view, &k->marks);
	if (r < 0 || !selector->prepare || k->snapshot->chosen_count == 0)
		return r;
	return selector->prepare(k->in.chain->selector->data, &view, k->snapshot->chosen,
			k->snapshot->chosen_count, &k->prepared);
}

/* ---- what is to be said ---- */

static void note(size_t *count, uint32_t *at, size_t i)
{
	if (*count < COMPUTING_NOTES_MAX)
		at[*count] = (uint32_t) i;
	++*count;
}

static void note_endpoints(struct computing *k)
{
	const struct usher_endpoints *all = k->snapshot->all;
	const struct snapshot *previous = k->in.previous;
	struct endpoints_walk walk = { .set = previous ? previous->all : NULL };

	if (previous && previous->all == all)
		return;
	for (size_t i = 0; i < k->count; i++) {
		struct usher_endpoint e = USHER_ENDPOINT_INIT, before = USHER_ENDPOINT_INIT;
		ssize_t at;

		usher_endpoints_get(all, i, &e);
		if (!e.weight_invalid && !e.uid)
			continue;
		at = previous ? endpoints_walk_to(&walk, e.id) : -ENOENT;
		if (at >= 0)
			usher_endpoints_get(previous->all, (size_t) at, &before);
		if (e.weight_invalid && (at < 0 || !before.weight_invalid))
			note(&k->notes.invalid, k->notes.invalid_at, i);
		if (at >= 0 && e.uid && before.uid && strcmp(e.uid, before.uid) != 0)
			note(&k->notes.incarnations, k->notes.incarnation_at, i);
	}
}

/* ---- all of it ---- */

/* enum usher_health of each endpoint that is merged; NULL: not known. */
static const uint8_t *health_of(const struct context *c, const struct merged *merged)
{
	return c->health_set == merged->endpoints ? c->health_states : NULL;
}

void computing_gather(const struct context *c, const struct merged *merged, uint64_t now_usec,
		struct computing_input *ret)
{
	struct chain *chain = context_wanted_chain(c);

	*ret = (struct computing_input){ .service = c->service,
		.zone = directory_zone(c->directory),
		.node = directory_node(c->directory),
		.chain = chain,
		.same_chain = chain == c->chain,
		.previous = c->snapshot,
		.merged = merged,
		.health = health_of(c, merged),
		.overrides = c->overrides,
		.override_count = c->override_count,
		.tally = &c->tally,
		.emptiness = context_emptiness(c),
		.panic_threshold = context_panic_threshold(c->config),
		.now_usec = now_usec };
}

static int computing_begin(struct computing *k, const struct computing_input *input)
{
	int r;

	*k = (struct computing){ .in = *input,
		.count = usher_endpoints_count(input->merged->endpoints) };
	r = computing_allocate(k);
	if (r < 0)
		return r;
	fill_entries(k);
	reset_weights(k);
	if (k->in.previous)
		tally_carry(&k->tally, k->in.tally, k->origins, k->in.same_chain);
	return computing_view(k);
}

void computing_done(struct computing *k)
{
	if (k->prepared)
		chain_selector(k->in.chain)->release(k->prepared);
	(void) snapshot_unref(k->snapshot);
	free(k->entries);
	free(k->weights);
	free(k->counts);
	free(k->since_usec);
	free(k->marks);
	tally_done(&k->tally);
}

int computing_run(struct computing *k, const struct computing_input *input)
{
	int r = computing_begin(k, input);

	if (r < 0)
		return r;
	choose(k);
	if (any_drains(k))
		list_draining(k);
	k->snapshot = snapshot_new(k->in.merged->endpoints, k->entries);
	if (!k->snapshot)
		return -ENOMEM;
	k->snapshot->computed_usec = k->in.now_usec;
	k->snapshot->panic = k->work.panic;
	k->snapshot->has_health = k->in.health;
	k->differs = !k->in.previous || !snapshot_equal(k->in.previous, k->snapshot);
	note_endpoints(k);
	return prepare(k);
}
