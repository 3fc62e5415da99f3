#include "snapshot.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "endpoints-common.h"

/* One block: the snapshot, its entries, and the three arrays of indexes and weights. */
static struct snapshot *snapshot_allocate(
		size_t count, struct snapshot_entry **ret_entries, uint32_t **ret_arrays)
{
	size_t entries = count * sizeof(struct snapshot_entry);
	char *block = calloc(1, sizeof(struct snapshot) + entries + 3 * count * sizeof(uint32_t));

	if (!block)
		return NULL;
	*ret_entries = (void *) (block + sizeof(struct snapshot));
	*ret_arrays = (void *) (block + sizeof(struct snapshot) + entries);
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

struct snapshot *snapshot_new(struct usher_endpoints *all, const struct snapshot_entry *entries)
{
	static uint64_t last_serial;
	size_t count = usher_endpoints_count(all);
	struct snapshot_entry *own;
	uint32_t *arrays;
	struct snapshot *s = snapshot_allocate(count, &own, &arrays);

	if (!s)
		return NULL;
	if (count > 0)
		memcpy(own, entries, count * sizeof(*own));
	for (size_t i = 0; i < count; i++)
		arrays[i] = own[i].weight;
	s->refs = 1;
	s->serial = ++last_serial;
	s->all = usher_endpoints_ref(all);
	s->count = count;
	s->entries = own;
	s->weights = arrays;
	s->chosen = arrays + count;
	s->listed = arrays + 2 * count;
	snapshot_count(s, arrays + count, arrays + 2 * count);
	return s;
}

struct snapshot *snapshot_ref(struct snapshot *s)
{
	if (s)
		s->refs++;
	return s;
}

struct snapshot *snapshot_unref(struct snapshot *s)
{
	if (!s || --s->refs > 0)
		return NULL;
	usher_endpoints_unref(s->all);
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

	return x->weight == y->weight && x->admin_state == y->admin_state &&
			x->source == y->source && x->conflict == y->conflict &&
			endpoints_same(pair->before->all, i, pair->after->all, k, pair->common);
}

bool snapshot_equal(const struct snapshot *a, const struct snapshot *b)
{
	struct snapshot_pair pair;

	if (!a || !b || a->listed_count != b->listed_count || a->chosen_count != b->chosen_count)
		return a == b;
	pair = snapshot_pair(a, b);
	for (size_t i = 0; i < a->listed_count; i++)
		if (a->entries[a->listed[i]].chosen != b->entries[b->listed[i]].chosen ||
				!snapshot_pair_same(&pair, a->listed[i], b->listed[i]))
			return false;
	return true;
}
