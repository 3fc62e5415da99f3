/* One endpoint: its probe, what came of it, and what became of that. */

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "health-private.h"

/* ---- asking ---- */

static bool is_up(const struct watched *w)
{
	return w->judge.checked == USHER_HEALTH_UP || w->judge.checked == USHER_HEALTH_DEGRADED;
}

static uint64_t pace(const struct watched *w)
{
	const struct health_config *config = &w->health->config;

	return is_up(w) || config->interval_down_usec == 0 ? config->interval_usec
							   : config->interval_down_usec;
}

void watched_set_pace(struct watched *w)
{
	uint64_t interval_usec = pace(w);

	if (!w->probe || interval_usec == w->timing.interval_usec)
		return;
	w->timing.interval_usec = interval_usec;
	prober_set_interval(w->health->office->prober, w->probe, interval_usec);
}

static void set_verdict(struct watched *w, const struct verdict *verdict, uint64_t now_usec)
{
	w->verdict = *verdict;
	w->has_verdict = true;
	w->checked_usec = now_usec;
	if (probe_reason_outcome(verdict->reason) == PROBE_IS_UP)
		return;
	if (!w->failure)
		w->failure = malloc(sizeof(*w->failure));
	if (w->failure) {
		*w->failure = *verdict;
		w->failed_usec = now_usec;
	}
}

void watched_ask(struct watched *w)
{
	struct health *h = w->health;
	struct verdict verdict;
	int r;

	assert(w->target && !w->probe);
	w->timing = (struct probe_timing){ .interval_usec = pace(w),
		.timeout_usec = h->config.timeout_usec,
		.jitter = h->config.jitter };
	r = prober_add(h->office->prober, w->target, &w->timing, w, &w->probe);
	if (r >= 0) {
		return;
	}
	w->probe = NULL;
	if (r == -E2BIG)
		verdict_set(&verdict, PROBE_LOCAL, E2BIG,
				"not checked: the prober has %d targets already, and no more are possible",
				PROBER_PROBES_MAX);
	else
		verdict_set(&verdict, PROBE_LOCAL, -r, "not checked yet: %s; trying again",
				strerrordesc_np(-r));
	set_verdict(w, &verdict, clock_boot_usec());
}

static void count_past(struct watched *w)
{
	struct probe_stats stats;

	probe_stats(w->probe, &stats);
	w->health->past_probes += stats.probes;
	w->health->past_connections += stats.connections;
	w->health->past_bytes += stats.bytes_sent + stats.bytes_received;
}

/* The target stays with the probe, and goes with it. */
static void stop_asking(struct watched *w)
{
	if (!w->probe)
		return;
	count_past(w);
	prober_remove(w->health->office->prober, take(w->probe));
	w->target = NULL;
}

/* ---- the endpoint ---- */

/* What cannot be asked is down, whatever it was to begin with. */
static void condemn(struct watched *w, const struct usher_error *why, uint64_t now_usec)
{
	struct verdict verdict;

	verdict_set(&verdict, PROBE_TARGET, 0, "%s", why->text);
	set_verdict(w, &verdict, now_usec);
	w->judge.checked = USHER_HEALTH_DOWN;
}

static int find_target(
		struct watched *w, const struct usher_endpoints *set, size_t i, uint64_t now_usec)
{
	struct health *h = w->health;
	struct usher_error why = {};
	int r;

	if (!h->check)
		return 0;
	r = target_new(h->check, h->service, set, i, &w->target, &why);
	if (r == -ENOMEM)
		return r;
	if (r < 0)
		condemn(w, &why, now_usec);
	else
		watched_ask(w);
	return 0;
}

int watched_new(struct health *h, const struct usher_endpoints *set, size_t i, struct watched **ret)
{
	cleanup(watched_freep) struct watched *w = calloc(1, sizeof(*w));
	uint64_t now_usec = clock_boot_usec();
	int r;

	if (!w)
		return -ENOMEM;
	w->health = h;
	w->index = i;
	judge_init(&w->judge, &h->config, now_usec);
	w->told = judge_health(&w->judge);
	w->told_usec = now_usec;
	r = find_target(w, set, i, now_usec);
	if (r < 0)
		return r;
	*ret = take(w);
	return 0;
}

struct watched *watched_free(struct watched *w)
{
	if (!w)
		return NULL;
	stop_asking(w);
	if (w->judge.ejected_until_usec)
		w->health->ejected--;
	(void) target_free(w->target);
	(void) target_free(w->next_target);
	free(w->failure);
	free(w);
	return NULL;
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static int asks_the_same(const struct watched *w, const struct usher_endpoints *set, size_t i)
{
	struct target *target = NULL;
	int r;

	if (!w->health->check)
		return !w->health->check_changed;
	r = target_new(w->health->check, w->health->service, set, i, &target, NULL);
	if (r == -ENOMEM)
		return r;
	r = w->target && target && target_same(w->target, target);
	(void) target_free(target);
	return r;
}

int watched_is(const struct watched *w, const struct usher_endpoints *set, size_t i)
{
	const struct health *h = w->health;
	struct usher_endpoint before = USHER_ENDPOINT_INIT, now = USHER_ENDPOINT_INIT;

	if (!h->check_changed && usher_endpoints_same(h->set, w->index, set, i))
		return true;
	usher_endpoints_get(h->set, w->index, &before);
	usher_endpoints_get(set, i, &now);
	if (!same_text(before.uid, now.uid) || !same_text(before.address, now.address) ||
			before.port != now.port)
		return false;
	return asks_the_same(w, set, i);
}

int watched_prepare_again(struct watched *w, const struct usher_endpoints *set, size_t i)
{
	const struct health_config *config = &w->health->config;

	if (!w->probe ||
			(w->timing.timeout_usec == config->timeout_usec &&
					w->timing.jitter == config->jitter))
		return 0;
	return target_new(w->health->check, w->health->service, set, i, &w->next_target, NULL);
}

void watched_ask_again(struct watched *w)
{
	if (!w->next_target)
		return;
	stop_asking(w);
	w->target = take(w->next_target);
	watched_ask(w);
}

void watched_take_result(struct watched *w, const struct probe_result *result, uint64_t now_usec)
{
	enum probe_outcome outcome = probe_reason_outcome(result->verdict.reason);
	struct health *h = w->health;

	set_verdict(w, &result->verdict, now_usec);
	w->took_usec = result->took_usec;
	meter_add(&h->probes, 1, now_usec);
	meter_add(&h->connections, result->connections, now_usec);
	meter_add(&h->bytes, result->bytes, now_usec);
	if (judge_result(&w->judge, &h->config, outcome, now_usec))
		health_note_changed(h, w);
	watched_set_pace(w);
}
