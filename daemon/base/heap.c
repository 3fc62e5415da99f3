#include "heap.h"

static bool comes_before(const struct heap_item *a, const struct heap_item *b)
{
	return a->key != b->key ? a->key < b->key : a->order < b->order;
}

/* One tree of two, each a root without siblings or NULL. */
static struct heap_item *meld(struct heap_item *a, struct heap_item *b)
{
	if (!a || !b)
		return a ? a : b;
	if (comes_before(b, a)) {
		struct heap_item *first = b;

		b = a;
		a = first;
	}
	b->previous = a;
	b->next = a->child;
	if (b->next)
		b->next->previous = b;
	a->child = b;
	return a;
}

/* Take the first of siblings from the others. */
static struct heap_item *pop(struct heap_item **siblings)
{
	struct heap_item *item = *siblings;

	if (item) {
		*siblings = item->next;
		item->next = item->previous = NULL;
	}
	return item;
}

/* One tree of siblings: by pairs first, and those from the last to the first. Both passes are what
 * makes it logarithmic. */
static struct heap_item *meld_all(struct heap_item *siblings)
{
	struct heap_item *pairs = NULL, *root = NULL;

	while (siblings) {
		struct heap_item *first = pop(&siblings);
		struct heap_item *pair = meld(first, pop(&siblings));

		pair->next = pairs;
		pairs = pair;
	}
	while (pairs)
		root = meld(root, pop(&pairs));
	return root;
}

static void cut(struct heap_item *item)
{
	if (item->previous->child == item)
		item->previous->child = item->next;
	else
		item->previous->next = item->next;
	if (item->next)
		item->next->previous = item->previous;
}

void heap_remove(struct heap *heap, struct heap_item *item)
{
	struct heap_item *below;

	if (!heap_has(item))
		return;
	below = meld_all(item->child);
	if (heap->root == item) {
		heap->root = below;
	} else {
		cut(item);
		heap->root = meld(heap->root, below);
	}
	heap->count--;
	*item = (struct heap_item){};
}

void heap_add(struct heap *heap, struct heap_item *item, uint64_t key)
{
	heap_remove(heap, item);
	*item = (struct heap_item){ .key = key, .order = ++heap->orders };
	heap->root = meld(heap->root, item);
	heap->count++;
}
