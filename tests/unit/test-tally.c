/* What is remembered of endpoints from one snapshot to the next. */

#include "endpoint-sets.h"
#include "last-choices.h"
#include "tally.h"

#define SEC UINT64_C(1000000)

static void open_requests_are_those_in_flight_and_the_picks(void **state)
{
	struct tally t;

	(void) state;
	assert_ok(tally_init(&t, 2, 0, SEC));
	assert_int_equal(t.active[0], 0);
	tally_picked(&t, 0);
	tally_picked(&t, 0);
	tally_set_in_flight(&t, 0, 3);
	tally_set_in_flight(&t, 1, 1);
	assert_int_equal(t.active[0], 5);
	assert_int_equal(t.active[1], 1);
	tally_reported(&t, 0, 1);
	assert_int_equal(t.active[0], 4);
	tally_reported(&t, 0, 1000); /* more than were picked here */
	assert_int_equal(t.active[0], 3);
	tally_set_in_flight(&t, 0, UINT64_MAX);
	assert_int_equal(t.active[0], UINT32_MAX);
	assert_null(tally_slot(&t, 1));
	tally_done(&t);
}

static void picks_that_nobody_answers_for_are_forgotten(void **state)
{
	struct tally t;

	(void) state;
	assert_ok(tally_init(&t, 1, 0, SEC));
	for (unsigned i = 0; i < 100; i++)
		tally_picked(&t, 0);
	tally_update(&t, SEC + TALLY_STEP_USEC - 1); /* not worth the while yet */
	assert_int_equal(t.active[0], 100);
	tally_update(&t, SEC + TALLY_DECAY_USEC);
	assert_int_equal(t.active[0], 37);
	for (uint64_t at = SEC + TALLY_DECAY_USEC; at <= SEC + 2 * TALLY_DECAY_USEC; at += SEC)
		tally_update(&t, at);
	assert_int_equal(t.active[0], 14);
	tally_update(&t, 1000 * SEC);
	assert_int_equal(t.active[0], 0);
	tally_update(&t, SEC); /* a clock that a caller read before */
	assert_int_equal(t.active[0], 0);
	tally_done(&t);
}

static void what_is_known_moves_with_its_endpoint(void **state)
{
	static const uint32_t origins[] = { 2, TALLY_NEW, 0 };
	struct tally from, to;

	(void) state;
	assert_ok(tally_init(&from, 3, sizeof(uint64_t), SEC));
	*(uint64_t *) tally_slot(&from, 0) = 7;
	*(uint64_t *) tally_slot(&from, 2) = 9;
	tally_picked(&from, 2);
	tally_set_in_flight(&from, 0, 4);
	assert_ok(tally_init(&to, 3, sizeof(uint64_t), 2 * SEC));
	tally_carry(&to, &from, origins, true);
	assert_int_equal(to.active[0], 1);
	assert_int_equal(to.active[1], 0);
	assert_int_equal(to.active[2], 4);
	assert_int_equal(*(uint64_t *) tally_slot(&to, 0), 9);
	assert_int_equal(*(uint64_t *) tally_slot(&to, 1), 0);
	assert_int_equal(*(uint64_t *) tally_slot(&to, 2), 7);
	tally_done(&to);

	/* another selector begins with zeros */
	assert_ok(tally_init(&to, 3, sizeof(uint64_t), 2 * SEC));
	tally_carry(&to, &from, origins, false);
	assert_int_equal(to.active[2], 4);
	assert_int_equal(*(uint64_t *) tally_slot(&to, 0), 0);
	tally_done(&to);
	tally_done(&from);
}

static int make(void *userdata)
{
	struct tally t;
	int r = tally_init(&t, 10, 8, SEC);

	(void) userdata;
	if (r >= 0)
		tally_done(&t);
	return r;
}

static void a_tally_is_made_whole_or_not_at_all(void **state)
{
	(void) state;
	assert_survives_oom(make, NULL);
}

/* ---- last choices ---- */

static void each_consumer_has_its_own_last_choice(void **state)
{
	struct last_choices *l = last_choices_new();

	(void) state;
	assert_int_equal(last_choices_get(l, "shop"), LAST_CHOICE_NONE);
	last_choices_put(l, "shop", 3);
	last_choices_put(l, "cart", 4);
	last_choices_put(l, "shop", 5);
	assert_int_equal(last_choices_get(l, "shop"), 5);
	assert_int_equal(last_choices_get(l, "cart"), 4);
	(void) last_choices_free(l);
}

static void a_last_choice_goes_with_its_endpoint(void **state)
{
	struct last_choices *l = last_choices_new();
	struct usher_endpoints *before = set_of("a b c"), *after = set_of("_ b d");

	(void) state;
	last_choices_put(l, "shop", 1);
	last_choices_put(l, "cart", 2);
	last_choices_move(l, before, before);
	assert_int_equal(last_choices_get(l, "shop"), 1);
	last_choices_move(l, before, after);
	assert_string_equal(usher_endpoints_id(after, last_choices_get(l, "shop")), "b");
	assert_int_equal(last_choices_get(l, "cart"), LAST_CHOICE_NONE);
	(void) last_choices_free(l);
	(void) usher_endpoints_unref(before);
	(void) usher_endpoints_unref(after);
}

static void as_many_consumers_as_there_are_cost_no_more_than_the_table(void **state)
{
	struct last_choices *l = last_choices_new();
	unsigned known = 0;
	char name[32];

	(void) state;
	for (uint32_t i = 0; i < 10 * LAST_CHOICES_MAX; i++) {
		(void) snprintf(name, sizeof(name), "consumer-%u", i);
		last_choices_put(l, name, i);
		assert_int_equal(last_choices_get(l, name), i);
	}
	for (uint32_t i = 0; i < 10 * LAST_CHOICES_MAX; i++) {
		(void) snprintf(name, sizeof(name), "consumer-%u", i);
		known += last_choices_get(l, name) == i;
	}
	assert_int_equal(known, LAST_CHOICES_MAX);
	(void) last_choices_free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(open_requests_are_those_in_flight_and_the_picks),
		cmocka_unit_test(picks_that_nobody_answers_for_are_forgotten),
		cmocka_unit_test(what_is_known_moves_with_its_endpoint),
		cmocka_unit_test(a_tally_is_made_whole_or_not_at_all),
		cmocka_unit_test(each_consumer_has_its_own_last_choice),
		cmocka_unit_test(a_last_choice_goes_with_its_endpoint),
		cmocka_unit_test(as_many_consumers_as_there_are_cost_no_more_than_the_table),
	};

	return cmocka_run_group_tests_name("tally", tests, NULL, NULL);
}
