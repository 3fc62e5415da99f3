/* The stage health: who is used, when the degraded are, and when all are. */

#include "stage-bench.h"

struct row {
	const char *options, *endpoints, *health;
	double panic_threshold; /* negative: fail */
	const char *expected;
	bool panic;
	const char *told;
};

static void check(const struct row *row)
{
	struct stage_bench b;

	bench_init(&b, row->options, row->endpoints);
	bench_health(&b, row->health);
	b.view.panic_threshold = row->panic_threshold;
	(void) bench_run(&b);
	print_message("%s %s %s %g\n", row->options, row->endpoints, row->health,
			row->panic_threshold);
	assert_string_equal(bench_kept(&b), row->expected);
	assert_int_equal(b.pass.panic, row->panic);
	assert_string_equal(b.told, row->told);
	bench_done(&b);
}

#define CHECK_ALL(rows)                                                        \
	do {                                                                   \
		for (size_t i_ = 0; i_ < sizeof(rows) / sizeof(*(rows)); i_++) \
			check(&(rows)[i_]);                                    \
	} while (0)

static void what_is_down_or_ejected_is_left_out(void **state)
{
	static const struct row rows[] = {
		{ "{}", "a b c", "+++", -1, "a b c", false, "" },
		{ "{}", "a b c", "+-x", -1, "a", false, "" },
		{ "{}", "a b c", "---", -1, "", false, "" },
		{ "{}", "a", "x", -1, "", false, "" },
		{ "{}", "", "", -1, "", false, "" },
	};

	(void) state;
	CHECK_ALL(rows);
}

static void what_is_not_known_yet_is_used_unless_told_otherwise(void **state)
{
	static const struct row rows[] = {
		{ "{}", "a b c", "?+-", -1, "a b", false, "" },
		{ "{}", "a b", "??", -1, "a b", false, "" },
		{ "{unknown: include}", "a b", "?-", -1, "a", false, "" },
		{ "{unknown: avoid}", "a b c", "?+-", -1, "b", false, "" },
		{ "{unknown: avoid}", "a b", "??", -1, "", false, "" },
	};

	(void) state;
	CHECK_ALL(rows);
}

static void the_degraded_are_used_only_when_too_few_others_are_up(void **state)
{
	static const struct row rows[] = {
		{ "{}", "a b c", "++~", -1, "a b", false, "" },
		/* a third is more than 30 % */
		{ "{}", "a b c", "+~~", -1, "a", false, "" },
		{ "{}", "a b c d", "+~~-", -1, "a b c", false,
				"1 of 4 are up, too few: 2 degraded are used, too" },
		{ "{}", "a b c", "-~-", -1, "b", false,
				"0 of 3 are up, too few: 1 degraded are used, too" },
		{ "{enough: 0%}", "a b c d e", "+~~~~", -1, "a", false, "" },
		{ "{enough: 0%}", "a b", "-~", -1, "b", false,
				"0 of 2 are up, too few: 1 degraded are used, too" },
		{ "{enough: 50%}", "a b", "+~", -1, "a", false, "" },
		{ "{enough: 70%}", "a b c", "++~", -1, "a b c", false,
				"2 of 3 are up, too few: 1 degraded are used, too" },
		{ "{degraded: include}", "a b c", "+~-", -1, "a b", false, "" },
		{ "{degraded: avoid}", "a b c", "-~-", -1, "", false, "" },
		/* too few are up, but nobody is degraded */
		{ "{}", "a b c d", "+---", -1, "a", false, "" },
	};

	(void) state;
	CHECK_ALL(rows);
}

static void below_the_threshold_all_are_used_and_it_is_said(void **state)
{
	static const struct row rows[] = {
		{ "{}", "a b c", "---", 0, "a b c", true,
				"panic: none of 3 is usable, so all are used" },
		{ "{}", "a b c", "+--", 0, "a", false, "" },
		{ "{}", "a b c", "+--", 0.5, "a b c", true,
				"panic: 1 of 3 are usable, less than 50%, so all are used" },
		{ "{}", "a b", "+-", 0.5, "a", false, "" },
		/* what is degraded is usable, unless it is avoided */
		{ "{}", "a b c d", "-~~-", 0.5, "b c", false,
				"0 of 4 are up, too few: 2 degraded are used, too" },
		{ "{degraded: avoid}", "a b", "-~", 0, "a b", true,
				"panic: none of 2 is usable, so all are used" },
		{ "{}", "a b", "--", 1, "a b", true,
				"panic: none of 2 is usable, so all are used" },
		{ "{}", "a b", "++", 1, "a b", false, "" },
		{ "{}", "", "", 0, "", false, "" },
	};

	(void) state;
	CHECK_ALL(rows);
}

/* 6 of 10 drain on purpose: what is left is 4, and 2 of them are up. Of all ten it would be 20 %,
 * and panic. */
static void what_is_drained_on_purpose_is_not_missed(void **state)
{
	static const struct row rows[] = {
		{ "{}", "a b c d e- f- g- h- i- j-", "++--++++++", 0.5, "a b", false, "" },
		{ "{}", "a b c d e- f- g- h- i- j=", "+---++++++", 0.5, "a b c d", true,
				"panic: 1 of 4 are usable, less than 50%, so all are used" },
		/* weight 0 is on purpose, too */
		{ "{}", "a b c*0 d*0", "+-++", 0.5, "a c d", false, "" },
		{ "{}", "a b c*0 d*0", "+---", 0.5, "a", false, "" },
		{ "{}", "a b c*0", "--+", 0, "a b c", true,
				"panic: none of 2 is usable, so all are used" },
		{ "{}", "a*0 b*0", "--", 0, "", false, "" },
	};

	(void) state;
	CHECK_ALL(rows);
}

static void without_checks_all_are_let_through(void **state)
{
	struct stage_bench b;

	(void) state;
	bench_init(&b, "{unknown: avoid}", "a b");
	(void) bench_run(&b);
	assert_string_equal(bench_kept(&b), "a b");
	assert_string_equal(b.told, "the service has no checks: all are let through");
	bench_done(&b);
}

static void each_endpoint_has_its_reason(void **state)
{
	struct stage_bench b;

	(void) state;
	bench_init(&b, "{unknown: avoid}", "a b c d e");
	bench_health(&b, "+-x?~");
	(void) bench_run(&b);
	assert_string_equal(bench_why(&b, "b"), "down: its checks fail");
	assert_string_equal(bench_why(&b, "c"), "ejected: calls to it fail");
	assert_string_equal(bench_why(&b, "d"), "not checked yet, and unknown is avoid");
	bench_done(&b);
	bench_init(&b, "{}", "a b");
	bench_health(&b, "+~");
	(void) bench_run(&b);
	assert_string_equal(bench_why(&b, "b"), "degraded, and enough others are up");
	bench_done(&b);
	bench_init(&b, "{degraded: avoid}", "a b");
	bench_health(&b, "+~");
	(void) bench_run(&b);
	assert_string_equal(bench_why(&b, "b"), "degraded, and degraded is avoid");
	bench_done(&b);
}

static void it_is_strict_and_judges_the_whole(void **state)
{
	(void) state;
	assert_int_equal(usher_plugin.stage->flags,
			USHER_STAGE_WHOLE | USHER_STAGE_STRICT | USHER_STAGE_HEALTH);
	assert_false(usher_plugin.stage->looks_at_request);
	assert_options_refused("{unknown: fallback}", "fallback");
	assert_options_refused("{enough: 101%}", "101%");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_down_or_ejected_is_left_out),
		cmocka_unit_test(what_is_not_known_yet_is_used_unless_told_otherwise),
		cmocka_unit_test(the_degraded_are_used_only_when_too_few_others_are_up),
		cmocka_unit_test(below_the_threshold_all_are_used_and_it_is_said),
		cmocka_unit_test(what_is_drained_on_purpose_is_not_missed),
		cmocka_unit_test(without_checks_all_are_let_through),
		cmocka_unit_test(each_endpoint_has_its_reason),
		cmocka_unit_test(it_is_strict_and_judges_the_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
