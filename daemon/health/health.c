#include "health.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "endpoints-walk.h"
#include "health-private.h"

/* ---- configuration ---- */

/* Everything but the texts of the check, which are copied by whoever makes a check of it. */
static void copy_config(struct health *h, const struct health_config *config)
{
	h->config = *config;
	h->config.check = (struct check_config){ .kind = config->check.kind };
}

struct health *health_new(struct health_office *o, const char *service,
		const struct health_config *config, struct check *check,
		const struct health_events *events, void *userdata)
{
	struct health *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->service = strdup(service);
	if (!h->service) {
		free(h);
		return NULL;
	}
	copy_config(h, config);
	h->check = check ? check_ref(check) : NULL;
	h->events = events;
	h->userdata = userdata;
	h->deadline_usec = USEC_FOREVER;
	office_add(o, h);
	return h;
}

struct health *health_free(struct health *h)
{
	if (!h)
		return NULL;
	for (size_t i = 0; i < h->count; i++)
		(void) watched_free(h->watched[i]);
	office_remove(h->office, h);
	free(h->watched);
	free(h->states);
	(void) usher_endpoints_unref(h->set);
	(void) check_unref(h->check);
	free(h->service);
	free(h);
	return NULL;
}

static bool same_check(const struct check *a, const struct check *b)
{
	return a == b || (a && b && check_config_equal(check_config(a), check_config(b)));
}

bool health_configure(struct health *h, const struct health_config *config, struct check *check)
{
	uint64_t timeout_usec = h->config.timeout_usec;
	double jitter = h->config.jitter;

	copy_config(h, config);
	if (!same_check(h->check, check)) {
		(void) check_unref(h->check);
		h->check = check ? check_ref(check) : NULL;
		h->check_changed = true;
	}
	if (timeout_usec != config->timeout_usec || jitter < config->jitter ||
			jitter > config->jitter)
		h->timing_changed = true;
	for (size_t i = 0; i < h->count; i++)
		watched_set_pace(h->watched[i]);
	health_wake_at(h, 0); /* ejections may end, for they may be no more */
	return h->check_changed || h->timing_changed;
}

static bool outlier_config_equal(const struct outlier_config *a, const struct outlier_config *b)
{
	return a->enabled == b->enabled && a->consecutive == b->consecutive &&
			!(a->failure_share < b->failure_share) &&
			!(a->failure_share > b->failure_share) &&
			a->minimum_calls == b->minimum_calls &&
			a->interval_usec == b->interval_usec &&
			a->minimum_endpoints == b->minimum_endpoints &&
			!(a->max_ejected < b->max_ejected) && !(a->max_ejected > b->max_ejected) &&
			a->ejection_usec == b->ejection_usec &&
			a->max_ejection_usec == b->max_ejection_usec;
}

bool health_config_equal(const struct health_config *a, const struct health_config *b)
{
	return check_config_equal(&a->check, &b->check) && a->interval_usec == b->interval_usec &&
			a->timeout_usec == b->timeout_usec &&
			a->interval_down_usec == b->interval_down_usec &&
			!(a->jitter < b->jitter) && !(a->jitter > b->jitter) &&
			a->rise == b->rise && a->fall == b->fall && a->initial == b->initial &&
			a->flap_changes == b->flap_changes &&
			a->flap_window_usec == b->flap_window_usec &&
			a->flap_hold_usec == b->flap_hold_usec &&
			a->on_all_down == b->on_all_down &&
			!(a->panic_threshold < b->panic_threshold) &&
			!(a->panic_threshold > b->panic_threshold) &&
			outlier_config_equal(&a->outlier, &b->outlier);
}

/* ---- following ---- */

/* Another set on its way: with what goes on, and what is new. */
struct following {
	struct health *health;
	struct usher_endpoints *set;
	struct watched **watched;
	uint8_t *states;
	size_t count; /* so far */
};

/* Unless it has become the health's own: what was made for it goes. */
static void following_done(struct following *f)
{
	struct health *h = f->health;

	for (size_t i = 0; f->watched && i < f->count; i++) {
		struct watched *w = f->watched[i];

		if (!w->kept)
			(void) watched_free(w);
	}
	for (size_t i = 0; f->watched && i < h->count; i++) {
		h->watched[i]->kept = false;
		h->watched[i]->next_target = target_free(h->watched[i]->next_target);
	}
	free(f->watched);
	free(f->states);
}

/* The one that watches the i-th already, or a new one. */
static int follow_one(struct following *f, struct endpoints_walk *walk, size_t i)
{
	struct health *h = f->health;
	struct watched *w;
	ssize_t k = -ENOENT;
	int r = 0;

	if (h->set)
		k = endpoints_walk_to(walk, usher_endpoints_id(f->set, i));
	if (k >= 0)
		r = watched_is(h->watched[k], f->set, i);
	if (r > 0) {
		w = h->watched[k];
		r = watched_prepare_again(w, f->set, i);
		if (r >= 0)
			w->kept = true;
	} else if (r == 0) {
		r = watched_new(h, f->set, i, &w);
	}
	if (r < 0)
		return r;
	f->watched[f->count++] = w;
	return 0;
}

static void note_new(struct health *h, struct watched *w)
{
	if (judge_health(&w->judge) != w->told)
		health_note_changed(h, w);
	if (w->target && !w->probe)
		health_wake_at(h, clock_boot_usec() + HEALTH_RETRY_USEC);
}

static void put_in_force(struct following *f)
{
	struct health *h = f->health;

	for (size_t i = 0; i < h->count; i++)
		if (!h->watched[i]->kept)
			h->watched[i] = watched_free(h->watched[i]);
	(void) usher_endpoints_ref(f->set); /* first: it may be the one that is followed already */
	(void) usher_endpoints_unref(h->set);
	free(h->watched);
	free(h->states);
	h->set = f->set;
	h->watched = take(f->watched);
	h->states = take(f->states);
	h->count = f->count;
	h->check_changed = h->timing_changed = false;
	for (size_t i = 0; i < h->count; i++) {
		struct watched *w = h->watched[i];

		w->kept = false;
		w->index = i;
		watched_ask_again(w);
		h->states[i] = (uint8_t) judge_health(&w->judge);
		note_new(h, w);
	}
}

int health_follow(struct health *h, struct usher_endpoints *all)
{
	cleanup(following_done) struct following f = { .health = h, .set = all };
	struct endpoints_walk walk = { .set = h->set };
	size_t count = usher_endpoints_count(all);

	if (all == h->set && !h->check_changed && !h->timing_changed)
		return 0;
	f.watched = calloc(count ? count : 1, sizeof(struct watched *));
	f.states = calloc(count ? count : 1, 1);
	if (!f.watched || !f.states)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		int r = follow_one(&f, &walk, i);

		if (r < 0)
			return r;
	}
	put_in_force(&f);
	return 0;
}

const uint8_t *health_states(const struct health *h)
{
	return h->states;
}

const struct usher_endpoints *health_set(const struct health *h)
{
	return h->set;
}

/* ---- what changes ---- */

void health_note_changed(struct health *h, struct watched *w)
{
	h->states[w->index] = (uint8_t) judge_health(&w->judge);
	office_tell_later(h->office, h);
}

void health_wake_at(struct health *h, uint64_t usec)
{
	if (usec < h->deadline_usec)
		h->deadline_usec = usec;
	office_wake_at(h->office, h->deadline_usec);
}

static void let_time_pass(struct health *h, struct watched *w, uint64_t now_usec)
{
	bool was_ejected = w->judge.ejected_until_usec != 0;

	if (judge_time(&w->judge, &h->config, now_usec))
		health_note_changed(h, w);
	if (was_ejected && !w->judge.ejected_until_usec)
		h->ejected--;
}

void health_on_deadline(struct health *h, uint64_t now_usec)
{
	uint64_t next_usec;

	health_tell_rest(h, now_usec);
	next_usec = health_tell_deadline(h);
	for (size_t i = 0; i < h->count; i++) {
		struct watched *w = h->watched[i];
		uint64_t due_usec;

		let_time_pass(h, w, now_usec);
		if (w->target && !w->probe)
			watched_ask(w);
		due_usec = w->target && !w->probe ? now_usec + HEALTH_RETRY_USEC
						  : judge_deadline(&w->judge, &h->config);
		if (due_usec < next_usec)
			next_usec = due_usec;
	}
	/* Last: what time has changed just now may have to wait to be told, too. */
	if (h->is_quiet && h->quiet_until_usec < next_usec)
		next_usec = h->quiet_until_usec;
	h->deadline_usec = next_usec;
}

int health_report(struct health *h, const char *id, const struct usher_report *report)
{
	const struct outlier_config *outlier = &h->config.outlier;
	ssize_t i = h->set ? usher_endpoints_find(h->set, id) : -ENOENT;
	uint64_t now_usec = clock_boot_usec();
	bool was_ejected;
	struct watched *w;

	if (i < 0)
		return -ENOENT;
	w = h->watched[i];
	was_ejected = w->judge.ejected_until_usec != 0;
	if (judge_report(&w->judge, outlier, report, judge_may_eject(outlier, h->ejected, h->count),
			    now_usec))
		health_note_changed(h, w);
	if (!was_ejected && w->judge.ejected_until_usec) {
		h->ejected++;
		health_wake_at(h, w->judge.ejected_until_usec);
	}
	return 0;
}

/* ---- what others ask ---- */

void health_detail(const struct health *h, size_t i, struct health_detail *ret)
{
	const struct watched *w = h->watched[i];

	assert(i < h->count);
	*ret = (struct health_detail){ .state = judge_health(&w->judge),
		.flapping = w->judge.flapping,
		.since_usec = w->judge.since_usec,
		.checked_usec = w->checked_usec,
		.took_usec = w->took_usec,
		.verdict = w->has_verdict ? &w->verdict : NULL,
		.failure = w->failure,
		.failed_usec = w->failed_usec,
		.good = w->judge.good,
		.bad = w->judge.bad,
		.ejected_until_usec = w->judge.ejected_until_usec,
		.ejections = judge_ejections(&w->judge, &h->config.outlier, clock_boot_usec()) };
}
