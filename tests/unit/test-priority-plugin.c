/* The stage priority: how much each tier gets, and who is in it. */

#include <math.h>

#include "stage-bench.h"

#define REQUESTS 10000

/* Of `all` endpoints in one tier, `usable` have come through the chain so far. */
struct level {
	unsigned usable, all;
};

#define LEVELS_MAX 4

/* Tiers t0, t1, ... of so many endpoints. */
static void write_levels(const struct level *levels, char *ret, size_t size)
{
	size_t length = 0;

	ret[0] = '\0';
	for (size_t t = 0; t < LEVELS_MAX; t++)
		for (unsigned i = 0; i < levels[t].all; i++)
			length += (size_t) snprintf(ret + length, size - length,
					"t%zu%c%03u^tier:t%zu ", t,
					i < levels[t].usable ? 'u' : 'x', i, t);
}

/* Run with only the usable as candidates. Returns the tier that the request goes to. */
static size_t run_usable(struct stage_bench *b)
{
	size_t count = 0;

	for (uint32_t i = 0; i < usher_endpoints_count(b->set); i++)
		if (usher_endpoints_id(b->set, i)[2] == 'u')
			b->came_in[count++] = i;
	(void) bench_run_over(b, &b->request, count);
	return b->kept ? (size_t) (usher_endpoints_id(b->set, b->candidates[0])[1] - '0')
		       : SIZE_MAX;
}

static void measure(struct stage_bench *b, bool with_key, double *ret_shares)
{
	size_t hits[LEVELS_MAX] = { 0 };
	char key[32];

	for (size_t i = 0; i < REQUESTS; i++) {
		(void) snprintf(key, sizeof(key), "user-%zu", i);
		b->request.key = with_key ? key : NULL;
		b->request.random = i * UINT64_C(0x9e3779b97f4a7c15);
		hits[run_usable(b)]++;
	}
	for (size_t t = 0; t < LEVELS_MAX; t++)
		ret_shares[t] = (double) hits[t] / REQUESTS;
}

/* The tables of Envoy's page on priority levels, which works with whole percents: 71 % usable is
 * 99.4 % here and 99 % there. */
static void tiers_get_what_envoys_truth_table_says(void **state)
{
	static const struct {
		const char *factor;
		struct level levels[LEVELS_MAX];
		double shares[LEVELS_MAX];
	} rows[] = {
		/* two levels, the second one whole */
		{ "140%", { { 20, 20 }, { 10, 10 } }, { 1 } },
		{ "140%", { { 72, 100 }, { 10, 10 } }, { 1 } },
		{ "140%", { { 71, 100 }, { 10, 10 } }, { 0.994, 0.006 } },
		{ "140%", { { 10, 20 }, { 10, 10 } }, { 0.7, 0.3 } },
		{ "140%", { { 5, 20 }, { 10, 10 } }, { 0.35, 0.65 } },
		{ "140%", { { 0, 20 }, { 10, 10 } }, { 0, 1 } },
		/* two levels, the second one hurt as well: below 100 % together, each gets its part
		 */
		{ "140%", { { 72, 100 }, { 72, 100 } }, { 1 } },
		{ "140%", { { 10, 20 }, { 10, 20 } }, { 0.7, 0.3 } },
		{ "140%", { { 10, 20 }, { 0, 20 } }, { 1 } },
		{ "140%", { { 5, 20 }, { 5, 20 } }, { 0.5, 0.5 } },
		{ "140%", { { 4, 20 }, { 6, 20 } }, { 0.4, 0.6 } },
		/* three levels */
		{ "140%", { { 20, 20 }, { 20, 20 }, { 20, 20 } }, { 1 } },
		{ "140%", { { 5, 20 }, { 5, 20 }, { 20, 20 } }, { 0.35, 0.35, 0.3 } },
		{ "140%", { { 5, 20 }, { 5, 20 }, { 4, 20 } },
				{ 0.35 / 0.98, 0.35 / 0.98, 0.28 / 0.98 } },
		{ "140%", { { 0, 20 }, { 0, 20 }, { 20, 20 } }, { 0, 0, 1 } },
		/* without overprovisioning, and with much */
		{ "100%", { { 10, 20 }, { 10, 10 } }, { 0.5, 0.5 } },
		{ "200%", { { 10, 20 }, { 10, 10 } }, { 1 } },
		/* 5 of 7 times 1.4 is the whole */
		{ "140%", { { 5, 7 }, { 1, 1 } }, { 1 } },
		/* a tier that nobody is in is skipped */
		{ "140%", { { 0, 0 }, { 1, 1 } }, { 0, 1 } },
		{ "140%", { { 10, 20 }, { 0, 0 }, { 1, 1 } }, { 0.7, 0, 0.3 } },
	};
	char endpoints[4096];

	(void) state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct stage_bench b;
		char options[96];

		(void) snprintf(options, sizeof(options),
				"{label: tier, order: [t0, t1, t2], overprovisioning: %s}",
				rows[i].factor);
		bench_init(&b, options, "a");
		write_levels(rows[i].levels, endpoints, sizeof(endpoints));
		bench_endpoints(&b, endpoints);
		for (int with_key = 0; with_key < 2; with_key++) {
			double shares[LEVELS_MAX];

			measure(&b, with_key, shares);
			for (size_t t = 0; t < LEVELS_MAX; t++) {
				double expected = rows[i].shares[t];
				double bound = 5 * sqrt(expected * (1 - expected) / REQUESTS);

				if (fabs(shares[t] - expected) > bound + 1e-9)
					fail_msg("row %zu, tier %zu: %.4f, expected %.4f", i, t,
							shares[t], expected);
			}
		}
		bench_done(&b);
	}
}

static void the_same_key_always_goes_to_the_same_tier(void **state)
{
	static const struct level levels[LEVELS_MAX] = { { 2, 4 }, { 4, 4 } };
	char endpoints[1024];
	struct stage_bench b;
	size_t tier;

	(void) state;
	write_levels(levels, endpoints, sizeof(endpoints));
	bench_init(&b, "{label: tier, order: [t0, t1]}", endpoints);
	b.request.key = "user-42";
	tier = run_usable(&b);
	for (size_t i = 0; i < 1000; i++) {
		b.request.random = i * UINT64_C(0x9e3779b97f4a7c15);
		assert_int_equal(run_usable(&b), tier);
	}
	bench_done(&b);
}

static void check(const char *options, const char *endpoints, const char *expected)
{
	struct stage_bench b;

	bench_init(&b, options, endpoints);
	for (uint8_t i = 0; i < usher_endpoints_count(b.set); i++)
		b.ranks[i] = (uint8_t) (usher_endpoints_id(b.set, i)[0] - 'a');
	b.view.ranks = b.ranks;
	(void) bench_run(&b);
	assert_string_equal(bench_kept(&b), expected);
	bench_done(&b);
}

static void tiers_are_by_label_by_zone_or_by_source(void **state)
{
	(void) state;
	check("{label: tier, order: [gold, silver]}",
			"a^tier:silver b^tier:gold c^tier:gold d e^tier:bronze", "b c");
	check("{label: tier, order: gold}", "a^tier:silver b", "a b");
	check("{by: zone, order: [west, east]}", "a/east b/West c/north d", "b");
	check("{by: zone, order: [south]}", "a/east b d", "a b d");
	check("{by: zone}", "a/west b/EAST c/east d", "b c");
	check("{by: zone}", "a/west c/north d", "a c d");
	/* ranks are those of the ids: a* comes from the first source, b* from the second */
	check("{by: source}", "a1 a2 b1 c1", "a1 a2");
	check("{by: source}", "b1 c1", "b1");
	check("{by: source}", "c1", "c1");
}

static void where_no_ranks_are_known_all_are_in_one_tier(void **state)
{
	struct stage_bench b;

	(void) state;
	bench_init(&b, "{by: source}", "a b");
	(void) bench_run(&b);
	assert_string_equal(bench_kept(&b), "a b");
	b.view.ranks = b.ranks;
	b.ranks[0] = 200;
	b.ranks[1] = 255;
	(void) bench_run(&b);
	assert_string_equal(bench_kept(&b), "a b");
	bench_done(&b);
}

/* Of the first tier half drains or has weight 0: the other half is all of it. */
static void what_is_taken_out_on_purpose_is_not_missed(void **state)
{
	(void) state;
	for (uint64_t random = 0; random < 100; random++) {
		struct stage_bench b;

		bench_init(&b, "{label: tier, order: [gold]}",
				"a^tier:gold b-^tier:gold c=^tier:gold d*0^tier:gold e f g");
		b.request.random = random;
		(void) bench_run(&b);
		assert_string_equal(bench_kept(&b), "a d");
		bench_done(&b);
	}
}

static void where_all_have_weight_0_the_selector_may_say_so(void **state)
{
	(void) state;
	check("{label: tier, order: [gold]}", "a*0^tier:gold b*0", "a b");
	check("{label: tier, order: [gold]}", "", "");
}

static void it_tells_the_shares_only_where_the_first_tier_is_short(void **state)
{
	static const struct level whole[LEVELS_MAX] = { { 3, 4 }, { 1, 1 } };
	static const struct level half[LEVELS_MAX] = { { 2, 5 }, { 3, 3 }, { 0, 2 } };
	char endpoints[1024];
	struct stage_bench b;

	(void) state;
	write_levels(whole, endpoints, sizeof(endpoints));
	bench_init(&b, "{label: tier, order: [t0, t1]}", endpoints);
	(void) run_usable(&b);
	assert_string_equal(b.told, "");
	assert_string_equal(bench_why(&b, "t1u000"), "tier t1, and this request goes to another");
	write_levels(half, endpoints, sizeof(endpoints));
	bench_endpoints(&b, endpoints);
	for (b.request.random = 0; run_usable(&b) != 1;)
		b.request.random++;
	assert_string_equal(b.told,
			"t0 2 of 5 usable: 56%; t1 3 of 3 usable: 44%; others 0 of 2 usable: 0%; "
			"this request goes to t1");
	bench_done(&b);

	bench_init(&b, "{by: source}", "a b");
	b.view.ranks = b.ranks;
	b.ranks[1] = 1;
	(void) bench_run(&b);
	assert_string_equal(bench_why(&b, "b"), "tier source 2, and this request goes to another");
	bench_done(&b);
	bench_init(&b, "{by: zone}", "a/east b/west");
	(void) bench_run(&b);
	assert_string_equal(bench_why(&b, "a"), "tier east, and this request goes to another");
	assert_string_equal(bench_why(&b, "b"), "tier others, and this request goes to another");
	bench_done(&b);
}

/* With as many tiers as there can be and long names, the text is cut and ends. */
static void a_long_tale_is_cut(void **state)
{
	static char options[8192], endpoints[4000];
	struct stage_bench b;
	size_t length, n = 0;

	(void) state;
	length = (size_t) snprintf(options, sizeof(options), "{label: tier, order: [");
	for (size_t i = 0; i < 63; i++) {
		length += (size_t) snprintf(options + length, sizeof(options) - length, "%s%040zu",
				i ? ", " : "", i);
		n += (size_t) snprintf(
				endpoints + n, sizeof(endpoints) - n, "e%zu^tier:%040zu ", i, i);
	}
	(void) snprintf(options + length, sizeof(options) - length, "]}");
	bench_init(&b, options, endpoints);
	b.admin[0] = USHER_ADMIN_READY;
	/* e0 is of the first tier, and has not come through the chain */
	b.pass = (struct usher_pass){
		.size = sizeof(b.pass), .view = &b.view, .request = &b.request
	};
	for (uint32_t i = 1; i < 63; i++)
		b.came_in[i - 1] = i;
	usher_plugin.stage->tell(b.instance, &b.pass, b.came_in, 62, 1, b.told, sizeof(b.told));
	assert_int_equal(strlen(b.told), sizeof(b.told) - 1);
	bench_done(&b);
}

static void options_are_checked(void **state)
{
	static char many[1024] = "{label: tier, order: [a";

	(void) state;
	assert_options_refused("{}", "tiers by label need label and order");
	assert_options_refused("{label: tier}", "tiers by label need label and order");
	assert_options_refused("{order: [a]}", "tiers by label need label and order");
	assert_options_refused("{label: tier, order: []}", "order is empty");
	assert_options_refused("{by: zone, label: tier}", "leave out either label or by");
	assert_options_refused("{by: source, order: [a]}", "leave order out");
	assert_options_refused("{by: source, overprovisioning: 99%}", "is not in 100%..1000%");
	for (size_t i = 0; i < 63; i++)
		strcat(many, ", a");
	assert_options_refused(strcat(many, "]}"), "order has 64 tiers; at most 63 are possible");
	assert_true(usher_plugin.stage->looks_at_request);
	assert_int_equal(usher_plugin.stage->flags, USHER_STAGE_WHOLE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tiers_get_what_envoys_truth_table_says),
		cmocka_unit_test(the_same_key_always_goes_to_the_same_tier),
		cmocka_unit_test(tiers_are_by_label_by_zone_or_by_source),
		cmocka_unit_test(where_no_ranks_are_known_all_are_in_one_tier),
		cmocka_unit_test(what_is_taken_out_on_purpose_is_not_missed),
		cmocka_unit_test(where_all_have_weight_0_the_selector_may_say_so),
		cmocka_unit_test(it_tells_the_shares_only_where_the_first_tier_is_short),
		cmocka_unit_test(a_long_tale_is_cut),
		cmocka_unit_test(options_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
