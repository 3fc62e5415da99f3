/* The healths of all services, with the one prober and the one timer that they share. */

#include <errno.h>
#include <stdlib.h>

#include "clock.h"
#include "health-private.h"

/* ---- what has changed ---- */

static void tell_at_end_of_turn(struct health_office *o, struct health *h)
{
	h->is_quiet = false;
	h->next_dirty = o->dirty;
	o->dirty = h;
	(void) sd_event_source_set_enabled(o->turn, SD_EVENT_ONESHOT);
}

void office_tell_later(struct health_office *o, struct health *h)
{
	if (h->is_dirty)
		return;
	h->is_dirty = true;
	if (clock_boot_usec() >= h->quiet_until_usec) {
		tell_at_end_of_turn(o, h);
		return;
	}
	h->is_quiet = true;
	health_wake_at(h, h->quiet_until_usec);
}

static void forget_dirty(struct health_office *o, struct health *h)
{
	for (struct health **link = &o->dirty; *link; link = &(*link)->next_dirty)
		if (*link == h) {
			*link = h->next_dirty;
			return;
		}
}

/* Whoever is told may free any health, its own or another. */
static void tell(struct health_office *o, struct health *h)
{
	uint64_t began_usec = clock_boot_usec(), took_usec;

	h->is_dirty = false;
	o->telling = h;
	health_tell(h, began_usec);
	h->events->changed(h->userdata, h);
	took_usec = clock_boot_usec() - began_usec;
	if (o->telling == h && took_usec > HEALTH_BRIEF_USEC)
		h->quiet_until_usec = began_usec + (1 + HEALTH_QUIET_FACTOR) * took_usec;
	o->telling = NULL;
}

static int office_on_turn(sd_event_source *source, void *userdata)
{
	struct health_office *o = userdata;

	(void) source;
	while (o->dirty) {
		struct health *h = o->dirty;

		o->dirty = h->next_dirty;
		tell(o, h);
	}
	return 0;
}

static void office_on_results(void *userdata, const struct probe_result *results, size_t count)
{
	uint64_t now_usec = clock_boot_usec();

	(void) userdata;
	for (size_t i = 0; i < count; i++)
		if (results[i].userdata)
			watched_take_result(results[i].userdata, &results[i], now_usec);
}

/* ---- what falls due ---- */

static void arm(struct health_office *o, uint64_t usec)
{
	o->armed_usec = usec;
	(void) sd_event_source_set_time(o->timer, usec);
	(void) sd_event_source_set_enabled(
			o->timer, usec == USEC_FOREVER ? SD_EVENT_OFF : SD_EVENT_ONESHOT);
}

void office_wake_at(struct health_office *o, uint64_t usec)
{
	if (usec < o->armed_usec)
		arm(o, usec);
}

static int office_on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct health_office *o = userdata;
	uint64_t now_usec = clock_boot_usec(), next_usec = USEC_FOREVER;

	(void) source;
	(void) usec;
	for (struct health *h = o->first; h; h = h->next) {
		if (h->is_quiet && h->quiet_until_usec <= now_usec)
			tell_at_end_of_turn(o, h);
		if (h->deadline_usec <= now_usec)
			health_on_deadline(h, now_usec);
		if (h->deadline_usec < next_usec)
			next_usec = h->deadline_usec;
	}
	arm(o, next_usec);
	return 0;
}

/* ---- the office ---- */

void office_add(struct health_office *o, struct health *h)
{
	h->office = o;
	h->next = o->first;
	if (o->first)
		o->first->previous = h;
	o->first = h;
}

void office_remove(struct health_office *o, struct health *h)
{
	if (o->telling == h)
		o->telling = NULL;
	if (h->is_dirty && !h->is_quiet)
		forget_dirty(o, h);
	if (h->previous)
		h->previous->next = h->next;
	else
		o->first = h->next;
	if (h->next)
		h->next->previous = h->previous;
}

static int add_sources(struct health_office *o)
{
	int r;

	r = sd_event_add_time(
			o->event, &o->timer, CLOCK_BOOTTIME, USEC_FOREVER, 0, office_on_timer, o);
	if (r < 0)
		return r;
	(void) sd_event_source_set_description(o->timer, "health-deadlines");
	r = sd_event_source_set_enabled(o->timer, SD_EVENT_OFF);
	if (r < 0)
		return r;
	r = sd_event_add_defer(o->event, &o->turn, office_on_turn, o);
	if (r < 0)
		return r;
	(void) sd_event_source_set_description(o->turn, "health-changes");
	/* behind the results that are there already, so that they are told together */
	r = sd_event_source_set_priority(o->turn, SD_EVENT_PRIORITY_NORMAL + 1);
	if (r < 0)
		return r;
	return sd_event_source_set_enabled(o->turn, SD_EVENT_OFF);
}

int health_office_new(sd_event *event, struct inbox *inbox, const struct prober_config *config,
		struct health_office **ret)
{
	struct health_office *o = calloc(1, sizeof(*o));
	int r;

	if (!o)
		return -ENOMEM;
	o->event = sd_event_ref(event);
	o->armed_usec = USEC_FOREVER;
	r = add_sources(o);
	if (r >= 0)
		r = prober_new(inbox, config, office_on_results, o, &o->prober);
	if (r < 0) {
		(void) health_office_free(o);
		return r;
	}
	*ret = o;
	return 0;
}

struct health_office *health_office_free(struct health_office *o)
{
	if (!o)
		return NULL;
	(void) prober_free(o->prober);
	(void) sd_event_source_disable_unref(o->timer);
	(void) sd_event_source_disable_unref(o->turn);
	(void) sd_event_unref(o->event);
	free(o);
	return NULL;
}

void health_office_configure(struct health_office *o, const struct prober_config *config)
{
	prober_configure(o->prober, config);
}

void health_office_stats(struct health_office *o, struct prober_stats *ret)
{
	prober_stats(o->prober, ret);
}
