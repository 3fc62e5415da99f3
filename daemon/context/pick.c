/* Choosing: the hot path. No allocation, no system call. */

#include <assert.h>
#include <string.h>

#include "clock.h"
#include "context-private.h"
#include "directory-private.h"

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

void context_view(const struct context *c, const struct snapshot *s, struct usher_view *ret)
{
	*ret = (struct usher_view){ .size = sizeof(*ret),
		.endpoints = s->all,
		.weights = s->weights,
		.zone = directory_zone(c->directory) };
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

enum pick_result context_refusal(const struct context *c, const struct freshness *freshness)
{
	enum pick_result missing;

	if (!c->snapshot) {
		missing = missing_answer(c);
		return missing == PICK_OK ? PICK_SOURCE_UNKNOWN : missing;
	}
	if (freshness->state == SOURCE_STALE && c->config->on_stale == STALE_FAIL)
		return PICK_STALE;
	if (c->snapshot->count > 0)
		return PICK_OK;
	/* Empty is a fact only when everybody says so. */
	missing = missing_answer(c);
	return missing == PICK_OK ? PICK_EMPTY : missing;
}

/* What looks at the request: the exclusions and the rest of the chain. The candidates are the
 * directory's scratch. Returns how many stay; 0 with the stage's name. */
static size_t run_for_request(const struct context *c, const struct usher_view *view,
		const struct usher_request *request, const char **ret_stage)
{
	const struct snapshot *s = c->snapshot;
	size_t failed = SIZE_MAX;
	struct chain_work work = { .view = view,
		.request = request,
		.candidates = c->directory->candidates,
		.scratch = c->directory->scratch };

	memcpy(work.candidates, s->chosen, s->chosen_count * sizeof(*work.candidates));
	work.count = request_drop_excluded(request, s, work.candidates, s->chosen_count);
	if (work.count == 0) {
		*ret_stage = "exclude";
		return 0;
	}
	(void) chain_run(c->chain, c->chain->shared_count, c->chain->stage_count, &work, &failed,
			NULL);
	if (failed != SIZE_MAX)
		*ret_stage = chain_stage_name(c->chain, failed);
	return work.count;
}

static bool looks_at_request(const struct context *c, const struct usher_request *request)
{
	return request->exclude_count > 0 || c->chain->shared_count < c->chain->stage_count;
}

void context_pick(struct context *c, struct usher_request *request, uint64_t now_usec,
		struct pick *ret)
{
	const struct plugin_instance *selector = c->chain->selector;
	const struct snapshot *s = c->snapshot;
	const uint32_t *candidates;
	const void *prepared = c->prepared;
	struct usher_view view;
	size_t count;
	ssize_t position;

	c->used_usec = now_usec;
	*ret = (struct pick){ .snapshot = c->snapshot };
	context_freshness(c, now_usec, &ret->freshness);
	ret->result = context_refusal(c, &ret->freshness);
	if (ret->result != PICK_OK)
		return;

	ret->result = PICK_FILTERED;
	ret->stage = c->filtered_stage;
	request->random = random_next(&c->directory->random);
	request->cursor = c->cursor;
	request->now_usec = now_usec;
	context_view(c, s, &view);
	candidates = s->chosen;
	count = s->chosen_count;
	if (count > 0 && looks_at_request(c, request)) {
		count = run_for_request(c, &view, request, &ret->stage);
		candidates = c->directory->candidates;
		prepared = NULL;
	}
	if (count == 0)
		return;

	position = selector->plugin->selector->pick(
			selector->data, prepared, &view, request, candidates, count);
	if (position < 0) {
		ret->stage = selector->plugin->name;
		return;
	}
	assert((size_t) position < count);
	c->cursor++;
	ret->result = PICK_OK;
	ret->stage = NULL;
	ret->endpoint = candidates[position];
}
