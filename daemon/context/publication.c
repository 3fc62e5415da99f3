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

static uint32_t scaled_weight(uint32_t weight, double share)
{
	uint32_t scaled = (uint32_t) ((double) weight * share + 0.5);

	return scaled == 0 && weight > 0 && share > 0 ? 1 : scaled;
}

static void apply_override(struct snapshot_entry *entry, const struct override *o)
{
	if ((uint8_t) o->admin_state > entry->admin_state)
		entry->admin_state = (uint8_t) o->admin_state;
	entry->withdrawn = o->withdrawn;
	entry->weight = scaled_weight(entry->weight, o->weight_share);
}

static void fill_entries(const struct context *c, struct snapshot_entry *entries)
{
	const struct merged *m = &c->merged;
	size_t count = usher_endpoints_count(m->endpoints);

	for (size_t i = 0; i < count; i++) {
		struct usher_endpoint e = USHER_ENDPOINT_INIT;

		usher_endpoints_get(m->endpoints, i, &e);
		entries[i] = (struct snapshot_entry){ .weight = e.weight,
			.admin_state = (uint8_t) e.admin_state,
			.source = m->sources ? m->sources[i] : (uint8_t) m->only,
			.stage = SNAPSHOT_NO_STAGE,
			.conflict = m->conflict && m->conflict[i],
			.weight_invalid = e.weight_invalid };
	}
	for (size_t i = 0; i < c->override_count; i++) {
		const struct override *o = &c->overrides[i].override;
		struct usher_endpoint e = USHER_ENDPOINT_INIT;
		ssize_t k = usher_endpoints_find(m->endpoints, o->id);

		if (k < 0)
			continue;
		usher_endpoints_get(m->endpoints, (size_t) k, &e);
		if (override_binds(o, e.uid))
			apply_override(&entries[k], o);
	}
}

/* ---- the shared stages ---- */

struct computing {
	const struct context *context;
	struct usher_view view;
	struct snapshot_entry *entries;
	uint32_t *weights, *before;
	struct chain_work work;
	size_t count; /* of all */
	const char *filtered_stage;
};

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
static void mark_dropped(struct computing *k, size_t stage, size_t before)
{
	size_t next = 0;

	for (size_t i = 0; i < before; i++) {
		if (next < k->work.count && k->work.candidates[next] == k->before[i])
			next++;
		else
			k->entries[k->before[i]].stage = (uint8_t) stage;
	}
}

static void choose(struct computing *k)
{
	const struct chain *chain = k->context->chain;

	k->work.count = collect(k, false);
	if (k->work.count == 0)
		k->filtered_stage = "drain";
	for (size_t i = 0; i < chain->shared_count && k->work.count > 0; i++) {
		size_t before = k->work.count, failed = SIZE_MAX;

		memcpy(k->before, k->work.candidates, before * sizeof(*k->before));
		(void) chain_run(chain, i, i + 1, &k->work, &failed, NULL);
		mark_dropped(k, i, before);
		if (failed != SIZE_MAX)
			k->filtered_stage = chain_stage_name(chain, i);
	}
	for (size_t i = 0; i < k->work.count; i++) {
		struct snapshot_entry *entry = &k->entries[k->work.candidates[i]];

		entry->chosen = entry->listed = true;
	}
}

/* One that drains is listed where it would be if it did not: what a stage keeps from consumers does
 * not come to them by draining. */
static void list_draining(struct computing *k)
{
	const struct chain *chain = k->context->chain;

	k->work.count = collect(k, true);
	(void) chain_run(chain, 0, chain->shared_count, &k->work, NULL, NULL);
	for (size_t i = 0; i < k->work.count; i++) {
		struct snapshot_entry *entry = &k->entries[k->work.candidates[i]];

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

static int computing_init(struct computing *k, const struct context *c)
{
	struct usher_endpoints *all = c->merged.endpoints;
	size_t count = usher_endpoints_count(all);

	*k = (struct computing){ .context = c, .count = count };
	k->entries = calloc(count ? count : 1, sizeof(*k->entries));
	k->weights = calloc(4 * count + 1, sizeof(*k->weights));
	if (!k->entries || !k->weights)
		return -ENOMEM;
	k->before = k->weights + count;
	k->work.view = &k->view;
	k->work.candidates = k->weights + 2 * count;
	k->work.scratch = k->weights + 3 * count;
	fill_entries(c, k->entries);
	for (size_t i = 0; i < count; i++)
		k->weights[i] = k->entries[i].weight;
	k->view = (struct usher_view){ .size = sizeof(k->view),
		.endpoints = all,
		.weights = k->weights,
		.zone = directory_zone(c->directory) };
	return 0;
}

static void computing_done(struct computing *k)
{
	free(k->entries);
	free(k->weights);
}

static int compute(const struct context *c, struct snapshot **ret, const char **ret_filtered_stage)
{
	cleanup(computing_done) struct computing k = {};
	struct snapshot *s;
	int r;

	r = computing_init(&k, c);
	if (r < 0)
		return r;
	choose(&k);
	if (any_drains(&k))
		list_draining(&k);
	s = snapshot_new(c->merged.endpoints, k.entries);
	if (!s)
		return -ENOMEM;
	*ret_filtered_stage = k.filtered_stage;
	*ret = s;
	return 0;
}

/* ---- the selector ---- */

void context_drop_prepared(struct context *c)
{
	if (c->prepared)
		c->chain->selector->plugin->selector->release(c->prepared);
	c->prepared = NULL;
}

static int prepare(const struct context *c, const struct snapshot *s, void **ret)
{
	const struct usher_selector *selector = c->chain->selector->plugin->selector;
	struct usher_view view;

	*ret = NULL;
	if (!selector->prepare || s->chosen_count == 0)
		return 0;
	context_view(c, s, &view);
	return selector->prepare(c->chain->selector->data, &view, s->chosen, s->chosen_count, ret);
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

/* ---- publication ---- */

static void put_in_force(struct context *c, struct snapshot *s, void *prepared)
{
	directory_retire(c->directory, c->snapshot);
	context_drop_prepared(c);
	c->snapshot = s;
	c->prepared = prepared;
}

int context_recompute(struct context *c)
{
	struct snapshot *s = NULL, *previous = c->snapshot;
	const char *filtered_stage;
	void *prepared = NULL;
	bool differs;
	int r;

	r = context_merge(c);
	if (r < 0)
		return r;
	if (!may_publish(c, clock_boot_usec()))
		return 0;
	r = compute(c, &s, &filtered_stage);
	if (r < 0)
		return r;
	r = directory_reserve(c->directory, s->count);
	if (r >= 0)
		r = prepare(c, s, &prepared);
	if (r < 0) {
		(void) snapshot_unref(s);
		return r;
	}

	differs = !previous || !snapshot_equal(previous, s);
	s->revision = differs ? directory_next_revision(c->directory) : previous->revision;
	s->published_wall_usec = differs ? clock_wall_usec() : previous->published_wall_usec;
	note_endpoints(c, s, previous);
	put_in_force(c, s, prepared);
	c->filtered_stage = filtered_stage;
	c->recompute_due = false;
	if (differs)
		directory_tell_published(c->directory, c, previous);
	return differs;
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
