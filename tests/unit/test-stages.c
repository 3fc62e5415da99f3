/* The stages ready and label: who stays, and why others leave. */

#include "selection.h"

/* Who stays, as ids, and why the first that left did. */
static void check(const char *stage, const char *options, const char *zone, const char *endpoints,
		const char *expected, const char *reason)
{
	struct plugin_instance *i = NULL;
	struct usher_error err = {};
	struct choice c;
	char ids[1024] = "", why[160] = "";
	size_t count, next = 0, length = 0;

	if (selection_new(stage, options, FACET_STAGE, &i, &err) < 0)
		fail_msg("%s %s: %s", stage, options, err.text);
	choice_init(&c, endpoints, zone);
	count = i->plugin->stage->filter(i->data, &c.view, NULL, c.candidates, c.count);
	for (uint32_t k = 0; k < c.count; k++) {
		if (next < count && c.candidates[next] == k) {
			length += (size_t) snprintf(ids + length, sizeof(ids) - length, "%s%s",
					next ? " " : "", usher_endpoints_id(c.set, k));
			next++;
		} else if (why[0] == '\0') {
			i->plugin->stage->explain(i->data, &c.view, NULL, k, why, sizeof(why));
		}
	}
	assert_string_equal(ids, expected);
	if (reason)
		assert_string_equal(why, reason);
	choice_done(&c);
	(void) plugin_instance_unref(i);
}

/* ---- ready ---- */

/* Each of the eight combinations of ready, serving and terminating, alone. Unknown conditions have
 * been resolved by the source: ready and serving to true, terminating to false. */
static void ready_judges_all_eight_combinations_of_conditions(void **state)
{
	static const struct {
		bool ready, serving, terminating;
		bool avoid, fallback, include;
	} rows[] = {
		{ false, false, false, false, false, false },
		{ false, false, true, false, false, false },
		{ false, true, false, false, false, false },
		{ false, true, true, false, true, true },
		{ true, false, false, true, true, true },
		{ true, false, true, false, true, true },
		{ true, true, false, true, true, true },
		{ true, true, true, false, true, true },
	};
	static const char *const options[] = { "terminating: avoid", "terminating: fallback",
		"terminating: include" };

	(void) state;
	for (size_t k = 0; k < 8; k++) {
		struct usher_endpoint e = USHER_ENDPOINT_INIT;
		struct usher_endpoints *set = usher_endpoints_new();
		const bool kept[] = { rows[k].avoid, rows[k].fallback, rows[k].include };
		uint32_t weight = 1;
		struct usher_view view = { sizeof(view), set, &weight, NULL };

		e.id = "a";
		e.address = "10.0.0.1";
		e.port = 80;
		e.ready = rows[k].ready;
		e.serving = rows[k].serving;
		e.terminating = rows[k].terminating;
		assert_ok(usher_endpoints_add(set, &e, NULL));
		usher_endpoints_seal(set);
		for (size_t o = 0; o < 3; o++) {
			struct plugin_instance *i = NULL;
			uint32_t candidate = 0;

			assert_ok(selection_new("ready", options[o], FACET_STAGE, &i, NULL));
			print_message("combination %zu, %s\n", k, options[o]);
			assert_int_equal(i->plugin->stage->filter(
							 i->data, &view, NULL, &candidate, 1),
					kept[o]);
			(void) plugin_instance_unref(i);
		}
		(void) usher_endpoints_unref(set);
	}
}

static void ready_uses_the_terminating_only_when_it_must(void **state)
{
	(void) state;
	check("ready", NULL, NULL, "a b~ c! d", "a d", "terminating, and others are ready");
	check("ready", NULL, NULL, "b~ c!", "b", "not ready");
	check("ready", NULL, NULL, "c!", "", "not ready");
	check("ready", "terminating: avoid", NULL, "a b~", "a",
			"terminating, and terminating is avoid");
	check("ready", "terminating: avoid", NULL, "b~", "", NULL);
	check("ready", "terminating: include", NULL, "a b~ c!", "a b", "not ready");
}

/* ---- label ---- */

static void labelled(
		struct usher_endpoints *set, const char *id, const char *name, const char *value)
{
	struct usher_endpoint e = USHER_ENDPOINT_INIT;
	struct usher_label label = { name, value };

	e.id = id;
	e.address = "10.0.0.1";
	e.port = 80;
	e.metadata = &label;
	e.metadata_count = name ? 1 : 0;
	assert_ok(usher_endpoints_add(set, &e, NULL));
}

/* a has tier=gold, b has tier=silver, c has tier="", d has no label tier. */
static struct usher_endpoints *tiers(void)
{
	struct usher_endpoints *set = usher_endpoints_new();

	labelled(set, "a", "tier", "gold");
	labelled(set, "b", "tier", "silver");
	labelled(set, "c", "tier", "");
	labelled(set, "d", NULL, NULL);
	usher_endpoints_seal(set);
	return set;
}

static void label_speaks_the_selectors_of_kubernetes(void **state)
{
	static const struct {
		const char *options, *expected;
	} rows[] = {
		{ "match: tier=gold", "a" },
		{ "match: tier==gold", "a" },
		{ "match: 'tier = gold'", "a" },
		{ "match: tier!=gold", "bcd" },
		{ "match: 'tier in (gold, silver)'", "ab" },
		{ "match: 'tier in (gold,silver,)'", "abc" },
		{ "match: 'tier notin (gold, silver)'", "cd" },
		{ "match: tier", "abc" },
		{ "match: '!tier'", "d" },
		{ "match: tier=", "c" },
		{ "match: 'tier!='", "abd" },
		{ "match: 'tier!=gold,tier'", "bc" },
		{ "match: [tier!=gold, tier!=silver]", "cd" },
		{ "match: [tier=gold, tier=silver]", "" },
		{ "match: in", "" },
		{ "match: notin=in", "" },
		{ "match: 'inner!=x'", "abcd" },
	};
	struct usher_endpoints *set = tiers();

	(void) state;
	for (size_t k = 0; k < ELEMENTS(rows); k++) {
		struct plugin_instance *i = NULL;
		struct usher_error err = {};
		uint32_t weights[4] = { 1, 1, 1, 1 }, candidates[4] = { 0, 1, 2, 3 };
		struct usher_view view = { sizeof(view), set, weights, NULL };
		char ids[8] = "";
		size_t count;

		if (selection_new("label", rows[k].options, FACET_STAGE, &i, &err) < 0)
			fail_msg("%s: %s", rows[k].options, err.text);
		count = i->plugin->stage->filter(i->data, &view, NULL, candidates, 4);
		for (size_t n = 0; n < count; n++)
			strcat(ids, usher_endpoints_id(set, candidates[n]));
		print_message("%s\n", rows[k].options);
		assert_string_equal(ids, rows[k].expected);
		(void) plugin_instance_unref(i);
	}
	(void) usher_endpoints_unref(set);
}

static void label_says_where_a_selector_is_wrong(void **state)
{
	static const struct {
		const char *options, *text;
	} rows[] = {
		{ "match: []", "match is empty" },
		{ "match: ''", "expected the name of a label" },
		{ "match: 'a=b,'", "\"a=b,\" ends too early: expected the name of a label" },
		{ "match: '=b'", "is wrong at character 1 (\"=b\")" },
		{ "match: 'a in gold'", "is wrong at character 6 (\"gold\"): expected \"(\"" },
		{ "match: 'a in (gold'", "ends too early: expected \",\" or \")\"" },
		{ "match: 'a in (b c)'", "is wrong at character 9" },
		{ "match: 'a b'", "expected \",\", the end, or one of the operators" },
		{ "match: 'a>3'", "is wrong at character 2" },
		{ "match: '!'", "ends too early" },
		{ "match: '!a=b'", "is wrong at character 3" },
		{ "match: 'a=b=c'", "is wrong at character 4" },
	};

	(void) state;
	for (size_t k = 0; k < ELEMENTS(rows); k++) {
		struct plugin_instance *i = NULL;
		struct usher_error err = {};

		assert_errno(selection_new("label", rows[k].options, FACET_STAGE, &i, &err),
				EINVAL);
		if (!strstr(err.text, rows[k].text))
			fail_msg("%s: %s", rows[k].options, err.text);
	}
	assert_int_equal(plugin_instances, 0);
}

static void label_tells_what_it_missed(void **state)
{
	struct usher_endpoints *set = tiers();
	struct plugin_instance *i = NULL;
	uint32_t weights[4] = { 1, 1, 1, 1 };
	struct usher_view view = { sizeof(view), set, weights, NULL };
	char why[160];

	(void) state;
	assert_ok(selection_new("label", "match: 'tier in (gold, bronze)'", FACET_STAGE, &i, NULL));
	i->plugin->stage->explain(i->data, &view, NULL, 1, why, sizeof(why));
	assert_string_equal(why, "label tier is silver, asked for is tier in (gold, bronze)");
	i->plugin->stage->explain(i->data, &view, NULL, 3, why, sizeof(why));
	assert_string_equal(why, "has no label tier, asked for is tier in (gold, bronze)");
	(void) plugin_instance_unref(i);
	(void) usher_endpoints_unref(set);
}

static void label_bounds_what_it_takes(void **state)
{
	char text[8192] = "match: 'a in (";
	struct plugin_instance *i = NULL;
	struct usher_error err = {};

	(void) state;
	for (int k = 0; k < 257; k++)
		strcat(text, "x,");
	strcat(text, "x)'");
	assert_errno(selection_new("label", text, FACET_STAGE, &i, &err), E2BIG);
	strcpy(text, "match: 'a");
	for (int k = 0; k < 64; k++)
		strcat(text, ",a");
	strcat(text, "'");
	assert_errno(selection_new("label", text, FACET_STAGE, &i, &err), E2BIG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ready_judges_all_eight_combinations_of_conditions),
		cmocka_unit_test(ready_uses_the_terminating_only_when_it_must),
		cmocka_unit_test(label_speaks_the_selectors_of_kubernetes),
		cmocka_unit_test(label_says_where_a_selector_is_wrong),
		cmocka_unit_test(label_tells_what_it_missed),
		cmocka_unit_test(label_bounds_what_it_takes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
