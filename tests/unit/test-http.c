/* The HTTP that discovery plug-ins are given, against servers that behave and that do not. */

#include <fcntl.h>
#include <sys/stat.h>

#include "clock.h"
#include "http-private.h"
#include "ownership.h"
#include "scripted-server.h"
#include "test.h"

struct bench {
	struct scripted_server server;
	const char *servers[4];
	struct usher_http_options options;
	struct usher_http_config config;
	struct usher_http *http;
	char secret_path[64];
};

static void set_up(struct bench *b, scripted_answer answer)
{
	memset(b, 0, sizeof(*b));
	scripted_server_start(&b->server, answer, b);
	b->servers[0] = b->server.url;
	b->options = (struct usher_http_options){ .servers = b->servers,
		.verify = true,
		.connections = 64,
		.connect_timeout_usec = 60 * USEC_PER_SEC };
	b->config = (struct usher_http_config){ .size = sizeof(b->config), .options = &b->options };
}

static void open_http(struct bench *b)
{
	struct usher_error err = {};
	int r = usher_http_new(NULL, &b->config, &b->http, &err);

	if (r < 0)
		fail_msg("%s", usher_error_text(&err, r));
}

static void tear_down(struct bench *b)
{
	usher_http_free(b->http);
	scripted_server_stop(&b->server);
	if (b->secret_path[0])
		(void) unlink(b->secret_path);
}

/* Wait as a source does, for the next event. */
static struct usher_http_event next_event(struct usher_http *h)
{
	struct usher_http_event event = USHER_HTTP_EVENT_INIT;
	uint64_t end = clock_boot_usec() + 120 * USEC_PER_SEC;

	while (!usher_http_next(h, &event)) {
		struct pollfd fd = { .fd = http_fd(h), .events = POLLIN };
		uint64_t now = clock_boot_usec(), due = http_due_usec(h);
		int timeout_ms = due <= now                ? 0
				: due - now > USEC_PER_SEC ? 1000
							   : (int) ((due - now) / 1000 + 1);

		if (now > end)
			fail_msg("no event has come");
		(void) poll(&fd, 1, timeout_ms);
		(void) http_process(h);
	}
	return event;
}

static struct usher_http_event ask(struct bench *b, const char *path)
{
	struct usher_http_event event = USHER_HTTP_EVENT_INIT;
	struct usher_http_request request = {
		.size = sizeof(request), .path = path, .timeout_usec = 60 * USEC_PER_SEC
	};

	(void) usher_http_do(b->http, &request, &event, NULL);
	return event;
}

/* ---- whole answers ---- */

static bool answer_hello(struct scripted_connection *c)
{
	return scripted_reply(c, "200 OK", "X-Index: 7\r\n", "{\"hello\": 1}");
}

static void test_an_answer_is_given_whole_with_status_and_headers(void **state)
{
	struct usher_http_event event;
	struct bench b;

	(void) state;
	set_up(&b, answer_hello);
	open_http(&b);
	event = ask(&b, "/v1");
	assert_int_equal(event.error, 0);
	assert_int_equal(event.status, 200);
	assert_string_equal(event.data, "{\"hello\": 1}");
	assert_string_equal(usher_http_header(b.http, &event, "x-index"), "7");
	assert_null(usher_http_header(b.http, &event, "x-other"));
	tear_down(&b);
}

static bool answer_denied(struct scripted_connection *c)
{
	return scripted_reply(c, "403 Forbidden", "", "Permission denied: token \x01 lacks\nmore");
}

static void test_a_status_that_is_no_success_has_words_and_a_code(void **state)
{
	struct usher_http_event event;
	struct usher_error err = {};
	struct bench b;

	(void) state;
	set_up(&b, answer_denied);
	open_http(&b);
	event = ask(&b, "/v1");
	assert_int_equal(event.error, 0);
	assert_errno(usher_http_status_error(&event, &err), EACCES);
	assert_non_null(strstr(err.text, "HTTP 403 (Permission denied: token ? lacks)"));
	tear_down(&b);
}

static bool answer_long(struct scripted_connection *c)
{
	char body[4001];

	memset(body, 'x', 4000);
	body[4000] = '\0';
	return scripted_reply(c, "200 OK", "", body);
}

static void test_an_answer_that_is_too_large_fails(void **state)
{
	struct usher_http_request request = {
		.size = sizeof(request), .path = "/", .max_bytes = 3999
	};
	struct usher_http_event event = USHER_HTTP_EVENT_INIT;
	struct usher_error err = {};
	struct bench b;

	(void) state;
	set_up(&b, answer_long);
	open_http(&b);
	assert_errno(usher_http_do(b.http, &request, &event, &err), EMSGSIZE);
	assert_non_null(strstr(err.text, "more than 3999 bytes"));
	request.max_bytes = 4000;
	assert_ok(usher_http_do(b.http, &request, &event, &err));
	tear_down(&b);
}

#define MUCH ((size_t) 48 << 20)

static bool answer_much(struct scripted_connection *c)
{
	char *body = malloc(MUCH + 1);
	bool goes_on;

	assert_non_null(body);
	memset(body, 'x', MUCH);
	body[MUCH] = '\0';
	goes_on = scripted_reply(c, "200 OK", "", body);
	free(body);
	return goes_on;
}

static bool all_are_over(const struct usher_http *h)
{
	for (const struct exchange *x = h->exchanges; x; x = x->next)
		if (!x->over)
			return false;
	return true;
}

static void test_what_answers_hold_together_has_a_maximum(void **state)
{
	struct usher_http_request request = {
		.size = sizeof(request), .path = "/", .timeout_usec = 120 * USEC_PER_SEC
	};
	unsigned refused = 0;
	struct bench b;

	(void) state;
	set_up(&b, answer_much);
	open_http(&b);
	for (unsigned i = 0; i < 4; i++)
		assert_ok(usher_http_start(b.http, &request, NULL));
	while (!all_are_over(b.http)) {
		struct pollfd fd = { .fd = http_fd(b.http), .events = POLLIN };

		(void) poll(&fd, 1, 100);
		(void) http_process(b.http);
	}
	for (unsigned i = 0; i < 4; i++) {
		struct usher_http_event event = next_event(b.http);

		refused += event.error == -EMSGSIZE &&
				strstr(event.why.text, "have more than 128 MiB together");
	}
	assert_int_equal(refused, 2);
	/* What has been given does not count. */
	assert_int_equal(ask(&b, "/").error, 0);
	tear_down(&b);
}

static bool answer_cut_short(struct scripted_connection *c)
{
	scripted_say(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"half\"");
	return false;
}

static void test_an_answer_that_ends_early_fails(void **state)
{
	struct usher_http_event event;
	struct bench b;

	(void) state;
	set_up(&b, answer_cut_short);
	open_http(&b);
	event = ask(&b, "/");
	assert_errno(event.error, ECONNRESET);
	tear_down(&b);
}

static bool answer_elsewhere(struct scripted_connection *c)
{
	struct bench *b = c->server->userdata;
	char location[128];

	(void) snprintf(location, sizeof(location), "Location: %s/other\r\n", b->server.url);
	return scripted_reply(c, "302 Found", location, "");
}

static void test_a_redirection_is_an_answer_and_not_followed(void **state)
{
	struct usher_http_event event;
	struct bench b;

	(void) state;
	set_up(&b, answer_elsewhere);
	open_http(&b);
	event = ask(&b, "/");
	assert_int_equal(event.status, 302);
	assert_int_equal(atomic_load(&b.server.requests), 1);
	tear_down(&b);
}

/* ---- time ---- */

static void test_an_answer_that_does_not_come_in_time_fails(void **state)
{
	struct usher_http_request request = {
		.size = sizeof(request), .path = "/", .timeout_usec = 50000
	};
	struct usher_http_event event = USHER_HTTP_EVENT_INIT;
	struct bench b;

	(void) state;
	set_up(&b, scripted_hang);
	open_http(&b);
	assert_errno(usher_http_do(b.http, &request, &event, NULL), ETIMEDOUT);
	tear_down(&b);
}

static bool answer_and_fall_silent(struct scripted_connection *c)
{
	scripted_say(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
	return scripted_hang(c);
}

static void test_a_stream_that_falls_silent_fails_within_its_bound(void **state)
{
	struct usher_http_request request = { .size = sizeof(request),
		.path = "/watch",
		.flags = USHER_HTTP_STREAM,
		.idle_usec = 3 * USEC_PER_SEC };
	struct usher_http_event event;
	struct bench b;

	(void) state;
	set_up(&b, answer_and_fall_silent);
	open_http(&b);
	assert_ok(usher_http_start(b.http, &request, NULL));
	event = next_event(b.http);
	assert_int_equal(event.kind, USHER_HTTP_BEGIN);
	event = next_event(b.http);
	assert_int_equal(event.kind, USHER_HTTP_DATA);
	assert_string_equal(event.data, "hello");
	event = next_event(b.http);
	assert_int_equal(event.kind, USHER_HTTP_END);
	assert_errno(event.error, ETIMEDOUT);
	assert_non_null(strstr(event.why.text, "silent for 3.0 s"));
	tear_down(&b);
}

/* ---- streams ---- */

static bool answer_in_pieces(struct scripted_connection *c)
{
	scripted_say(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Kind: stream\r\n\r\n3\r\none\r\n");
	scripted_say(c, "3\r\ntwo\r\n0\r\n\r\n");
	return true;
}

static void test_a_stream_is_given_in_the_order_it_comes_and_ends(void **state)
{
	char mine[] = "mine";
	struct usher_http_request request = {
		.size = sizeof(request), .path = "/watch", .flags = USHER_HTTP_STREAM, .tag = mine
	};
	struct usher_http_event event;
	char seen[16] = "";
	struct bench b;

	(void) state;
	set_up(&b, answer_in_pieces);
	open_http(&b);
	assert_ok(usher_http_start(b.http, &request, NULL));
	event = next_event(b.http);
	assert_int_equal(event.kind, USHER_HTTP_BEGIN);
	assert_string_equal(event.tag, "mine");
	assert_string_equal(usher_http_header(b.http, &event, "X-Kind"), "stream");
	while ((event = next_event(b.http)).kind == USHER_HTTP_DATA)
		strncat(seen, event.data, sizeof(seen) - strlen(seen) - 1);
	assert_int_equal(event.error, 0);
	assert_string_equal(seen, "onetwo");
	tear_down(&b);
}

/* The first is answered, so that the connection is kept; whoever comes with it then is left alone
 * for longer than it takes to see that a connection was dead all along. */
static bool answer_once_then_die_waiting(struct scripted_connection *c)
{
	struct pollfd stop = { .fd = c->server->stop[0], .events = POLLIN };

	if (c->requests == 1)
		return scripted_reply(c, "200 OK", "", "{}");
	(void) poll(&stop, 1, 1500);
	return false;
}

static void test_a_request_that_has_waited_is_not_sent_again_behind_our_back(void **state)
{
	struct usher_http_event event;
	struct bench b;

	(void) state;
	set_up(&b, answer_once_then_die_waiting);
	open_http(&b);
	assert_int_equal(ask(&b, "/v1").status, 200);
	event = ask(&b, "/v1?wait");
	assert_int_equal(event.error, -ECONNRESET);
	assert_non_null(strstr(event.why.text, "closed the connection without an answer"));
	assert_int_equal(atomic_load(&b.server.requests), 2);
	assert_int_equal(atomic_load(&b.server.connections), 1);
	tear_down(&b);
}

static bool answer_once_a_connection(struct scripted_connection *c)
{
	return c->requests == 1 && scripted_reply(c, "200 OK", "", "{}");
}

static void test_a_connection_that_was_dead_all_along_is_replaced(void **state)
{
	struct bench b;

	(void) state;
	set_up(&b, answer_once_a_connection);
	open_http(&b);
	assert_int_equal(ask(&b, "/v1").status, 200);
	assert_int_equal(ask(&b, "/v1").status, 200);
	assert_int_equal(atomic_load(&b.server.connections), 2);
	tear_down(&b);
}

static void test_a_cancelled_request_gives_no_event(void **state)
{
	struct usher_http_request request = { .size = sizeof(request), .path = "/a" };
	struct usher_http_event event = USHER_HTTP_EVENT_INIT;
	struct bench b;
	uint64_t id;

	(void) state;
	set_up(&b, answer_hello);
	open_http(&b);
	assert_ok(usher_http_start(b.http, &request, &id));
	usher_http_cancel(b.http, id);
	usher_http_cancel(b.http, id);
	(void) ask(&b, "/b");
	assert_false(usher_http_next(b.http, &event));
	tear_down(&b);
}

/* ---- many ---- */

#define MANY 500

static void test_hundreds_of_requests_share_few_connections(void **state)
{
	struct usher_http_request request = {
		.size = sizeof(request), .path = "/", .timeout_usec = 60 * USEC_PER_SEC
	};
	struct usher_http_event event;
	unsigned char seen[MANY] = {};
	struct bench b;

	(void) state;
	set_up(&b, answer_hello);
	b.options.connections = 8;
	open_http(&b);
	for (size_t i = 0; i < MANY; i++) {
		request.tag = &seen[i];
		assert_ok(usher_http_start(b.http, &request, NULL));
	}
	for (size_t i = 0; i < MANY; i++) {
		event = next_event(b.http);
		assert_int_equal(event.kind, USHER_HTTP_END);
		assert_int_equal(event.error, 0);
		++*(unsigned char *) event.tag;
	}
	for (size_t i = 0; i < MANY; i++)
		assert_int_equal(seen[i], 1);
	assert_true(atomic_load(&b.server.most_open) <= 8);
	tear_down(&b);
}

/* ---- servers ---- */

static void test_a_server_that_cannot_be_reached_gives_way_to_the_next(void **state)
{
	struct usher_http_event event;
	unsigned failed = 0;
	struct bench b;

	(void) state;
	set_up(&b, answer_hello);
	b.servers[1] = "http://127.0.0.1:1";
	open_http(&b);
	for (unsigned i = 0; i < 3; i++) {
		event = ask(&b, "/");
		failed += event.error != 0;
	}
	assert_true(failed <= 1);
	assert_int_equal(event.error, 0);
	assert_string_equal(event.server, b.server.url);
	tear_down(&b);
}

static void test_a_server_that_gives_no_answer_gives_way_to_the_next(void **state)
{
	struct scripted_server broken;
	struct usher_http_event event;
	unsigned failed = 0;
	struct bench b;

	(void) state;
	set_up(&b, answer_hello);
	scripted_server_start(&broken, answer_cut_short, &b);
	b.servers[1] = broken.url;
	open_http(&b);
	for (unsigned i = 0; i < 3; i++) {
		event = ask(&b, "/");
		failed += event.error != 0;
	}
	assert_true(failed <= 1);
	assert_string_equal(event.server, b.server.url);
	tear_down(&b);
	scripted_server_stop(&broken);
}

static void test_of_many_who_leave_a_server_the_first_moves_them_all(void **state)
{
	struct scripted_server other;
	const char *left;
	struct bench b;

	(void) state;
	set_up(&b, answer_hello);
	scripted_server_start(&other, answer_hello, &b);
	b.servers[1] = other.url;
	open_http(&b);
	left = ask(&b, "/").server;
	for (unsigned i = 0; i < 2; i++)
		usher_http_leave(b.http, left);
	usher_http_leave(b.http, NULL);
	assert_string_not_equal(ask(&b, "/").server, left);
	tear_down(&b);
	scripted_server_stop(&other);
}

/* ---- credentials ---- */

static void write_secret(struct bench *b, const char *text)
{
	int fd;

	if (b->secret_path[0] == '\0') {
		strcpy(b->secret_path, "/tmp/usher-test-secret-XXXXXX");
		fd = mkstemp(b->secret_path);
	} else {
		(void) unlink(b->secret_path);
		fd = open(b->secret_path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	}
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	(void) close(fd);
}

/* Lets in who knows "second". */
static bool answer_who_knows(struct scripted_connection *c)
{
	if (strstr(c->request, "X-Token: second\r\n"))
		return scripted_reply(c, "200 OK", "", "in");
	return scripted_reply(c, "401 Unauthorized", "", "who are you?");
}

static void test_a_token_that_has_changed_is_read_again_after_a_401(void **state)
{
	struct usher_http_event event;
	struct bench b;

	(void) state;
	set_up(&b, answer_who_knows);
	write_secret(&b, "first\n");
	b.options.token_file = b.secret_path;
	b.config.auth = USHER_HTTP_AUTH_TOKEN;
	b.config.token_header = "X-Token";
	open_http(&b);
	event = ask(&b, "/");
	assert_int_equal(event.status, 401);
	write_secret(&b, "second\n");
	event = ask(&b, "/");
	assert_int_equal(event.status, 200);
	assert_string_equal(event.data, "in");
	tear_down(&b);
}

static void assert_token_file_fails(const char *path, const char *why)
{
	struct usher_http_event event;
	char text[256];
	struct bench b;

	set_up(&b, answer_who_knows);
	b.options.token_file = path;
	b.config.auth = USHER_HTTP_AUTH_BEARER;
	open_http(&b);
	event = ask(&b, "/");
	(void) snprintf(text, sizeof(text), "token_file %s: %s", path, why);
	assert_errno(event.error, EACCES);
	assert_string_equal(event.why.text, text);
	assert_int_equal(atomic_load(&b.server.requests), 0);
	tear_down(&b);
}

static void test_a_token_that_cannot_be_read_is_a_failure_that_says_why(void **state)
{
	char pipe[] = "/tmp/usher-test-pipe-XXXXXX";
	struct bench b = { .secret_path = "" };

	(void) state;
	assert_token_file_fails("/nowhere/token", "there is no such file");
	assert_token_file_fails("/tmp", "is a folder, and has to be a file");
	assert_token_file_fails(
			"/dev/null", "is a pipe, a socket or a device, and has to be a file");
	assert_non_null(mkdtemp(pipe));
	assert_int_equal(rmdir(pipe), 0);
	assert_int_equal(mkfifo(pipe, 0600), 0);
	assert_token_file_fails(pipe, "is a pipe, a socket or a device, and has to be a file");
	assert_int_equal(unlink(pipe), 0);
	assert_token_file_fails("/proc/self/exe", "is too large to be a secret");
	write_secret(&b, "\n");
	assert_token_file_fails(b.secret_path, "is empty");
	write_secret(&b, "one\ntwo\n");
	assert_token_file_fails(b.secret_path, "holds more than one line of text");
	assert_int_equal(unlink(b.secret_path), 0);
}

/* Whatever the file says in the meantime. */
static void test_a_token_stays_in_force_while_its_file_cannot_be_read(void **state)
{
	struct usher_http_event event;
	struct bench b;

	(void) state;
	set_up(&b, answer_who_knows);
	write_secret(&b, "second\n");
	b.options.token_file = b.secret_path;
	b.config.auth = USHER_HTTP_AUTH_TOKEN;
	b.config.token_header = "X-Token";
	open_http(&b);
	assert_int_equal(ask(&b, "/").status, 200);
	assert_int_equal(unlink(b.secret_path), 0);
	assert_false(http_credentials_look(b.http->credentials, true));
	event = ask(&b, "/");
	assert_int_equal(event.status, 200);
	b.secret_path[0] = '\0';
	tear_down(&b);
}

static bool answer_basic(struct scripted_connection *c)
{
	bool knows = strstr(c->request, "Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n");

	return scripted_reply(c, knows ? "200 OK" : "401 Unauthorized", "", "");
}

/* The example of RFC 7617, section 2. */
static void test_a_user_and_a_password_are_sent_as_basic(void **state)
{
	struct usher_http_event event;
	struct bench b;

	(void) state;
	set_up(&b, answer_basic);
	b.options.user = "Aladdin";
	b.options.password = "open sesame";
	b.config.auth = USHER_HTTP_AUTH_BASIC;
	open_http(&b);
	event = ask(&b, "/");
	assert_int_equal(event.status, 200);
	tear_down(&b);
}

static void test_no_secret_is_in_a_message(void **state)
{
	struct usher_http_event event;
	struct bench b;

	(void) state;
	set_up(&b, answer_cut_short);
	b.options.token = "s3cr3t";
	b.config.auth = USHER_HTTP_AUTH_BEARER;
	open_http(&b);
	event = ask(&b, "/");
	assert_true(event.error < 0);
	assert_null(strstr(event.why.text, "s3cr3t"));
	tear_down(&b);
}

/* ---- paths ---- */

static void test_texts_are_escaped_for_paths(void **state)
{
	char path[32] = "/v1/";

	(void) state;
	assert_true(usher_http_escape(path, sizeof(path), "a b/\xc3\xa9"));
	assert_string_equal(path, "/v1/a%20b%2F%C3%A9");
	assert_false(usher_http_escape(path, sizeof(path), "and far too much for it"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_answer_is_given_whole_with_status_and_headers),
		cmocka_unit_test(test_a_status_that_is_no_success_has_words_and_a_code),
		cmocka_unit_test(test_an_answer_that_is_too_large_fails),
		cmocka_unit_test(test_what_answers_hold_together_has_a_maximum),
		cmocka_unit_test(test_an_answer_that_ends_early_fails),
		cmocka_unit_test(test_a_redirection_is_an_answer_and_not_followed),
		cmocka_unit_test(test_an_answer_that_does_not_come_in_time_fails),
		cmocka_unit_test(test_a_stream_that_falls_silent_fails_within_its_bound),
		cmocka_unit_test(test_a_stream_is_given_in_the_order_it_comes_and_ends),
		cmocka_unit_test(test_a_request_that_has_waited_is_not_sent_again_behind_our_back),
		cmocka_unit_test(test_a_connection_that_was_dead_all_along_is_replaced),
		cmocka_unit_test(test_a_cancelled_request_gives_no_event),
		cmocka_unit_test(test_hundreds_of_requests_share_few_connections),
		cmocka_unit_test(test_a_server_that_cannot_be_reached_gives_way_to_the_next),
		cmocka_unit_test(test_a_server_that_gives_no_answer_gives_way_to_the_next),
		cmocka_unit_test(test_of_many_who_leave_a_server_the_first_moves_them_all),
		cmocka_unit_test(test_a_token_that_has_changed_is_read_again_after_a_401),
		cmocka_unit_test(test_a_token_that_cannot_be_read_is_a_failure_that_says_why),
		cmocka_unit_test(test_a_token_stays_in_force_while_its_file_cannot_be_read),
		cmocka_unit_test(test_a_user_and_a_password_are_sent_as_basic),
		cmocka_unit_test(test_no_secret_is_in_a_message),
		cmocka_unit_test(test_texts_are_escaped_for_paths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
