/* The words of a verdict. */

#include "test.h"
#include "verdict.h"

static void every_reason_has_a_word_and_an_outcome(void **state)
{
	(void) state;
	for (int reason = PROBE_OK; reason <= PROBE_LOCAL; reason++)
		assert_true(probe_reason_to_string((enum probe_reason) reason)[0] >= 'a');
	assert_int_equal(probe_reason_outcome(PROBE_OK), PROBE_IS_UP);
	assert_int_equal(probe_reason_outcome(PROBE_DEGRADED), PROBE_IS_DEGRADED);
	assert_int_equal(probe_reason_outcome(PROBE_STATUS), PROBE_IS_DOWN);
	assert_int_equal(probe_reason_outcome(PROBE_LOCAL), PROBE_IS_NOTHING);
}

static void what_the_node_lacks_is_its_own_fault(void **state)
{
	static const int own[] = { EMFILE, ENFILE, ENOMEM, ENOBUFS, EADDRNOTAVAIL };

	(void) state;
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		assert_int_equal(probe_reason_of_errno(own[i]), PROBE_LOCAL);
	assert_int_equal(probe_reason_of_errno(ECONNREFUSED), PROBE_REFUSED);
	assert_int_equal(probe_reason_of_errno(EHOSTUNREACH), PROBE_UNREACHABLE);
	assert_int_equal(probe_reason_of_errno(ENETUNREACH), PROBE_UNREACHABLE);
	assert_int_equal(probe_reason_of_errno(ECONNRESET), PROBE_RESET);
}

static void an_errno_is_told_in_words(void **state)
{
	struct verdict v;

	(void) state;
	verdict_set_errno(&v, ECONNREFUSED, "connect");
	assert_int_equal(v.reason, PROBE_REFUSED);
	assert_int_equal(v.code, ECONNREFUSED);
	assert_string_equal(v.text, "cannot connect: Connection refused");
}

static void a_text_is_one_printable_line(void **state)
{
	static const struct {
		const char *given, *shown;
	} cases[] = {
		{ "a\r\nb\tc\x1b[0m", "a..b.c.[0m" },
		{ "Zürich €", "Zürich €" },
		{ "half \xe2\x82", "half .." },
		{ "\xff\xc0\x80", "..." },
		{ "\xc2\x85", ".." },
	};
	struct verdict v;

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		verdict_set(&v, PROBE_BODY, 0, "%s", cases[i].given);
		assert_string_equal(v.text, cases[i].shown);
	}
}

static void a_long_text_is_cut_without_half_a_character(void **state)
{
	char text[2 * VERDICT_TEXT_MAX] = "";
	struct verdict v;

	(void) state;
	for (int i = 0; i < VERDICT_TEXT_MAX / 2; i++)
		(void) strcat(text, "€");
	verdict_set(&v, PROBE_BODY, 0, "%s", text);
	assert_int_equal(strlen(v.text), VERDICT_TEXT_MAX - 1);
	assert_string_equal(v.text + VERDICT_TEXT_MAX - 6, "€..");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_reason_has_a_word_and_an_outcome),
		cmocka_unit_test(what_the_node_lacks_is_its_own_fault),
		cmocka_unit_test(an_errno_is_told_in_words),
		cmocka_unit_test(a_text_is_one_printable_line),
		cmocka_unit_test(a_long_text_is_cut_without_half_a_character),
	};

	return cmocka_run_group_tests_name("verdict", tests, NULL, NULL);
}
