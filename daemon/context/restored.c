/* What the disk remembers from before the start, kept until somebody asks for the service. */

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "directory-private.h"
#include "log.h"
#include "ownership.h"

/* A damaged or foreign store must not fill the memory. */
#define RESTORED_MAX ((size_t) CONFIG_SERVICES_MAX * CONFIG_FEEDS_MAX)

static void restored_feed_done(struct restored_feed *f)
{
	free(f->service);
	free(f->source);
	(void) observation_unref(f->observation);
	*f = (struct restored_feed){};
}

void restored_done(struct restored *r)
{
	for (size_t i = 0; i < r->feed_count; i++)
		restored_feed_done(&r->feeds[i]);
	for (size_t i = 0; i < r->cursor_count; i++)
		free(r->cursors[i].service);
	free(r->feeds);
	free(r->cursors);
	*r = (struct restored){};
}

static bool grow(void **array, size_t *capacity, size_t count, size_t size)
{
	size_t wanted = *capacity ? 2 * *capacity : 64;
	void *grown;

	if (count < *capacity)
		return true;
	if (count >= RESTORED_MAX)
		return false;
	grown = reallocarray(*array, wanted, size);
	if (!grown)
		return false;
	*array = grown;
	*capacity = wanted;
	return true;
}

static bool restored_add_feed(struct restored *r, const struct stored_feed *stored)
{
	struct restored_feed f = {};

	if (!grow((void **) &r->feeds, &r->feed_capacity, r->feed_count, sizeof(*r->feeds)))
		return false;
	f.restored_usec = clock_boot_usec();
	f.age_usec = staleness_restored_age(stored->observed_wall_usec, clock_wall_usec());
	f.service = strdup(stored->service);
	f.source = strdup(stored->source);
	f.observation = observation_new(usher_endpoints_ref(stored->endpoints), USHER_FRESH,
			stored->revision, f.restored_usec);
	if (!f.service || !f.source || !f.observation) {
		restored_feed_done(&f);
		return false;
	}
	r->feeds[r->feed_count++] = f;
	return true;
}

void directory_restore_feed(struct directory *d, const struct stored_feed *feed)
{
	d->restored.sorted = false;
	if (!restored_add_feed(&d->restored, feed))
		log_warning(FIELDS(.value[LOG_SERVICE] = feed->service),
				"Cannot take over the last known endpoints of %s from the disk: out of "
				"memory; waiting for %s",
				feed->service, feed->source);
}

void directory_restore_cursor(struct directory *d, const char *service, uint64_t cursor)
{
	struct restored *r = &d->restored;
	char *copy;

	r->sorted = false;
	/* A cursor that is lost starts anew at random, which is as good for everybody. */
	if (!grow((void **) &r->cursors, &r->cursor_capacity, r->cursor_count, sizeof(*r->cursors)))
		return;
	copy = strdup(service);
	if (copy)
		r->cursors[r->cursor_count++] =
				(struct restored_cursor){ .service = copy, .cursor = cursor };
}

/* ---- giving it out ---- */

static int compare_feeds(const void *a, const void *b)
{
	const struct restored_feed *x = a, *y = b;
	int order = strcmp(x->service, y->service);

	return order ? order : strcmp(x->source, y->source);
}

static int compare_cursors(const void *a, const void *b)
{
	return strcmp(((const struct restored_cursor *) a)->service,
			((const struct restored_cursor *) b)->service);
}

static void sort(struct restored *r)
{
	if (r->sorted)
		return;
	if (r->feed_count > 0)
		qsort(r->feeds, r->feed_count, sizeof(*r->feeds), compare_feeds);
	if (r->cursor_count > 0)
		qsort(r->cursors, r->cursor_count, sizeof(*r->cursors), compare_cursors);
	r->sorted = true;
}

static void give_feed(
		struct directory *d, struct context *c, struct feed_state *f, uint64_t now_usec)
{
	struct restored_feed key = { .service = c->service, .source = f->feed.config->source },
			     *found = NULL;
	uint64_t age_usec;

	if (d->restored.feed_count > 0)
		found = bsearch(&key, d->restored.feeds, d->restored.feed_count, sizeof(key),
				compare_feeds);
	if (!found || !found->observation)
		return;
	age_usec = found->age_usec == USEC_FOREVER
			? USEC_FOREVER
			: found->age_usec + (now_usec - found->restored_usec);
	feed_restore(f, take(found->observation), age_usec, now_usec);
	c->merged_valid = false;
}

void restored_give(struct directory *d, struct context *c, uint64_t now_usec)
{
	struct restored_cursor key = { .service = c->service }, *found = NULL;

	sort(&d->restored);
	if (d->restored.cursor_count > 0)
		found = bsearch(&key, d->restored.cursors, d->restored.cursor_count, sizeof(key),
				compare_cursors);
	if (found)
		c->cursor = c->saved_cursor = found->cursor;
	for (size_t i = 0; i < c->feed_count; i++)
		give_feed(d, c, &c->feeds[i], now_usec);
}

/* ---- forgetting it ---- */

/* A lazy context may still be made that takes it. */
static bool may_be_asked_for(const struct directory *d, const struct restored_feed *f)
{
	const struct service_config *defaults = &d->config->defaults;

	if (!d->config->lazy_allow)
		return false;
	for (size_t i = 0; i < defaults->feed_count; i++)
		if (strcmp(defaults->feeds[i].source, f->source) == 0)
			return !config_find_service(d->config, f->service);
	return false;
}

void restored_prune(struct directory *d, uint64_t now_usec)
{
	struct restored *r = &d->restored;
	size_t kept = 0;

	if (!d->config)
		return;
	if (r->until_usec == 0)
		r->until_usec = now_usec + DIRECTORY_IDLE_USEC;
	else if (now_usec < r->until_usec)
		return;

	sort(r);
	for (size_t i = 0; i < r->feed_count; i++) {
		struct restored_feed *f = &r->feeds[i];
		bool given = !f->observation;

		if (!given && now_usec < r->until_usec && may_be_asked_for(d, f)) {
			r->feeds[kept++] = *f;
			continue;
		}
		if (!given && d->store)
			(void) store_remove_feed(d->store, f->service, f->source);
		restored_feed_done(f);
	}
	r->feed_count = kept;
	if (now_usec >= r->until_usec) {
		restored_done(r);
		r->sorted = true;
		r->until_usec = USEC_FOREVER;
	}
}
