/* The stage ready: the conditions of Kubernetes, and what people want of those that terminate. */

#include "stage-bench.h"

static const char *const options[] = { "{terminating: avoid}", "{terminating: fallback}",
	"{terminating: include}" };

/* Each of the eight combinations, alone and beside one that is ready. Conditions that were not told
 * have been filled in by the source: ready and serving true, terminating false. */
static const struct {
	bool ready, serving, terminating;
	bool alone[3]; /* by option */
	bool beside[3];
} combinations[] = {
	{ false, false, false, { false, false, false }, { false, false, false } },
	{ false, false, true, { false, false, false }, { false, false, false } },
	{ false, true, false, { false, false, false }, { false, false, false } },
	{ false, true, true, { false, true, true }, { false, false, true } },
	{ true, false, false, { true, true, true }, { true, true, true } },
	{ true, false, true, { false, true, true }, { false, false, true } },
	{ true, true, false, { true, true, true }, { true, true, true } },
	{ true, true, true, { false, true, true }, { false, false, true } },
};

static struct usher_endpoints *set_of_combination(size_t k, bool beside_ready)
{
	struct usher_endpoints *set = usher_endpoints_new();
	struct usher_endpoint e = USHER_ENDPOINT_INIT;

	e.address = "10.0.0.1";
	e.port = 80;
	e.id = "other";
	if (beside_ready)
		assert_ok(usher_endpoints_add(set, &e, NULL));
	e.id = "judged";
	e.ready = combinations[k].ready;
	e.serving = combinations[k].serving;
	e.terminating = combinations[k].terminating;
	assert_ok(usher_endpoints_add(set, &e, NULL));
	usher_endpoints_seal(set);
	return set;
}

static void check(size_t k, const char *option, bool beside_ready, bool expected)
{
	struct stage_bench b;
	bool kept;

	print_message("ready %d, serving %d, terminating %d, %s, %s\n", combinations[k].ready,
			combinations[k].serving, combinations[k].terminating, option,
			beside_ready ? "beside a ready one" : "alone");
	bench_init(&b, option, "");
	(void) usher_endpoints_unref(b.set);
	b.view.endpoints = b.set = set_of_combination(k, beside_ready);
	b.weights[0] = b.weights[1] = USHER_WEIGHT_UNIT;
	(void) bench_run(&b);
	kept = strncmp(bench_kept(&b), "judged", 6) == 0;
	assert_int_equal(kept, expected);
	assert_int_equal(b.kept, (size_t) kept + beside_ready);
	if (!kept)
		assert_string_not_equal(bench_why(&b, "judged"), "");
	bench_done(&b);
}

static void all_eight_combinations_of_conditions_are_judged(void **state)
{
	(void) state;
	for (size_t k = 0; k < 8; k++)
		for (size_t o = 0; o < 3; o++) {
			check(k, options[o], false, combinations[k].alone[o]);
			check(k, options[o], true, combinations[k].beside[o]);
		}
}

static void fallback_is_what_nobody_has_to_ask_for(void **state)
{
	struct stage_bench b;

	(void) state;
	bench_init(&b, "{}", "a b~ c! d");
	(void) bench_run(&b);
	assert_string_equal(bench_kept(&b), "a d");
	assert_string_equal(b.told, "");
	assert_string_equal(bench_why(&b, "b"), "terminating, and others are ready");
	assert_string_equal(bench_why(&b, "c"), "not ready");
	bench_endpoints(&b, "b~ c! d~");
	(void) bench_run(&b);
	assert_string_equal(bench_kept(&b), "b d");
	assert_string_equal(
			b.told, "none of 3 is ready: 2 that terminate and still serve are used");
	bench_endpoints(&b, "c!");
	(void) bench_run(&b);
	assert_string_equal(bench_kept(&b), "");
	assert_string_equal(b.told, "");
	bench_done(&b);
}

static void who_avoids_or_includes_them_is_told_so(void **state)
{
	struct stage_bench b;

	(void) state;
	bench_init(&b, "{terminating: avoid}", "a b~");
	(void) bench_run(&b);
	assert_string_equal(bench_kept(&b), "a");
	assert_string_equal(bench_why(&b, "b"), "terminating, and terminating is avoid");
	bench_done(&b);
	bench_init(&b, "{terminating: include}", "a b~ c!");
	(void) bench_run(&b);
	assert_string_equal(bench_kept(&b), "a b");
	assert_string_equal(b.told, "");
	bench_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_eight_combinations_of_conditions_are_judged),
		cmocka_unit_test(fallback_is_what_nobody_has_to_ask_for),
		cmocka_unit_test(who_avoids_or_includes_them_is_told_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
