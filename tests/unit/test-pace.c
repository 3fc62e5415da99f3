/* How often things may begin, how often they do, and how late they did. */

#include "lateness.h"
#include "meter.h"
#include "pace.h"
#include "test.h"
#include "trouble.h"

static unsigned count_begun(struct pace *p, uint64_t from_usec, uint64_t until_usec)
{
	unsigned count = 0;

	for (uint64_t now = from_usec; now < until_usec; now += 500)
		while (pace_allows(p, now)) {
			pace_take(p);
			count++;
		}
	return count;
}

static void a_rate_is_kept_after_what_may_come_at_once(void **state)
{
	struct pace p;

	(void) state;
	pace_init(&p, 2000, 100, 0);
	assert_in_range(count_begun(&p, 0, 1), 100, 100);
	assert_in_range(count_begun(&p, 500, 1000000), 1995, 2000);
	assert_in_range(count_begun(&p, 9000000, 9000001), 100, 100); /* a rest saves no more */
}

static void slow_rates_let_one_begin_at_a_time(void **state)
{
	struct pace p;

	(void) state;
	pace_init(&p, 0.5, 0.01, 0);
	assert_in_range(count_begun(&p, 0, 10000001), 5, 6);
	assert_in_range(pace_next_usec(&p), 10000000, 12000010);
}

static void without_a_rate_everything_may_begin(void **state)
{
	struct pace p;

	(void) state;
	pace_init(&p, 0, 1, 0);
	for (int i = 0; i < 1000; i++) {
		assert_true(pace_allows(&p, 0));
		pace_take(&p);
	}
	assert_int_equal(pace_next_usec(&p), 0);
}

static void a_new_rate_holds_from_now_on(void **state)
{
	struct pace p;

	(void) state;
	pace_init(&p, 1000, 50, 0);
	(void) count_begun(&p, 0, 1);
	pace_set(&p, 10, 1, 0);
	assert_in_range(count_begun(&p, 0, 1000000), 9, 10);
	pace_set(&p, 0, 1, 1000000);
	assert_true(pace_allows(&p, 1000000));
}

static void quantiles_are_told_within_an_eighth(void **state)
{
	struct lateness l = {};

	(void) state;
	assert_int_equal(lateness_quantile(&l, 0.99), 0);
	for (uint64_t i = 1; i <= 100000; i++)
		lateness_add(&l, i, 1);
	assert_in_range(lateness_quantile(&l, 0.50), 50000, 50000 * 9 / 8);
	assert_in_range(lateness_quantile(&l, 0.99), 99000, 100000);
	assert_int_equal(lateness_quantile(&l, 1), 100000);
	assert_int_equal(lateness_max(&l), 100000);
}

static void every_value_has_a_bucket_that_holds_it(void **state)
{
	(void) state;
	for (unsigned shift = 0; shift < 64; shift++)
		for (uint64_t low = 0; low < 3; low++) {
			uint64_t value = (UINT64_C(1) << shift) - 1 + low;
			struct lateness l = {};

			lateness_add(&l, value, 1);
			lateness_add(&l, UINT64_MAX, 1);
			assert_true(lateness_quantile(&l, 0.5) >= value);
			assert_true(lateness_quantile(&l, 0.5) / 9 <= value / 8 + 1);
		}
}

static void what_is_older_than_two_windows_is_forgotten(void **state)
{
	struct lateness l = {};

	(void) state;
	lateness_add(&l, 1000000, 1);
	lateness_add(&l, 7, LATENESS_WINDOW_USEC + 1);
	assert_int_equal(lateness_max(&l), 1000000);
	lateness_add(&l, 7, 2 * LATENESS_WINDOW_USEC + 2);
	assert_int_equal(lateness_max(&l), 7);
	lateness_add(&l, 5, 9 * LATENESS_WINDOW_USEC);
	assert_int_equal(lateness_max(&l), 5);
}

static bool nearly(double a, double b)
{
	return a > b - 0.01 && a < b + 0.01;
}

static void what_happens_is_measured_over_a_minute_at_most(void **state)
{
	const uint64_t second = 1000000;
	struct meter m = {};
	uint64_t now = 5 * second;

	(void) state;
	assert_true(nearly(meter_per_second(&m, now), 0));
	meter_add(&m, 5, now);
	assert_true(nearly(meter_per_second(&m, now), 5)); /* a second at least */
	for (unsigned i = 0; i < 200; i++)
		meter_add(&m, 7, now += second);
	assert_true(meter_per_second(&m, now) > 6.9 && meter_per_second(&m, now) < 7.3);
	/* it becomes another within a minute */
	for (unsigned i = 0; i < 60; i++)
		meter_add(&m, 1, now += second);
	assert_true(meter_per_second(&m, now) > 0.9 && meter_per_second(&m, now) < 1.1);
	/* and nothing */
	assert_true(meter_per_second(&m, now + METER_WINDOW_USEC) > 0);
	assert_true(nearly(meter_per_second(&m, now + 2 * METER_WINDOW_USEC), 0));
	meter_add(&m, 300, now += 100 * METER_WINDOW_USEC);
	assert_true(meter_per_second(&m, now) <= 10);
}

static void trouble_is_told_when_it_begins_and_when_it_is_over(void **state)
{
	struct trouble t = {};

	(void) state;
	assert_int_equal(trouble_note(&t, false, 10, 1), 0);
	assert_int_equal(trouble_note(&t, true, 10, 2), 1);
	assert_int_equal(trouble_note(&t, true, 10, 3), 0);
	assert_int_equal(trouble_note(&t, false, 10, 12), 0);
	assert_int_equal(trouble_note(&t, true, 10, 12), 0);
	assert_int_equal(trouble_note(&t, false, 10, 21), 0);
	assert_int_equal(trouble_note(&t, false, 10, 22), -1);
	assert_int_equal(trouble_note(&t, false, 10, 50), 0);
	assert_int_equal(trouble_note(&t, true, 10, 51), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_rate_is_kept_after_what_may_come_at_once),
		cmocka_unit_test(slow_rates_let_one_begin_at_a_time),
		cmocka_unit_test(without_a_rate_everything_may_begin),
		cmocka_unit_test(a_new_rate_holds_from_now_on),
		cmocka_unit_test(quantiles_are_told_within_an_eighth),
		cmocka_unit_test(every_value_has_a_bucket_that_holds_it),
		cmocka_unit_test(what_is_older_than_two_windows_is_forgotten),
		cmocka_unit_test(what_happens_is_measured_over_a_minute_at_most),
		cmocka_unit_test(trouble_is_told_when_it_begins_and_when_it_is_over),
	};

	return cmocka_run_group_tests_name("pace", tests, NULL, NULL);
}
