#include "human.h"
#include "metric.h"
#include "test.h"

static void ages_have_the_two_units_that_matter(void **state)
{
	static const struct {
		uint64_t msec;
		const char *text;
	} cases[] = {
		{ 0, "0s" },
		{ 1, "1s" },
		{ 1000, "1s" },
		{ 1001, "2s" },
		{ 59000, "59s" },
		{ 60000, "1m" },
		{ 192000, "3m12s" },
		{ 600000, "10m" },
		{ 3600000, "60m" },
		{ 10800000, "3h" },
		{ 11160000, "3h6m" },
		{ 86400000, "24h" },
		{ 176400000, "2d1h" },
		{ 864000000, "10d" },
		{ UINT64_MAX, "-" },
	};
	char text[HUMAN_TEXT_MAX];

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(human_age(cases[i].msec, text), cases[i].text);
}

static void elapsed_time_has_tenths_for_a_minute(void **state)
{
	char text[HUMAN_TEXT_MAX];

	(void) state;
	assert_string_equal(human_elapsed(0, text), "0.0s");
	assert_string_equal(human_elapsed(12399, text), "12.3s");
	assert_string_equal(human_elapsed(59999, text), "59.9s");
	assert_string_equal(human_elapsed(61999, text), "1m1s");
}

static void times_of_day_are_read_with_their_fraction(void **state)
{
	(void) state;
	assert_int_equal(human_time_parse("1970-01-01T00:00:01Z"), 1000);
	assert_int_equal(human_time_parse("1970-01-01T00:00:01.5Z"), 1500);
	assert_int_equal(human_time_parse("1970-01-02T00:00:00.123456Z"), 86400123);
	assert_int_equal(human_time_parse("1970-01-01"), -1);
	assert_int_equal(human_time_parse("1970-01-01T00:00:01+01:00"), -1);
	assert_int_equal(human_time_parse("-"), -1);
	assert_int_equal(human_time_parse(NULL), -1);
}

static void control_characters_are_cut_out_and_nothing_else(void **state)
{
	char text[] = "a\x1b[2J\n\xc2\x9b\x7f\xc3\xa9 \xe4\xb8\xad";

	(void) state;
	assert_string_equal(human_printable(text), "a?[2J????\xc3\xa9 \xe4\xb8\xad");
}

static void a_metric_is_the_sum_of_its_series(void **state)
{
	static const char text[] = "# HELP picks_total picks\n"
				   "# TYPE picks_total counter\n"
				   "picks_total{result=\"ok\"} 100\n"
				   "picks_total{result=\"empty\"} 5.5\n"
				   "picks_total_more 7\n"
				   "other 3\n"
				   "alone 2";

	(void) state;
	assert_true(metric_sum(text, "picks_total") == 105.5);
	assert_true(metric_sum(text, "alone") == 2);
	assert_true(metric_sum(text, "absent") == 0);
	assert_true(metric_sum("picks_total{result=", "picks_total") == 0);
	assert_true(metric_sum("", "picks_total") == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ages_have_the_two_units_that_matter),
		cmocka_unit_test(elapsed_time_has_tenths_for_a_minute),
		cmocka_unit_test(times_of_day_are_read_with_their_fraction),
		cmocka_unit_test(control_characters_are_cut_out_and_nothing_else),
		cmocka_unit_test(a_metric_is_the_sum_of_its_series),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
