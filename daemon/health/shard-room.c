/* How many descriptors the probes of a shard may have open: those that are under way, and the
 * connections that are kept from one attempt to the next.
 *
 * Who finds no room waits at the head of the line. Connections at rest go first, the longest kept
 * before others, where their engine can close them at once; and no more than three quarters of the
 * room are ever kept, so that there is always some for who has none. */

#include "shard-private.h"

static void rest_end(struct probe *probe)
{
	struct shard *s = probe->shard;

	if (!probe->is_at_rest)
		return;
	probe->is_at_rest = false;
	s->taken--;
	if (probe->engine->forgets_at_once)
		TAILQ_REMOVE(&s->at_rest, probe, rest);
}

static void keep_end(struct probe *probe)
{
	if (probe->may_keep)
		probe->shard->keepers--;
	probe->may_keep = false;
}

void room_forget(struct probe *probe)
{
	rest_end(probe);
	keep_end(probe);
	if (probe->attempt.kept)
		probe->engine->forget(shard_opened(probe->shard, probe->engine), &probe->attempt);
	probe->attempt.kept = NULL;
}

bool room_is_there(struct probe *probe)
{
	struct shard *s = probe->shard;

	while (s->taken + probe->engine->descriptors - probe->is_at_rest > s->rates->room) {
		if (TAILQ_EMPTY(&s->at_rest))
			return false;
		room_forget(TAILQ_FIRST(&s->at_rest));
	}
	return true;
}

void room_take(struct probe *probe)
{
	struct shard *s = probe->shard;

	rest_end(probe);
	s->taken += probe->engine->descriptors;
	if (!probe->may_keep && probe->engine->forget &&
			check_config_keeps_alive(check_config(probe->target->check)) &&
			s->keepers < s->rates->room - s->rates->room / 4) {
		probe->may_keep = true;
		s->keepers++;
	}
	probe->attempt.closes = !probe->may_keep;
}

void room_leave(struct probe *probe)
{
	struct shard *s = probe->shard;

	s->taken -= probe->engine->descriptors;
	if (!probe->attempt.kept) {
		keep_end(probe);
		return;
	}
	probe->is_at_rest = true;
	s->taken++;
	if (probe->engine->forgets_at_once)
		TAILQ_INSERT_TAIL(&s->at_rest, probe, rest);
}
