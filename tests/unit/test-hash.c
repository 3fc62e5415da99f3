/* Numbers for keys: frozen, spread evenly, and decisions by share that have nothing to do with each
 * other. */

#include <math.h>
#include <usher/plugin.h>

#include "test.h"

#define DRAWS 100000

/* Whoever changes one of these moves every user of every service to another endpoint. */
static void the_number_of_a_text_never_changes(void **state)
{
	(void) state;
	assert_true(usher_hash_text("", 0) == UINT64_C(0x2d06800538d394c2));
	assert_true(usher_hash_text(NULL, 0) == UINT64_C(0x2d06800538d394c2));
	assert_true(usher_hash_text("user-42", 0) == UINT64_C(0x50fe4b21cf7b09cd));
	assert_true(usher_hash_text("user-42", 1) == UINT64_C(0x89fb47d9fbcef79a));
	assert_true(usher_hash("user-42", 7, 1) == usher_hash_text("user-42", 1));
}

static void a_fraction_is_less_than_one(void **state)
{
	(void) state;
	assert_true(usher_hash_fraction(0) == 0);
	assert_true(usher_hash_fraction(UINT64_MAX) < 1);
	assert_true(usher_hash_fraction(UINT64_C(1) << 63) == 0.5);
}

static double draw_of_key(size_t i, uint64_t seed)
{
	char key[32];
	struct usher_request request = { .size = sizeof(request), .key = key };

	(void) snprintf(key, sizeof(key), "user-%zu", i);
	return usher_request_draw(&request, true, seed);
}

static double draw_at_random(size_t i, uint64_t seed)
{
	struct usher_request request = { .size = sizeof(request),
		.random = (uint64_t) i * UINT64_C(0x9e3779b97f4a7c15) };

	return usher_request_draw(&request, true, seed);
}

/* Of those below a half by one seed, half are below a half by another: five standard deviations. */
static void assert_decisions_are_apart(double (*draw)(size_t, uint64_t))
{
	size_t first = 0, both = 0;

	for (size_t i = 0; i < DRAWS; i++) {
		bool in = draw(i, 1) < 0.5;

		first += in;
		both += in && draw(i, 2) < 0.5;
	}
	assert_true(fabs((double) first - DRAWS / 2.0) < 5 * sqrt(DRAWS / 4.0));
	assert_true(fabs((double) both - DRAWS / 4.0) < 5 * sqrt(DRAWS * 3.0 / 16.0));
}

static void draws_with_different_seeds_have_nothing_to_do_with_each_other(void **state)
{
	(void) state;
	assert_decisions_are_apart(draw_of_key);
	assert_decisions_are_apart(draw_at_random);
}

static void a_draw_is_by_key_where_there_is_one_and_it_is_wanted(void **state)
{
	struct usher_request a = { .size = sizeof(a), .key = "user-42", .random = 1 };
	struct usher_request b = { .size = sizeof(b), .key = "user-42", .random = 2 };

	(void) state;
	assert_true(usher_request_draw(&a, true, 7) == usher_request_draw(&b, true, 7));
	assert_true(usher_request_draw(&a, false, 7) != usher_request_draw(&b, false, 7));
	a.key = b.key = "";
	assert_true(usher_request_draw(&a, true, 7) != usher_request_draw(&b, true, 7));
	assert_true(usher_request_draw(&a, true, 7) == usher_request_draw(&a, false, 7));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_number_of_a_text_never_changes),
		cmocka_unit_test(a_fraction_is_less_than_one),
		cmocka_unit_test(draws_with_different_seeds_have_nothing_to_do_with_each_other),
		cmocka_unit_test(a_draw_is_by_key_where_there_is_one_and_it_is_wanted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
