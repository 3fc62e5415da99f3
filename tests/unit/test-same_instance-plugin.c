/* The stage same_instance: where the consumer was last, as long as that is there. */

#include "compiled-stage.h"

/* The rows "same-instance" of the conformance vectors for Spring Cloud LoadBalancer (basis:
 * upstream run): a list of candidates after the other, and what the choice goes between. The test
 * chooses, as the vectors' round robin did, and remembers, as the host does. Spring forgets A in
 * row 04 because its metadata changed; here it is the same endpoint. */
static void same_instance_answers_as_the_vectors_do(void **state)
{
	static const struct {
		const char *number;
		struct {
			struct labelled endpoints[4];
			const char *kept, *chosen;
		} picks[3];
	} rows[] = {
		{ "01",
				{ { { { "A", NULL }, { "B", NULL }, { "C", NULL } }, "A B C", "A" },
						{ { { "A", NULL }, { "B", NULL }, { "C", NULL } },
								"A", "A" },
						{ { { "C", NULL }, { "B", NULL }, { "A", NULL } },
								"A", "A" } } },
		{ "02",
				{ { { { "A", NULL }, { "B", NULL }, { "C", NULL } }, "A B C", "A" },
						{ { { "B", NULL }, { "C", NULL } }, "", "C" },
						{ { { "A", NULL }, { "B", NULL }, { "C", NULL } },
								"C", "C" } } },
		{ "04",
				{ { { { "A", NULL }, { "B", NULL } }, "A B", "A" },
						{ { { "A", "2" }, { "B", NULL } }, "A", "A" },
						{ { { "A", "2" }, { "B", NULL } }, "A", "A" } } },
		{ "05",
				{ { { { "A", NULL } }, "A", "A" },
						{ { { "A", NULL }, { "B", NULL } }, "A", "A" },
						{ { { "B", NULL }, { "A", NULL } }, "A", "A" } } },
	};
	struct compiled_stage s;

	(void) state;
	assert_ok(compiled_stage_init(&s, "{}", NULL));
	for (size_t i = 0; i < ELEMENTS_OF(rows); i++) {
		struct usher_request request = { .size = sizeof(request) };

		print_message("same-instance-%s\n", rows[i].number);
		for (size_t k = 0; k < 3; k++) {
			struct labelled_set l;

			labelled_set_init(&l, "weight", rows[i].picks[k].endpoints);
			assert_string_equal(kept_ids(&s, &l, &request), rows[i].picks[k].kept);
			request.last = rows[i].picks[k].chosen;
			labelled_set_done(&l);
		}
	}
	compiled_stage_done(&s);
}

static void same_instance_says_what_became_of_the_last(void **state)
{
	static const struct labelled two[] = { { "a", NULL }, { "b", NULL }, {} };
	struct usher_request request = { .size = sizeof(request) };
	struct usher_pass pass = { .size = sizeof(pass), .request = &request };
	uint32_t candidate = 0;
	struct compiled_stage s;
	struct labelled_set l;
	char text[160];

	(void) state;
	assert_ok(compiled_stage_init(&s, "{}", NULL));
	labelled_set_init(&l, "x", two);
	assert_string_equal(told(&s, &l, &request), "this consumer was given none yet");
	assert_string_equal(told(&s, &l, NULL), "this consumer was given none yet");
	assert_string_equal(kept_ids(&s, &l, NULL), "a b");
	request.last = "";
	assert_string_equal(kept_ids(&s, &l, &request), "a b");
	request.last = "b";
	assert_string_equal(kept_ids(&s, &l, &request), "b");
	assert_string_equal(told(&s, &l, &request), "");
	assert_string_equal(why_left(&s, &l, &request, "a"),
			"the last that this consumer was given is b");
	request.last = "z";
	assert_string_equal(
			told(&s, &l, &request), "z, which this consumer was given last, is gone");

	request.last = "b"; /* and another stage has dropped it */
	pass.view = &l.view;
	usher_plugin.stage->tell(s.data, &pass, &candidate, 1, 0, text, sizeof(text));
	assert_string_equal(text, "b, which this consumer was given last, is no candidate");
	assert_int_equal(usher_plugin.stage->filter(s.data, &l.view, &request, &candidate, 1), 0);
	labelled_set_done(&l);
	compiled_stage_done(&s);
}

static void same_instance_asks_the_host_to_remember(void **state)
{
	(void) state;
	assert_true(usher_plugin.stage->looks_at_request);
	assert_int_equal(usher_plugin.stage->flags, USHER_STAGE_LAST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_instance_answers_as_the_vectors_do),
		cmocka_unit_test(same_instance_says_what_became_of_the_last),
		cmocka_unit_test(same_instance_asks_the_host_to_remember),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
