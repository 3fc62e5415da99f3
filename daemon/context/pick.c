/* Choosing: the hot path. No allocation, no lock, no system call. */

#include <errno.h>
#include <string.h>

#include "clock.h"
#include "context-private.h"
#include "directory-private.h"
#include "health.h"

static const char *const pick_result_names[] = {
	[PICK_OK] = "ok",
	[PICK_SOURCE_UNKNOWN] = "source_unknown",
	[PICK_SOURCE_FAILED] = "source_failed",
	[PICK_STALE] = "stale",
	[PICK_EMPTY] = "empty",
	[PICK_ALL_UNHEALTHY] = "all_unhealthy",
	[PICK_FILTERED] = "filtered",
};

const char *pick_result_to_string(enum pick_result result)
{
	return pick_result_names[result];
}

void context_view(const struct context *c, const struct snapshot *s, const struct tally *tally,
		uint64_t now_usec, struct usher_view *ret)
{
	*ret = (struct usher_view){ .size = sizeof(*ret),
		.endpoints = s->all,
		.weights = s->weights,
		.zone = directory_zone(c->directory),
		.service = c->service,
		.node = directory_node(c->directory),
		.health = s->has_health ? s->health : NULL,
		.admin_states = s->admin_states,
		.ranks = s->ranks,
		.since_usec = s->since_usec,
		.active = tally->active,
		.slots = tally->slots,
		.panic_threshold = context_panic_threshold(c->config),
		.now_usec = now_usec };
}

void context_fill_request(struct context *c, struct usher_request *request, uint64_t now_usec)
{
	uint32_t last;

	request->size = sizeof(*request);
	request->random = random_next(&c->directory->random);
	request->cursor = c->cursor;
	request->now_usec = now_usec;
	request->last = NULL;
	if (!c->last || !c->snapshot || !request->consumer)
		return;
	last = last_choices_get(c->last, request->consumer);
	if (last != LAST_CHOICE_NONE)
		request->last = usher_endpoints_id(c->snapshot->all, last);
}

bool context_drops_excluded(const struct context *c, const struct usher_request *request)
{
	return request->exclude_count > 0 && !(c->chain->flags & USHER_STAGE_EXCLUDES);
}

size_t request_drop_excluded(const struct usher_request *request, const struct snapshot *s,
		uint32_t *candidates, size_t count)
{
	for (size_t i = 0; i < request->exclude_count; i++) {
		ssize_t excluded = usher_endpoints_find(s->all, request->exclude[i]);
		size_t kept = 0;

		for (size_t k = 0; k < count; k++)
			if ((ssize_t) candidates[k] != excluded)
				candidates[kept++] = candidates[k];
		count = kept;
	}
	return count;
}

/* Among the sources that have never answered, whether one failed; PICK_OK: all have answered. */
static enum pick_result missing_answer(const struct context *c)
{
	enum pick_result missing = PICK_OK;

	for (size_t i = 0; i < c->feed_count; i++) {
		const struct feed *f = &c->feeds[i].feed;

		if (f->observation)
			continue;
		if (f->state == SOURCE_FAILED || f->state == SOURCE_DENIED)
			return PICK_SOURCE_FAILED;
		missing = PICK_SOURCE_UNKNOWN;
	}
	return missing;
}

/* Empty is a fact only when everybody says so. */
enum pick_result context_emptiness(const struct context *c)
{
	enum pick_result missing = missing_answer(c);

	return missing == PICK_OK ? PICK_EMPTY : missing;
}

enum pick_result context_refusal(const struct context *c, const struct freshness *freshness)
{
	enum pick_result missing;

	if (!c->snapshot) {
		missing = missing_answer(c);
		return missing == PICK_OK ? PICK_SOURCE_UNKNOWN : missing;
	}
	if (freshness->state == SOURCE_STALE && c->config->on_stale == STALE_FAIL)
		return PICK_STALE;
	return c->snapshot->count > 0 ? PICK_OK : context_emptiness(c);
}

enum pick_result context_why_none(const struct context *c, const char **ret_stage)
{
	*ret_stage = c->snapshot ? c->why_none_stage : NULL;
	return c->snapshot ? c->why_none : PICK_OK;
}

enum pick_result context_stage_result(const struct chain *chain, size_t stage, bool fault)
{
	bool by_health = chain->stages[stage].plugin->stage->flags & USHER_STAGE_HEALTH;

	return by_health && !fault ? PICK_ALL_UNHEALTHY : PICK_FILTERED;
}

/* ---- reports ---- */

/* The index of an id in the snapshot, or -ENOENT. */
static ssize_t find_endpoint(const struct context *c, const char *id)
{
	return c->snapshot ? usher_endpoints_find(c->snapshot->all, id) : -ENOENT;
}

int context_report(struct context *c, const char *id, const struct usher_report *report)
{
	const struct usher_selector *selector = c->chain ? chain_selector(c->chain) : NULL;
	ssize_t i = find_endpoint(c, id);
	void *slot;

	if (i < 0)
		return -ENOENT;
	tally_reported(&c->tally, (size_t) i, report->count);
	slot = tally_slot(&c->tally, (size_t) i);
	if (selector && slot && selector->report)
		selector->report(c->chain->selector->data, slot, report);
	if (c->health)
		(void) health_report(c->health, id, report);
	return 0;
}

int context_set_in_flight(struct context *c, const char *id, uint64_t count)
{
	ssize_t i = find_endpoint(c, id);

	if (i < 0)
		return -ENOENT;
	tally_set_in_flight(&c->tally, (size_t) i, count);
	return 0;
}

/* ---- picks ---- */

/* What looks at the request: the exclusions and the rest of the chain. The candidates are the
 * directory's scratch. Returns how many stay; 0 with the fact and the stage's name. */
static size_t run_for_request(struct context *c, const struct usher_view *view,
		const struct usher_request *request, struct pick *ret)
{
	const struct snapshot *s = c->snapshot;
	size_t failed = SIZE_MAX;
	struct chain_work work = { .view = view,
		.request = request,
		.candidates = c->directory->candidates,
		.scratch = c->directory->scratch,
		.count = s->chosen_count,
		.marks = c->marks,
		.counts = c->counts };

	memcpy(work.candidates, s->chosen, s->chosen_count * sizeof(*work.candidates));
	if (context_drops_excluded(c, request))
		work.count = request_drop_excluded(request, s, work.candidates, work.count);
	if (work.count == 0) {
		ret->stage = "exclude";
		return 0;
	}
	(void) chain_run(c->chain, c->chain->shared_count, c->chain->stage_count, &work, &failed,
			NULL);
	ret->panic |= work.panic;
	if (failed == SIZE_MAX)
		return work.count;
	ret->result = context_stage_result(c->chain, failed, work.fault);
	ret->stage = chain_stage_name(c->chain, failed);
	if (work.fault)
		context_note_stage_fault(c, c->chain, failed, c->counts[failed].faults);
	return 0;
}

static bool looks_at_request(const struct context *c, const struct usher_request *request)
{
	return context_drops_excluded(c, request) || c->chain->shared_count < c->chain->stage_count;
}

const void *context_prepared_for(const struct context *c, const struct usher_request *request)
{
	bool subsets = chain_selector(c->chain)->flags & USHER_SELECTOR_SUBSETS;

	return subsets || !looks_at_request(c, request) ? c->prepared : NULL;
}

static void choose(struct context *c, struct usher_request *request, const uint32_t *candidates,
		size_t count, ssize_t position, struct pick *ret)
{
	/* One that had no choice does not shift the turns of the others. */
	c->cursor += count > 1;
	ret->result = PICK_OK;
	ret->stage = NULL;
	ret->endpoint = candidates[position];
	tally_picked(&c->tally, ret->endpoint);
	if (c->last && request->consumer)
		last_choices_put(c->last, request->consumer, ret->endpoint);
}

static void pick_from_snapshot(struct context *c, struct usher_request *request, struct pick *ret)
{
	const struct plugin_instance *instance = c->chain->selector;
	const struct usher_selector *selector = instance->plugin->selector;
	const uint32_t *candidates = c->snapshot->chosen;
	size_t count = c->snapshot->chosen_count;
	const void *prepared = context_prepared_for(c, request);
	struct usher_view view;
	ssize_t position;

	tally_update(&c->tally, request->now_usec);
	context_view(c, c->snapshot, &c->tally, request->now_usec, &view);
	if (count > 0 && looks_at_request(c, request)) {
		count = run_for_request(c, &view, request, ret);
		candidates = c->directory->candidates;
	}
	if (count == 0)
		return;

	position = selector->pick(instance->data, prepared, &view, request, candidates, count);
	if (position >= 0 && (size_t) position < count) {
		choose(c, request, candidates, count, position, ret);
		return;
	}
	ret->stage = instance->plugin->name;
	if (position != -1)
		context_note_selector_fault(c, position, count);
}

void context_pick(struct context *c, struct usher_request *request, uint64_t now_usec,
		struct pick *ret)
{
	c->used_usec = now_usec;
	*ret = (struct pick){ .snapshot = c->snapshot };
	context_freshness(c, now_usec, &ret->freshness);
	ret->result = context_refusal(c, &ret->freshness);
	if (ret->result != PICK_OK)
		return;

	ret->result = context_why_none(c, &ret->stage);
	/* What is left to go wrong is what looks at the request. */
	if (ret->result == PICK_OK)
		ret->result = PICK_FILTERED;
	ret->panic = c->snapshot->panic;
	context_fill_request(c, request, now_usec);
	pick_from_snapshot(c, request, ret);
}
