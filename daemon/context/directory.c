#include "directory.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "background.h"
#include "clock.h"
#include "directory-private.h"
#include "log.h"
#include "ownership.h"

DEFINE_CLEANUP(struct directory, directory_free);
DEFINE_CLEANUP(struct context, context_free);

int directory_new(sd_event *event, struct inbox *inbox, struct plugins *plugins,
		struct directory **ret)
{
	cleanup(directory_freep) struct directory *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return -ENOMEM;
	d->event = sd_event_ref(event);
	d->inbox = inbox;
	d->plugins = plugins;
	random_init(&d->random);
	r = deadlines_init(d);
	if (r >= 0 && inbox)
		r = worker_new(inbox, "usher-directory", 1, &d->worker);
	if (r < 0)
		return r;
	*ret = take(d);
	return 0;
}

struct directory *directory_free(struct directory *d)
{
	if (!d)
		return NULL;
	for (size_t i = 0; i < d->count; i++)
		background_abandon(d->contexts[i]);
	d->worker = worker_free(d->worker);
	directory_stop_sources(d);
	for (size_t i = 0; i < d->count; i++)
		(void) context_free(d->contexts[i]);
	for (size_t i = 0; i < d->origin_count; i++)
		(void) origin_free(d->origins[i]);
	deadlines_done(d);
	restored_done(&d->restored);
	(void) health_office_free(d->office);
	(void) chain_unref(d->lazy_chain);
	(void) check_unref(d->lazy_check);
	(void) config_unref(d->config);
	free(d->origins);
	free(d->contexts);
	free(d->heap);
	free(d->candidates);
	free(d->scratch);
	free(d->retired);
	(void) sd_event_unref(d->event);
	free(d);
	return NULL;
}

void directory_set_store(struct directory *d, struct store *store)
{
	d->store = store;
}

static bool is_on_disk(const struct context *c)
{
	for (size_t i = 0; i < c->feed_count; i++)
		if (c->feeds[i].on_disk)
			return true;
	return c->eager;
}

void directory_save(struct directory *d)
{
	uint64_t now_usec = clock_boot_usec();

	if (!d->store)
		return;
	for (size_t i = 0; i < d->count; i++) {
		struct context *c = d->contexts[i];

		for (size_t k = 0; k < c->feed_count; k++)
			if (c->feeds[k].feed.observation && !c->feeds[k].feed.restored)
				feed_touch(c, &c->feeds[k], now_usec);
		if (c->cursor == c->saved_cursor || !is_on_disk(c))
			continue;
		if (store_put_cursor(d->store, c->service, c->cursor) >= 0)
			c->saved_cursor = c->cursor;
	}
}

/* ---- who is told ---- */

int directory_subscribe(struct directory *d, const struct directory_events *events, void *userdata)
{
	if (d->subscriber_count == DIRECTORY_SUBSCRIBERS_MAX)
		return -E2BIG;
	d->subscribers[d->subscriber_count++] =
			(struct directory_subscriber){ .events = events, .userdata = userdata };
	return 0;
}

void directory_set_renderer(
		struct directory *d, const struct directory_renderer *renderer, void *userdata)
{
	d->renderer = renderer;
	d->renderer_userdata = userdata;
}

void directory_tell_published(
		struct directory *d, struct context *c, const struct snapshot *previous)
{
	for (size_t i = 0; i < d->subscriber_count; i++)
		if (d->subscribers[i].events->published)
			d->subscribers[i].events->published(
					d->subscribers[i].userdata, c, previous);
}

void directory_tell_renewed(struct directory *d, struct context *c)
{
	for (size_t i = 0; i < d->subscriber_count; i++)
		if (d->subscribers[i].events->renewed)
			d->subscribers[i].events->renewed(d->subscribers[i].userdata, c);
}

void directory_tell_removed(struct directory *d, struct context *c)
{
	for (size_t i = 0; i < d->subscriber_count; i++)
		if (d->subscribers[i].events->removed)
			d->subscribers[i].events->removed(d->subscribers[i].userdata, c);
}

void directory_tell_drain(
		struct directory *d, const struct source *source, const struct source_drain *drain)
{
	for (size_t i = 0; i < d->subscriber_count; i++)
		if (d->subscribers[i].events->drain)
			d->subscribers[i].events->drain(d->subscribers[i].userdata, source, drain);
}

/* ---- what publication needs ---- */

const char *directory_zone(const struct directory *d)
{
	return d->config ? d->config->node_zone : NULL;
}

const char *directory_node(const struct directory *d)
{
	return d->config ? d->config->node_name : NULL;
}

uint64_t directory_next_revision(struct directory *d)
{
	uint64_t next = d->store ? store_next_revision(d->store) : d->revision + 1;

	/* One sequence that only grows, whatever the disk says. */
	if (next <= d->revision)
		next = d->revision + 1;
	d->revision = next;
	return next;
}

static int reserve_scratch(struct directory *d, size_t count)
{
	uint32_t *grown;

	if (count <= d->scratch_capacity)
		return 0;
	grown = reallocarray(d->candidates, count, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	d->candidates = grown;
	grown = reallocarray(d->scratch, count, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	d->scratch = grown;
	d->scratch_capacity = count;
	return 0;
}

int directory_reserve(struct directory *d, size_t count)
{
	struct snapshot **retired;
	size_t capacity = d->retired_capacity ? 2 * d->retired_capacity : 16;
	int r;

	r = reserve_scratch(d, count);
	if (r < 0 || d->retired_count < d->retired_capacity)
		return r;
	retired = reallocarray(d->retired, capacity, sizeof(struct snapshot *));
	if (!retired)
		return -ENOMEM;
	d->retired = retired;
	d->retired_capacity = capacity;
	return 0;
}

void directory_retire(struct directory *d, struct snapshot *s)
{
	if (!s)
		return;
	assert(d->retired_count < d->retired_capacity);
	d->retired[d->retired_count++] = s;
	directory_at_end_of_turn(d);
}

/* ---- contexts ---- */

bool directory_search(const struct directory *d, const char *service, size_t *ret_index)
{
	size_t low = 0, high = d->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(d->contexts[middle]->service, service);

		if (order == 0) {
			*ret_index = middle;
			return true;
		}
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	*ret_index = low;
	return false;
}

int directory_grow(struct directory *d, size_t capacity)
{
	struct context **grown;

	if (capacity <= d->capacity)
		return 0;
	grown = reallocarray(d->contexts, capacity, sizeof(struct context *));
	if (!grown)
		return -ENOMEM;
	d->contexts = grown;
	grown = reallocarray(d->heap, capacity, sizeof(struct context *));
	if (!grown)
		return -ENOMEM;
	d->heap = grown;
	d->capacity = capacity;
	return 0;
}

void directory_insert(struct directory *d, struct context *c)
{
	bool is_there;
	size_t i;

	assert(d->count < d->capacity);
	is_there = directory_search(d, c->service, &i);
	assert(!is_there);
	memmove(&d->contexts[i + 1], &d->contexts[i], (d->count - i) * sizeof(struct context *));
	d->contexts[i] = c;
	d->count++;
	d->lazy_count += !c->eager;
}

static void forget_on_disk(struct directory *d, const struct context *c)
{
	for (size_t i = 0; d->store && i < c->feed_count; i++)
		if (c->feeds[i].on_disk)
			(void) store_remove_feed(
					d->store, c->service, c->feeds[i].feed.config->source);
}

void directory_remove(struct directory *d, struct context *c, bool forget)
{
	size_t i;

	if (directory_search(d, c->service, &i) && d->contexts[i] == c) {
		memmove(&d->contexts[i], &d->contexts[i + 1],
				(d->count - i - 1) * sizeof(struct context *));
		d->count--;
		d->lazy_count -= !c->eager;
		/* Said at once: made again in this turn, its source must know that it starts anew.
		 */
		for (size_t k = 0; k < c->feed_count; k++)
			c->feeds[k].origin->wants_changed = true;
		directory_tell_wants(d);
	}
	if (forget)
		forget_on_disk(d, c);
	directory_tell_removed(d, c);
	background_abandon(c);
	(void) context_free(c);
}

struct context *directory_find(struct directory *d, const char *service)
{
	size_t i;

	return directory_search(d, service, &i) ? d->contexts[i] : NULL;
}

/* The defaults under the service's own name. */
static int configure_lazy(struct context *c, const struct config *config)
{
	const struct service_config *defaults = &config->defaults;
	struct feed_config *feeds;

	feeds = calloc(defaults->feed_count ? defaults->feed_count : 1, sizeof(*feeds));
	if (!feeds)
		return -ENOMEM;
	for (size_t i = 0; i < defaults->feed_count; i++) {
		feeds[i] = defaults->feeds[i];
		feeds[i].name = c->service;
	}
	c->own = *defaults;
	c->own.name = c->service;
	c->own.feeds = feeds;
	c->own_feeds = feeds;
	c->config = &c->own;
	return 0;
}

int context_reconfigure_lazy(
		struct context *c, const struct config *config, struct feed_state **ret_feeds)
{
	struct feed_config *before = c->own_feeds;
	struct service_config own_before = c->own;
	struct feed_state *feeds;
	int r;

	r = configure_lazy(c, config);
	if (r < 0)
		return r;
	feeds = feeds_new(c->config);
	if (!feeds) {
		free(c->own_feeds);
		c->own_feeds = before;
		c->own = own_before;
		return -ENOMEM;
	}
	*ret_feeds = feeds;
	return 0;
}

static int context_new_lazy(struct directory *d, const char *service, struct context **ret)
{
	cleanup(context_freep) struct context *c = NULL;
	int r;

	r = context_new(d, service, &c);
	if (r < 0)
		return r;
	r = configure_lazy(c, d->config);
	if (r < 0)
		return r;
	c->feeds = feeds_new(c->config);
	if (!c->feeds)
		return -ENOMEM;
	c->feed_count = c->config->feed_count;
	c->chain = chain_ref(d->lazy_chain);
	(void) context_observe(c, d->lazy_check);
	*ret = take(c);
	return 0;
}

static int refuse_lazy(const struct directory *d, const char *service, struct usher_error *reterr)
{
	if (!d->config || !d->config->lazy_allow)
		return usher_error_set(reterr, -ENOENT,
				"service %s is not declared, and lazy contexts are not allowed: "
				"declare it under services, or set defaults.lazy.allow",
				service);
	if (d->lazy_count >= d->config->lazy_limit)
		return usher_error_set(reterr, -E2BIG,
				"there are %zu contexts for services that nobody declared, which is "
				"the limit: declare %s under services, or raise defaults.lazy.limit",
				d->lazy_count, service);
	return 0;
}

int directory_get(struct directory *d, const char *service, struct context **ret,
		struct usher_error *reterr)
{
	struct context *c = directory_find(d, service);
	int r;

	if (c) {
		c->used_usec = clock_boot_usec();
		*ret = c;
		return 0;
	}
	r = config_check_name(service, reterr);
	if (r < 0)
		return r;
	r = refuse_lazy(d, service, reterr);
	if (r < 0)
		return r;
	r = directory_grow(d, d->count + 1 > d->capacity ? 2 * d->capacity + 16 : 0);
	if (r >= 0)
		r = context_new_lazy(d, service, &c);
	if (r < 0)
		return usher_error_set(reterr, r, "out of memory");

	c->used_usec = clock_boot_usec();
	directory_insert(d, c);
	context_connect(c);
	restored_give(d, c, c->used_usec);
	context_wants_changed(c);
	(void) context_recompute_or_retry(c, c->used_usec);
	(void) context_note_freshness(c, c->used_usec);
	context_schedule(c, c->used_usec);
	*ret = c;
	return 0;
}

/* ---- lists ---- */

const struct config *directory_config(const struct directory *d)
{
	return d->config;
}

size_t directory_count(const struct directory *d)
{
	return d->count;
}

struct context *directory_at(const struct directory *d, size_t i)
{
	assert(i < d->count);
	return d->contexts[i];
}

size_t directory_source_count(const struct directory *d)
{
	size_t count = 0;

	for (size_t i = 0; i < d->origin_count; i++)
		count += d->origins[i]->source != NULL;
	return count;
}

struct source *directory_source_at(const struct directory *d, size_t i)
{
	for (size_t k = 0; k < d->origin_count; k++)
		if (d->origins[k]->source && i-- == 0)
			return d->origins[k]->source;
	return NULL;
}

struct health_office *directory_health_office(const struct directory *d)
{
	return d->office;
}

void directory_prober_stats(const struct directory *d, struct prober_stats *ret)
{
	*ret = (struct prober_stats){ .stretch = 1 };
	if (d->office)
		health_office_stats(d->office, ret);
}

struct plugins *directory_plugins(struct directory *d)
{
	return d->plugins;
}

uint64_t directory_revision(const struct directory *d)
{
	return d->revision;
}

/* ---- overrides ---- */

static uint64_t revision_in_force(const struct context *c)
{
	return c->snapshot ? c->snapshot->revision : 0;
}

static void settle_override(struct context *c)
{
	uint64_t now_usec = clock_boot_usec();

	c->used_usec = now_usec;
	context_schedule(c, now_usec);
}

int directory_set_override(struct directory *d, const char *service,
		const struct override *override, uint64_t *ret_revision)
{
	struct context *c = directory_find(d, service);
	int r;

	assert(override && override->id);
	if (!c)
		return -ENOENT;
	r = context_set_override(c, override);
	if (r < 0)
		return r;
	settle_override(c);
	if (ret_revision)
		*ret_revision = revision_in_force(c);
	return 0;
}

int directory_clear_override(
		struct directory *d, const char *service, const char *id, uint64_t *ret_revision)
{
	struct context *c = directory_find(d, service);
	int r;

	if (!c)
		return -ENOENT;
	r = context_clear_override(c, id);
	if (r < 0)
		return r;
	settle_override(c);
	if (ret_revision)
		*ret_revision = revision_in_force(c);
	return 0;
}

const struct override *directory_find_override(
		const struct directory *d, const char *service, const char *id)
{
	size_t i;

	return directory_search(d, service, &i) ? context_find_override(d->contexts[i], id) : NULL;
}
