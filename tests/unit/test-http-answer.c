/* Answers of HTTP/1.1, in pieces of every size. */

#include "http-answer.h"
#include "test.h"

#define BODY_MAX 4096

/* What was read: status, body, how it ended, and what was left over. */
struct reading {
	struct http_answer answer;
	char body[BODY_MAX];
	size_t body_size;
	size_t left;
	bool at_end;
	int r;
};

static void read_piece(struct reading *reading, const char *data, size_t size)
{
	const char *body;
	size_t body_size;
	int event;

	while ((event = http_answer_read(&reading->answer, &data, &size, &body, &body_size)) >
			HTTP_ANSWER_MORE) {
		if (event == HTTP_ANSWER_END) {
			reading->at_end = true;
			reading->left += size;
			return;
		}
		if (event == HTTP_ANSWER_HEAD)
			assert_true(reading->answer.has_head);
		if (event != HTTP_ANSWER_BODY)
			continue;
		assert_true(body_size > 0);
		memcpy(reading->body + reading->body_size, body, body_size);
		reading->body_size += body_size;
		reading->body[reading->body_size] = '\0';
	}
	reading->r = event;
}

static void read_in_pieces(
		struct reading *reading, const char *text, size_t size, size_t piece, bool is_head)
{
	memset(reading, 0, sizeof(*reading));
	http_answer_init(&reading->answer, is_head);
	assert_true(http_answer_is_untouched(&reading->answer));
	for (size_t i = 0; i < size && reading->r >= 0; i += piece)
		read_piece(reading, text + i, size - i < piece ? size - i : piece);
}

static const struct {
	const char *name, *text;
	bool is_head;
	unsigned status;
	const char *body;
	bool at_end, reusable;
	size_t left;
} answers[] = {
	{ "with a length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false, 200, "hello",
			true, true, 0 },
	{ "without words", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", false, 200, "", true, true,
			0 },
	{ "with bare line ends", "HTTP/1.1 404 No\nContent-Length: 1\n\nx", false, 404, "x", true,
			true, 0 },
	{ "with another after it",
			"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabHTTP/1.1 500 No\r\n\r\n",
			false, 200, "ab", true, true, 19 },
	{ "that is chunked",
			"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n5;x=y\r\nhello\r\n1\r\n!"
			"\r\n0\r\n\r\n",
			false, 200, "hello!", true, true, 0 },
	{ "with trailers",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\nA\r\n0123456789\r\n0"
			"\r\nX: y\r\n\r\n",
			false, 200, "0123456789", true, true, 0 },
	{ "until the end", "HTTP/1.1 200 OK\r\nServer: x\r\n\r\nwho knows", false, 200, "who knows",
			false, false, 0 },
	{ "with a coding that is not chunked",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n", false,
			200, "0\r\n", false, false, 0 },
	{ "with both, where the coding counts",
			"HTTP/1.1 200 OK\r\nContent-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n1\r"
			"\nx\r\n0\r\n\r\n",
			false, 200, "x", true, false, 0 },
	{ "to HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n", true, 200, "", true, true,
			0 },
	{ "204", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", false, 204, "", true, true,
			0 },
	{ "304", "HTTP/1.1 304 Not Modified\r\n\r\n", false, 304, "", true, true, 0 },
	{ "101, which nobody asked for", "HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n", false, 101,
			"", true, false, 0 },
	{ "after interim ones",
			"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nContent-Length: 9\r\n"
			"Link: x\r\n\r\nHTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nno",
			false, 503, "no", true, true, 0 },
	{ "of HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", false, 200, "x", true,
			false, 0 },
	{ "of HTTP/1.0 that keeps",
			"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 1\r\n\r\nx",
			false, 200, "x", true, true, 0 },
	{ "that closes",
			"HTTP/1.1 200 OK\r\nConnection: upgrade , Close\r\nContent-Length: 1\r\n\r\nx",
			false, 200, "x", true, false, 0 },
	{ "with one length twice",
			"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", false,
			200, "x", true, true, 0 },
	{ "with a folded header", "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n",
			false, 200, "", true, true, 0 },
};

static void an_answer_is_read_the_same_in_pieces_of_any_size(void **state)
{
	static struct reading reading;

	(void) state;
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		size_t size = strlen(answers[i].text);

		for (size_t piece = 1; piece <= size; piece++) {
			read_in_pieces(&reading, answers[i].text, size, piece, answers[i].is_head);
			if (reading.r < 0 || reading.answer.status != answers[i].status ||
					strcmp(reading.body, answers[i].body) != 0 ||
					reading.at_end != answers[i].at_end ||
					reading.answer.reusable != answers[i].reusable)
				fail_msg("an answer %s, in pieces of %zu: %s, %u, \"%s\", end %d, again "
					 "%d",
						answers[i].name, piece,
						reading.r < 0 ? reading.answer.fault : "read",
						reading.answer.status, reading.body, reading.at_end,
						reading.answer.reusable);
			if (piece == size)
				assert_int_equal(reading.left, answers[i].left);
		}
	}
}

static void what_is_wrong_is_found_in_pieces_of_any_size(void **state)
{
	static const struct {
		const char *text, *fault;
	} cases[] = {
		{ "SSH-2.0-OpenSSH", "it does not begin like HTTP/1.1" },
		{ "\x16\x03\x01", "it does not begin like HTTP/1.1" },
		{ "\r\nHTTP/1.1 200 OK\r\n", "it does not begin like HTTP/1.1" },
		{ "HTTP/2 200\r\n", "it does not begin like HTTP/1.1" },
		{ "HTTP/1.1 OK\r\n", "it does not begin like HTTP/1.1" },
		{ "HTTP/1.1 2x0 OK\r\n", "its status line has no status" },
		{ "HTTP/1.1 2000 OK\r\n", "its status line has no status" },
		{ "HTTP/1.1 099 OK\r\n", "its status line has no status" },
		{ "HTTP/1.1 200 OK\r\nno colon\r\n", "it has a header without a colon" },
		{ "HTTP/1.1 200 OK\r\n: x\r\n", "it has a header without a name" },
		{ "HTTP/1.1 200 OK\r\nContent-Length : 5\r\n", "it has a header without a name" },
		{ "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n", "its Content-Length is no number" },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n",
				"its Content-Length is no number" },
		{ "HTTP/1.1 200 OK\r\nContent-Length:\r\n", "its Content-Length is no number" },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551617\r\n",
				"its Content-Length is no number" },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n",
				"it has two Content-Lengths that differ" },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
				"it has a chunk without a size" },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5 x\r\n",
				"it has a chunk whose size is no number" },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n",
				"it has a chunk that is longer than it says" },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1111111111111111\r\n",
				"it has a chunk of a size beyond reason" },
	};
	static struct reading reading;

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (size_t piece = 1; piece <= strlen(cases[i].text); piece++) {
			read_in_pieces(&reading, cases[i].text, strlen(cases[i].text), piece,
					false);
			assert_errno(reading.r, EPROTO);
			assert_string_equal(reading.answer.fault, cases[i].fault);
		}
}

static void an_end_before_the_end_is_no_answer(void **state)
{
	static const struct {
		const char *text;
		int r;
	} cases[] = {
		{ "", -ECONNRESET },
		{ "HTTP/1.1 200 OK\r\nServer: x\r\n", -ECONNRESET },
		{ "HTTP/1.1 100 Continue\r\n\r\n", -ECONNRESET },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", -ECONNRESET },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", -ECONNRESET },
		{ "HTTP/1.1 200 OK\r\n\r\n", 0 },
		{ "HTTP/1.1 200 OK\r\n\r\nhello", 0 },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", 0 },
	};
	static struct reading reading;

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		read_in_pieces(&reading, cases[i].text, strlen(cases[i].text), 1000, false);
		assert_int_equal(http_answer_close(&reading.answer), cases[i].r);
	}
}

static void a_head_has_a_maximum_whatever_it_is_made_of(void **state)
{
	static const char *const parts[] = { "X: y\r\n", "x", "HTTP/1.1 100 Continue\r\n\r\n" };
	static const char *const begins[] = { "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nX: ", "" };

	(void) state;
	for (size_t i = 0; i < 3; i++) {
		static struct reading reading;
		size_t fed = strlen(begins[i]);

		read_in_pieces(&reading, begins[i], fed, 1000, false);
		while (reading.r >= 0) {
			read_piece(&reading, parts[i], strlen(parts[i]));
			fed += strlen(parts[i]);
			assert_true(fed <= HTTP_ANSWER_HEAD_MAX + 100);
		}
		assert_errno(reading.r, EPROTO);
		assert_string_equal(reading.answer.fault, "its headers do not end within 64 KiB");
	}
}

static void a_long_header_is_passed_over(void **state)
{
	static struct reading reading;
	char text[2000], *end = text;

	(void) state;
	end += sprintf(end, "HTTP/1.1 200 OK\r\nX: "); /* NOLINT */
	memset(end, 'x', 1000);
	end += 1000;
	end += sprintf(end, "\r\nContent-Length: 1\r\n\r\nz"); /* NOLINT */
	for (size_t piece = 1; piece < 600; piece += 7) {
		read_in_pieces(&reading, text, (size_t) (end - text), piece, false);
		assert_true(reading.at_end);
		assert_string_equal(reading.body, "z");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_answer_is_read_the_same_in_pieces_of_any_size),
		cmocka_unit_test(what_is_wrong_is_found_in_pieces_of_any_size),
		cmocka_unit_test(an_end_before_the_end_is_no_answer),
		cmocka_unit_test(a_head_has_a_maximum_whatever_it_is_made_of),
		cmocka_unit_test(a_long_header_is_passed_over),
	};

	return cmocka_run_group_tests_name("http-answer", tests, NULL, NULL);
}
