/* What an HTTP answer must be like. */

#include "expectation.h"
#include "test.h"

static struct status_range good[] = { { 200, 200 }, { 300, 399 } };
static struct status_range limping[] = { { 429, 429 }, { 200, 299 } };

static struct check_config check = {
	.kind = CHECK_HTTP,
	.expect = good,
	.expect_count = 2,
	.degraded = limping,
	.degraded_count = 2,
};

static void a_status_is_good_degraded_or_wrong(void **state)
{
	static const struct {
		unsigned status;
		enum probe_reason reason;
		const char *text;
	} cases[] = {
		{ 200, PROBE_OK, "HTTP 200" }, /* expect before degraded */
		{ 204, PROBE_DEGRADED, "HTTP 204 counts as degraded" },
		{ 300, PROBE_OK, "HTTP 300" },
		{ 399, PROBE_OK, "HTTP 399" },
		{ 400, PROBE_STATUS, "HTTP 400, expected 200, 300-399" },
		{ 429, PROBE_DEGRADED, "HTTP 429 counts as degraded" },
		{ 503, PROBE_STATUS, "HTTP 503, expected 200, 300-399" },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct verdict v;

		expectation_judge(&check, cases[i].status, NULL, 0, &v);
		assert_int_equal(v.reason, cases[i].reason);
		assert_int_equal(v.code, cases[i].status);
		assert_string_equal(v.text, cases[i].text);
		assert_int_equal(expectation_takes_status(&check, cases[i].status),
				v.reason != PROBE_STATUS);
	}
}

static void without_a_list_200_is_expected(void **state)
{
	const struct check_config plain = { .kind = CHECK_HTTP };
	struct verdict v;

	(void) state;
	expectation_judge(&plain, 200, NULL, 0, &v);
	assert_int_equal(v.reason, PROBE_OK);
	expectation_judge(&plain, 204, NULL, 0, &v);
	assert_string_equal(v.text, "HTTP 204, expected 200");
}

static void a_long_list_is_cut_in_words(void **state)
{
	struct status_range many[100];
	struct check_config long_list = { .expect = many, .expect_count = 100 };
	struct verdict v;

	(void) state;
	for (unsigned short i = 0; i < 100; i++)
		many[i] = (struct status_range){ (unsigned short) (100 + 3 * i),
			(unsigned short) (101 + 3 * i) };
	expectation_judge(&long_list, 599, NULL, 0, &v);
	assert_int_equal(v.reason, PROBE_STATUS);
	assert_true(strlen(v.text) < sizeof(v.text));
}

static void a_text_is_looked_for_in_the_body(void **state)
{
	struct check_config text = { .match_text = (char *) (uintptr_t) "ok" };
	struct verdict v;

	(void) state;
	assert_int_equal(expectation_of_body(&text), EXPECTS_TEXT);
	expectation_judge(&text, 200, "all is ok", 9, &v);
	assert_int_equal(v.reason, PROBE_OK);
	expectation_judge(&text, 200, "all is o", 8, &v);
	assert_int_equal(v.reason, PROBE_BODY);
	assert_string_equal(v.text, "\"ok\" is not in the first 8 bytes of the body");
	expectation_judge(&text, 200, NULL, 0, &v);
	assert_int_equal(v.reason, PROBE_BODY);
	expectation_judge(&text, 503, "ok", 2, &v);
	assert_int_equal(v.reason, PROBE_STATUS);
}

static void only_the_first_bytes_of_a_body_count(void **state)
{
	struct check_config text = { .match_text = (char *) (uintptr_t) "ok" };
	static char body[CHECK_BODY_MAX + 2];
	struct verdict v;

	(void) state;
	memset(body, '.', sizeof(body));
	memcpy(body + CHECK_BODY_MAX - 1, "ok", 2);
	expectation_judge(&text, 200, body, sizeof(body), &v);
	assert_int_equal(v.reason, PROBE_BODY);
}

static void a_pointer_finds_a_value_that_reads_like(void **state)
{
	static const struct {
		const char *pointer, *value, *body;
		enum probe_reason reason;
		const char *text;
	} cases[] = {
		{ "/status", "UP", "{\"status\": \"UP\"}", PROBE_OK, "HTTP 200" },
		{ "/status", "UP", "{\"status\": \"DOWN\"}", PROBE_BODY,
				"/status is \"DOWN\", expected UP" },
		{ "/status", "UP", "{}", PROBE_BODY, "the body has no /status" },
		{ "", "UP", "\"UP\"", PROBE_OK, "HTTP 200" },
		{ "/a/1/b", "7", "{\"a\": [0, {\"b\": 7}]}", PROBE_OK, "HTTP 200" },
		{ "/a/01", "1", "{\"a\": [0, 1]}", PROBE_BODY, "the body has no /a/01" },
		{ "/a/-", "1", "{\"a\": [0, 1]}", PROBE_BODY, "the body has no /a/-" },
		{ "/a~1b/c~0d", "true", "{\"a/b\": {\"c~d\": true}}", PROBE_OK, "HTTP 200" },
		{ "/x", "1.50", "{\"x\": 1.5}", PROBE_OK, "HTTP 200" },
		{ "/x", "3", "{\"x\": 3.0}", PROBE_OK, "HTTP 200" },
		{ "/x", "", "{\"x\": 0}", PROBE_BODY, "/x is 0, expected " },
		{ "/x", "null", "{\"x\": null}", PROBE_OK, "HTTP 200" },
		{ "/x", "1", "{\"x\": [1]}", PROBE_BODY, "/x is [1], expected 1" },
		{ "/x", "1", "{\"x\": 1} and more", PROBE_BODY, NULL },
		{ "/x", "1", "", PROBE_BODY, NULL },
		{ "/x", "1", "<html>", PROBE_BODY, NULL },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct check_config value = { .match_pointer =
							      (char *) (uintptr_t) cases[i].pointer,
			.match_value = (char *) (uintptr_t) cases[i].value };
		struct verdict v;

		expectation_judge(&value, 200, cases[i].body, strlen(cases[i].body), &v);
		assert_int_equal(v.reason, cases[i].reason);
		if (cases[i].text)
			assert_string_equal(v.text, cases[i].text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_status_is_good_degraded_or_wrong),
		cmocka_unit_test(without_a_list_200_is_expected),
		cmocka_unit_test(a_long_list_is_cut_in_words),
		cmocka_unit_test(a_text_is_looked_for_in_the_body),
		cmocka_unit_test(only_the_first_bytes_of_a_body_count),
		cmocka_unit_test(a_pointer_finds_a_value_that_reads_like),
	};

	return cmocka_run_group_tests_name("expectation", tests, NULL, NULL);
}
