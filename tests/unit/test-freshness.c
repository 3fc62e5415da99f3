/* How old an answer is, and what that makes of it. */

#include "clock.h"
#include "staleness.h"
#include "test.h"

#define S USEC_PER_SEC

static const struct freshness_case {
	struct staleness_part parts[3];
	size_t count;
	enum source_state state;
	uint64_t age_usec;
	const char *source;
} cases[] = {
	/* now is 100 s, max_age 30 s */
	{ {}, 0, SOURCE_UNKNOWN, USEC_FOREVER, NULL },
	{ { { "a", SOURCE_UNKNOWN, false, true, 0 } }, 1, SOURCE_UNKNOWN, USEC_FOREVER, NULL },
	{ { { "a", SOURCE_FAILED, false, true, 0 } }, 1, SOURCE_FAILED, USEC_FOREVER, NULL },
	{ { { "a", SOURCE_DENIED, false, true, 0 } }, 1, SOURCE_DENIED, USEC_FOREVER, NULL },
	{ { { "a", SOURCE_LIVE, true, true, 99 * S } }, 1, SOURCE_LIVE, 1 * S, "a" },
	{ { { "a", SOURCE_LIVE, true, true, 70 * S } }, 1, SOURCE_LIVE, 30 * S, "a" },
	{ { { "a", SOURCE_LIVE, true, true, 70 * S - 1 } }, 1, SOURCE_STALE, 30 * S + 1, "a" },
	{ { { "a", SOURCE_FAILED, true, true, 99 * S } }, 1, SOURCE_FAILED, 1 * S, "a" },
	{ { { "a", SOURCE_DENIED, true, true, 99 * S } }, 1, SOURCE_DENIED, 1 * S, "a" },
	{ { { "a", SOURCE_FAILED, true, true, 10 * S } }, 1, SOURCE_STALE, 90 * S, "a" },
	/* from the disk, and its source has not spoken yet */
	{ { { "a", SOURCE_UNKNOWN, true, true, 99 * S } }, 1, SOURCE_UNKNOWN, 1 * S, "a" },
	/* the oldest that contributes sets the age, the worst of them the state */
	{ { { "a", SOURCE_LIVE, true, true, 99 * S }, { "b", SOURCE_LIVE, true, true, 90 * S } }, 2,
			SOURCE_LIVE, 10 * S, "b" },
	{ { { "a", SOURCE_LIVE, true, true, 99 * S }, { "b", SOURCE_LIVE, true, false, 9 * S } }, 2,
			SOURCE_LIVE, 1 * S, "a" },
	{ { { "a", SOURCE_FAILED, true, true, 99 * S }, { "b", SOURCE_LIVE, true, true, 90 * S } },
			2, SOURCE_FAILED, 10 * S, "b" },
	/* part of a union that never came: known only when it failed */
	{ { { "a", SOURCE_LIVE, true, true, 99 * S }, { "b", SOURCE_UNKNOWN, false, true, 0 } }, 2,
			SOURCE_LIVE, 1 * S, "a" },
	{ { { "a", SOURCE_LIVE, true, true, 99 * S }, { "b", SOURCE_FAILED, false, true, 0 } }, 2,
			SOURCE_FAILED, 1 * S, "a" },
	{ { { "a", SOURCE_FAILED, false, false, 0 }, { "b", SOURCE_LIVE, true, true, 99 * S } }, 2,
			SOURCE_LIVE, 1 * S, "b" },
	/* before this boot, and never known when */
	{ { { "a", SOURCE_UNKNOWN, true, true, 0 - 5 * S } }, 1, SOURCE_STALE, 105 * S, "a" },
	{ { { "a", SOURCE_UNKNOWN, true, true, 99 * S - STALENESS_AGE_UNKNOWN } }, 1, SOURCE_STALE,
			USEC_FOREVER, "a" },
	/* a moment after `now` was read */
	{ { { "a", SOURCE_LIVE, true, true, 100 * S + 5 } }, 1, SOURCE_LIVE, 0, "a" },
};

static void freshness_is_as_the_table_says(void **state)
{
	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct freshness f;

		print_message("case %zu\n", i);
		staleness_judge(cases[i].parts, cases[i].count, 30 * S, 100 * S, &f);
		assert_int_equal(f.state, cases[i].state);
		assert_int_equal(f.age_usec, cases[i].age_usec);
		assert_int_equal(f.max_age_usec, 30 * S);
		if (cases[i].source)
			assert_string_equal(f.source, cases[i].source);
		else
			assert_null(f.source);
	}
}

static void an_answer_turns_stale_the_microsecond_after_its_max_age(void **state)
{
	struct staleness_part part = { "a", SOURCE_LIVE, true, true, 90 * S };
	struct freshness f;
	uint64_t deadline;

	(void) state;
	staleness_judge(&part, 1, 30 * S, 100 * S, &f);
	deadline = staleness_deadline(&f, 100 * S);
	assert_int_equal(deadline, 120 * S + 1);
	staleness_judge(&part, 1, 30 * S, deadline - 1, &f);
	assert_int_equal(f.state, SOURCE_LIVE);
	staleness_judge(&part, 1, 30 * S, deadline, &f);
	assert_int_equal(f.state, SOURCE_STALE);
	assert_int_equal(staleness_deadline(&f, deadline), USEC_FOREVER);
}

static void a_time_that_cannot_be_trusted_proves_no_age(void **state)
{
	(void) state;
	assert_int_equal(staleness_restored_age(100 * S, 160 * S), 60 * S);
	assert_int_equal(staleness_restored_age(100 * S, 100 * S), 0);
	assert_int_equal(staleness_restored_age(100 * S + 1, 100 * S), USEC_FOREVER);
	assert_int_equal(staleness_restored_age(0, 100 * S), USEC_FOREVER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(freshness_is_as_the_table_says),
		cmocka_unit_test(an_answer_turns_stale_the_microsecond_after_its_max_age),
		cmocka_unit_test(a_time_that_cannot_be_trusted_proves_no_age),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
