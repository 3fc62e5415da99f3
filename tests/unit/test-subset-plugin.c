/* The stage subset: the same for one identity, others for another, and little moves. */

#include <math.h>

#include "stage-bench.h"

/* e0 .. e(count-1), but for `without`. */
static const char *fleet(size_t count, size_t without)
{
	static char text[4096];
	size_t length = 0;

	text[0] = '\0';
	for (size_t i = 0; i < count; i++)
		if (i != without)
			length += (size_t) snprintf(
					text + length, sizeof(text) - length, "e%zu ", i);
	return text;
}

static void run_for(struct stage_bench *b, const char *node, bool *ret_kept)
{
	b->view.node = node;
	(void) bench_run(b);
	memset(ret_kept, 0, BENCH_ENDPOINTS_MAX * sizeof(*ret_kept));
	for (size_t i = 0; i < b->kept; i++)
		ret_kept[b->candidates[i]] = true;
}

static void few_endpoints_all_stay(void **state)
{
	struct stage_bench b;

	(void) state;
	bench_init(&b, "{size: 3}", "a b c");
	(void) bench_run(&b);
	assert_string_equal(bench_kept(&b), "a b c");
	assert_string_equal(
			b.told, "all 3, for no more than 3 are wanted for the identity \"node-7\"");
	bench_endpoints(&b, "");
	assert_int_equal(bench_run(&b), 0);
	bench_done(&b);
}

static void of_many_as_many_as_wanted_stay_in_their_order(void **state)
{
	static const size_t sizes[] = { 1, 2, 7, 20, 59, 60, 1000 };

	(void) state;
	for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
		struct stage_bench b;
		char options[32];

		(void) snprintf(options, sizeof(options), "{size: %zu}", sizes[s]);
		bench_init(&b, options, fleet(60, SIZE_MAX));
		assert_int_equal(bench_run(&b), sizes[s] < 60 ? sizes[s] : 60);
		for (size_t i = 1; i < b.kept; i++)
			assert_true(b.candidates[i - 1] < b.candidates[i]);
		bench_done(&b);
	}
}

/* A subset is those of highest rank, so a smaller one is a part of a larger one. */
static void a_smaller_subset_is_a_part_of_a_larger_one(void **state)
{
	bool small[BENCH_ENDPOINTS_MAX], large[BENCH_ENDPOINTS_MAX];
	struct stage_bench a, b;

	(void) state;
	bench_init(&a, "{size: 10}", fleet(60, SIZE_MAX));
	bench_init(&b, "{size: 20}", fleet(60, SIZE_MAX));
	run_for(&a, "node-1", small);
	run_for(&b, "node-1", large);
	for (size_t i = 0; i < 60; i++)
		assert_true(large[i] || !small[i]);
	bench_done(&a);
	bench_done(&b);
}

#define NODES 1000

/* Each endpoint is kept by size / count of the nodes, as far as chance goes: five deviations. */
static void many_identities_cover_every_endpoint_evenly(void **state)
{
	size_t hits[60] = { 0 }, least = SIZE_MAX, most = 0;
	double expected = NODES * 20 / 60.0, bound = 5 * sqrt(expected * (1 - 20 / 60.0));
	bool kept[BENCH_ENDPOINTS_MAX];
	struct stage_bench b;

	(void) state;
	bench_init(&b, "{size: 20}", fleet(60, SIZE_MAX));
	for (size_t n = 0; n < NODES; n++) {
		char node[32];

		(void) snprintf(node, sizeof(node), "node-%zu", n);
		run_for(&b, node, kept);
		for (size_t i = 0; i < 60; i++)
			hits[i] += kept[i];
	}
	for (size_t i = 0; i < 60; i++) {
		least = hits[i] < least ? hits[i] : least;
		most = hits[i] > most ? hits[i] : most;
	}
	print_message("each of 60 endpoints is in %zu..%zu of %d subsets of 20\n", least, most,
			NODES);
	assert_true((double) least > expected - bound && (double) most < expected + bound);
	bench_done(&b);
}

/* With as few nodes as 20, subsets of 20 of 60 leave out nobody. */
static void twenty_nodes_cover_sixty_endpoints(void **state)
{
	bool covered[60] = { false }, kept[BENCH_ENDPOINTS_MAX];
	struct stage_bench b;

	(void) state;
	bench_init(&b, "{size: 20}", fleet(60, SIZE_MAX));
	for (size_t n = 0; n < 20; n++) {
		char node[32];

		(void) snprintf(node, sizeof(node), "node-%zu", n);
		run_for(&b, node, kept);
		for (size_t i = 0; i < 60; i++)
			covered[i] |= kept[i];
	}
	for (size_t i = 0; i < 60; i++)
		assert_true(covered[i]);
	bench_done(&b);
}

/* Of all places in all subsets, how many have another endpoint than before. */
static double moved_share(const char *before, const char *after)
{
	bool kept[BENCH_ENDPOINTS_MAX];
	struct stage_bench a, b;
	size_t places = 0, moved = 0;

	bench_init(&a, "{size: 20}", before);
	bench_init(&b, "{size: 20}", after);
	for (size_t n = 0; n < NODES; n++) {
		char node[32];

		(void) snprintf(node, sizeof(node), "node-%zu", n);
		run_for(&a, node, kept);
		run_for(&b, node, kept);
		for (size_t i = 0; i < a.kept; i++) {
			ssize_t k = usher_endpoints_find(
					b.set, usher_endpoints_id(a.set, a.candidates[i]));

			places++;
			moved += k < 0 || !kept[k];
		}
	}
	bench_done(&a);
	bench_done(&b);
	return (double) moved / (double) places;
}

/* One of n comes or goes: in each subset at most one place changes hands, in all 1/n of them. */
static void a_change_of_one_endpoint_moves_one_nth_of_the_places(void **state)
{
	char before[4096], after[4096];
	double goes, comes;

	(void) state;
	(void) snprintf(before, sizeof(before), "%s", fleet(60, SIZE_MAX));
	(void) snprintf(after, sizeof(after), "%s", fleet(60, 17));
	goes = moved_share(before, after);
	comes = moved_share(after, before);
	print_message("one of 60 goes: %.3f%% of the places move; it comes back: %.3f%%; 1/60 is "
		      "%.3f%%\n",
			100 * goes, 100 * comes, 100.0 / 60);
	/* places of one node depend on each other, so five deviations of NODES draws */
	assert_true(fabs(goes - 1 / 60.0) < 5 * sqrt(1 / 3.0 * 2 / 3 / NODES) / 20);
	assert_true(fabs(comes - 1 / 60.0) < 5 * sqrt(1 / 3.0 * 2 / 3 / NODES) / 20);
}

static void one_that_goes_gives_its_place_to_one_and_all_others_stay(void **state)
{
	bool kept[BENCH_ENDPOINTS_MAX], now[BENCH_ENDPOINTS_MAX];
	struct stage_bench b;
	size_t lost = 0, gained = 0;
	uint32_t gone;

	(void) state;
	bench_init(&b, "{size: 20}", fleet(60, SIZE_MAX));
	run_for(&b, "node-1", kept);
	gone = b.candidates[7];
	b.admin[gone] = USHER_ADMIN_DRAINING;
	run_for(&b, "node-1", now);
	for (size_t i = 0; i < 60; i++) {
		lost += kept[i] && !now[i];
		gained += !kept[i] && now[i];
	}
	assert_int_equal(b.kept, 20);
	assert_int_equal(lost, 1);
	assert_int_equal(gained, 1);
	assert_false(now[gone]);
	bench_done(&b);
}

static void one_of_weight_0_takes_no_place(void **state)
{
	bool kept[BENCH_ENDPOINTS_MAX];
	struct stage_bench b;
	uint32_t gone;

	(void) state;
	bench_init(&b, "{size: 20}", fleet(60, SIZE_MAX));
	run_for(&b, "node-1", kept);
	gone = b.candidates[3];
	b.weights[gone] = 0;
	run_for(&b, "node-1", kept);
	assert_int_equal(b.kept, 20);
	assert_false(kept[gone]);
	assert_string_equal(bench_why(&b, usher_endpoints_id(b.set, gone)),
			"has weight 0, and so no place in the subset");
	bench_done(&b);
}

static void the_identity_is_written_by_its_placeholders(void **state)
{
	static const struct {
		const char *options, *identity;
	} rows[] = {
		{ "{size: 2}", "node-7" },
		{ "{size: 2, identity: blue}", "blue" },
		{ "{size: 2, identity: '{node}/{service}@{zone}!'}", "node-7/catalog@east!" },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct stage_bench b;
		char told[128];

		bench_init(&b, rows[i].options, "a b c");
		(void) bench_run(&b);
		(void) snprintf(told, sizeof(told), "2 of 3, by rank for the identity \"%s\"",
				rows[i].identity);
		assert_string_equal(b.told, told);
		bench_done(&b);
	}
}

static void an_identity_of_any_length_does_no_harm(void **state)
{
	static char node[5000];
	struct stage_bench b;

	(void) state;
	memset(node, 'n', sizeof(node) - 1);
	bench_init(&b, "{size: 2, identity: '{node}{node}'}", "a b c");
	b.view.node = node;
	assert_int_equal(bench_run(&b), 2);
	b.view.node = NULL;
	assert_int_equal(bench_run(&b), 2);
	bench_done(&b);
}

static void who_left_is_told_its_rank(void **state)
{
	struct stage_bench b;
	bool ranks[4] = { false };

	(void) state;
	bench_init(&b, "{size: 1}", "a b c d-");
	(void) bench_run(&b);
	for (size_t i = 0; i < 3; i++) {
		unsigned rank;

		if (i == b.candidates[0])
			continue;
		assert_int_equal(
				sscanf(bench_why(&b, usher_endpoints_id(b.set, i)),
						"not among the 1 for node-7: rank %u of the directory",
						&rank),
				1);
		assert_in_range(rank, 2, 3);
		ranks[rank] = true;
	}
	assert_true(ranks[2] && ranks[3]);
	bench_endpoints(&b, fleet(600, SIZE_MAX));
	(void) bench_run(&b);
	assert_string_equal(bench_why(&b, b.candidates[0] == 0 ? "e1" : "e0"),
			"not among the 1 for node-7");
	bench_done(&b);
}

static void options_are_checked(void **state)
{
	(void) state;
	assert_options_refused("{size: 0}", "0 is not in 1..1000");
	assert_options_refused("{size: 1001}", "1001 is not in 1..1000");
	assert_options_refused("{identity: ''}", "identity is empty, so that all nodes would use");
	assert_options_refused("{identity: '{nod}-1'}",
			"identity: \"{nod}\" is no placeholder; there are {node}, {zone} and "
			"{service}");
	assert_options_refused("{identity: 'x{'}", "identity: \"{\" is no placeholder");
	assert_int_equal(usher_plugin.stage->flags, USHER_STAGE_WHOLE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(few_endpoints_all_stay),
		cmocka_unit_test(of_many_as_many_as_wanted_stay_in_their_order),
		cmocka_unit_test(a_smaller_subset_is_a_part_of_a_larger_one),
		cmocka_unit_test(many_identities_cover_every_endpoint_evenly),
		cmocka_unit_test(twenty_nodes_cover_sixty_endpoints),
		cmocka_unit_test(a_change_of_one_endpoint_moves_one_nth_of_the_places),
		cmocka_unit_test(one_that_goes_gives_its_place_to_one_and_all_others_stay),
		cmocka_unit_test(one_of_weight_0_takes_no_place),
		cmocka_unit_test(the_identity_is_written_by_its_placeholders),
		cmocka_unit_test(an_identity_of_any_length_does_no_harm),
		cmocka_unit_test(who_left_is_told_its_rank),
		cmocka_unit_test(options_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
