/* The stage exclude: what was tried already is left out. */

#include "compiled-stage.h"

static const struct labelled three[] = { { "A", NULL }, { "B", NULL }, { "C", NULL }, {} };

/* The rows "retry-aware" of the conformance vectors for Spring Cloud LoadBalancer (basis: upstream
 * run). Where Spring does not recognise an instance whose metadata have changed (row 05), an id is
 * an id here; where it knows the previous one only, here are all that were tried. */
static void exclude_answers_as_the_vectors_do(void **state)
{
	static const struct {
		const char *number;
		struct labelled endpoints[4];
		const char *exclude[3];
		size_t exclude_count;
		const char *expected, *told;
	} rows[] = {
		{ "01", { { "A", NULL }, { "B", NULL }, { "C", NULL } }, { "B" }, 1, "A C", "" },
		{ "02", { { "A", NULL }, { "B", NULL } }, {}, 0, "A B",
				"the request excludes nothing" },
		{ "04", { { "A", NULL }, { "B", NULL } }, { "C" }, 1, "A B",
				"no endpoint is called C" },
		{ "05", { { "A", "2" }, { "B", NULL } }, { "A" }, 1, "B", "" },
		{ "07", { {} }, { "A" }, 1, "", "no endpoint is called A" },
		{ "all that were tried", { { "A", NULL }, { "B", NULL }, { "C", NULL } },
				{ "C", "A" }, 2, "B", "" },
		{ "none is left", { { "A", NULL }, { "B", NULL } }, { "A", "B", "A" }, 3, "", "" },
		{ "the case of letters counts", { { "A", NULL }, { "B", NULL } }, { "a", "A", "" },
				3, "B", "2 excluded ids are no endpoint's, the first is a" },
	};
	struct compiled_stage s;

	(void) state;
	assert_ok(compiled_stage_init(&s, "{}", NULL));
	for (size_t i = 0; i < ELEMENTS_OF(rows); i++) {
		const struct usher_request request = { .size = sizeof(request),
			.exclude = rows[i].exclude,
			.exclude_count = rows[i].exclude_count };
		struct labelled_set l;

		print_message("retry-aware-%s\n", rows[i].number);
		labelled_set_init(&l, "weight", rows[i].endpoints);
		assert_string_equal(kept_ids(&s, &l, &request), rows[i].expected);
		assert_string_equal(told(&s, &l, &request), rows[i].told);
		labelled_set_done(&l);
	}
	compiled_stage_done(&s);
}

static void exclude_works_on_what_other_stages_left(void **state)
{
	const char *exclude[] = { "A", "C" };
	const struct usher_request request = {
		.size = sizeof(request), .exclude = exclude, .exclude_count = 2
	};
	uint32_t candidates[] = { 1, 2 };
	struct compiled_stage s;
	struct labelled_set l;

	(void) state;
	assert_ok(compiled_stage_init(&s, "{}", NULL));
	labelled_set_init(&l, "x", three);
	assert_int_equal(usher_plugin.stage->filter(s.data, &l.view, &request, candidates, 2), 1);
	assert_int_equal(candidates[0], 1);
	assert_string_equal(why_left(&s, &l, &request, "C"), "excluded by the request");
	assert_string_equal(kept_ids(&s, &l, NULL), "A B C");
	labelled_set_done(&l);
	compiled_stage_done(&s);
}

static void exclude_stands_in_for_the_host_and_is_as_strict(void **state)
{
	(void) state;
	assert_true(usher_plugin.stage->looks_at_request);
	assert_int_equal(usher_plugin.stage->flags, USHER_STAGE_STRICT | USHER_STAGE_EXCLUDES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exclude_answers_as_the_vectors_do),
		cmocka_unit_test(exclude_works_on_what_other_stages_left),
		cmocka_unit_test(exclude_stands_in_for_the_host_and_is_as_strict),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
