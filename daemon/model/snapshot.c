#include "snapshot.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <usher/plugin.h>

#include "endpoints-common.h"

/* The arrays, as they are filled in. */
struct arrays {
	struct snapshot_entry *entries;
	uint64_t *since_usec;
	uint32_t *weights, *chosen, *listed;
	uint8_t *admin_states, *ranks, *health;
};

/* One block: the snapshot, its entries and its arrays, those with the largest items first. */
static struct snapshot *snapshot_allocate(size_t count, struct arrays *ret)
{
	size_t entry_bytes = sizeof(struct snapshot_entry) + sizeof(uint64_t) +
			3 * sizeof(uint32_t) + 3 * sizeof(uint8_t);
	char *block = calloc(1, sizeof(struct snapshot) + count * entry_bytes);

	if (!block)
		return NULL;
	ret->entries = (void *) (block + sizeof(struct snapshot));
	ret->since_usec = (void *) (ret->entries + count);
	ret->weights = (void *) (ret->since_usec + count);
	ret->chosen = ret->weights + count;
	ret->listed = ret->chosen + count;
	ret->admin_states = (void *) (ret->listed + count);
	ret->ranks = ret->admin_states + count;
	ret->health = ret->ranks + count;
	return (void *) block;
}

static void snapshot_count(struct snapshot *s, uint32_t *chosen, uint32_t *listed)
{
	for (uint32_t i = 0; i < s->count; i++) {
		const struct snapshot_entry *entry = &s->entries[i];

		assert(entry->listed || !entry->chosen);
		s->weight_invalid_count += entry->weight_invalid;
		s->conflict_count += entry->conflict;
		s->draining_count += entry->admin_state == USHER_ADMIN_DRAINING;
		if (entry->chosen)
			chosen[s->chosen_count++] = i;
		if (entry->listed)
			listed[s->listed_count++] = i;
	}
}

static void fill_arrays(const struct arrays *arrays, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct snapshot_entry *entry = &arrays->entries[i];

		arrays->since_usec[i] = entry->since_usec;
		arrays->weights[i] = entry->effective;
		arrays->admin_states[i] = entry->admin_state;
		arrays->ranks[i] = entry->source;
		arrays->health[i] = entry->health;
	}
}

struct snapshot *snapshot_new(struct usher_endpoints *all, const struct snapshot_entry *entries)
{
	static atomic_uint_fast64_t last_serial; /* made on more than one thread */
	size_t count = usher_endpoints_count(all);
	struct arrays arrays;
	struct snapshot *s = snapshot_allocate(count, &arrays);

	if (!s)
		return NULL;
	if (count > 0)
		memcpy(arrays.entries, entries, count * sizeof(*entries));
	fill_arrays(&arrays, count);
	atomic_init(&s->refs, 1);
	s->serial = atomic_fetch_add_explicit(&last_serial, 1, memory_order_relaxed) + 1;
	s->all = usher_endpoints_ref(all);
	s->count = count;
	s->entries = arrays.entries;
	s->since_usec = arrays.since_usec;
	s->weights = arrays.weights;
	s->admin_states = arrays.admin_states;
	s->ranks = arrays.ranks;
	s->health = arrays.health;
	s->chosen = arrays.chosen;
	s->listed = arrays.listed;
	snapshot_count(s, arrays.chosen, arrays.listed);
	return s;
}

uint32_t snapshot_entry_ramp(const struct snapshot_entry *entry)
{
	uint32_t ramp;

	if (entry->weight == 0)
		return USHER_WEIGHT_UNIT;
	/* Rounded, but never to nothing. */
	ramp = (uint32_t) (((uint64_t) entry->effective + entry->weight / 2) / entry->weight);
	return ramp == 0 && entry->effective > 0 ? 1 : ramp;
}

struct snapshot *snapshot_ref(struct snapshot *s)
{
	if (s)
		atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
	return s;
}

struct snapshot *snapshot_unref(struct snapshot *s)
{
	if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
		return NULL;
	usher_endpoints_unref(s->all);
	free(s->difference);
	free(s);
	return NULL;
}

struct snapshot_pair snapshot_pair(const struct snapshot *before, const struct snapshot *after)
{
	return (struct snapshot_pair){
		.before = before,
		.after = after,
		.common = endpoints_common(before->all, after->all),
	};
}

bool snapshot_pair_same(const struct snapshot_pair *pair, uint32_t i, uint32_t k)
{
	const struct snapshot_entry *x = &pair->before->entries[i], *y = &pair->after->entries[k];

	return x->weight == y->weight && x->effective == y->effective && x->health == y->health &&
			x->admin_state == y->admin_state && x->source == y->source &&
			x->conflict == y->conflict &&
			endpoints_same(pair->before->all, i, pair->after->all, k, pair->common);
}

bool snapshot_equal(const struct snapshot *a, const struct snapshot *b)
{
	struct snapshot_pair pair;

	if (!a || !b)
		return a == b;
	if (a->listed_count != b->listed_count || a->chosen_count != b->chosen_count ||
			a->panic != b->panic || a->has_health != b->has_health)
		return false;
	pair = snapshot_pair(a, b);
	for (size_t i = 0; i < a->listed_count; i++)
		if (a->entries[a->listed[i]].chosen != b->entries[b->listed[i]].chosen ||
				!snapshot_pair_same(&pair, a->listed[i], b->listed[i]))
			return false;
	return true;
}
