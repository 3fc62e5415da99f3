#include "context.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "context-private.h"
#include "directory-private.h"
#include "ownership.h"

int context_new(struct directory *d, const char *service, struct context **ret)
{
	struct context *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->directory = d;
	c->service = strdup(service);
	if (!c->service) {
		free(c);
		return -ENOMEM;
	}
	c->created_usec = clock_boot_usec();
	c->merged.only = MERGE_NONE;
	c->deadline_usec = USEC_FOREVER;
	c->deadline_index = SIZE_MAX;
	c->cursor = c->saved_cursor = random_next(&d->random);
	*ret = c;
	return 0;
}

struct context *context_free(struct context *c)
{
	if (!c)
		return NULL;
	assert(!c->background);
	deadlines_remove(c->directory, c);
	context_observe_no_more(c);
	context_drop_snapshot(c);
	merged_done(&c->merged);
	overrides_free(c->overrides, c->override_count);
	(void) feeds_free(c->feeds, c->feed_count);
	free(c->own_feeds);
	free(c->service);
	free(c);
	return NULL;
}

struct feed_state *feeds_new(const struct service_config *config)
{
	struct feed_state *feeds =
			calloc(config->feed_count ? config->feed_count : 1, sizeof(*feeds));

	for (size_t i = 0; feeds && i < config->feed_count; i++)
		feeds[i].feed.config = &config->feeds[i];
	return feeds;
}

struct feed_state *feeds_free(struct feed_state *feeds, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		(void) observation_unref(feeds[i].feed.observation);
		(void) observation_unref(feeds[i].feed.held);
		(void) observation_unref(feeds[i].base);
		free(feeds[i].feed.error);
	}
	free(feeds);
	return NULL;
}

struct feed_state *context_feed_of(struct context *c, const struct source *source)
{
	for (size_t i = 0; i < c->feed_count; i++)
		if (c->feeds[i].feed.source == source)
			return &c->feeds[i];
	return NULL;
}

void context_hold(struct context *c)
{
	c->holds++;
}

void context_release(struct context *c)
{
	assert(c->holds > 0);
	c->holds--;
	c->used_usec = clock_boot_usec();
	context_schedule(c, c->used_usec);
}

/* ---- what others ask ---- */

const char *context_service(const struct context *c)
{
	return c->service;
}

bool context_is_eager(const struct context *c)
{
	return c->eager;
}

const struct service_config *context_config(const struct context *c)
{
	return c->config;
}

const struct chain *context_chain(const struct context *c)
{
	return c->chain;
}

void context_stage_counts(const struct context *c, size_t i, struct chain_counts *ret)
{
	assert(i < c->chain->stage_count);
	*ret = c->counts ? c->counts[i] : (struct chain_counts){};
}

struct snapshot *context_snapshot(const struct context *c)
{
	return c->snapshot;
}

size_t context_feed_count(const struct context *c)
{
	return c->feed_count;
}

const struct feed *context_feed(const struct context *c, size_t i)
{
	assert(i < c->feed_count);
	return &c->feeds[i].feed;
}

const char *context_field_source(const struct context *c, const struct snapshot *snapshot, size_t i,
		enum merge_field field)
{
	const struct merged *m = &c->merged;
	size_t k;

	if (!m->origins || m->endpoints != snapshot->all)
		return NULL;
	k = m->origins[i][field];
	return k == snapshot->entries[i].source || k >= c->feed_count
			? NULL
			: c->feeds[k].feed.config->source;
}

const char *context_shown_by(
		const struct context *c, const struct snapshot *snapshot, size_t i, size_t feed)
{
	const struct feed *f = &c->feeds[feed].feed;

	assert(feed < c->feed_count);
	if (!f->observation ||
			usher_endpoints_find(f->observation->endpoints,
					usher_endpoints_id(snapshot->all, i)) < 0)
		return NULL;
	return f->config->source;
}

/* The snapshot may be older than the feeds, so that its index alone is not enough. */
const char *context_source_of(const struct context *c, const struct snapshot *snapshot, size_t i)
{
	size_t k = snapshot->entries[i].source;
	struct usher_endpoint e;
	const struct feed *f;

	if (k >= c->feed_count || !c->feeds[k].feed.observation)
		return NULL;
	f = &c->feeds[k].feed;
	usher_endpoints_get(snapshot->all, i, &e);
	return usher_endpoints_find(f->observation->endpoints, e.id) < 0 ? NULL : f->config->source;
}

static bool has_answered(const struct feed *f)
{
	return f->observation && !f->restored;
}

bool context_has_answer(const struct context *c)
{
	size_t answers = 0;

	for (size_t i = 0; i < c->feed_count; i++) {
		const struct feed *f = &c->feeds[i].feed;

		answers += has_answered(f);
		if (has_answered(f) && c->config->merge != MERGE_UNION &&
				usher_endpoints_count(f->observation->endpoints) > 0)
			return true;
		if (!has_answered(f) && c->config->merge != MERGE_RACE)
			return false;
	}
	return answers == c->feed_count;
}

/* Whose endpoints the answer has, or would have: with `first`, of the one that was taken; while all
 * are empty, of all. */
static bool contributes(const struct context *c, size_t feed)
{
	const struct merged *m = &c->merged;

	if (c->config->merge == MERGE_UNION || !m->endpoints)
		return true;
	if (usher_endpoints_count(m->endpoints) == 0)
		return c->feeds[feed].feed.observation;
	return m->only == feed;
}

void context_freshness(const struct context *c, uint64_t now_usec, struct freshness *ret)
{
	struct staleness_part parts[CONFIG_FEEDS_MAX];

	assert(c->feed_count <= CONFIG_FEEDS_MAX);
	for (size_t i = 0; i < c->feed_count; i++) {
		const struct feed *f = &c->feeds[i].feed;

		parts[i] = (struct staleness_part){ .source = f->config->source,
			.last = f->state,
			.answered = f->observation,
			.contributes = contributes(c, i),
			.observed_usec = f->observed_usec };
	}
	staleness_judge(parts, c->feed_count, c->config->max_age_usec, now_usec, ret);
}

/* ---- the clock ---- */

static struct origin *origin_named(const struct context *c, const char *source)
{
	for (size_t i = 0; i < c->feed_count; i++)
		if (c->feeds[i].feed.config->source == source)
			return c->feeds[i].origin;
	return NULL;
}

bool context_note_freshness(struct context *c, uint64_t now_usec)
{
	enum source_state before = c->shown_state;
	struct freshness f;
	struct origin *o;

	context_freshness(c, now_usec, &f);
	if (f.state == before)
		return false;
	c->shown_state = f.state;
	o = origin_named(c, f.source);
	if (o && f.state == SOURCE_STALE)
		report_stale(o, c, &f, now_usec);
	else if (o && before == SOURCE_STALE)
		report_fresh(o, c, &f, now_usec);
	return true;
}

static void be_earlier(uint64_t *deadline_usec, uint64_t usec)
{
	if (usec < *deadline_usec)
		*deadline_usec = usec;
}

static uint64_t feed_deadline(const struct context *c, const struct feed *f, uint64_t now_usec)
{
	uint64_t deadline_usec = USEC_FOREVER, age_usec = feed_age(f, now_usec);

	if (f->state != SOURCE_LIVE && f->state != SOURCE_STALE)
		return USEC_FOREVER;
	if (f->held)
		be_earlier(&deadline_usec, f->held_until_usec);
	if (f->state == SOURCE_LIVE && age_usec <= c->config->max_age_usec)
		be_earlier(&deadline_usec, now_usec + (c->config->max_age_usec - age_usec) + 1);
	return deadline_usec;
}

void context_schedule(struct context *c, uint64_t now_usec)
{
	struct freshness freshness;
	uint64_t deadline_usec;

	context_freshness(c, now_usec, &freshness);
	deadline_usec = staleness_deadline(&freshness, now_usec);
	for (size_t i = 0; i < c->feed_count; i++)
		be_earlier(&deadline_usec, feed_deadline(c, &c->feeds[i].feed, now_usec));
	if (now_usec < context_patient_until(c))
		be_earlier(&deadline_usec, context_patient_until(c));
	if (c->recompute_due)
		be_earlier(&deadline_usec, now_usec + CONTEXT_RETRY_USEC);
	if (c->again_usec != 0)
		be_earlier(&deadline_usec, c->again_usec);
	if (!c->eager && c->holds == 0 && c->override_count == 0)
		be_earlier(&deadline_usec, c->used_usec + DIRECTORY_IDLE_USEC);
	/* The clock's work is done first, so nothing is due at once, and nothing may turn the loop
	 * over and over. */
	if (deadline_usec <= now_usec)
		deadline_usec = now_usec + USEC_PER_MSEC;
	deadlines_set(c->directory, c, deadline_usec);
}

void context_on_deadline(struct context *c, uint64_t now_usec)
{
	if (c->background) {
		/* what is due else is seen to when that is done */
		if (context_note_freshness(c, now_usec))
			directory_tell_renewed(c->directory, c);
		deadlines_set(c->directory, c, now_usec + CONTEXT_AGAIN_USEC);
		return;
	}
	for (size_t i = 0; i < c->feed_count; i++)
		feed_on_deadline(c, &c->feeds[i], now_usec);
	(void) context_refresh(c, now_usec);
	if (context_note_freshness(c, now_usec))
		directory_tell_renewed(c->directory, c);
	context_schedule(c, now_usec);
}

bool context_is_idle(const struct context *c, uint64_t now_usec)
{
	return !c->eager && c->holds == 0 && c->override_count == 0 &&
			now_usec >= c->used_usec + DIRECTORY_IDLE_USEC;
}
