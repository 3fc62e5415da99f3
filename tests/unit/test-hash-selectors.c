/* ring_hash and maglev: the same key goes to the same endpoint, as few keys as possible move, and
 * weights count. */

#include <math.h>

#include "selecting.h"

static const char *const names[] = { "ring_hash", "maglev" };

#define KEYS 20000

static ssize_t select_key(struct selecting *s, const char *key)
{
	struct usher_request request = {
		.size = sizeof(request), .key = key, .random = random_next(&s->random)
	};

	return select_for(s, &request);
}

static const char *key_at(size_t i)
{
	static char key[32];

	(void) snprintf(key, sizeof(key), "session-%zu", i);
	return key;
}

/* The endpoints that the keys go to, by index in the set. */
static uint32_t *owners_of_keys(struct selecting *s)
{
	uint32_t *owners = calloc(KEYS, sizeof(*owners));

	for (size_t i = 0; i < KEYS; i++) {
		ssize_t position = select_key(s, key_at(i));

		assert_true(position >= 0);
		owners[i] = s->choice.candidates[position];
	}
	return owners;
}

static void leave_out(struct selecting *s, uint32_t endpoint)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->choice.count; i++)
		if (s->choice.candidates[i] != endpoint)
			s->choice.candidates[kept++] = s->choice.candidates[i];
	s->choice.count = kept;
}

static void a_key_stays_where_it_is(void **state)
{
	(void) state;
	for (size_t n = 0; n < ELEMENTS(names); n++) {
		struct selecting s;

		selecting_init_many(&s, names[n], NULL, 50);
		selecting_prepare(&s);
		for (size_t i = 0; i < 100; i++) {
			ssize_t first = select_key(&s, key_at(i));

			for (int k = 0; k < 20; k++)
				assert_int_equal(select_key(&s, key_at(i)), first);
		}
		selecting_done(&s);
	}
}

static void no_key_is_any_endpoint(void **state)
{
	(void) state;
	for (size_t n = 0; n < ELEMENTS(names); n++) {
		struct selecting s;
		bool seen[10] = {};

		selecting_init_many(&s, names[n], NULL, 10);
		selecting_prepare(&s);
		for (size_t i = 0; i < 1000; i++)
			seen[select_key(&s, i % 2 ? NULL : "")] = true;
		for (size_t i = 0; i < 10; i++)
			assert_true(seen[i]);
		selecting_done(&s);
	}
}

/* Nodes whose sets differ agree about what they have in common: it is the id that counts, not the
 * place in the set. */
static void nodes_with_other_endpoints_agree(void **state)
{
	(void) state;
	for (size_t n = 0; n < ELEMENTS(names); n++) {
		struct selecting s, other;
		size_t differ = 0, missing = 0;

		selecting_init(&s, names[n], "a b c d e f g h i j");
		selecting_init(&other, names[n], "b@1.2.3.4:5 c d e f g h i j");
		selecting_prepare(&s);
		selecting_prepare(&other);
		for (size_t i = 0; i < KEYS; i++) {
			const char *mine = usher_endpoints_id(
					s.choice.set, (size_t) select_key(&s, key_at(i)));
			const char *theirs = usher_endpoints_id(
					other.choice.set, (size_t) select_key(&other, key_at(i)));

			if (strcmp(mine, "a") == 0)
				missing++;
			else
				differ += strcmp(mine, theirs) != 0;
		}
		assert_in_range(missing, KEYS * 8 / 100, KEYS * 12 / 100);
		assert_in_range(differ, 0, KEYS / 100);
		selecting_done(&s);
		selecting_done(&other);
	}
}

/* Within what chance does to this many keys on top of what the table does: on the circle the places
 * of an endpoint are a draw of its share, in maglev they are its share. */
static void keys_are_spread_by_weight(void **state)
{
	static const char *const weights[] = { "a*1 b*1 c*1", "a*1 b*2 c*3", "a*7 b*13 c*0 d*101",
		"a*1 b*1000", "a*3 b*3 c*3 d*3 e*3 f*3 g*3 h*50", "a*99999 b*100000" };

	(void) state;
	for (size_t n = 0; n < ELEMENTS(names); n++)
		for (size_t w = 0; w < ELEMENTS(weights); w++) {
			struct selecting s;
			size_t counts[8] = {};

			selecting_init(&s, names[n], weights[w]);
			selecting_prepare(&s);
			for (size_t i = 0; i < KEYS; i++)
				counts[select_key(&s, key_at(i))]++;
			for (size_t i = 0; i < s.choice.count; i++) {
				double share = s.selector->share(s.instance->data, &s.choice.view,
						s.choice.candidates, s.choice.count, i);
				double deviation = sqrt(share * (1 - share) *
						(1.0 / KEYS + (n == 0 ? 1.0 / 16384 : 0)));

				assert_true(fabs((double) counts[i] / KEYS - share) <=
						5 * deviation + 0.0001);
			}
			selecting_done(&s);
		}
}

/* ---- what moves ---- */

/* The share of keys that were not on the endpoint that goes, and move all the same. */
static double moved_when_one_goes(const char *name, size_t count, uint32_t gone)
{
	struct selecting s;
	uint32_t *before, *after;
	size_t moved = 0;

	selecting_init_many(&s, name, NULL, count);
	for (size_t i = 0; i < count; i++)
		s.choice.weights[i] = (uint32_t) (1 + i % 5) * USHER_WEIGHT_UNIT;
	selecting_prepare(&s);
	before = owners_of_keys(&s);
	leave_out(&s, gone);
	selecting_prepare(&s);
	after = owners_of_keys(&s);
	for (size_t i = 0; i < KEYS; i++) {
		assert_int_not_equal(after[i], gone);
		moved += before[i] != gone && before[i] != after[i];
	}
	free(before);
	free(after);
	selecting_done(&s);
	return (double) moved / KEYS;
}

/* One that comes is one that goes, looked at from the other end. */
static void few_other_keys_move_when_one_goes(void **state)
{
	static const struct {
		const char *name;
		size_t count;
		double at_most; /* of all keys, beside those of the endpoint that goes */
	} cases[] = {
		{ "ring_hash", 3, 0.01 },
		{ "ring_hash", 10, 0.01 },
		{ "ring_hash", 100, 0.001 },
		{ "ring_hash", 3000, 0.001 },
		{ "maglev", 3, 0.06 },
		{ "maglev", 10, 0.06 },
		{ "maglev", 100, 0.03 },
		{ "maglev", 1000, 0.02 },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS(cases); i++)
		for (uint32_t gone = 0; gone < 3; gone++) {
			double moved = moved_when_one_goes(cases[i].name, cases[i].count, gone);

			print_message("%s, %zu endpoints: %.2f%% of the keys of others move\n",
					cases[i].name, cases[i].count, 100 * moved);
			assert_true(moved <= cases[i].at_most);
		}
}

static void few_keys_move_when_a_weight_changes(void **state)
{
	(void) state;
	for (size_t n = 0; n < ELEMENTS(names); n++) {
		struct selecting s;
		uint32_t *before, *after;
		size_t moved = 0;

		selecting_init_many(&s, names[n], NULL, 20);
		selecting_prepare(&s);
		before = owners_of_keys(&s);
		s.choice.weights[4] = USHER_WEIGHT_UNIT / 2;
		selecting_prepare(&s);
		after = owners_of_keys(&s);
		for (size_t i = 0; i < KEYS; i++)
			moved += before[i] != after[i];
		/* half of a twentieth has to */
		assert_in_range(moved, KEYS * 15 / 1000, KEYS * 60 / 1000);
		free(before);
		free(after);
		selecting_done(&s);
	}
}

/* ---- candidates that a stage has left ---- */

static void keys_of_those_that_a_stage_left_stay(void **state)
{
	(void) state;
	for (size_t n = 0; n < ELEMENTS(names); n++) {
		struct selecting s;
		uint32_t *before, *after;
		size_t counts[20] = {}, gone = 0;

		selecting_init_many(&s, names[n], NULL, 20);
		assert_true(s.selector->flags & USHER_SELECTOR_SUBSETS);
		selecting_prepare(&s);
		before = owners_of_keys(&s);
		leave_out(&s, 7);
		leave_out(&s, 8);
		after = owners_of_keys(&s);
		for (size_t i = 0; i < KEYS; i++) {
			if (before[i] != 7 && before[i] != 8) {
				assert_int_equal(after[i], before[i]);
				continue;
			}
			gone++;
			counts[after[i]]++;
		}
		/* Everyone takes some over, not the neighbours alone. */
		for (size_t i = 0; i < 20; i++)
			assert_in_range(counts[i], i == 7 || i == 8 ? 0 : gone / 40, gone / 9);
		free(before);
		free(after);
		selecting_done(&s);
	}
}

static void a_few_of_many_are_found(void **state)
{
	(void) state;
	for (size_t n = 0; n < ELEMENTS(names); n++) {
		struct selecting s;
		size_t counts[3] = {};

		selecting_init_many(&s, names[n], NULL, 3000);
		s.choice.weights[2000] = 2 * USHER_WEIGHT_UNIT;
		selecting_prepare(&s);
		s.choice.candidates[0] = 5;
		s.choice.candidates[1] = 2000;
		s.choice.candidates[2] = 2999;
		s.choice.count = 3;
		for (size_t i = 0; i < KEYS; i++) {
			ssize_t position = select_key(&s, key_at(i));

			assert_int_equal(select_key(&s, key_at(i)), position);
			counts[position]++;
		}
		assert_in_range(counts[0], KEYS * 23 / 100, KEYS * 27 / 100);
		assert_in_range(counts[1], KEYS * 48 / 100, KEYS * 52 / 100);
		selecting_done(&s);
	}
}

static void nobody_is_chosen_of_a_subset_without_weight(void **state)
{
	(void) state;
	for (size_t n = 0; n < ELEMENTS(names); n++) {
		struct selecting s;

		selecting_init(&s, names[n], "a*1 b*0 c*0 d*1");
		selecting_prepare(&s);
		leave_out(&s, 0);
		leave_out(&s, 3);
		assert_int_equal(select_key(&s, "k"), -1);
		selecting_done(&s);
	}
}

/* ---- each its own ---- */

/* Without a key the random number is the hash, so that the places can be told one by one. */
static ssize_t owner_of_place(struct selecting *s, uint64_t place, uint64_t places)
{
	unsigned __int128 first = (((unsigned __int128) place << 64) + places - 1) / places;
	struct usher_request request = { .size = sizeof(request), .random = (uint64_t) first };

	return select_for(s, &request);
}

static void maglev_gives_each_its_places_to_within_one(void **state)
{
	static const char *const weights[] = { "a*1 b*1 c*1", "a*1 b*2 c*3 d*0 e*7",
		"a*1 b*1000 c*100000", "a*99991 b*99989 c*1" };
	const uint64_t places = 65537;

	(void) state;
	for (size_t w = 0; w < ELEMENTS(weights); w++) {
		struct selecting s;
		uint64_t counts[8] = {};

		selecting_init(&s, "maglev", weights[w]);
		selecting_prepare(&s);
		for (uint64_t i = 0; i < places; i++)
			counts[owner_of_place(&s, i, places)]++;
		for (size_t i = 0; i < s.choice.count; i++) {
			double due = (double) places *
					s.selector->share(s.instance->data, &s.choice.view,
							s.choice.candidates, s.choice.count, i);

			assert_true(fabs((double) counts[i] - due) < 2);
			assert_int_equal(counts[i] > 0, s.choice.weights[i] > 0);
		}
		selecting_done(&s);
	}
}

/* The heaviest and the lightest that there are, and more of them than places in the table. */
static void everyone_with_weight_has_a_place(void **state)
{
	static const struct {
		const char *name;
		size_t count;
		uint64_t places;
	} cases[] = { { "ring_hash", 2000, 16384 }, { "maglev", 2000, 65537 },
		{ "maglev", 40000, 80021 }, { "ring_hash", 40000, 262144 } };

	(void) state;
	for (size_t c = 0; c < ELEMENTS(cases); c++) {
		struct selecting s;
		bool *seen = calloc(cases[c].count, sizeof(*seen));

		selecting_init_many(&s, cases[c].name, NULL, cases[c].count);
		s.choice.weights[17] = 1;
		s.choice.weights[18] = USHER_WEIGHT_MAX * USHER_WEIGHT_UNIT / 100;
		selecting_prepare(&s);
		for (uint64_t i = 0; i < cases[c].places; i++)
			seen[owner_of_place(&s, i, cases[c].places)] = true;
		for (size_t i = 0; i < cases[c].count; i++)
			assert_true(seen[i]);
		free(seen);
		selecting_done(&s);
	}
}

/* ---- bounded load ---- */

/* One key for all of the requests, none of which ends. */
static void bounded_load_keeps_a_hot_key_within_bounds(void **state)
{
	struct selecting s;
	uint32_t active[10] = {};

	(void) state;
	selecting_init_with(&s, "ring_hash", "{bounded_load: 125%}", "a b c d e f g*2 h i j*0");
	s.choice.view.active = active;
	selecting_prepare(&s);
	for (uint32_t open = 1; open <= 2000; open++) {
		ssize_t position = select_key(&s, "hot");

		assert_true(position >= 0);
		active[position]++;
		for (size_t i = 0; i < 10; i++)
			assert_true(active[i] <= ceil(1.25 * open * s.choice.weights[i] / 10));
	}
	selecting_done(&s);
}

static void bounded_load_leaves_keys_where_there_is_room(void **state)
{
	struct selecting s, unbounded;
	uint32_t active[10] = { 3, 3, 3, 3, 3, 3, 3, 3, 3, 3 };

	(void) state;
	selecting_init_with(&s, "ring_hash", "{bounded_load: 200%}", "a b c d e f g h i j");
	selecting_init(&unbounded, "ring_hash", "a b c d e f g h i j");
	s.choice.view.active = active;
	selecting_prepare(&s);
	selecting_prepare(&unbounded);
	for (size_t i = 0; i < 1000; i++)
		assert_int_equal(select_key(&s, key_at(i)), select_key(&unbounded, key_at(i)));
	selecting_done(&s);
	selecting_done(&unbounded);
}

/* ---- options ---- */

static void check_refused(const char *name, const char *options, const char *words)
{
	struct plugin_instance *instance = NULL;
	struct usher_error err = {};
	int r = selection_new(name, options, FACET_SELECTOR, &instance, &err);

	if (r >= 0)
		fail_msg("%s %s is taken", name, options);
	if (!strstr(err.text, words))
		fail_msg("%s %s: \"%s\" does not say \"%s\"", name, options, err.text, words);
}

static void options_that_make_no_sense_are_refused(void **state)
{
	(void) state;
	check_refused("maglev", "{table_size: 65536}", "the next ones are 65521 and 65537");
	check_refused("maglev", "{table_size: 2}", "3");
	check_refused("maglev", "{table_size: 5000012}", "5000011");
	check_refused("ring_hash", "{min_size: 1000}", "not a power of two");
	check_refused("ring_hash", "{min_size: 2048, max_size: 1024}", "above max_size");
	check_refused("ring_hash", "{bounded_load: 1.25}", "percentage");
	check_refused("ring_hash", "{bounded_load: 100%}", "not above 100%");
	check_refused("ring_hash", "{bounded_load: 1001%}", "1000%");
}

/* From all alike to one that outweighs all others together, with as many as places and with few. */
static void weights_of_any_kind_fill_the_table(void **state)
{
	(void) state;
	for (int round = 0; round < 300; round++) {
		struct selecting s;

		selecting_init_many(&s, names[round % 2],
				round % 2 ? "{table_size: 251}" : "{min_size: 256, max_size: 256}",
				1 + (size_t) round * 5 / 6);
		for (size_t i = 0; i < s.choice.count; i++)
			s.choice.weights[i] = (uint32_t) (1 +
					random_below(&s.random,
							UINT64_C(1) << random_below(
									&s.random, 27)));
		selecting_prepare(&s);
		for (uint64_t i = 0; i < 251; i++)
			assert_true(owner_of_place(&s, i, 251) >= 0);
		selecting_done(&s);
	}
}

static void tables_of_any_size_work(void **state)
{
	static const char *const options[][2] = { { "ring_hash", "{min_size: 1, max_size: 1}" },
		{ "ring_hash", "{min_size: 1, max_size: 64}" },
		{ "ring_hash", "{min_size: 2097152, max_size: 2097152}" },
		{ "maglev", "{table_size: 3}" }, { "maglev", "{table_size: 1000003}" } };

	(void) state;
	for (size_t i = 0; i < ELEMENTS(options); i++) {
		struct selecting s;

		selecting_init_with(&s, options[i][0], options[i][1], "a*5 b*0 c*1 d*100000");
		selecting_prepare(&s);
		for (size_t k = 0; k < 1000; k++)
			assert_true(select_key(&s, key_at(k)) >= 0);
		selecting_done(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_stays_where_it_is),
		cmocka_unit_test(no_key_is_any_endpoint),
		cmocka_unit_test(nodes_with_other_endpoints_agree),
		cmocka_unit_test(keys_are_spread_by_weight),
		cmocka_unit_test(few_other_keys_move_when_one_goes),
		cmocka_unit_test(few_keys_move_when_a_weight_changes),
		cmocka_unit_test(keys_of_those_that_a_stage_left_stay),
		cmocka_unit_test(a_few_of_many_are_found),
		cmocka_unit_test(nobody_is_chosen_of_a_subset_without_weight),
		cmocka_unit_test(maglev_gives_each_its_places_to_within_one),
		cmocka_unit_test(everyone_with_weight_has_a_place),
		cmocka_unit_test(bounded_load_keeps_a_hot_key_within_bounds),
		cmocka_unit_test(bounded_load_leaves_keys_where_there_is_room),
		cmocka_unit_test(options_that_make_no_sense_are_refused),
		cmocka_unit_test(weights_of_any_kind_fill_the_table),
		cmocka_unit_test(tables_of_any_size_work),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
