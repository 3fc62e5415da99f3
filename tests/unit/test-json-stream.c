/* JSON documents out of a stream, however it is cut. */

#include "json-stream.h"
#include "test.h"

static void add(struct json_stream *s, const char *text)
{
	assert_ok(json_stream_add(s, text, strlen(text)));
}

static void assert_next(struct json_stream *s, const char *expected)
{
	const char *text = NULL;
	size_t size = 0;

	assert_int_equal(json_stream_next(s, &text, &size), expected ? 1 : 0);
	if (expected) {
		assert_int_equal(size, strlen(expected));
		assert_memory_equal(text, expected, size);
	}
}

static void one_piece_may_hold_several_documents(void **state)
{
	struct json_stream s = { .max_bytes = 100 };

	(void) state;
	add(&s, "{\"a\":1}\n{\"b\":[{}]}[2]  \r\n{\"c\"");
	assert_next(&s, "{\"a\":1}");
	assert_next(&s, "{\"b\":[{}]}");
	assert_next(&s, "[2]");
	assert_next(&s, NULL);
	assert_true(json_stream_is_amid(&s));
	add(&s, ":3}");
	assert_next(&s, "{\"c\":3}");
	assert_false(json_stream_is_amid(&s));
	json_stream_done(&s);
}

static void a_document_may_come_byte_by_byte(void **state)
{
	static const char text[] = "{\"x\": \"}\\\"{[\\\\\", \"y\": [[], {}]}";
	struct json_stream s = { .max_bytes = 100 };

	(void) state;
	for (size_t i = 0; i + 1 < sizeof(text); i++) {
		assert_next(&s, NULL);
		assert_ok(json_stream_add(&s, &text[i], 1));
	}
	assert_next(&s, text);
	assert_next(&s, NULL);
	json_stream_done(&s);
}

static void a_document_that_is_too_large_is_refused_before_it_is_whole(void **state)
{
	struct json_stream s = { .max_bytes = 8 };
	const char *text = NULL;
	size_t size = 0;

	(void) state;
	add(&s, "{\"a\":12}{\"a\":123}");
	assert_next(&s, "{\"a\":12}");
	assert_errno(json_stream_next(&s, &text, &size), EMSGSIZE);
	json_stream_reset(&s);
	add(&s, "[1,2,3,4,5");
	assert_errno(json_stream_next(&s, &text, &size), EMSGSIZE);
	json_stream_done(&s);
}

static void what_begins_no_document_is_refused(void **state)
{
	static const char *const texts[] = { "x", "\"a\"", "1", "}", "\x01{}" };

	(void) state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct json_stream s = { .max_bytes = 100 };
		const char *text = NULL;
		size_t size = 0;

		add(&s, texts[i]);
		assert_errno(json_stream_next(&s, &text, &size), EBADMSG);
		json_stream_done(&s);
	}
}

static void a_reset_forgets_what_was_begun(void **state)
{
	struct json_stream s = { .max_bytes = 100 };

	(void) state;
	add(&s, "{\"a\": \"");
	assert_next(&s, NULL);
	json_stream_reset(&s);
	assert_false(json_stream_is_amid(&s));
	add(&s, "{}");
	assert_next(&s, "{}");
	json_stream_done(&s);
}

static int read_some(void *userdata)
{
	struct json_stream s = { .max_bytes = 100000 };
	char piece[5000];
	int r;

	(void) userdata;
	memset(piece, ' ', sizeof(piece));
	piece[0] = '{';
	r = json_stream_add(&s, piece, sizeof(piece));
	piece[0] = '}';
	if (r == 0)
		r = json_stream_add(&s, piece, sizeof(piece));
	json_stream_done(&s);
	return r;
}

static void running_out_of_memory_is_survived(void **state)
{
	(void) state;
	assert_survives_oom(read_some, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_piece_may_hold_several_documents),
		cmocka_unit_test(a_document_may_come_byte_by_byte),
		cmocka_unit_test(a_document_that_is_too_large_is_refused_before_it_is_whole),
		cmocka_unit_test(what_begins_no_document_is_refused),
		cmocka_unit_test(a_reset_forgets_what_was_begun),
		cmocka_unit_test(running_out_of_memory_is_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
