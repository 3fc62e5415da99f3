/* Selectors of labels: what they mean, where they are wrong, and what they tell. */

#include <usher/match.h>

#include "endpoint-sets.h"

#define ELEMENTS(array) (sizeof(array) / sizeof(*(array)))

/* d has no label tier, that of c is empty. */
#define TIERS "a^tier:gold b^tier:silver c^tier: d"

static int parse(const char *text, struct usher_match **ret, struct usher_error *reterr)
{
	const char *const texts[] = { text, NULL };

	return usher_match_new(texts, ret, reterr);
}

static void assert_matched(const struct usher_match *m, const char *expected)
{
	struct usher_endpoints *set = set_of(TIERS);
	char ids[8] = "", why[160];

	for (size_t i = 0; i < usher_endpoints_count(set); i++) {
		usher_match_explain(m, set, i, why, sizeof(why));
		assert_int_equal(usher_match_holds(m, set, i), strcmp(why, "matches") == 0);
		if (usher_match_holds(m, set, i))
			strcat(ids, usher_endpoints_id(set, i));
	}
	assert_string_equal(ids, expected);
	(void) usher_endpoints_unref(set);
}

static void selectors_are_those_of_kubernetes(void **state)
{
	static const struct {
		const char *text, *expected;
	} rows[] = {
		{ "tier=gold", "a" },
		{ "tier==gold", "a" },
		{ "tier = gold", "a" },
		{ "tier!=gold", "bcd" },
		{ "tier in (gold, silver)", "ab" },
		{ "tier in (gold,silver,)", "abc" },
		{ "tier notin (gold, silver)", "cd" },
		{ "tier", "abc" },
		{ "!tier", "d" },
		{ "tier=", "c" },
		{ "tier!=", "abd" },
		{ "tier!=gold,tier", "bc" },
		{ "in", "" },
		{ "notin=in", "" },
		{ "inner!=x", "abcd" },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS(rows); i++) {
		struct usher_match *m = NULL;
		struct usher_error err = {};

		if (parse(rows[i].text, &m, &err) < 0)
			fail_msg("%s: %s", rows[i].text, err.text);
		print_message("%s\n", rows[i].text);
		assert_matched(m, rows[i].expected);
		assert_null(usher_match_free(m));
	}
}

static void of_several_texts_all_must_hold(void **state)
{
	static const char *const neither[] = { "tier!=gold", "tier!=silver", NULL };
	static const char *const both[] = { "tier=gold", "tier=silver", NULL };
	struct usher_match *m = NULL;

	(void) state;
	assert_ok(usher_match_new(neither, &m, NULL));
	assert_matched(m, "cd");
	(void) usher_match_free(m);
	assert_ok(usher_match_new(both, &m, NULL));
	assert_matched(m, "");
	(void) usher_match_free(m);
}

static void a_mistake_is_told_with_its_place(void **state)
{
	static const struct {
		const char *text, *expected;
	} rows[] = {
		{ "", "expected the name of a label" },
		{ "a=b,", "\"a=b,\" ends too early: expected the name of a label" },
		{ "=b", "is wrong at character 1 (\"=b\")" },
		{ "a in gold", "is wrong at character 6 (\"gold\"): expected \"(\"" },
		{ "a in (gold", "ends too early: expected \",\" or \")\"" },
		{ "a in (b c)", "is wrong at character 9" },
		{ "a b", "expected \",\", the end, or one of the operators" },
		{ "a>3", "is wrong at character 2" },
		{ "!", "ends too early" },
		{ "!a=b", "is wrong at character 3" },
		{ "a=b=c", "is wrong at character 4" },
	};
	static const char *const none[] = { NULL };
	struct usher_match *m = NULL;
	struct usher_error err = {};

	(void) state;
	for (size_t i = 0; i < ELEMENTS(rows); i++) {
		assert_errno(parse(rows[i].text, &m, &err), EINVAL);
		if (!strstr(err.text, rows[i].expected))
			fail_msg("%s: %s", rows[i].text, err.text);
	}
	assert_errno(usher_match_new(none, &m, &err), EINVAL);
	assert_string_equal(err.text,
			"match is empty: name at least one selector, such as \"tier=gold\"");
	assert_errno(usher_match_new(NULL, &m, NULL), EINVAL);
	assert_null(m);
}

static void what_is_missed_is_told(void **state)
{
	struct usher_endpoints *set = set_of(TIERS);
	struct usher_match *m = NULL;
	char why[160];

	(void) state;
	assert_ok(parse("tier in (gold, bronze)", &m, NULL));
	usher_match_explain(m, set, 1, why, sizeof(why));
	assert_string_equal(why, "label tier is silver, asked for is tier in (gold, bronze)");
	usher_match_explain(m, set, 3, why, sizeof(why));
	assert_string_equal(why, "has no label tier, asked for is tier in (gold, bronze)");
	(void) usher_match_free(m);
	(void) usher_endpoints_unref(set);
}

static void what_is_taken_is_bounded(void **state)
{
	char text[8192] = "a in (";
	struct usher_match *m = NULL;

	(void) state;
	for (int i = 0; i < USHER_MATCH_VALUES_MAX; i++)
		strcat(text, i ? ",x" : "x");
	assert_ok(parse(strcat(text, ")"), &m, NULL));
	(void) usher_match_free(m);
	text[strlen(text) - 1] = '\0';
	assert_errno(parse(strcat(text, ",x)"), &m, NULL), E2BIG);

	strcpy(text, "a");
	for (int i = 1; i < USHER_MATCH_SELECTORS_MAX; i++)
		strcat(text, ",a");
	assert_ok(parse(text, &m, NULL));
	(void) usher_match_free(m);
	assert_errno(parse(strcat(text, ",a"), &m, NULL), E2BIG);

	memset(text, 'a', USHER_TEXT_MAX + 1);
	text[USHER_TEXT_MAX + 1] = '\0';
	assert_errno(parse(text, &m, NULL), E2BIG);
}

static int parse_and_free(void *userdata)
{
	struct usher_match *m = NULL;
	struct usher_error err = {};
	int r = parse(userdata, &m, &err);

	if (r < 0)
		assert_string_equal(err.text, "out of memory");
	(void) usher_match_free(m);
	return r;
}

static void every_failing_allocation_is_survived(void **state)
{
	static char text[] = "a=b, !c, d in (e, f,), g";

	(void) state;
	assert_survives_oom(parse_and_free, text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(selectors_are_those_of_kubernetes),
		cmocka_unit_test(of_several_texts_all_must_hold),
		cmocka_unit_test(a_mistake_is_told_with_its_place),
		cmocka_unit_test(what_is_missed_is_told),
		cmocka_unit_test(what_is_taken_is_bounded),
		cmocka_unit_test(every_failing_allocation_is_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
