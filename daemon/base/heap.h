#pragma once

/* A priority queue: the lowest key comes first, and of equal keys the one that was added first.
 *
 * A pairing heap (Fredman, Sedgewick, Sleator, Tarjan 1986): its links are in the items, so that
 * nothing is allocated and nothing can fail. Adding is O(1), the rest O(log n) over time. Thread:
 * any one. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Part of what is queued, which must not go while it is in a heap. Zeroed: in none. */
struct heap_item {
	uint64_t key;
	uint64_t order; /* among equals; 0: in no heap */
	struct heap_item *child, *next;
	struct heap_item *previous; /* of the same parent, or that parent */
};

/* Zeroed: empty. */
struct heap {
	struct heap_item *root; /* the first; NULL: empty */
	size_t count;
	uint64_t orders; /* given so far */
};

/* Also of one that is in there: then it is moved, behind its new equals. */
void heap_add(struct heap *heap, struct heap_item *item, uint64_t key);
void heap_remove(struct heap *heap, struct heap_item *item); /* one that is in none is fine */

static inline bool heap_has(const struct heap_item *item)
{
	return item->order != 0;
}
