/* Bodies and queries, by table. */

#include "fields.h"
#include "ownership.h"
#include "test.h"

struct values {
	const char *text;
	bool flag;
	uint64_t count, wait_usec;
	struct field_texts list;
	uint64_t took_usec;
	struct field_pairs pairs;
};

static const struct field fields[] = {
	{ "text", FIELD_TEXT, offsetof(struct values, text) },
	{ "flag", FIELD_FLAG, offsetof(struct values, flag) },
	{ "count", FIELD_COUNT, offsetof(struct values, count) },
	{ "wait", FIELD_DURATION, offsetof(struct values, wait_usec) },
	{ "list", FIELD_TEXTS, offsetof(struct values, list) },
	{ "took", FIELD_MSEC, offsetof(struct values, took_usec) },
	{ "pairs", FIELD_PAIRS, offsetof(struct values, pairs) },
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
			"18446744073709551615, \"wait\":\"250ms\", \"list\": [\"x\", \"y\"], "
			"\"took\": 12.25, \"pairs\": {\"X-A\": \"b\", \"c\": \"\"}} ",
			&v, &given));
	assert_string_equal(v.text, "a\xc3\xa9\n\xf0\x9f\x98\x80");
	assert_true(v.flag);
	assert_true(v.count == UINT64_MAX);
	assert_int_equal(v.wait_usec, 250000);
	assert_int_equal(v.list.count, 2);
	assert_string_equal(v.list.items[1], "y");
	assert_int_equal(v.took_usec, 12250);
	assert_int_equal(v.pairs.count, 2);
	assert_string_equal(v.pairs.items[0].name, "X-A");
	assert_string_equal(v.pairs.items[0].value, "b");
	assert_string_equal(v.pairs.items[1].value, "");
	assert_int_equal(given, 127);
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
		{ "{\"took\": -1}", "took: is a number of milliseconds" },
		{ "{\"took\": \"1\"}", "took: is a number of milliseconds" },
		{ "{\"took\": 1.}", "took: 1. is no number of milliseconds" },
		{ "{\"took\": 1e}", "took: 1e is no number of milliseconds" },
		{ "{\"took\": 1e999}", "took: 1e999 ms is longer than anything" },
		{ "{\"took\": 00}", "a number begins with 0" },
		{ "{\"pairs\": []}", "pairs: is an object whose values are texts" },
		{ "{\"pairs\": {\"a\": 1}}", "pairs: a: the body is no JSON object" },
		{ "{\"pairs\": {\"a\" 1}}", "a colon is missing" },
		{ "{\"pairs\": {\"a\": \"b\"", "an object does not end" },
		{ "{\"pairs\": {\"a b\": \"c\"}}", "pairs: \"a b\" is no name of a header" },
		{ "{\"pairs\": {\"\": \"c\"}}", "pairs: \"\" is no name of a header" },
		{ "{\"pairs\": {\"a\": \"b\\r\\nc\"}}",
				"pairs: a: the value has a control character in it" },
		{ "{\"pairs\": {\"a\": \"b\", \"A\": \"c\"}}", "pairs: A is given twice" },
		{ "{\"pairs\": {}, \"pairs\": {}}", "pairs: is given twice" },
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

static void a_number_of_milliseconds_is_kept_to_the_microsecond(void **state)
{
	static const struct {
		const char *text;
		uint64_t usec;
	} cases[] = { { "0", 0 }, { "0.5", 500 }, { "1e-05", 0 }, { "1.5E+1", 15000 },
		{ "0.0014", 1 }, { "86400000", UINT64_C(86400000000) } };

	(void) state;
	for (size_t i = 0; i < ELEMENTS(cases); i++) {
		char text[64];
		struct values v;
		fields_given given;

		(void) snprintf(text, sizeof(text), "{\"took\": %s}", cases[i].text);
		assert_ok(read_body(text, &v, &given));
		assert_int_equal(v.took_usec, cases[i].usec);
	}
}

static void pairs_have_limits(void **state)
{
	static char text[FIELD_PAIR_MAX + 2];
	struct field_pairs pairs = {};
	static char names[FIELD_PAIRS_MAX + 1][8];

	(void) state;
	memset(text, 'x', FIELD_PAIR_MAX);
	assert_ok(field_add_pair("headers", text, text, &pairs, &error));
	text[FIELD_PAIR_MAX] = 'x';
	assert_errno(field_add_pair("headers", text, "", &pairs, &error), E2BIG);
	assert_errno(field_add_pair("headers", "a", text, &pairs, &error), E2BIG);
	for (size_t i = 0; i < FIELD_PAIRS_MAX; i++) {
		int r;

		(void) snprintf(names[i], sizeof(names[i]), "n%zu", i);
		r = field_add_pair("headers", names[i], "", &pairs, &error);
		if (i + 1 < FIELD_PAIRS_MAX)
			assert_ok(r);
		else
			assert_errno(r, E2BIG);
	}
	assert_string_equal(error.text, "headers: more than 64 of them");
}

static void pairs_come_from_a_query_as_name_and_value(void **state)
{
	const struct field_texts texts = { .items = { "X-A: b c ", "X-B:", "X-C:d:e" },
		.count = 3 };
	const struct field_texts wrong = { .items = { "X-A:b", "none" }, .count = 2 };
	autofree char *room = NULL, *no_room = NULL;
	struct field_pairs pairs;

	(void) state;
	assert_ok(field_pairs_from_texts("header", &texts, &pairs, &room, &error));
	assert_int_equal(pairs.count, 3);
	assert_string_equal(pairs.items[0].value, "b c");
	assert_string_equal(pairs.items[1].value, "");
	assert_string_equal(pairs.items[2].name, "X-C");
	assert_string_equal(pairs.items[2].value, "d:e");
	assert_errno(field_pairs_from_texts("header", &wrong, &pairs, &no_room, &error), EINVAL);
	assert_string_equal(error.text, "header: none is no NAME:VALUE");
	assert_null(no_room);
}

struct item {
	fields_given given;
	const char *name;
	uint64_t count;
};

static const struct field item_fields[] = {
	{ "name", FIELD_TEXT, offsetof(struct item, name) },
	{ "count", FIELD_COUNT, offsetof(struct item, count) },
	{},
};

static int read_list(const char *text, struct item *items, size_t max, size_t *ret_count)
{
	struct field_list list = { .name = "items",
		.fields = item_fields,
		.items = items,
		.item_size = sizeof(*items),
		.max = max };
	int r;

	(void) snprintf(body, sizeof(body), "%s", text);
	error = (struct usher_error){};
	r = fields_list_from_json(&list, body, strlen(body), &error);
	*ret_count = list.count;
	return r;
}

static void a_body_may_be_a_list(void **state)
{
	struct item items[2] = { { .count = 7 }, { .count = 7 } };
	size_t count;

	(void) state;
	assert_ok(read_list(" [{\"name\": \"a\", \"count\": 2}, {\"name\": \"b\"}] ", items, 2,
			&count));
	assert_int_equal(count, 2);
	assert_string_equal(items[0].name, "a");
	assert_int_equal(items[0].count, 2);
	assert_int_equal(items[0].given, 3);
	assert_string_equal(items[1].name, "b");
	assert_int_equal(items[1].count, 0);
	assert_int_equal(items[1].given, 1);
	assert_ok(read_list("{\"items\": [{}]}", items, 2, &count));
	assert_int_equal(count, 1);
	assert_int_equal(items[0].given, 0);
	assert_ok(read_list("[]", items, 2, &count));
	assert_int_equal(count, 0);
}

static void what_is_wrong_in_a_list_is_named_with_its_place(void **state)
{
	static const struct {
		const char *text, *message;
	} cases[] = {
		{ "", "the body is no list of JSON objects: it is empty" },
		{ "  ", "it begins with [" },
		{ "{}", "a text in quotes is missing" },
		{ "{\"itms\": []}", "itms: is not known here; did you mean items?" },
		{ "{\"items\": [], \"items\": []}", "it does not end with }" },
		{ "{\"items\": {}}", "it begins with [" },
		{ "[1]", "items[0]: the body is no list of JSON objects: it begins with {" },
		{ "[{}, {\"count\": -1}]", "items[1]: count: is a whole number" },
		{ "[{}, {\"nam\": \"x\"}]",
				"items[1]: nam: is not known here; did you mean name?" },
		{ "[{}, {}, {}]", "more than 2 items in one call; send them in several" },
		{ "[{}", "it does not end with ]" },
		{ "[{},]", "items[1]: the body is no list of JSON objects: it begins with {" },
		{ "[] x", "something comes after it" },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS(cases); i++) {
		struct item items[2];
		size_t count;
		int r = read_list(cases[i].text, items, 2, &count);

		if (r >= 0 || !strstr(error.text, cases[i].message))
			fail_msg("%s: %d, %s", cases[i].text, r, error.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_type_is_read),
		cmocka_unit_test(nothing_and_null_are_not_given),
		cmocka_unit_test(what_is_wrong_is_named),
		cmocka_unit_test(a_list_has_a_limit),
		cmocka_unit_test(a_number_of_milliseconds_is_kept_to_the_microsecond),
		cmocka_unit_test(pairs_have_limits),
		cmocka_unit_test(pairs_come_from_a_query_as_name_and_value),
		cmocka_unit_test(a_body_may_be_a_list),
		cmocka_unit_test(what_is_wrong_in_a_list_is_named_with_its_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
