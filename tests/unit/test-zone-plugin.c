/* The stage zone: who is in it, what it can bear, and what it says when it gives up. */

#include <math.h>

#include "stage-bench.h"

#define REQUESTS 20000

static void check(const char *options, const char *zone, const char *endpoints,
		const char *expected, const char *told)
{
	struct stage_bench b;

	bench_init(&b, options, endpoints);
	b.view.zone = zone;
	(void) bench_run(&b);
	assert_string_equal(bench_kept(&b), expected);
	assert_string_equal(b.told, told);
	bench_done(&b);
}

/* The cases that Spring Cloud's zone filter was seen to answer; where it returns all, the stage
 * returns none and on_empty: pass is what returns all. */
static void a_zone_is_that_of_the_endpoint_or_of_its_metadata_in_any_case(void **state)
{
	(void) state;
	check("{}", "east", "A^zone:east B^zone:west D", "A", "");
	check("{}", "East", "A^zone:east B^zone:west C^zone:EAST", "A C", "");
	check("{}", "north", "A^zone:east B^zone:west", "", "nobody is in zone north");
	check("{}", NULL, "A^zone:east B^zone:west", "",
			"the zone of this node is not known: set node.zone, or prefer");
	check("{}", "east", "D A^zone:east", "A", "");
	check("{}", "", "A^zone:east E^zone: D", "E", "");
	check("{}", "east", "", "", "nobody is in zone east");
	check("{}", "east", "A/east^zone:west B/west^zone:east", "A", "");
	check("{prefer: west}", "east", "A/east B/west", "B", "");
}

static void a_zone_that_has_its_share_keeps_all(void **state)
{
	(void) state;
	/* half of the capacity for half of the traffic */
	check("{spill_over: {}}", "east", "a/east b/west", "a", "");
	/* a third is enough for a half: not quite, 1/3 * 1.4 = 0.47; for 45 % it is */
	check("{spill_over: {share: 45%}}", "east", "a/east b/west c/west", "a", "");
	/* two zones there are, so its share is a half, and two thirds it has */
	check("{spill_over: {}}", "east", "a/east b/east c/west", "a b", "");
	/* three zones, one of them without a usable endpoint: still three */
	check("{spill_over: {}}", "east", "a/east b/west c/west d/north-", "a", "");
	/* those without a zone are in one more: half of the capacity for half of the traffic */
	check("{spill_over: {}}", "east", "a/east b", "a", "");
	/* nobody else there is */
	check("{spill_over: {share: 100%}}", "east", "a/east", "a", "");
	check("{spill_over: {share: 100%}}", "east", "a/east*0", "a", "");
}

static void nobody_in_the_zone_is_for_on_empty_to_rule(void **state)
{
	(void) state;
	check("{spill_over: {}}", "east", "b/west c/north", "", "nobody is in zone east");
}

/* How often `id` is among those kept, over requests without a key or with one. */
static double share_of(struct stage_bench *b, const char *expected, bool with_key)
{
	size_t hits = 0;
	char key[32];

	for (size_t i = 0; i < REQUESTS; i++) {
		(void) snprintf(key, sizeof(key), "user-%zu", i);
		b->request.key = with_key ? key : NULL;
		b->request.random = (uint64_t) i * UINT64_C(0x9e3779b97f4a7c15);
		(void) bench_run(b);
		hits += strcmp(bench_kept(b), expected) == 0;
	}
	return (double) hits / REQUESTS;
}

/* Five standard deviations of a share. */
static void assert_share(double share, double expected)
{
	double bound = 5 * sqrt(expected * (1 - expected) / REQUESTS);

	if (fabs(share - expected) > bound)
		fail_msg("share is %.4f, expected %.4f +- %.4f", share, expected, bound);
}

static void what_the_zone_cannot_bear_goes_elsewhere(void **state)
{
	static const struct {
		const char *options, *endpoints, *local, *elsewhere;
		double stays;
	} rows[] = {
		/* 20 % of the capacity for 50 % of the traffic: 0.2 * 1.4 / 0.5 */
		{ "{spill_over: {}}", "a/east b/west c/west d/west e/west", "a", "b c d e", 0.56 },
		{ "{spill_over: {share: 40%}}", "a/east b/west c/west d/west e/west", "a",
				"b c d e", 0.7 },
		{ "{spill_over: {share: 40%, overprovisioning: 100%}}",
				"a/east b/west c/west d/west e/west", "a", "b c d e", 0.5 },
		/* weights are the capacity */
		{ "{spill_over: {overprovisioning: 100%}}", "a/east*1 b/west*9", "a", "b", 0.2 },
		/* weight 0 is none */
		{ "{spill_over: {}}", "a/east*0 b/west", "a", "b", 0 },
		/* what has no zone is elsewhere */
		{ "{spill_over: {share: 100%, overprovisioning: 100%}}", "a/east b/west c d", "a",
				"b c d", 0.25 },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct stage_bench b;

		bench_init(&b, rows[i].options, rows[i].endpoints);
		for (int with_key = 0; with_key < 2; with_key++) {
			double stays = share_of(&b, rows[i].local, with_key);
			double goes = share_of(&b, rows[i].elsewhere, with_key);

			assert_share(stays, rows[i].stays);
			assert_true(fabs(stays + goes - 1) < 1e-9);
		}
		bench_done(&b);
	}
}

static void the_same_key_always_goes_the_same_way(void **state)
{
	struct stage_bench b;
	size_t before;

	(void) state;
	bench_init(&b, "{spill_over: {}}", "a/east b/west c/west d/west e/west");
	b.request.key = "user-42";
	before = bench_run(&b);
	for (size_t i = 0; i < 1000; i++) {
		b.request.random = i * UINT64_C(0x9e3779b97f4a7c15);
		assert_int_equal(bench_run(&b), before);
	}
	bench_done(&b);
}

/* When the zone gets weaker, those that leave it are new, and nobody comes back. */
static void a_key_that_goes_elsewhere_does_so_as_well_when_more_does(void **state)
{
	struct stage_bench strong, weak;
	size_t moved = 0;

	(void) state;
	bench_init(&strong, "{spill_over: {share: 50%}}", "a/east b/west c/west d/west");
	bench_init(&weak, "{spill_over: {share: 60%}}", "a/east b/west c/west d/west");
	for (size_t i = 0; i < 10000; i++) {
		char key[32];

		(void) snprintf(key, sizeof(key), "user-%zu", i);
		strong.request.key = weak.request.key = key;
		(void) bench_run(&strong);
		(void) bench_run(&weak);
		if (strong.kept == 3)
			assert_int_equal(weak.kept, 3);
		moved += strong.kept == 1 && weak.kept == 3;
	}
	assert_true(moved > 0);
	bench_done(&strong);
	bench_done(&weak);
}

static void it_tells_what_it_gives_away_and_why_the_zone_was_left(void **state)
{
	struct stage_bench b;

	(void) state;
	bench_init(&b, "{spill_over: {share: 50%}}", "a/east b/west c/west d/west e");
	b.request.key = "user-1";
	while (bench_run(&b) != 1)
		b.request.key = "user-2";
	assert_string_equal(b.told,
			"zone east has 20% of the capacity for 50% of the traffic: 44% of its "
			"requests go elsewhere, and this one stays");
	assert_string_equal(bench_why(&b, "b"), "zone west is not east");
	assert_string_equal(bench_why(&b, "e"), "has no zone, east is preferred");
	for (size_t i = 0; bench_run(&b) == 1; i++) {
		b.request.key = NULL;
		b.request.random = i;
	}
	assert_non_null(strstr(b.told, "44% of its requests go elsewhere, and this one does, too"));
	assert_string_equal(bench_why(&b, "a"),
			"zone east is short of capacity, and this request goes elsewhere");
	bench_done(&b);
}

static void only_with_spill_over_it_looks_at_the_request(void **state)
{
	struct stage_bench b;

	(void) state;
	bench_init(&b, "{}", "a");
	assert_false(usher_plugin.stage->needs_request(b.instance));
	bench_done(&b);
	bench_init(&b, "{spill_over: {}}", "a");
	assert_true(usher_plugin.stage->needs_request(b.instance));
	bench_done(&b);
}

static void many_zones_are_counted_and_too_many_do_no_harm(void **state)
{
	static char text[4096];
	struct stage_bench b;
	size_t length = 0;

	(void) state;
	for (size_t i = 0; i < 300; i++)
		length += (size_t) snprintf(
				text + length, sizeof(text) - length, "e%zu/z%zu ", i, i);
	bench_init(&b, "{spill_over: {}}", text);
	b.view.zone = "Z7";
	(void) bench_run(&b);
	assert_string_equal(bench_kept(&b), "e7");
	assert_string_equal(b.told, "");
	bench_done(&b);
}

static void what_spill_over_takes_is_checked(void **state)
{
	(void) state;
	assert_options_refused("{spill_over: true}", "spill_over is a map, such as {share: 40%}");
	assert_options_refused("{spill_over: {part: 40%}}",
			"spill_over: unknown key \"part\"; known are share and overprovisioning");
	assert_options_refused("{spill_over: {share: 0%}}",
			"spill_over.share: \"0%\" is no share in 1%..100%; write a percentage");
	assert_options_refused("{spill_over: {share: [40%]}}", "spill_over.share: \"a list\" is");
	assert_options_refused("{spill_over: {overprovisioning: 90%}}",
			"spill_over.overprovisioning: \"90%\" is no share in 100%..1000%");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_zone_is_that_of_the_endpoint_or_of_its_metadata_in_any_case),
		cmocka_unit_test(a_zone_that_has_its_share_keeps_all),
		cmocka_unit_test(nobody_in_the_zone_is_for_on_empty_to_rule),
		cmocka_unit_test(what_the_zone_cannot_bear_goes_elsewhere),
		cmocka_unit_test(the_same_key_always_goes_the_same_way),
		cmocka_unit_test(a_key_that_goes_elsewhere_does_so_as_well_when_more_does),
		cmocka_unit_test(it_tells_what_it_gives_away_and_why_the_zone_was_left),
		cmocka_unit_test(only_with_spill_over_it_looks_at_the_request),
		cmocka_unit_test(many_zones_are_counted_and_too_many_do_no_harm),
		cmocka_unit_test(what_spill_over_takes_is_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
