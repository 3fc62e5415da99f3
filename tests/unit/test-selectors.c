/* The selectors: shares, smoothness, and who is never chosen. */

#include "selecting.h"

static const char *const names[] = { "round_robin", "random", "weighted_round_robin",
	"weighted_random", "least_request", "peak_ewma", "ring_hash", "maglev" };
#define NAMES_UNWEIGHTED 2 /* the first of them */

/* The ids of `count` picks from the cursor on; ids are single letters. */
static void check_order(
		const char *name, const char *endpoints, uint64_t cursor, const char *expected)
{
	struct selecting s;
	char ids[64] = "";

	selecting_init(&s, name, endpoints);
	selecting_prepare(&s);
	for (size_t i = 0; i < strlen(expected); i++) {
		ssize_t position = select_at(&s, cursor + i);

		assert_in_range(position, 0, s.choice.count - 1);
		ids[i] = usher_endpoints_id(s.choice.set, (size_t) position)[0];
	}
	assert_string_equal(ids, expected);
	selecting_done(&s);
}

static void round_robin_goes_round_in_the_order_of_ids(void **state)
{
	(void) state;
	check_order("round_robin", "a b c", 0, "abcabc");
	check_order("round_robin", "a b c", 5, "cab");
	check_order("round_robin", "a", 7, "aaa");
	check_order("round_robin", "a*0 b c*0 d", 0, "bdbd");
}

static void weighted_round_robin_is_smooth(void **state)
{
	(void) state;
	check_order("weighted_round_robin", "a*5 b*1 c*1", 0, "aabacaa");
	check_order("weighted_round_robin", "a*1000 b*3000", 0, "babbbabb");
	check_order("weighted_round_robin", "a b c", 0, "abcabc");
	check_order("weighted_round_robin", "a*7", 3, "aaa");
	check_order("weighted_round_robin", "a*0 b*2 c*0 d*2", 0, "bdbd");
}

static void nobody_is_chosen_where_all_have_weight_0(void **state)
{
	(void) state;
	for (size_t n = 0; n < ELEMENTS(names); n++) {
		struct selecting s;

		selecting_init(&s, names[n], "a*0 b*0");
		for (uint64_t i = 0; i < 10; i++)
			assert_int_equal(select_at(&s, i), -1);
		selecting_prepare(&s);
		for (uint64_t i = 0; i < 10; i++)
			assert_int_equal(select_at(&s, i), -1);
		assert_true(s.selector->share(s.instance->data, &s.choice.view, s.choice.candidates,
					    2, 0) == 0);
		selecting_done(&s);
	}
}

static uint64_t greatest_common_divisor(uint64_t a, uint64_t b)
{
	return b ? greatest_common_divisor(b, a % b) : a;
}

/* Random weights, mostly of one size, some 0, with `count` endpoints. */
static void randomize(struct selecting *s, size_t count, uint32_t max)
{
	for (size_t i = 0; i < count; i++)
		s->choice.weights[i] = random_below(&s->random, 5) == 0
				? 0
				: (uint32_t) random_below(&s->random, max + 1);
}

static uint64_t period_of(const struct selecting *s)
{
	uint64_t sum = 0, divisor = 0;

	for (size_t i = 0; i < s->choice.count; i++) {
		sum += s->choice.weights[i];
		divisor = greatest_common_divisor(divisor, s->choice.weights[i]);
	}
	return divisor ? sum / divisor : 0;
}

/* Over one period from any cursor, each comes exactly as often as its weight says. */
static void weighted_shares_are_exact_over_a_period(void **state)
{
	(void) state;
	for (int round = 0; round < 300; round++) {
		struct selecting s;
		uint64_t *counts, period, cursor;

		selecting_init(&s, "weighted_round_robin", "a b c d e f g h i j k l");
		s.choice.count = 1 + random_below(&s.random, 12);
		randomize(&s, s.choice.count, round % 3 == 0 ? 3 : round % 3 == 1 ? 100 : 20000);
		selecting_prepare(&s);
		period = period_of(&s);
		cursor = random_next(&s.random) >> 1;
		counts = calloc(s.choice.count, sizeof(*counts));
		for (uint64_t i = 0; i < period; i++) {
			ssize_t position = select_at(&s, cursor + i);

			assert_in_range(position, 0, s.choice.count - 1);
			counts[position]++;
		}
		for (size_t i = 0; i < s.choice.count && period > 0; i++) {
			uint64_t sum = 0;

			for (size_t k = 0; k < s.choice.count; k++)
				sum += s.choice.weights[k];
			assert_int_equal(counts[i] * (sum / period), s.choice.weights[i]);
		}
		free(counts);
		selecting_done(&s);
	}
}

/* After any number of picks nobody is ahead of or behind its share by more than a few. */
static void weighted_picks_stay_near_their_shares_at_any_time(void **state)
{
	(void) state;
	for (int round = 0; round < 60; round++) {
		struct selecting s;
		uint64_t counts[8] = {}, sum = 0;

		selecting_init(&s, "weighted_round_robin", "a b c d e f g h");
		randomize(&s, 8, round % 2 ? 40 : 50000);
		s.choice.weights[0] = 1 + (uint32_t) random_below(&s.random, 50000);
		selecting_prepare(&s);
		for (size_t i = 0; i < 8; i++)
			sum += s.choice.weights[i];
		for (uint64_t n = 1; n <= 5000; n++) {
			ssize_t position = select_at(&s, n - 1);

			assert_in_range(position, 0, 7);
			counts[position]++;
			for (size_t i = 0; i < 8; i++) {
				double due = (double) n * s.choice.weights[i] / (double) sum;
				double off = due - (double) counts[i];

				assert_true(off < 7 && off > -7);
			}
		}
		selecting_done(&s);
	}
}

/* Far above what a set lets in, as if the maximum were raised one day. */
static void sums_of_weights_do_not_overflow(void **state)
{
	(void) state;
	for (size_t n = NAMES_UNWEIGHTED; n < ELEMENTS(names); n++) {
		struct selecting s;
		size_t count = 0;

		selecting_init(&s, names[n], "a b");
		s.choice.weights[0] = UINT32_MAX;
		s.choice.weights[1] = 1;
		selecting_prepare(&s);
		for (uint64_t i = 0; i < 100000; i++)
			count += select_at(&s, i) == 0;
		/* The tables of those that hash have a place for everyone. */
		assert_in_range(count, 99970, 100000);
		s.choice.weights[1] = UINT32_MAX;
		selecting_prepare(&s);
		count = 0;
		for (uint64_t i = 0; i < 10000; i++)
			count += select_at(&s, UINT64_MAX - i) == 0;
		assert_in_range(count, 4700, 5300);
		selecting_done(&s);
	}
}

static void weighted_shares_hold_in_long_periods(void **state)
{
	(void) state;
	for (int round = 0; round < 40; round++) {
		struct selecting s;
		uint64_t counts[300] = {}, sum = 0, cursor;
		const uint64_t picks = 20000;

		selecting_init_many(&s, "weighted_round_robin", NULL, 2 + (size_t) round * 7);
		randomize(&s, s.choice.count, round % 2 ? 1000 : 100000000);
		s.choice.weights[0] = 1000003;
		selecting_prepare(&s);
		cursor = random_next(&s.random);
		for (uint64_t i = 0; i < picks; i++)
			counts[select_at(&s, cursor + i)]++;
		for (size_t i = 0; i < s.choice.count; i++)
			sum += s.choice.weights[i];
		for (size_t i = 0; i < s.choice.count; i++) {
			double off = (double) picks * s.choice.weights[i] / (double) sum -
					(double) counts[i];

			assert_true(off < 12 && off > -12);
		}
		selecting_done(&s);
	}
}

static void chance_is_in_proportion_where_a_request_was_looked_at(void **state)
{
	struct selecting s;
	uint64_t counts[3];

	(void) state;
	for (size_t n = NAMES_UNWEIGHTED; n < ELEMENTS(names); n++) {
		selecting_init(&s, names[n], "a*1 b*0 c*3");
		memset(counts, 0, sizeof(counts));
		for (uint64_t i = 0; i < 40000; i++)
			counts[select_at(&s, 7)]++;
		assert_int_equal(counts[1], 0);
		assert_in_range(counts[0], 9200, 10800);
		selecting_done(&s);
	}

	for (size_t n = 0; n < NAMES_UNWEIGHTED; n++) {
		selecting_init(&s, names[n], "a*1 b*0 c*3");
		memset(counts, 0, sizeof(counts));
		for (uint64_t i = 0; i < 40000; i++)
			counts[select_at(&s, 7)]++;
		assert_int_equal(counts[1], 0);
		assert_in_range(counts[0], 19000, 21000);
		selecting_done(&s);
	}
}

/* Each of the n * S numbers that weighted_random makes of a random one comes from an interval of
 * them; with the first of every interval, each endpoint is chosen n times its weight. */
static void weighted_random_is_exact_to_the_unit(void **state)
{
	(void) state;
	for (int round = 0; round < 200; round++) {
		struct selecting s;
		uint64_t counts[12] = {}, sum = 0, squares;

		selecting_init(&s, "weighted_random", "a b c d e f g h i j k l");
		s.choice.count = 1 + random_below(&s.random, 12);
		randomize(&s, s.choice.count, round % 3 == 0 ? 3 : round % 3 == 1 ? 100 : 5000);
		selecting_prepare(&s);
		for (size_t i = 0; i < s.choice.count; i++)
			sum += s.choice.weights[i];
		squares = sum * s.choice.count;
		for (uint64_t i = 0; i < squares; i++) {
			unsigned __int128 low =
					(((unsigned __int128) i << 64) + squares - 1) / squares;
			struct usher_request request = { .size = sizeof(request),
				.random = (uint64_t) low };

			counts[select_for(&s, &request)]++;
		}
		for (size_t i = 0; i < s.choice.count; i++)
			assert_int_equal(
					counts[i], (uint64_t) s.choice.weights[i] * s.choice.count);
		selecting_done(&s);
	}
}

/* Ten thousand of the largest weight there is, one of them of the smallest, and some of none. */
static void shares_hold_among_many_of_the_largest_weight(void **state)
{
	(void) state;
	for (size_t n = NAMES_UNWEIGHTED; n < ELEMENTS(names); n++) {
		const uint32_t largest = USHER_WEIGHT_MAX * USHER_WEIGHT_UNIT;
		size_t upper_half = 0, picks = 40000;
		struct selecting s;

		selecting_init_many(&s, names[n], NULL, 10000);
		for (size_t i = 0; i < 10000; i++)
			s.choice.weights[i] = i % 10 == 9 ? 0 : i < 5000 ? largest / 3 : largest;
		s.choice.weights[0] = 1;
		selecting_prepare(&s);
		for (uint64_t i = 0; i < picks; i++)
			upper_half += select_at(&s, i) >= 5000;
		/* three quarters, five standard deviations of 40,000 picks apart */
		assert_in_range(upper_half, picks * 74 / 100, picks * 76 / 100);
		selecting_done(&s);
	}
}

static void one_candidate_is_always_chosen(void **state)
{
	(void) state;
	for (size_t n = 0; n < ELEMENTS(names); n++) {
		struct selecting s;

		selecting_init(&s, names[n], "a*1");
		for (uint64_t i = 0; i < 100; i++)
			assert_int_equal(select_at(&s, i), 0);
		for (uint32_t weight = 1; weight <= 100000000; weight *= 10) {
			s.choice.weights[0] = weight;
			selecting_prepare(&s);
			for (uint64_t i = 0; i < 100; i++)
				assert_int_equal(select_at(&s, UINT64_MAX - i), 0);
		}
		selecting_done(&s);
	}
}

static void the_one_with_weight_is_always_chosen(void **state)
{
	(void) state;
	for (size_t n = 0; n < ELEMENTS(names); n++) {
		struct selecting s;

		selecting_init(&s, names[n], "a*0 b*0 c*7 d*0");
		for (uint64_t i = 0; i < 100; i++)
			assert_int_equal(select_at(&s, i), 2);
		selecting_prepare(&s);
		for (uint64_t i = 0; i < 100; i++)
			assert_int_equal(select_at(&s, i), 2);
		selecting_done(&s);
	}
}

/* select_for() checks that what comes out may be chosen. */
static void choices_are_candidates_with_weight(void **state)
{
	(void) state;
	for (size_t n = 0; n < ELEMENTS(names); n++)
		for (int round = 0; round < 60; round++) {
			struct selecting s;
			bool any = false;

			selecting_init_many(&s, names[n], NULL, 1 + (size_t) round * 7);
			randomize(&s, s.choice.count, round % 2 ? 3 : 100000000);
			for (size_t i = 0; i < s.choice.count; i++)
				any |= s.choice.weights[i] > 0;
			selecting_prepare(&s);
			for (uint64_t i = 0; i < 200; i++)
				assert_int_equal(select_at(&s, random_next(&s.random)) >= 0, any);
			selecting_done(&s);
		}
}

/* The host may hand the prepared part over for some of the candidates. */
static void a_subset_has_the_shares_of_its_weights(void **state)
{
	(void) state;
	for (size_t n = 0; n < ELEMENTS(names); n++) {
		uint64_t counts[2] = {};
		struct selecting s;

		selecting_init(&s, names[n], "a*5 b*1 c*9 d*3 e*0");
		if (s.selector->flags & USHER_SELECTOR_SUBSETS) {
			selecting_prepare(&s);
			s.choice.candidates[0] = 1;
			s.choice.candidates[1] = 3;
			s.choice.count = 2;
			for (uint64_t i = 0; i < 40000; i++)
				counts[select_at(&s, i)]++;
			assert_in_range(counts[0], 9200, 10800);
		}
		selecting_done(&s);
	}
}

static void selectors_say_whether_weights_count(void **state)
{
	(void) state;
	for (size_t n = 0; n < ELEMENTS(names); n++) {
		struct selecting s;

		selecting_init(&s, names[n], "a");
		assert_int_equal(!!(s.selector->flags & USHER_SELECTOR_IGNORES_WEIGHTS),
				n < NAMES_UNWEIGHTED);
		selecting_done(&s);
	}
}

static void random_is_uniform(void **state)
{
	struct selecting s;
	uint64_t counts[4] = {};

	(void) state;
	selecting_init(&s, "random", "a b*0 c d*9");
	selecting_prepare(&s);
	for (uint64_t i = 0; i < 60000; i++)
		counts[select_at(&s, 0)]++;
	assert_int_equal(counts[1], 0);
	assert_in_range(counts[0], 19000, 21000);
	assert_in_range(counts[2], 19000, 21000);
	assert_in_range(counts[3], 19000, 21000);
	selecting_done(&s);
}

static void shares_sum_up_to_one(void **state)
{
	(void) state;
	for (size_t n = 0; n < ELEMENTS(names); n++) {
		struct selecting s;
		double sum = 0;

		selecting_init(&s, names[n], "a*1 b*0 c*3 d*4");
		for (size_t i = 0; i < 4; i++)
			sum += s.selector->share(s.instance->data, &s.choice.view,
					s.choice.candidates, 4, i);
		assert_true(sum > 0.999999 && sum < 1.000001);
		selecting_done(&s);
	}
}

static int prepare_once(void *userdata)
{
	struct selecting *s = userdata;
	void *prepared = NULL;
	int r = s->selector->prepare(s->instance->data, &s->choice.view, s->choice.candidates,
			s->choice.count, &prepared);

	if (r >= 0)
		s->selector->release(prepared);
	return r;
}

/* The plug-ins allocate by themselves, out of the test's reach; what counts here is that nothing is
 * kept. */
static void preparing_keeps_nothing(void **state)
{
	(void) state;
	for (size_t n = 0; n < ELEMENTS(names); n++) {
		struct selecting s;

		selecting_init(&s, names[n], "a*1 b*0 c*3 d*4");
		assert_ok(prepare_once(&s));
		selecting_done(&s);
	}
	assert_int_equal(plugin_instances, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(round_robin_goes_round_in_the_order_of_ids),
		cmocka_unit_test(weighted_round_robin_is_smooth),
		cmocka_unit_test(nobody_is_chosen_where_all_have_weight_0),
		cmocka_unit_test(weighted_shares_are_exact_over_a_period),
		cmocka_unit_test(weighted_picks_stay_near_their_shares_at_any_time),
		cmocka_unit_test(weighted_shares_hold_in_long_periods),
		cmocka_unit_test(sums_of_weights_do_not_overflow),
		cmocka_unit_test(chance_is_in_proportion_where_a_request_was_looked_at),
		cmocka_unit_test(random_is_uniform),
		cmocka_unit_test(weighted_random_is_exact_to_the_unit),
		cmocka_unit_test(shares_hold_among_many_of_the_largest_weight),
		cmocka_unit_test(one_candidate_is_always_chosen),
		cmocka_unit_test(the_one_with_weight_is_always_chosen),
		cmocka_unit_test(choices_are_candidates_with_weight),
		cmocka_unit_test(a_subset_has_the_shares_of_its_weights),
		cmocka_unit_test(selectors_say_whether_weights_count),
		cmocka_unit_test(shares_sum_up_to_one),
		cmocka_unit_test(preparing_keeps_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
