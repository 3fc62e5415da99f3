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
	k->why_none = context_stage_result(k->chain, stage, k->work.fault);
	k->why_none_stage = chain_stage_name(k->chain, stage);
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
	if (k->count == 0) {
		k->why_none = context_emptiness(k->context);
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

int computing_init(struct computing *k, const struct context *c, uint64_t now_usec)
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

void computing_done(struct computing *k)
{
	free(k->entries);
	free(k->weights);
	free(k->counts);
	free(k->since_usec);
	free(k->marks);
	tally_done(&k->tally);
}

int computing_run(struct computing *k, struct snapshot **ret)
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
