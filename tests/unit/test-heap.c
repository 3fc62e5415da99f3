/* The priority queue. */

#include <string.h>

#include "heap.h"
#include "ownership.h"
#include "test.h"

#define MANY 2000

static struct heap_item items[MANY];

static struct heap_item *pop(struct heap *heap)
{
	struct heap_item *first = heap->root;

	heap_remove(heap, first);
	return first;
}

static int clear(void **state)
{
	(void) state;
	memset(items, 0, sizeof(items));
	return 0;
}

/* The same in every run. */
static uint64_t draw(uint64_t *seed)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return *seed >> 33;
}

static void the_lowest_key_comes_first(void **state)
{
	static const uint64_t keys[] = { 5, UINT64_MAX, 0, 3, 4 };
	struct heap heap = {};

	(void) state;
	for (size_t i = 0; i < ELEMENTS(keys); i++)
		heap_add(&heap, &items[i], keys[i]);
	assert_ptr_equal(pop(&heap), &items[2]);
	assert_ptr_equal(pop(&heap), &items[3]);
	assert_ptr_equal(pop(&heap), &items[4]);
	assert_ptr_equal(pop(&heap), &items[0]);
	assert_ptr_equal(pop(&heap), &items[1]);
	assert_null(heap.root);
}

static void of_equal_keys_the_first_that_was_added_comes_first(void **state)
{
	struct heap heap = {};

	(void) state;
	for (size_t i = 0; i < MANY; i++)
		heap_add(&heap, &items[i], 7);
	heap_add(&heap, &items[0], 7); /* anew: behind the others */
	for (size_t i = 1; i < MANY; i++)
		assert_ptr_equal(pop(&heap), &items[i]);
	assert_ptr_equal(pop(&heap), &items[0]);
}

static void one_that_is_in_it_moves(void **state)
{
	struct heap heap = {};

	(void) state;
	for (size_t i = 0; i < 10; i++)
		heap_add(&heap, &items[i], i + 10);
	heap_add(&heap, &items[9], 1);
	heap_add(&heap, &items[0], 100);
	assert_int_equal(heap.count, 10);
	assert_ptr_equal(pop(&heap), &items[9]);
	for (size_t i = 1; i < 9; i++)
		assert_ptr_equal(pop(&heap), &items[i]);
	assert_ptr_equal(pop(&heap), &items[0]);
}

static void what_is_taken_out_of_the_middle_leaves_the_order_as_it_was(void **state)
{
	struct heap heap = {};
	uint64_t seed = 1, last = 0;
	size_t left = 0;

	(void) state;
	for (int round = 0; round < 20; round++) {
		for (size_t i = 0; i < MANY; i++)
			heap_add(&heap, &items[i], draw(&seed) % 500);
		for (size_t i = 0; i < MANY; i++)
			if (draw(&seed) % 3 == 0)
				heap_remove(&heap, &items[i]);
		for (size_t i = 0; i < 10; i++)
			(void) pop(&heap);
	}
	left = heap.count;
	for (; heap.root; left--) {
		const uint64_t key = heap.root->key;

		assert_true(key >= last);
		last = key;
		(void) pop(&heap);
	}
	assert_int_equal(left, 0);
	for (size_t i = 0; i < MANY; i++)
		assert_false(heap_has(&items[i]));
}

static void what_is_in_none_is_taken_out_in_vain(void **state)
{
	struct heap heap = {};

	(void) state;
	heap_add(&heap, &items[0], 1);
	heap_remove(&heap, &items[1]);
	assert_int_equal(heap.count, 1);
	heap_remove(&heap, &items[0]);
	heap_remove(&heap, &items[0]);
	assert_int_equal(heap.count, 0);
}

#define heap_test(f) cmocka_unit_test_setup(f, clear)

int main(void)
{
	const struct CMUnitTest tests[] = {
		heap_test(the_lowest_key_comes_first),
		heap_test(of_equal_keys_the_first_that_was_added_comes_first),
		heap_test(one_that_is_in_it_moves),
		heap_test(what_is_taken_out_of_the_middle_leaves_the_order_as_it_was),
		heap_test(what_is_in_none_is_taken_out_in_vain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
