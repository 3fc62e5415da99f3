/* JSON of servers, of which one text cannot keep the rest from being read. */

#include "json-read.h"
#include "test.h"

static json_t *read_as(const char *text, size_t size, int expected)
{
	struct usher_error why = { 0 };
	json_t *value = NULL;
	int r = json_read(text, size, JSON_REJECT_DUPLICATES, &value, &why);

	if (r != expected)
		fail_msg("%s: %d %s", text, r, why.text);
	return value;
}

/* text is altered to `expected`, and nothing beside it. */
static void assert_mended(const char *text, const char *expected)
{
	char around[512], wanted[512];
	json_t *value, *same;

	(void) snprintf(around, sizeof(around), "[\"before\", %s, {\"a\\\\\": \"\\\"\"}]", text);
	(void) snprintf(wanted, sizeof(wanted), "[\"before\", %s, {\"a\\\\\": \"\\\"\"}]",
			expected);
	value = read_as(around, strlen(around), 1);
	same = read_as(wanted, strlen(wanted), 0);
	if (!json_equal(value, same))
		fail_msg("%s is not %s", text, expected);
	json_decref(value);
	json_decref(same);
}

static void what_a_text_cannot_hold_becomes_what_no_text_may_have(void **state)
{
	static const char *const cases[][2] = {
		{ "\"a\\u0000b\"", "\"a\\u007fb\"" },
		{ "{\"k\\u0000\": 1}", "{\"k\\u007f\": 1}" },
		{ "\"\\ud800\"", "\"\\u007f\"" },
		{ "\"\\uDC00x\"", "\"\\u007fx\"" },
		{ "\"\\ud800\\u0041\"", "\"\\u007fA\"" },
		{ "\"\\ud83d\\ude00 \\ud83d\"", "\"\\ud83d\\ude00 \\u007f\"" },
		{ "\"\\\\u0000 \\u0000\"", "\"\\\\u0000 \\u007f\"" },
		{ "\"\xff\"", "\"\x7f\"" },
		{ "\"\xc3\"", "\"\x7f\"" },
		{ "\"\xc0\x80\"", "\"\x7f\x7f\"" },
		{ "\"\xed\xa0\x80\"", "\"\x7f\x7f\x7f\"" },
		{ "\"\xf5\x80\x80\x80\"", "\"\x7f\x7f\x7f\x7f\"" },
		{ "\"\xe2\x82\xac \xf0\x9f\x98\x80 \xff\"",
				"\"\xe2\x82\xac \xf0\x9f\x98\x80 \x7f\"" },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		assert_mended(cases[i][0], cases[i][1]);
}

static void a_number_beyond_all_bounds_says_nothing(void **state)
{
	(void) state;
	assert_mended("9223372036854775808", "null");
	assert_mended("{\"port\":-99999999999999999999999}", "{\"port\": null}");
	assert_mended("[1e999, 9223372036854775807, 1.5]", "[null, 9223372036854775807, 1.5]");
}

static void two_keys_that_become_the_same_are_no_reason_to_refuse(void **state)
{
	(void) state;
	assert_mended("{\"k\\u0000\": 1, \"k\\ud800\": 2}", "{\"k\\u007f\": 2}");
}

static void what_is_nested_too_deep_is_empty(void **state)
{
	static char text[20000];
	size_t used = 0;
	json_t *value, *inner;

	(void) state;
	used += (size_t) snprintf(text, sizeof(text), "{\"deep\":");
	memset(&text[used], '[', 5000);
	used += 5000;
	used += (size_t) snprintf(&text[used], sizeof(text) - used, "\"]}\", {\"]\": 1}");
	memset(&text[used], ']', 5000);
	used += 5000;
	used += (size_t) snprintf(&text[used], sizeof(text) - used, ",\"beside\":1}");
	value = read_as(text, used, 1);
	assert_int_equal(json_integer_value(json_object_get(value, "beside")), 1);
	inner = json_object_get(value, "deep");
	for (unsigned depth = 2; depth < JSON_READ_DEPTH_MAX; depth++)
		inner = json_array_get(inner, 0);
	assert_true(json_is_array(inner));
	assert_int_equal(json_array_size(inner), 0);
	json_decref(value);
}

static void what_is_no_json_is_refused_with_its_place(void **state)
{
	static const char *const cases[] = { "", "{", "[\"a\\u0000", "[\"a\\u00", "[\"\\ud800\\u",
		"[1e", "<html>", "{\"a\": 1, \"a\": 2}", "[\"\n\"]", "[\"a\\u0000\" 1]", "[\"\xc3",
		"[\"\\" };

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct usher_error why = { 0 };
		json_t *value = NULL;

		assert_errno(json_read(cases[i], strlen(cases[i]), JSON_REJECT_DUPLICATES, &value,
					     &why),
				EBADMSG);
		assert_null(value);
		assert_int_equal(strncmp(why.text, "line ", 5), 0);
		assert_null(strstr(why.text, "JSON_"));
	}
}

static void what_was_altered_is_found_wherever_it_is(void **state)
{
	static const struct {
		const char *text;
		bool marked;
	} cases[] = {
		{ "{\"a\": [\"b\", {\"c\": null}], \"d\": 1}", false },
		{ "{\"a\": [\"b\", {\"c\": \"\\u007f\"}]}", true },
		{ "[{\"\\u007f\": 1}]", true },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		json_t *value = read_as(cases[i].text, strlen(cases[i].text), 0);

		assert_int_equal(json_read_is_marked(value), cases[i].marked);
		json_decref(value);
	}
}

static int read_under_oom(void *userdata)
{
	static const char text[] = "{\"a\": [\"b\\u0000\", 99999999999999999999]}";
	json_t *value = NULL;
	int r = json_read(text, strlen(text), 0, &value, NULL);

	(void) userdata;
	json_decref(value);
	return r < 0 ? r : 0;
}

static void a_lack_of_memory_is_no_bad_json(void **state)
{
	(void) state;
	assert_survives_oom(read_under_oom, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_text_cannot_hold_becomes_what_no_text_may_have),
		cmocka_unit_test(a_number_beyond_all_bounds_says_nothing),
		cmocka_unit_test(two_keys_that_become_the_same_are_no_reason_to_refuse),
		cmocka_unit_test(what_is_nested_too_deep_is_empty),
		cmocka_unit_test(what_is_no_json_is_refused_with_its_place),
		cmocka_unit_test(what_was_altered_is_found_wherever_it_is),
		cmocka_unit_test(a_lack_of_memory_is_no_bad_json),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
