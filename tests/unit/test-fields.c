/* Bodies and queries, by table. */

#include "fields.h"
#include "ownership.h"
#include "test.h"

struct values {
	const char *text;
	bool flag;
	uint64_t count, wait_usec;
	struct field_texts list;
};

static const struct field fields[] = {
	{ "text", FIELD_TEXT, offsetof(struct values, text) },
	{ "flag", FIELD_FLAG, offsetof(struct values, flag) },
	{ "count", FIELD_COUNT, offsetof(struct values, count) },
	{ "wait", FIELD_DURATION, offsetof(struct values, wait_usec) },
	{ "list", FIELD_TEXTS, offsetof(struct values, list) },
	{},
};

static char body[1024];
static struct usher_error error;

static int read_body(const char *text, struct values *ret, fields_given *given)
{
	(void) snprintf(body, sizeof(body), "%s", text);
	error = (struct usher_error){};
	*ret = (struct values){};
	return fields_from_json(fields, body, strlen(body), ret, given, &error);
}

static void every_type_is_read(void **state)
{
	struct values v;
	fields_given given;

	(void) state;
	assert_ok(read_body(
			" {\"text\": \"a\\u00e9\\n\\ud83d\\ude00\", \"flag\": true,\n\"count\": "
			"18446744073709551615, \"wait\":\"250ms\", \"list\": [\"x\", \"y\"] } ",
			&v, &given));
	assert_string_equal(v.text, "a\xc3\xa9\n\xf0\x9f\x98\x80");
	assert_true(v.flag);
	assert_true(v.count == UINT64_MAX);
	assert_int_equal(v.wait_usec, 250000);
	assert_int_equal(v.list.count, 2);
	assert_string_equal(v.list.items[1], "y");
	assert_int_equal(given, 31);
}

static void nothing_and_null_are_not_given(void **state)
{
	static const char *const texts[] = { "", "  \n", "{}", "{\"text\": null, \"list\": null}" };

	(void) state;
	for (size_t i = 0; i < ELEMENTS(texts); i++) {
		struct values v;
		fields_given given = 1;

		assert_ok(read_body(texts[i], &v, &given));
		assert_int_equal(given, 0);
		assert_null(v.text);
	}
}

static void what_is_wrong_is_named(void **state)
{
	static const struct {
		const char *text, *message;
	} cases[] = {
		{ "{\"txt\": \"a\"}", "txt: is not known here; did you mean text?" },
		{ "{\"completely\": 1}", "completely: is not known here" },
		{ "{\"text\": 3}", "text: is a text" },
		{ "{\"text\": \"\"}", "text: is empty" },
		{ "{\"text\": \"a\", \"text\": \"b\"}", "text: is given twice" },
		{ "{\"list\": [], \"list\": []}", "list: is given twice" },
		{ "{\"flag\": \"true\"}", "flag: is true or false" },
		{ "{\"flag\": truth}", "flag: truth is neither true nor false" },
		{ "{\"count\": -1}", "count: is a whole number" },
		{ "{\"count\": 1.5}", "count: 1.5 is no whole number" },
		{ "{\"count\": 1e3}", "count: 1e3 is no whole number" },
		{ "{\"count\": 18446744073709551616}", "count: 18446744073709551616 is no whole" },
		{ "{\"count\": 01}", "a number begins with 0" },
		{ "{\"wait\": 10}", "wait: is a duration in quotes" },
		{ "{\"wait\": \"10\"}", "wait: 10 is no duration" },
		{ "{\"wait\": \"1y\"}", "wait: 1y is no duration" },
		{ "{\"wait\": \"-5s\"}", "wait: -5s is no duration" },
		{ "{\"list\": \"a\"}", "list: is a list of texts" },
		{ "{\"list\": [1]}",
				"list: the body is no JSON object: a text in quotes is missing" },
		{ "[]", "it begins with {" },
		{ "{\"text\": \"a\"", "it does not end with }" },
		{ "{\"text\" \"a\"}", "a colon is missing" },
		{ "{\"text\": \"a\",}", "a text in quotes is missing" },
		{ "{} x", "something comes after it" },
		{ "{\"text\": \"a\x01\"}", "control character" },
		{ "{\"text\": \"\xff\"}", "not UTF-8" },
		{ "{\"text\": \"\xed\xa0\x80\"}", "not UTF-8" },
		{ "{\"text\": \"\\ud800\"}", "half a surrogate pair" },
		{ "{\"text\": \"\\u0000\"}", "NUL" },
		{ "{\"text\": \"\\x\"}", "an unknown escape" },
		{ "{\"text\": nul}", "missing or malformed" },
		{ "{\"text\": {}}", "text: is a text" },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS(cases); i++) {
		struct values v;
		fields_given given;
		int r = read_body(cases[i].text, &v, &given);

		if (r >= 0 || !strstr(error.text, cases[i].message))
			fail_msg("%s: %d, %s", cases[i].text, r, error.text);
	}
}

static void a_list_has_a_limit(void **state)
{
	struct values v;
	fields_given given;
	char text[1000] = "{\"list\": [\"a\"";

	(void) state;
	for (int i = 0; i < FIELD_TEXTS_MAX - 1; i++)
		strcat(text, ",\"b\"");
	strcat(text, "]}");
	assert_ok(read_body(text, &v, &given));
	assert_int_equal(v.list.count, FIELD_TEXTS_MAX);
	text[strlen(text) - 2] = '\0';
	strcat(text, ",\"c\"]}");
	assert_errno(read_body(text, &v, &given), E2BIG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_type_is_read),
		cmocka_unit_test(nothing_and_null_are_not_given),
		cmocka_unit_test(what_is_wrong_is_named),
		cmocka_unit_test(a_list_has_a_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
