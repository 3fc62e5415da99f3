#include "backoff.h"
#include "line-splitter.h"
#include "path-segment.h"
#include "test.h"

struct lines {
	char text[256];
	int answer;
};

static int collect(void *userdata, const char *line, size_t length)
{
	struct lines *lines = userdata;

	assert_int_equal(strlen(line), length);
	(void) snprintf(lines->text + strlen(lines->text),
			sizeof(lines->text) - strlen(lines->text), "%s|", line);
	return lines->answer;
}

static void lines_come_whole_however_their_bytes_come(void **state)
{
	static const char text[] = "one\ntwo\r\n\n\r\nthree\nfo";

	(void) state;
	for (size_t step = 1; step <= sizeof(text); step++) {
		struct line_splitter splitter = { .maximum = 100 };
		struct lines lines = {};

		for (size_t i = 0; i < strlen(text); i += step) {
			size_t part = strlen(text) - i < step ? strlen(text) - i : step;

			assert_ok(line_splitter_add(&splitter, text + i, part, collect, &lines));
		}
		assert_string_equal(lines.text, "one|two|three|");
		line_splitter_done(&splitter);
	}
}

static void a_line_at_the_maximum_is_taken_and_one_above_is_refused(void **state)
{
	struct line_splitter splitter = { .maximum = 4 };
	struct lines lines = {};

	(void) state;
	assert_ok(line_splitter_add(&splitter, "abcd\n", 5, collect, &lines));
	assert_string_equal(lines.text, "abcd|");
	assert_ok(line_splitter_add(&splitter, "abcd", 4, collect, &lines));
	assert_errno(line_splitter_add(&splitter, "e", 1, collect, &lines), E2BIG);
	line_splitter_done(&splitter);
}

static void what_the_reader_says_ends_it(void **state)
{
	struct line_splitter splitter = { .maximum = 100 };
	struct lines lines = { .answer = 5 };

	(void) state;
	assert_int_equal(line_splitter_add(&splitter, "a\nb\n", 4, collect, &lines), 5);
	assert_string_equal(lines.text, "a|");
	line_splitter_done(&splitter);
}

static void backing_off_is_never_short_never_long_and_spread_at_its_end(void **state)
{
	struct backoff backoff = {};
	uint64_t least = UINT64_MAX, most = 0;

	(void) state;
	assert_in_range(backoff_next_usec(&backoff, 0), BACKOFF_MIN_USEC, BACKOFF_MIN_USEC);
	for (uint64_t i = 0; i < 1000; i++) {
		uint64_t delay = backoff_next_usec(&backoff, i * UINT64_C(0x9e3779b97f4a7c15));

		assert_in_range(delay, BACKOFF_MIN_USEC, BACKOFF_MAX_USEC);
		least = delay < least ? delay : least;
		most = delay > most ? delay : most;
	}
	assert_true(most - least > (BACKOFF_MAX_USEC - BACKOFF_MIN_USEC) * 8 / 10);
	backoff_reset(&backoff);
	assert_true(backoff_next_usec(&backoff, UINT64_MAX) <= 2 * BACKOFF_MIN_USEC);
}

static void a_name_becomes_one_segment_of_a_path(void **state)
{
	char text[16];

	(void) state;
	assert_true(path_segment_write("a-Z_0.~", text, sizeof(text)));
	assert_string_equal(text, "a-Z_0.~");
	assert_true(path_segment_write("a/b ?\xc3\xa9", text, sizeof(text)) == 0);
	assert_true(path_segment_write("a/b ?", text, sizeof(text)));
	assert_string_equal(text, "a%2Fb%20%3F");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_come_whole_however_their_bytes_come),
		cmocka_unit_test(a_line_at_the_maximum_is_taken_and_one_above_is_refused),
		cmocka_unit_test(what_the_reader_says_ends_it),
		cmocka_unit_test(backing_off_is_never_short_never_long_and_spread_at_its_end),
		cmocka_unit_test(a_name_becomes_one_segment_of_a_path),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
