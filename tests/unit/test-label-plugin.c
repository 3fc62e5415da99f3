/* The stage label: those whose metadata match stay. */

#include "stage-bench.h"

#define TIERS "a^tier:gold b^tier:silver c^tier: d"

static void those_that_match_stay(void **state)
{
	static const struct {
		const char *options, *expected;
	} rows[] = {
		{ "{match: tier=gold}", "a" },
		{ "{match: tier!=gold}", "b c d" },
		{ "{match: 'tier in (gold, silver)'}", "a b" },
		{ "{match: ['tier', 'tier!=gold']}", "b c" },
		{ "{match: '!tier'}", "d" },
		{ "{match: tier=bronze}", "" },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct stage_bench b;

		bench_init(&b, rows[i].options, TIERS);
		(void) bench_run(&b);
		assert_string_equal(bench_kept(&b), rows[i].expected);
		bench_done(&b);
	}
}

static void others_are_told_what_they_miss(void **state)
{
	struct stage_bench b;

	(void) state;
	bench_init(&b, "{match: 'tier in (gold, bronze)'}", TIERS);
	(void) bench_run(&b);
	assert_string_equal(bench_why(&b, "b"),
			"label tier is silver, asked for is tier in (gold, bronze)");
	assert_string_equal(bench_why(&b, "d"),
			"has no label tier, asked for is tier in (gold, bronze)");
	bench_done(&b);
}

static void options_are_checked(void **state)
{
	(void) state;
	assert_options_refused("{}", "needs the option \"match\"");
	assert_options_refused("{match: []}", "match is empty");
	assert_options_refused("{match: 'a in gold'}", "is wrong at character 6");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(those_that_match_stay),
		cmocka_unit_test(others_are_told_what_they_miss),
		cmocka_unit_test(options_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
