#include "tally.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int tally_init(struct tally *t, size_t count, size_t slot_size, uint64_t now_usec)
{
	size_t room = count ? count : 1;

	*t = (struct tally){ .count = count, .slot_size = slot_size, .updated_usec = now_usec };
	t->active = calloc(room, sizeof(*t->active));
	t->in_flight = calloc(room, sizeof(*t->in_flight));
	t->picks = calloc(room, sizeof(*t->picks));
	if (slot_size > 0)
		t->slots = calloc(room, slot_size);
	if (!t->active || !t->in_flight || !t->picks || (slot_size > 0 && !t->slots)) {
		tally_done(t);
		return -ENOMEM;
	}
	return 0;
}

void tally_done(struct tally *t)
{
	free(t->active);
	free(t->in_flight);
	free(t->picks);
	free(t->slots);
	*t = (struct tally){};
}

static void show(struct tally *t, size_t i)
{
	uint64_t sum = t->in_flight[i] + (uint64_t) (t->picks[i] + 0.5f);

	t->active[i] = sum < UINT32_MAX ? (uint32_t) sum : UINT32_MAX;
}

void tally_carry(
		struct tally *t, const struct tally *from, const uint32_t *origins, bool with_slots)
{
	bool slots = with_slots && t->slot_size > 0 && t->slot_size == from->slot_size;

	for (size_t i = 0; i < t->count; i++) {
		uint32_t k = origins[i];

		if (k == TALLY_NEW)
			continue;
		assert(k < from->count);
		t->in_flight[i] = from->in_flight[k];
		t->picks[i] = from->picks[k];
		t->active[i] = from->active[k];
		if (slots)
			memcpy(t->slots + i * t->slot_size, from->slots + k * t->slot_size,
					t->slot_size);
	}
	t->updated_usec = from->updated_usec;
}

int tally_copy(struct tally *t, const struct tally *from)
{
	int r = tally_init(t, from->count, from->slot_size, from->updated_usec);

	if (r < 0)
		return r;
	memcpy(t->active, from->active, from->count * sizeof(*t->active));
	memcpy(t->in_flight, from->in_flight, from->count * sizeof(*t->in_flight));
	memcpy(t->picks, from->picks, from->count * sizeof(*t->picks));
	if (t->slots)
		memcpy(t->slots, from->slots, from->count * from->slot_size);
	return 0;
}

void tally_picked(struct tally *t, size_t i)
{
	t->picks[i] += 1;
	show(t, i);
}

void tally_reported(struct tally *t, size_t i, uint32_t calls)
{
	float left = t->picks[i] - (float) calls;

	t->picks[i] = left > 0 ? left : 0;
	show(t, i);
}

void tally_set_in_flight(struct tally *t, size_t i, uint64_t count)
{
	t->in_flight[i] = count < UINT32_MAX ? (uint32_t) count : UINT32_MAX;
	show(t, i);
}

void tally_update(struct tally *t, uint64_t now_usec)
{
	uint64_t passed_usec = now_usec > t->updated_usec ? now_usec - t->updated_usec : 0;
	float factor;

	if (passed_usec < TALLY_STEP_USEC)
		return;
	t->updated_usec = now_usec;
	factor = expf(-(float) passed_usec / (float) TALLY_DECAY_USEC);
	for (size_t i = 0; i < t->count; i++) {
		if (!(t->picks[i] > 0))
			continue;
		t->picks[i] *= factor;
		if (t->picks[i] < 0.01f)
			t->picks[i] = 0;
		show(t, i);
	}
}

void *tally_slot(const struct tally *t, size_t i)
{
	assert(i < t->count);
	return t->slots ? t->slots + i * t->slot_size : NULL;
}
