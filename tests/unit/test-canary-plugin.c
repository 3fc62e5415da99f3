/* The stage canary: its share of the requests for those that match, and nothing of the rest. */

#include <math.h>

#include "stage-bench.h"

#define KEYS 100000

#define FLEET "a b c d^track:canary e^track:canary"

static void write_key(struct stage_bench *b, char *text, size_t size, size_t i)
{
	(void) snprintf(text, size, "user-%zu", i);
	b->request.key = text;
}

/* Of keys, how many are given to canaries. */
static size_t count_in(struct stage_bench *b)
{
	char key[32];
	size_t in = 0;

	for (size_t i = 0; i < KEYS; i++) {
		write_key(b, key, sizeof(key), i);
		in += bench_run(b) == 2;
	}
	return in;
}

static void the_share_of_many_keys_is_the_share(void **state)
{
	static const double shares[] = { 0.001, 0.05, 0.1, 0.5, 0.99 };

	(void) state;
	for (size_t i = 0; i < sizeof(shares) / sizeof(*shares); i++) {
		struct stage_bench b;
		char options[64];
		double in, bound = 4 * sqrt(KEYS * shares[i] * (1 - shares[i]));

		(void) snprintf(options, sizeof(options), "{match: track=canary, share: %g%%}",
				100 * shares[i]);
		bench_init(&b, options, FLEET);
		in = (double) count_in(&b);
		print_message("share %g of %d keys: %g, expected %g +- %g\n", shares[i], KEYS, in,
				KEYS * shares[i], bound);
		assert_true(fabs(in - KEYS * shares[i]) <= bound);
		bench_done(&b);
	}
}

static void nobody_is_in_at_0_and_everybody_at_100_percent(void **state)
{
	struct stage_bench b;

	(void) state;
	bench_init(&b, "{match: track=canary, share: 0%}", FLEET);
	assert_int_equal(count_in(&b), 0);
	bench_done(&b);
	bench_init(&b, "{match: track=canary, share: 100%}", FLEET);
	assert_int_equal(count_in(&b), KEYS);
	b.request.key = NULL;
	b.request.random = UINT64_MAX;
	assert_int_equal(bench_run(&b), 2);
	bench_done(&b);
}

static void a_key_that_is_in_stays_in_when_the_share_grows(void **state)
{
	static const char *const options[] = {
		"{match: track=canary, share: 5%}",
		"{match: track=canary, share: 10%}",
		"{match: track=canary, share: 50%}",
	};
	struct stage_bench b[3];
	char key[32];

	(void) state;
	for (size_t s = 0; s < 3; s++)
		bench_init(&b[s], options[s], FLEET);
	for (size_t i = 0; i < KEYS / 4; i++) {
		bool in[3];

		for (size_t s = 0; s < 3; s++) {
			write_key(&b[s], key, sizeof(key), i);
			in[s] = bench_run(&b[s]) == 2;
		}
		assert_true(in[0] <= in[1] && in[1] <= in[2]);
	}
	for (size_t s = 0; s < 3; s++)
		bench_done(&b[s]);
}

static void a_key_decides_alike_whatever_the_endpoints_and_the_hour(void **state)
{
	struct stage_bench a, b;
	char key[32];

	(void) state;
	bench_init(&a, "{match: track=canary, share: 30%}", FLEET);
	bench_init(&b, "{match: track=canary, share: 30%}", "x y^track:canary z^track:canary w v");
	for (size_t i = 0; i < 1000; i++) {
		write_key(&a, key, sizeof(key), i);
		write_key(&b, key, sizeof(key), i);
		a.request.random = i;
		b.request.random = UINT64_MAX - i;
		assert_int_equal(bench_run(&a) == 2, bench_run(&b) == 2);
	}
	bench_done(&a);
	bench_done(&b);
}

/* Half of those in for one service are in for another: not the same few meet every canary. */
static void services_choose_different_keys(void **state)
{
	struct stage_bench a, b;
	char key[32];
	double both = 0;

	(void) state;
	bench_init(&a, "{match: track=canary, share: 50%}", FLEET);
	bench_init(&b, "{match: track=canary, share: 50%}", FLEET);
	b.view.service = "orders";
	for (size_t i = 0; i < KEYS / 10; i++) {
		write_key(&a, key, sizeof(key), i);
		write_key(&b, key, sizeof(key), i);
		both += bench_run(&a) == 2 && bench_run(&b) == 2;
	}
	assert_true(fabs(both - KEYS / 40.0) < 5 * sqrt(KEYS / 10.0 * 3 / 16));
	bench_done(&a);
	bench_done(&b);
}

static void who_decides_is_chosen_by_option(void **state)
{
	static const struct {
		const char *options;
		bool key_decides; /* the same key, always the same */
		bool without_key; /* whether requests without one may be in */
	} rows[] = {
		{ "{match: track=canary, share: 50%}", true, true },
		{ "{match: track=canary, share: 50%, by: auto}", true, true },
		{ "{match: track=canary, share: 50%, by: key}", true, false },
		{ "{match: track=canary, share: 50%, by: random}", false, true },
	};

	(void) state;
	for (size_t r = 0; r < sizeof(rows) / sizeof(*rows); r++) {
		struct stage_bench b;
		size_t with_key = 0, without = 0;

		bench_init(&b, rows[r].options, FLEET);
		for (size_t i = 0; i < 1000; i++) {
			b.request.random = i * UINT64_C(0x9e3779b97f4a7c15);
			b.request.key = "user-42";
			with_key += bench_run(&b) == 2;
			b.request.key = i % 2 ? NULL : "";
			without += bench_run(&b) == 2;
		}
		assert_int_equal(with_key % 1000 == 0, rows[r].key_decides);
		assert_int_equal(without > 400 && without < 600, rows[r].without_key);
		assert_int_equal(without == 0, !rows[r].without_key);
		bench_done(&b);
	}
}

static void those_of_the_share_get_canaries_and_the_rest_the_others(void **state)
{
	static const struct {
		const char *options, *endpoints, *expected;
		bool final;
	} rows[] = {
		{ "{match: track=canary, share: 100%}", FLEET, "d e", false },
		{ "{match: track=canary, share: 0%}", FLEET, "a b c", true },
		/* none of them is usable any more: on_empty rules */
		{ "{match: track=canary, share: 100%}", "a b", "", false },
		{ "{match: track=canary, share: 100%}", "a b d-^track:canary", "", false },
		{ "{match: track=canary, share: 100%}", "a b d*0^track:canary", "", false },
		/* they are all that is left: the rest gets nothing, and on_empty is not asked */
		{ "{match: track=canary, share: 0%}", "d^track:canary", "", true },
		/* fewer than the minimum are none */
		{ "{match: track=canary, share: 100%, minimum: 2}", FLEET, "d e", false },
		{ "{match: track=canary, share: 100%, minimum: 3}", FLEET, "", false },
		{ "{match: track=canary, share: 0%, minimum: 3}", FLEET, "a b c", true },
		{ "{match: [track, track!=stable], share: 100%}", FLEET, "d e", false },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct stage_bench b;

		bench_init(&b, rows[i].options, rows[i].endpoints);
		(void) bench_run(&b);
		assert_string_equal(bench_kept(&b), rows[i].expected);
		assert_int_equal(b.pass.final, rows[i].final);
		bench_done(&b);
	}
}

static void it_says_who_decided_and_why_others_left(void **state)
{
	struct stage_bench b;

	(void) state;
	bench_init(&b, "{match: track=canary, share: 100%}", FLEET);
	b.request.key = "user-42";
	(void) bench_run(&b);
	assert_string_equal(b.told, "this request, by its key, is of the 100% for canaries");
	assert_string_equal(bench_why(&b, "a"),
			"no canary, and this request is for one: has no label track, asked for is "
			"track=canary");
	bench_endpoints(&b, "a d*0^track:canary");
	(void) bench_run(&b);
	assert_string_equal(b.told,
			"this request, by chance, is of the 100% for canaries, but 0 of them are "
			"usable and 1 are wanted");
	assert_string_equal(bench_why(&b, "d"), "a canary, but too few of them are usable");
	bench_done(&b);

	bench_init(&b, "{match: track=canary, share: 0%}", FLEET);
	(void) bench_run(&b);
	assert_string_equal(b.told, "this request, by chance, is not of the 0% for canaries");
	assert_string_equal(bench_why(&b, "d"), "a canary, and this request is not for one");
	bench_endpoints(&b, "d^track:canary");
	(void) bench_run(&b);
	assert_string_equal(b.told,
			"this request, by chance, is not of the 0% for canaries, and there is "
			"nobody else");
	bench_done(&b);

	bench_init(&b, "{match: track=canary, share: 2.5%, by: key}", FLEET);
	(void) bench_run(&b);
	assert_string_equal(b.told, "this request, without a key, is not of the 2.5% for canaries");
	bench_done(&b);
}

/* What follows chooses by the same random bits: of those in by chance it must not see a corner. */
static void those_in_by_chance_have_random_bits_of_all_kinds(void **state)
{
	struct stage_bench b;
	size_t in = 0, high = 0;

	(void) state;
	bench_init(&b, "{match: track=canary, share: 5%}", FLEET);
	for (size_t i = 0; i < KEYS; i++) {
		b.request.random = i * UINT64_C(0x9e3779b97f4a7c15);
		if (bench_run(&b) != 2)
			continue;
		in++;
		high += b.request.random >> 63;
	}
	assert_true(fabs((double) high - (double) in / 2) < 5 * sqrt((double) in / 4));
	bench_done(&b);
}

static void options_are_checked(void **state)
{
	(void) state;
	assert_options_refused("{share: 5%}", "needs the option \"match\"");
	assert_options_refused("{match: track=canary}", "needs the option \"share\"");
	assert_options_refused("{match: '=x', share: 5%}", "is wrong at character 1");
	assert_options_refused("{match: a, share: 5%, minimum: 0}", "0 is not in 1..");
	assert_true(usher_plugin.stage->looks_at_request);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_share_of_many_keys_is_the_share),
		cmocka_unit_test(nobody_is_in_at_0_and_everybody_at_100_percent),
		cmocka_unit_test(a_key_that_is_in_stays_in_when_the_share_grows),
		cmocka_unit_test(a_key_decides_alike_whatever_the_endpoints_and_the_hour),
		cmocka_unit_test(services_choose_different_keys),
		cmocka_unit_test(who_decides_is_chosen_by_option),
		cmocka_unit_test(those_of_the_share_get_canaries_and_the_rest_the_others),
		cmocka_unit_test(it_says_who_decided_and_why_others_left),
		cmocka_unit_test(those_in_by_chance_have_random_bits_of_all_kinds),
		cmocka_unit_test(options_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
