/* What one source says of one service: what is in force, what is held back, what fails. */

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "background.h"
#include "clock.h"
#include "context-private.h"
#include "directory-private.h"
#include "guard.h"
#include "log.h"
#include "ownership.h"

uint64_t feed_age(const struct feed *feed, uint64_t now_usec)
{
	return feed->observation ? staleness_age(feed->observed_usec, now_usec) : USEC_FOREVER;
}

/* A removal that a rollout works for is no surprise. */
static bool is_on_its_way_out(void *userdata, const char *id, const char *uid)
{
	const struct override *o = context_find_override(userdata, id);

	return o && override_takes_out(o, uid);
}

/* ---- the disk ---- */

static uint64_t wall_time_of(uint64_t observed_usec, uint64_t now_usec)
{
	uint64_t age = staleness_age(observed_usec, now_usec), wall = clock_wall_usec();

	return age < wall ? wall - age : 0;
}

/* A lazy context that was made for a name nobody knows must not fill the disk. */
static bool is_worth_keeping(const struct context *c, const struct feed_state *f)
{
	return c->eager || f->on_disk || usher_endpoints_count(f->feed.observation->endpoints) > 0;
}

/* The store says itself when the disk fails. */
static void feed_on_stored(void *userdata, int r, const char *reason)
{
	(void) userdata;
	(void) r;
	(void) reason;
}

static void feed_store(struct context *c, struct feed_state *f, uint64_t now_usec)
{
	const struct observation *o = f->feed.observation;
	/* A commit that is waited for does not gather others. A restart could do with an older
	 * answer, but not without any. */
	store_done done = f->on_disk ? NULL : feed_on_stored;
	int r;

	if (!c->directory->store || !is_worth_keeping(c, f))
		return;
	r = store_put_feed(c->directory->store, c->service, f->feed.config->source, o->endpoints,
			o->revision, wall_time_of(f->feed.observed_usec, now_usec), done, NULL);
	if (r < 0) {
		log_warning(FIELDS(.value[LOG_SERVICE] = c->service,
					    .value[LOG_SOURCE] = f->feed.config->source),
				"Cannot hand the endpoints of %s to the disk: %s; it keeps those it has",
				c->service, usher_error_text(NULL, r));
		return;
	}
	f->on_disk = true;
	f->touched_usec = now_usec;
}

void feed_touch(struct context *c, struct feed_state *f, uint64_t now_usec)
{
	if (!c->directory->store || !f->on_disk)
		return;
	f->touched_usec = now_usec;
	(void) store_touch_feed(c->directory->store, c->service, f->feed.config->source,
			wall_time_of(f->feed.observed_usec, now_usec));
}

/* ---- what is in force ---- */

static void feed_answered(struct context *c, struct feed_state *f, uint64_t now_usec)
{
	if (f->failing_since_usec)
		report_recovered(f->origin, c, now_usec - f->failing_since_usec, now_usec);
	f->failing_since_usec = 0;
	f->feed.state = SOURCE_LIVE;
	free(f->feed.error);
	f->feed.error = NULL;
}

/* same: its endpoints are those in force. */
static void feed_replace(struct context *c, struct feed_state *f, struct observation *o, bool same,
		uint64_t observed_usec, uint64_t now_usec)
{
	(void) observation_unref(f->feed.observation);
	f->feed.observation = observation_ref(o);
	f->feed.observed_usec = observed_usec;
	f->feed.restored = false;
	if (same) {
		feed_touch(c, f, now_usec);
		return;
	}
	c->merged_valid = false;
	feed_store(c, f, now_usec);
}

static void feed_put_in_force(struct context *c, struct feed_state *f, struct observation *o,
		uint64_t observed_usec, uint64_t now_usec)
{
	bool same = f->feed.observation &&
			usher_endpoints_equal(f->feed.observation->endpoints, o->endpoints);

	feed_replace(c, f, o, same, observed_usec, now_usec);
}

static void feed_drop_held(struct feed_state *f)
{
	f->feed.held = observation_unref(f->feed.held);
	f->base = observation_unref(f->base);
	f->feed.held_removed = f->feed.held_of = 0;
	f->feed.held_since_usec = f->feed.held_until_usec = 0;
}

/* ---- the guard ---- */

/* While a removal is held back: what the source says now, and what it must not remove yet. The age
 * is that of the set before, for nobody vouches for the rest of it any more. */
static int feed_retain(struct context *c, struct feed_state *f, const struct observation *offer,
		uint64_t now_usec)
{
	struct usher_endpoints *set;
	struct observation *o;
	int r;

	r = guard_retain(f->base->endpoints, offer->endpoints, is_on_its_way_out, c, &set);
	if (r < 0)
		return r;
	o = observation_new(set, USHER_FRESH, f->base->revision, f->base->observed_usec);
	if (!o)
		return -ENOMEM;
	feed_put_in_force(c, f, o, f->feed.observed_usec, now_usec);
	(void) observation_unref(o);
	return 0;
}

static void feed_hold(struct context *c, struct feed_state *f, struct observation *offer,
		const struct removal *removal, const struct judgement *judgement, uint64_t now_usec)
{
	bool begins = !f->feed.held;
	int r;

	if (begins) {
		f->base = observation_ref(f->feed.observation);
		f->feed.held_since_usec = now_usec;
		f->feed.held_until_usec = now_usec + c->config->guard_hold_usec;
	}
	(void) observation_unref(f->feed.held);
	f->feed.held = observation_ref(offer);
	f->feed.held_removed = removal->removed;
	f->feed.held_of = removal->known;
	if (begins)
		report_held(f->origin, c, &f->feed, now_usec);

	if (judgement) {
		feed_replace(c, f, judgement->retained, judgement->same, f->feed.observed_usec,
				now_usec);
		return;
	}
	r = feed_retain(c, f, offer, now_usec);
	if (r < 0)
		log_warning(FIELDS(.value[LOG_SERVICE] = c->service),
				"Cannot take over the new endpoints of %s while a removal is held "
				"back: %s; keeping the endpoints it has",
				c->service, usher_error_text(NULL, r));
}

static void feed_release(struct context *c, struct feed_state *f, uint64_t now_usec)
{
	struct observation *held = observation_ref(f->feed.held);

	report_released(f->origin, c, &f->feed, now_usec);
	feed_drop_held(f);
	feed_put_in_force(c, f, held, held->observed_usec, now_usec);
	(void) observation_unref(held);
}

/* What offers are compared with, or NULL: there is nothing that could be removed. */
static const struct observation *guard_reference(const struct feed_state *f)
{
	return f->base ? f->base : f->feed.observation;
}

/* Whether to hold the offer back. In doubt, for lack of memory, the offer goes through: withholding
 * it could not be told from its being held. */
static bool must_be_held(struct context *c, const struct feed_state *f,
		const struct observation *offer, struct removal *ret)
{
	const struct observation *reference = guard_reference(f);

	if (!reference || c->config->guard_share >= 1 || c->config->guard_hold_usec == 0)
		return false;
	if (guard_compare(reference->endpoints, offer->endpoints, is_on_its_way_out, c, ret) < 0)
		return false;
	return guard_holds(ret, offer->verdict, c->config->guard_share);
}

static bool hold_is_over(const struct feed_state *f, uint64_t now_usec)
{
	return f->feed.held && now_usec >= f->feed.held_until_usec;
}

/* ---- what the source says ---- */

void feed_settle(struct context *c, bool renewed, int r, uint64_t now_usec)
{
	if (context_note_freshness(c, now_usec) || (renewed && r <= 0))
		directory_tell_renewed(c->directory, c);
	context_schedule(c, now_usec);
}

void feed_take(struct context *c, struct feed_state *f, struct observation *observation,
		const struct judgement *judgement, uint64_t now_usec)
{
	uint64_t observed_usec = observation->observed_usec < now_usec ? observation->observed_usec
								       : now_usec;
	struct removal removal = {};

	feed_answered(c, f, now_usec);
	if (judgement ? judgement->held : must_be_held(c, f, observation, &removal)) {
		feed_hold(c, f, observation, judgement ? &judgement->removal : &removal, judgement,
				now_usec);
		if (hold_is_over(f, now_usec))
			feed_release(c, f, now_usec);
	} else {
		if (f->feed.held)
			report_returned(f->origin, c, usher_endpoints_count(observation->endpoints),
					now_usec);
		feed_drop_held(f);
		if (judgement)
			feed_replace(c, f, observation, judgement->same, observed_usec, now_usec);
		else
			feed_put_in_force(c, f, observation, observed_usec, now_usec);
	}
	(void) observation_unref(observation);
}

void feed_offered(struct context *c, struct feed_state *f, struct observation *observation,
		uint64_t now_usec)
{
	background_finish(c, now_usec);
	f->feed.offers++;
	if ((c->config->merge != MERGE_RACE || f->leads) && background_wants(c, observation) &&
			background_start(c, f, observation, now_usec) >= 0)
		return;
	feed_take(c, f, observation, NULL, now_usec);
	feed_settle(c, true, context_recompute_or_retry(c, now_usec), now_usec);
}

void feed_confirmed(
		struct context *c, struct feed_state *f, uint64_t observed_usec, uint64_t now_usec)
{
	if (observed_usec > now_usec)
		observed_usec = now_usec;
	background_finish(c, now_usec);
	feed_answered(c, f, now_usec);
	if (hold_is_over(f, now_usec))
		feed_release(c, f, now_usec);
	/* While something is held back the source confirms that, not what is in force. */
	if (f->feed.observation && !f->feed.held) {
		if (staleness_age(observed_usec, now_usec) <
				staleness_age(f->feed.observed_usec, now_usec))
			f->feed.observed_usec = observed_usec;
		f->feed.restored = false;
		if (now_usec - f->touched_usec >= FEED_TOUCH_USEC)
			feed_touch(c, f, now_usec);
	}
	feed_settle(c, true, context_refresh(c, now_usec), now_usec);
}

void feed_failed(struct context *c, struct feed_state *f, int code, const char *reason,
		uint64_t now_usec)
{
	char *error = strdup(reason ? reason : usher_error_text(NULL, code));

	background_finish(c, now_usec);
	f->feed.failures++;
	f->feed.state = code == -EACCES || code == -EPERM ? SOURCE_DENIED : SOURCE_FAILED;
	if (error) {
		free(f->feed.error);
		f->feed.error = error;
	}
	if (!f->failing_since_usec) {
		f->failing_since_usec = now_usec ? now_usec : 1;
		report_failing(f->origin, c, &f->feed, now_usec);
	}
	/* Another source may have waited for this one, or takes over from it; and what is empty
	 * without this one's word is no more than unknown, or now failed. */
	if (!c->snapshot || c->snapshot->count == 0 || f->leads)
		(void) context_recompute_or_retry(c, now_usec);
	if (context_note_freshness(c, now_usec))
		directory_tell_renewed(c->directory, c);
	context_schedule(c, now_usec);
}

void feed_on_deadline(struct context *c, struct feed_state *f, uint64_t now_usec)
{
	/* A source that fails has not confirmed the removal: then it waits for its next word. */
	if (hold_is_over(f, now_usec) &&
			(f->feed.state == SOURCE_LIVE || f->feed.state == SOURCE_STALE))
		feed_release(c, f, now_usec);
	if (f->feed.state == SOURCE_LIVE && feed_age(&f->feed, now_usec) > c->config->max_age_usec)
		f->feed.state = SOURCE_STALE;
}

void feed_restore(struct feed_state *f, struct observation *observation, uint64_t age_usec,
		uint64_t now_usec)
{
	f->feed.observation = observation;
	f->feed.observed_usec = now_usec -
			(age_usec < STALENESS_AGE_UNKNOWN ? age_usec : STALENESS_AGE_UNKNOWN);
	f->feed.restored = true;
	f->on_disk = true;
}
