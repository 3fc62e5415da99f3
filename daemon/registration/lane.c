/* One registry: whose turn it is there, and whether it keeps up.
 *
 * Of those who wait only the first is woken, when the call before is answered: what a call costs
 * does not grow with how many wait. */

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "log.h"
#include "ownership.h"
#include "registration.h"

#define MESSAGE_LATE    "7b4a7c2f5f0f4b52b0f3d1c2a6f1e9aa"
#define MESSAGE_IN_TIME "7b4a7c2f5f0f4b52b0f3d1c2a6f1e9ab"

struct lane *lane_new(struct registrations *office, const char *source)
{
	struct lane *lane = calloc(1, sizeof(*lane));

	if (!lane)
		return NULL;
	lane->office = office;
	lane->source = strdup(source);
	return lane->source ? lane : lane_free(lane);
}

struct lane *lane_free(struct lane *lane)
{
	if (!lane)
		return NULL;
	free(lane->source);
	free(lane->error);
	free(lane);
	return NULL;
}

/* ---- turns ---- */

static struct placement *first_of(const struct heap *heap)
{
	return (struct placement *) (void *) heap->root;
}

static struct placement *first_waiting(const struct lane *lane, uint64_t now_usec)
{
	struct placement *due = first_of(&lane->due), *addition = first_of(&lane->additions);

	if (!due || !addition)
		return due ? due : addition;
	return placement_addition_is_first(addition->turn.key, due->turn.key, now_usec) ? addition
											: due;
}

void lane_wake(struct lane *lane, uint64_t now_usec)
{
	const struct placement *first = first_waiting(lane, now_usec);

	if (first && !lane->busy)
		registration_wake(first->registration);
}

void lane_join(struct placement *p, const struct placement_facts *facts, enum placement_act act,
		uint64_t now_usec)
{
	struct heap *line = &p->lane->due;
	uint64_t key;

	if (!p->line)
		p->times.waiting_usec = now_usec;
	key = placement_due(facts, act, &p->times);
	if (placement_is_addition(facts, act, &p->times)) {
		line = &p->lane->additions;
		key = p->times.waiting_usec;
	}
	if (p->line == line && p->turn.key == key)
		return;
	if (p->line)
		heap_remove(p->line, &p->turn);
	p->line = line;
	heap_add(line, &p->turn, key);
}

void lane_leave(struct placement *p, uint64_t now_usec)
{
	if (!p->line)
		return;
	heap_remove(p->line, &p->turn);
	p->line = NULL;
	lane_wake(p->lane, now_usec);
}

bool lane_is_turn(const struct placement *p, uint64_t now_usec)
{
	return !p->lane->busy && first_waiting(p->lane, now_usec) == p;
}

void lane_start(struct placement *p, uint64_t now_usec)
{
	p->lane->busy = p;
	p->called_usec = now_usec;
	lane_leave(p, now_usec);
}

void lane_stop(struct placement *p, uint64_t now_usec)
{
	p->job = NULL;
	p->called_usec = 0;
	p->lane->busy = NULL;
	lane_wake(p->lane, now_usec);
}

/* ---- the registry as a whole ---- */

/* They are in another state now. */
static void wake_all_waiting(const struct lane *lane)
{
	const struct registrations *r = lane->office;

	for (size_t i = 0; i < r->count; i++)
		for (size_t k = 0; k < r->all[i]->place_count; k++)
			if (r->all[i]->places[k]->lane == lane && r->all[i]->places[k]->line)
				registration_wake(r->all[i]);
}

void lane_note_failure(struct lane *lane, const char *error, uint64_t now_usec)
{
	registration_set_text(&lane->error, error);
	lane->failures++;
	lane->again_usec = now_usec +
			placement_backoff(lane->failures, random_next(&lane->office->random));
	if (lane->failures == 1)
		wake_all_waiting(lane);
}

void lane_note_contact(struct lane *lane)
{
	if (lane->failures == 0)
		return;
	lane->failures = 0;
	lane->again_usec = 0;
	registration_set_text(&lane->error, NULL);
	wake_all_waiting(lane);
}

/* ---- lateness ---- */

static void describe(struct placement *p, uint64_t now_usec)
{
	const struct lane *lane = p->lane;
	uint64_t lease_usec = placement_lease(p->times.renew_after_usec);
	size_t waiting = lane->due.count + lane->additions.count;
	uint64_t took_usec = lane->busy ? now_usec - lane->busy->called_usec : lane->answered_usec;
	autofree char *text = NULL;

	if (asprintf(&text, "its lease of %.1f s is over: %zu call%s for %s, %s %.3f s; what cannot be renewed in time may be gone from there",
			    (double) lease_usec / USEC_PER_SEC, waiting,
			    waiting == 1 ? " waits" : "s wait", p->source,
			    lane->busy ? "which has not answered for" : "whose last answer took",
			    (double) took_usec / USEC_PER_SEC) < 0)
		text = NULL;
	registration_set_text(&p->lateness, text ? text : "its lease is over");
}

static void tell_late(struct placement *p)
{
	const struct registration *g = p->registration;

	p->lane->is_late = true;
	log_warning(FIELDS(.value[LOG_SOURCE] = p->source, .value[LOG_SERVICE] = g->service,
				    .value[LOG_ENDPOINT] = g->id,
				    .value[LOG_MESSAGE_ID] = MESSAGE_LATE),
			"Renewals in %s are late, first that of %s of %s: %s", p->source, g->id,
			g->service, p->lateness ? p->lateness : "its lease is over");
}

void lane_note_late(struct placement *p, bool is_late, uint64_t now_usec)
{
	struct lane *lane = p->lane;

	if (is_late)
		describe(p, now_usec);
	if (is_late == p->is_late)
		return;
	p->is_late = is_late;
	if (is_late) {
		lane->late++;
		if (!lane->is_late)
			tell_late(p);
		return;
	}
	registration_set_text(&p->lateness, NULL);
	lane->late--;
}

void lane_look_at_time(struct lane *lane, uint64_t now_usec)
{
	const struct placement *first = first_of(&lane->due);

	if (!lane->is_late || lane->late > 0 || lane->failures > 0 ||
			(first && first->turn.key <= now_usec))
		return;
	lane->is_late = false;
	log_notice(FIELDS(.value[LOG_SOURCE] = lane->source,
				   .value[LOG_MESSAGE_ID] = MESSAGE_IN_TIME),
			"Renewals in %s are in time again", lane->source);
}
