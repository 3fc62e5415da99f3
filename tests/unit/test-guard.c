/* Sudden mass removals are held back; ordinary ones are not. */

#include "endpoint-sets.h"
#include "guard.h"

/* What a rollout works for: every endpoint whose id begins with "x", as the incarnation "u1" or
 * without any. */
static bool begins_with_x(void *userdata, const char *id, const char *uid)
{
	(void) userdata;
	return id[0] == 'x' && (!uid || strcmp(uid, "u1") == 0);
}

static const struct guard_case {
	const char *in_force, *offer;
	size_t removed, known;
	double share;
	enum usher_verdict verdict;
	bool holds;
	const char *retained; /* what is in force while it is held back */
} cases[] = {
	{ "a b c d", "a b c d", 0, 4, 0.5, USHER_FRESH, false, "a b c d" },
	{ "a b c d", "a b", 2, 4, 0.5, USHER_FRESH, false, "a b c d" },
	{ "a b c d", "a", 3, 4, 0.5, USHER_FRESH, true, "a b c d" },
	{ "a b c d", "", 4, 4, 0.5, USHER_FRESH, true, "a b c d" },
	{ "a", "", 1, 1, 0.5, USHER_FRESH, true, "a" },
	{ "", "", 0, 0, 0.5, USHER_FRESH, false, "" },
	{ "", "a", 0, 0, 0, USHER_FRESH, false, "a" },
	/* 0%: any removal; 100%: none */
	{ "a b c d", "a b c", 1, 4, 0, USHER_FRESH, true, "a b c d" },
	{ "a b c d", "", 4, 4, 1, USHER_FRESH, false, "a b c d" },
	/* a source that doubts itself is held back for less, but not for growing */
	{ "a b c d", "a b c", 1, 4, 0.5, USHER_SUSPECT, true, "a b c d" },
	{ "a b c d", "a b c d e", 0, 4, 0.5, USHER_SUSPECT, false, "a b c d e" },
	{ "a b c d", "", 4, 4, 1, USHER_SUSPECT, false, "a b c d" },
	/* all are replaced: the new ones are in force at once */
	{ "a b c", "d e f", 3, 3, 0.5, USHER_FRESH, true, "a b c d e f" },
	/* the same places under new names are not removed, nor are new incarnations */
	{ "a@10.0.0.1:80 b@10.0.0.2:80", "c@10.0.0.1:80 d@10.0.0.2:80", 0, 2, 0.5, USHER_FRESH,
			false, "c d" },
	{ "a#u1 b#u1", "a#u2 b#u2", 0, 2, 0.5, USHER_FRESH, false, "a b" },
	/* what a rollout takes out counts neither way */
	{ "a x1 x2 x3", "a", 0, 1, 0.5, USHER_FRESH, false, "a" },
	{ "a x1", "", 1, 1, 0.5, USHER_FRESH, true, "a" },
	{ "x1 x2", "", 0, 0, 0, USHER_FRESH, false, "" },
	{ "x1#u2 x2#u1", "", 1, 1, 0.5, USHER_FRESH, true, "x1" },
};

static void removals_are_judged_as_the_table_says(void **state)
{
	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct guard_case *c = &cases[i];
		struct usher_endpoints *in_force = set_of(c->in_force), *offer = set_of(c->offer);
		struct usher_endpoints *retained;
		struct removal removal;

		print_message("case %zu\n", i);
		assert_ok(guard_compare(in_force, offer, begins_with_x, NULL, &removal));
		assert_int_equal(removal.removed, c->removed);
		if (removal.removed > 0)
			assert_int_equal(removal.known, c->known);
		assert_int_equal(guard_holds(&removal, c->verdict, c->share), c->holds);
		assert_ok(guard_retain(in_force, offer, begins_with_x, NULL, &retained));
		assert_string_equal(ids_of(retained), c->retained);
		(void) usher_endpoints_unref(retained);
		(void) usher_endpoints_unref(in_force);
		(void) usher_endpoints_unref(offer);
	}
}

static void what_is_retained_is_the_new_form_of_what_stays(void **state)
{
	struct usher_endpoints *in_force = set_of("a*1 b*1 c"), *offer = set_of("a*5"), *retained;
	struct usher_endpoint e;

	(void) state;
	assert_ok(guard_retain(in_force, offer, NULL, NULL, &retained));
	usher_endpoints_get(retained, 0, &e);
	assert_int_equal(e.weight, 5);
	assert_string_equal(ids_of(retained), "a b c");
	(void) usher_endpoints_unref(retained);
	(void) usher_endpoints_unref(in_force);
	(void) usher_endpoints_unref(offer);
}

static int compare_and_retain(void *userdata)
{
	struct usher_endpoints **sets = userdata, *retained;
	struct removal removal;
	int r;

	r = guard_compare(sets[0], sets[1], NULL, NULL, &removal);
	if (r < 0)
		return r;
	r = guard_retain(sets[0], sets[1], NULL, NULL, &retained);
	if (r < 0)
		return r;
	(void) usher_endpoints_unref(retained);
	return memory_is_short() ? -ENOMEM : 0;
}

static void guarding_survives_the_lack_of_memory(void **state)
{
	struct usher_endpoints *sets[2] = { set_of("a b c"), set_of("c d") };

	(void) state;
	assert_survives_oom(compare_and_retain, sets);
	(void) usher_endpoints_unref(sets[0]);
	(void) usher_endpoints_unref(sets[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(removals_are_judged_as_the_table_says),
		cmocka_unit_test(what_is_retained_is_the_new_form_of_what_stays),
		cmocka_unit_test(guarding_survives_the_lack_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
