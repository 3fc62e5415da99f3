/* One timer for everything that falls due by itself, and one event for what waits for the end of a
 * turn. Contexts stand in a heap by their deadline. */

#include <assert.h>
#include <string.h>

#include "clock.h"
#include "directory-private.h"
#include "log.h"

#define NOT_IN_HEAP SIZE_MAX

/* ---- the heap ---- */

static void place(struct directory *d, size_t i, struct context *c)
{
	d->heap[i] = c;
	c->deadline_index = i;
}

static void sift_up(struct directory *d, struct context *c)
{
	size_t i = c->deadline_index;

	while (i > 0 && d->heap[(i - 1) / 2]->deadline_usec > c->deadline_usec) {
		place(d, i, d->heap[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	place(d, i, c);
}

static void sift_down(struct directory *d, struct context *c)
{
	size_t i = c->deadline_index;

	for (;;) {
		size_t child = 2 * i + 1;

		if (child >= d->heap_count)
			break;
		if (child + 1 < d->heap_count &&
				d->heap[child + 1]->deadline_usec < d->heap[child]->deadline_usec)
			child++;
		if (d->heap[child]->deadline_usec >= c->deadline_usec)
			break;
		place(d, i, d->heap[child]);
		i = child;
	}
	place(d, i, c);
}

void deadlines_remove(struct directory *d, struct context *c)
{
	struct context *last;
	size_t i = c->deadline_index;

	if (i == NOT_IN_HEAP)
		return;
	last = d->heap[--d->heap_count];
	c->deadline_index = NOT_IN_HEAP;
	if (last == c)
		return;
	place(d, i, last);
	sift_up(d, last);
	sift_down(d, last);
}

void deadlines_set(struct directory *d, struct context *c, uint64_t usec)
{
	if (usec == USEC_FOREVER) {
		deadlines_remove(d, c);
		c->deadline_usec = USEC_FOREVER;
		return;
	}
	c->deadline_usec = usec;
	if (c->deadline_index == NOT_IN_HEAP) {
		assert(d->heap_count < d->capacity);
		place(d, d->heap_count++, c);
	}
	sift_up(d, c);
	sift_down(d, c);
	directory_wake_at(d, usec);
}

/* ---- the timer ---- */

void directory_wake_at(struct directory *d, uint64_t usec)
{
	int r;

	if (usec >= d->armed_usec)
		return;
	d->armed_usec = usec;
	r = sd_event_source_set_time(d->timer, usec);
	if (r >= 0)
		r = sd_event_source_set_enabled(d->timer, SD_EVENT_ONESHOT);
	if (r < 0)
		log_error(NULL, "Cannot set the timer of the directory: %s",
				usher_error_text(NULL, r));
}

static uint64_t next_deadline(const struct directory *d)
{
	uint64_t next = d->heap_count > 0 ? d->heap[0]->deadline_usec : USEC_FOREVER;
	uint64_t origins = origins_deadline(d), restored = d->restored.until_usec;

	if (origins < next)
		next = origins;
	if (restored != 0 && restored < next)
		next = restored;
	return next;
}

void directory_do_due(struct directory *d, uint64_t now_usec)
{
	size_t looked_at = 0;

	d->armed_usec = USEC_FOREVER;
	while (d->heap_count > 0 && d->heap[0]->deadline_usec <= now_usec &&
			looked_at++ < DIRECTORY_DUE_MAX) {
		struct context *c = d->heap[0];

		if (context_is_idle(c, now_usec))
			directory_remove(d, c, true);
		else
			context_on_deadline(c, now_usec);
	}
	origins_on_deadline(d, now_usec);
	restored_prune(d, now_usec);
	directory_wake_at(d, next_deadline(d));
}

static int directory_on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void) source;
	(void) usec;
	directory_do_due(userdata, clock_boot_usec());
	return 0;
}

/* ---- the end of a turn ---- */

void directory_at_end_of_turn(struct directory *d)
{
	int r = sd_event_source_set_enabled(d->turn, SD_EVENT_ONESHOT);

	if (r < 0)
		log_error(NULL, "Cannot schedule work of the directory: %s",
				usher_error_text(NULL, r));
}

void directory_end_turn(struct directory *d)
{
	for (size_t i = 0; i < d->retired_count; i++)
		(void) snapshot_unref(d->retired[i]);
	d->retired_count = 0;
	directory_tell_wants(d);
}

static int directory_on_turn(sd_event_source *source, void *userdata)
{
	(void) source;
	directory_end_turn(userdata);
	return 0;
}

int deadlines_init(struct directory *d)
{
	int r;

	d->armed_usec = USEC_FOREVER;
	r = sd_event_add_time(d->event, &d->timer, CLOCK_BOOTTIME, USEC_FOREVER, 10000,
			directory_on_timer, d);
	if (r < 0)
		return r;
	r = sd_event_source_set_enabled(d->timer, SD_EVENT_OFF);
	if (r < 0)
		return r;
	r = sd_event_add_defer(d->event, &d->turn, directory_on_turn, d);
	if (r < 0)
		return r;
	return sd_event_source_set_enabled(d->turn, SD_EVENT_OFF);
}

void deadlines_done(struct directory *d)
{
	d->timer = sd_event_source_disable_unref(d->timer);
	d->turn = sd_event_source_disable_unref(d->turn);
	for (size_t i = 0; i < d->retired_count; i++)
		(void) snapshot_unref(d->retired[i]);
	d->retired_count = 0;
}
