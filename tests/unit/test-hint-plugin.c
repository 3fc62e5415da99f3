/* The stage hint: where the hint comes from, and who stays. */

#include "compiled-stage.h"

/* The rows "hint" of the conformance vectors for Spring Cloud LoadBalancer (basis: upstream run);
 * `value` is the property of that service. Spring's implicit hint "default", which rows 10 and 11
 * show, usher has only where `value` says it; the empty property of row 13 is no `value`. What
 * Spring answers with everything because nothing matches is nothing here, and on_empty's to say. */
static void hint_answers_as_the_vectors_do(void **state)
{
	static const struct {
		const char *number, *options, *header, *value;
		struct labelled endpoints[4];
		const char *expected;
	} rows[] = {
		{ "01", "{}", "X-SC-LB-Hint", "canary",
				{ { "A", "stable" }, { "B", "canary" }, { "C", NULL } }, "B" },
		{ "02", "{}", "x-sc-lb-hint", "canary", { { "A", "stable" }, { "B", "canary" } },
				"B" },
		{ "04", "{value: canary}", NULL, NULL, { { "A", "stable" }, { "B", "canary" } },
				"B" },
		{ "07", "{value: stable}", "X-SC-LB-Hint", "canary",
				{ { "A", "stable" }, { "B", "canary" } }, "B" },
		{ "08", "{value: stable}", "X-SC-LB-Hint", "nope",
				{ { "A", "stable" }, { "B", "canary" } }, "" },
		{ "10", "{}", NULL, NULL, { { "A", "stable" }, { "B", "canary" }, { "C", NULL } },
				"A B C" },
		{ "10, as Spring", "{value: default}", NULL, NULL,
				{ { "A", "stable" }, { "B", "canary" }, { "C", NULL } }, "" },
		{ "11", "{}", NULL, NULL, { { "A", "stable" }, { "D", "default" } }, "A D" },
		{ "11, as Spring", "{value: default}", NULL, NULL,
				{ { "A", "stable" }, { "D", "default" } }, "D" },
		{ "13", "{}", NULL, NULL, { { "A", "stable" }, { "D", "default" } }, "A D" },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS_OF(rows); i++) {
		const struct usher_label header = { rows[i].header, rows[i].value };
		const struct usher_request request = { .size = sizeof(request),
			.headers = &header,
			.header_count = rows[i].header ? 1 : 0 };
		struct compiled_stage s;
		struct labelled_set l;

		print_message("hint-%s\n", rows[i].number);
		assert_ok(compiled_stage_init(&s, rows[i].options, NULL));
		labelled_set_init(&l, "hint", rows[i].endpoints);
		assert_string_equal(kept_ids(&s, &l, &request), rows[i].expected);
		labelled_set_done(&l);
		compiled_stage_done(&s);
	}
}

static const struct labelled tiers[] = { { "a", "stable" }, { "b", "canary" }, { "c", NULL }, {} };

static void hint_prefers_what_the_pick_says_itself(void **state)
{
	static const struct {
		const char *options, *hint, *header, *expected, *told;
	} rows[] = {
		{ "{value: x}", "canary", "stable", "b", "the hint is canary" },
		{ "{value: x}", NULL, "stable", "a",
				"the hint is stable, from header X-SC-LB-Hint" },
		{ "{value: canary}", NULL, NULL, "b",
				"the hint is canary, for the request has none" },
		{ "{value: canary}", " ", " \t", "b",
				"the hint is canary, for the request has none" },
		{ "{}", "", "", "a b c", "the request has no hint" },
		{ "{}", "Canary", NULL, "", "the hint is Canary" },
		{ "{header: ''}", NULL, "stable", "a b c", "the request has no hint" },
		{ "{header: X-Other}", NULL, "stable", "a b c", "the request has no hint" },
		{ "{label: other}", "stable", NULL, "", "the hint is stable" },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS_OF(rows); i++) {
		const struct usher_label header = { "X-SC-LB-Hint", rows[i].header };
		const struct usher_request request = { .size = sizeof(request),
			.hint = rows[i].hint,
			.headers = &header,
			.header_count = rows[i].header ? 1 : 0 };
		struct compiled_stage s;
		struct labelled_set l;

		print_message("row %zu\n", i);
		assert_ok(compiled_stage_init(&s, rows[i].options, NULL));
		labelled_set_init(&l, "hint", tiers);
		assert_string_equal(kept_ids(&s, &l, &request), rows[i].expected);
		assert_string_equal(told(&s, &l, &request), rows[i].told);
		labelled_set_done(&l);
		compiled_stage_done(&s);
	}
}

static void hint_says_who_does_not_carry_it(void **state)
{
	const struct usher_request request = { .size = sizeof(request), .hint = "canary" };
	struct compiled_stage s;
	struct labelled_set l;

	(void) state;
	assert_ok(compiled_stage_init(&s, "{}", NULL));
	labelled_set_init(&l, "hint", tiers);
	assert_string_equal(why_left(&s, &l, &request, "a"),
			"label hint is stable, the hint is canary");
	assert_string_equal(
			why_left(&s, &l, &request, "c"), "has no label hint, the hint is canary");
	labelled_set_done(&l);
	compiled_stage_done(&s);
}

static void hint_keeps_everything_where_there_is_no_request(void **state)
{
	struct compiled_stage s;
	struct labelled_set l;

	(void) state;
	assert_ok(compiled_stage_init(&s, "{}", NULL));
	labelled_set_init(&l, "hint", tiers);
	assert_string_equal(kept_ids(&s, &l, NULL), "a b c");
	assert_string_equal(told(&s, &l, NULL), "the request has no hint");
	labelled_set_done(&l);
	compiled_stage_done(&s);
}

static void hint_refuses_options_that_cannot_be_meant(void **state)
{
	static const struct {
		const char *options, *text;
	} rows[] = {
		{ "{label: ''}", "label is empty: name the label" },
		{ "{header: 'X-Hint: '}", "header \"X-Hint: \" is no name of a header" },
		{ "{value: ' '}", "value is empty: leave it out" },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS_OF(rows); i++) {
		struct compiled_stage s;
		struct usher_error err = {};

		assert_errno(compiled_stage_init(&s, rows[i].options, &err), EINVAL);
		if (!strstr(err.text, rows[i].text))
			fail_msg("%s: %s", rows[i].options, err.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hint_answers_as_the_vectors_do),
		cmocka_unit_test(hint_prefers_what_the_pick_says_itself),
		cmocka_unit_test(hint_says_who_does_not_carry_it),
		cmocka_unit_test(hint_keeps_everything_where_there_is_no_request),
		cmocka_unit_test(hint_refuses_options_that_cannot_be_meant),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
