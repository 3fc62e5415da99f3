/* The stage slow_start: weights that grow with time, and when to look again. */

#include <math.h>

#include "stage-bench.h"

#define SECOND UINT64_C(1000000)
#define NOW    (UINT64_C(1000) * SECOND)

/* One endpoint of weight 100 that has been there for so long, in thousandths. */
static uint32_t weight_after(const char *options, double seconds)
{
	struct stage_bench b;
	uint32_t weight;

	bench_init(&b, options, "a*100");
	b.view.now_usec = NOW;
	b.view.since_usec = b.since;
	b.since[0] = NOW - (uint64_t) (seconds * (double) SECOND);
	assert_int_equal(bench_run(&b), 1);
	weight = b.weights[0];
	bench_done(&b);
	return weight;
}

/* weight * max(min, (time / window) ^ (1 / aggression)), from Envoy's documentation. */
static void the_weight_grows_as_the_formula_says(void **state)
{
	static const struct {
		const char *options;
		double seconds, part;
	} rows[] = {
		/* a straight line, from a tenth */
		{ "{}", 0, 0.1 },
		{ "{}", 1, 0.1 },
		{ "{}", 3, 0.1 },
		{ "{}", 6, 0.2 },
		{ "{}", 15, 0.5 },
		{ "{}", 29.999, 0.99997 },
		{ "{}", 30, 1 },
		{ "{}", 31, 1 },
		{ "{window: 60s}", 15, 0.25 },
		{ "{min: 0%}", 3, 0.1 },
		{ "{min: 40%}", 6, 0.4 },
		{ "{min: 100%}", 0, 1 },
		/* faster at first: a quarter of the time is half of the weight */
		{ "{window: 60s, aggression: 2.0}", 15, 0.5 },
		{ "{window: 60s, aggression: 2}", 0.6, 0.1 },
		/* slower at first: half of the time is a quarter of the weight */
		{ "{window: 60s, aggression: 0.5}", 30, 0.25 },
		{ "{window: 60s, aggression: 0.5}", 6, 0.1 },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		print_message("%s after %g s\n", rows[i].options, rows[i].seconds);
		assert_true(fabs(weight_after(rows[i].options, rows[i].seconds) -
					    100 * USHER_WEIGHT_UNIT * rows[i].part) <= 1);
	}
}

static void weights_never_shrink_with_time(void **state)
{
	static const char *const options[] = { "{}", "{aggression: 3.3}", "{aggression: 0.3}" };

	(void) state;
	for (size_t o = 0; o < 3; o++) {
		uint32_t last = 0;

		for (double seconds = 0; seconds <= 31; seconds += 0.25) {
			uint32_t weight = weight_after(options[o], seconds);

			assert_true(weight >= last);
			last = weight;
		}
		assert_int_equal(last, 100 * USHER_WEIGHT_UNIT);
	}
}

static void who_has_been_there_before_or_has_no_weight_is_left_alone(void **state)
{
	struct stage_bench b;

	(void) state;
	bench_init(&b, "{min: 0%}", "a b*0 c*7 d");
	b.view.now_usec = NOW;
	b.view.since_usec = b.since;
	b.since[1] = b.since[3] = NOW;
	b.since[2] = NOW - 31 * SECOND;
	assert_int_equal(bench_run(&b), 4);
	assert_int_equal(b.weights[0], USHER_WEIGHT_UNIT);
	assert_int_equal(b.weights[1], 0);
	assert_int_equal(b.weights[2], 7 * USHER_WEIGHT_UNIT);
	/* it wants traffic, so it gets some */
	assert_int_equal(b.weights[3], 1);
	bench_done(&b);
}

/* A restore's ramp has scaled it before: both count. */
static void what_is_scaled_already_is_scaled_further(void **state)
{
	struct stage_bench b;

	(void) state;
	bench_init(&b, "{}", "a");
	b.view.now_usec = NOW;
	b.view.since_usec = b.since;
	b.since[0] = NOW - 15 * SECOND;
	b.weights[0] = USHER_WEIGHT_UNIT / 4;
	(void) bench_run(&b);
	assert_int_equal(b.weights[0], USHER_WEIGHT_UNIT / 8);
	bench_done(&b);
}

static uint64_t again_after(const char *options, const char *endpoints, uint64_t a, uint64_t b)
{
	struct stage_bench bench;
	uint64_t again;

	bench_init(&bench, options, endpoints);
	bench.view.now_usec = NOW;
	bench.view.since_usec = bench.since;
	bench.since[0] = a;
	bench.since[1] = b;
	(void) bench_run(&bench);
	again = bench.pass.again_usec;
	bench_done(&bench);
	return again;
}

static void it_looks_again_every_twentieth_of_the_window_and_at_its_end(void **state)
{
	(void) state;
	assert_int_equal(again_after("{}", "a b", 0, 0), 0);
	assert_int_equal(again_after("{}", "a b", NOW, 0), NOW + 1500000);
	assert_int_equal(again_after("{}", "a b", NOW, NOW - 29 * SECOND), NOW + SECOND);
	assert_int_equal(again_after("{}", "a b", NOW - 30 * SECOND, 0), 0);
	assert_int_equal(again_after("{window: 1s}", "a b", NOW, 0), NOW + 100000);
	/* one that drains is no candidate */
	assert_int_equal(again_after("{}", "a- b", NOW, 0), 0);
}

static void without_times_or_in_a_pick_it_does_nothing(void **state)
{
	struct stage_bench b;

	(void) state;
	bench_init(&b, "{}", "a");
	b.view.now_usec = NOW;
	assert_int_equal(bench_run(&b), 1);
	assert_int_equal(b.weights[0], USHER_WEIGHT_UNIT);
	b.view.since_usec = b.since;
	b.since[0] = NOW;
	assert_int_equal(bench_run_for(&b, &b.request), 1);
	assert_int_equal(b.weights[0], USHER_WEIGHT_UNIT);
	assert_int_equal(b.pass.again_usec, 0);
	bench_done(&b);
}

/* A clock that is read before the endpoint came must not wrap. */
static void one_that_comes_later_than_now_starts_at_the_least(void **state)
{
	(void) state;
	assert_int_equal(weight_after("{}", -5), 10 * USHER_WEIGHT_UNIT);
}

static void it_tells_how_many_are_starting(void **state)
{
	struct stage_bench b;

	(void) state;
	bench_init(&b, "{window: 1m30s}", "a b c");
	b.view.now_usec = NOW;
	b.view.since_usec = b.since;
	(void) bench_run(&b);
	assert_string_equal(b.told, "");
	b.since[0] = NOW - 45 * SECOND;
	b.since[2] = NOW - 18 * SECOND;
	(void) bench_run(&b);
	assert_string_equal(b.told,
			"2 of 3 are in their first 1m30s: weights are scaled, the least to 20%");
	assert_string_equal(bench_why(&b, "a"), "has 50% of its weight so far");
	assert_string_equal(bench_why(&b, "b"), "has all of its weight");
	bench_done(&b);
}

static void options_are_checked(void **state)
{
	(void) state;
	assert_options_refused("{window: 500ms}", "window is not in 1s..24h");
	assert_options_refused("{window: 25h}", "window is not in 1s..24h");
	assert_options_refused("{aggression: fast}",
			"aggression: \"fast\" is no number in 0.1..100, such as 1.0");
	assert_options_refused("{aggression: 0}", "\"0\" is no number in 0.1..100");
	assert_options_refused("{aggression: 100.5}", "\"100.5\" is no number");
	assert_options_refused("{aggression: 1.}", "\"1.\" is no number");
	assert_options_refused("{aggression: -1}", "\"-1\" is no number");
	assert_options_refused("{aggression: 1e1}", "\"1e1\" is no number");
	assert_options_refused("{aggression: [1]}", "\"a list\" is no number");
	assert_int_equal(usher_plugin.stage->flags, USHER_STAGE_WHOLE | USHER_STAGE_WEIGHS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_weight_grows_as_the_formula_says),
		cmocka_unit_test(weights_never_shrink_with_time),
		cmocka_unit_test(who_has_been_there_before_or_has_no_weight_is_left_alone),
		cmocka_unit_test(what_is_scaled_already_is_scaled_further),
		cmocka_unit_test(it_looks_again_every_twentieth_of_the_window_and_at_its_end),
		cmocka_unit_test(without_times_or_in_a_pick_it_does_nothing),
		cmocka_unit_test(one_that_comes_later_than_now_starts_at_the_least),
		cmocka_unit_test(it_tells_how_many_are_starting),
		cmocka_unit_test(options_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
