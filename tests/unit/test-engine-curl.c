/* Checks over TLS, HTTP/2 and gRPC, and of names. */

#include <sys/resource.h>

#include "check-bench.h"
#include "health-servers.h"
#include "play-shard.h"

#define LONG_USEC  (120 * USEC_PER_SEC)
#define SHORT_USEC (3 * USEC_PER_SEC) /* and yet enough for what comes before the wait */

#define HTTP .kind = CHECK_HTTP, .tls_verify = true
#define TLS  .kind = CHECK_HTTP, .tls = true, .tls_verify = true, .tls_ca = server_file("ca.pem")
#define GRPC .kind = CHECK_GRPC, .tls_verify = true
#define TCP  .kind = CHECK_TCP

static struct shard shard;
static struct trial last; /* what the last attempt was like */

static int setup(void **state)
{
	(void) state;
	last = (struct trial){};
	play_open(&shard, &engine_curl);
	return 0;
}

static int teardown(void **state)
{
	(void) state;
	engine_curl.forget(shard.opened, &last.attempt);
	play_close(&shard);
	return 0;
}

static void ask(const struct target *target, uint64_t timeout_usec)
{
	trial_start(&shard, &last, target, timeout_usec);
	trial_wait(&shard, &last);
}

static void ask_at(struct check *check, const char *address, const char *server)
{
	struct target *target = target_at(check, address, port_of(server), false);

	ask(target, LONG_USEC);
	target_free(target);
}

#define assert_last(expected_reason, expected_code, text_part)                              \
	do {                                                                                \
		if (!strstr(last.verdict.text, text_part))                                  \
			fail_msg("\"%s\" instead of \"%s\"", last.verdict.text, text_part); \
		assert_string_equal(probe_reason_to_string(last.verdict.reason),            \
				probe_reason_to_string(expected_reason));                   \
		assert_int_equal(last.verdict.code, expected_code);                         \
	} while (0)

/* ---- TLS ---- */

static void a_server_with_a_certificate_of_the_ca_is_up(void **state)
{
	(void) state;
	ask_at(CHECK(TLS, .path = T("/health")), "127.0.0.1", "https");
	assert_last(PROBE_OK, 200, "HTTP 200");
	assert_int_equal(last.attempt.connections, 1);
	assert_true(last.attempt.bytes_sent > 50);
	assert_true(last.attempt.bytes_received > 50);
}

static void a_certificate_of_another_ca_is_refused(void **state)
{
	(void) state;
	ask_at(CHECK(TLS), "127.0.0.1", "https-stranger");
	assert_last(PROBE_TLS, 0, "certificate");
}

static void without_a_ca_the_system_decides(void **state)
{
	(void) state;
	ask_at(CHECK(HTTP, .tls = true), "127.0.0.1", "https");
	assert_last(PROBE_TLS, 0, "certificate");
}

static void a_certificate_for_another_name_is_refused(void **state)
{
	(void) state;
	ask_at(CHECK(TLS), "127.0.0.1", "https-misnamed");
	assert_last(PROBE_TLS, 0, "127.0.0.1");
	ask_at(CHECK(TLS, .tls_server_name = T("elsewhere.test")), "127.0.0.1", "https-misnamed");
	assert_last(PROBE_OK, 200, "HTTP 200");
	ask_at(CHECK(TLS, .tls_server_name = T("elsewhere.test")), "127.0.0.1", "https");
	assert_last(PROBE_TLS, 0, "elsewhere.test");
}

static void an_expired_certificate_is_refused(void **state)
{
	(void) state;
	ask_at(CHECK(TLS), "127.0.0.1", "https-expired");
	assert_last(PROBE_TLS, 0, "expired");
}

static void unverified_means_unverified(void **state)
{
	static const char *const servers[] = { "https-stranger", "https-misnamed",
		"https-expired" };

	(void) state;
	for (size_t i = 0; i < 3; i++) {
		ask_at(CHECK(.kind = CHECK_HTTP, .tls = true), "127.0.0.1", servers[i]);
		assert_last(PROBE_OK, 200, "HTTP 200");
	}
}

static void the_server_name_is_told_and_verified(void **state)
{
	(void) state;
	ask_at(CHECK(TLS, .tls_server_name = T("shop.test"), .match_pointer = T("/sni"),
			       .match_value = T("shop.test")),
			"127.0.0.1", "https");
	assert_last(PROBE_OK, 200, "HTTP 200");
	ask_at(CHECK(TLS, .host = T("shop.test:99"), .match_pointer = T("/sni"),
			       .match_value = T("shop.test")),
			"127.0.0.1", "https");
	assert_last(PROBE_OK, 200, "HTTP 200");
	ask_at(CHECK(TLS, .host = T("shop.test:99"), .match_pointer = T("/host"),
			       .match_value = T("shop.test:99")),
			"127.0.0.1", "https");
	assert_last(PROBE_OK, 200, "HTTP 200");
	ask_at(CHECK(TLS, .match_pointer = T("/sni"), .match_value = T("null")), "127.0.0.1",
			"https");
	assert_last(PROBE_OK, 200, "HTTP 200"); /* an address is no name to be told */
}

static void tls_with_who_speaks_none_fails(void **state)
{
	(void) state;
	ask_at(CHECK(TLS), "127.0.0.1", "http");
	assert_last(PROBE_TLS, 0, "");
	ask_at(CHECK(TLS), "127.0.0.1", "garbage");
	assert_last(PROBE_TLS, 0, "");
	ask_at(CHECK(TLS), "127.0.0.1", "hang-up");
	assert_last(PROBE_TLS, 0, "");
}

/* ---- HTTP, once the connection is there ---- */

static void status_and_body_are_judged(void **state)
{
	struct status_range limping = { 429, 429 };

	(void) state;
	ask_at(CHECK(TLS, .path = T("/503")), "127.0.0.1", "https");
	assert_last(PROBE_STATUS, 503, "HTTP 503, expected 200");
	ask_at(CHECK(TLS, .path = T("/429"), .degraded = &limping, .degraded_count = 1),
			"127.0.0.1", "https");
	assert_last(PROBE_DEGRADED, 429, "degraded");
	ask_at(CHECK(TLS, .match_text = T("\"UP\"")), "127.0.0.1", "https");
	assert_last(PROBE_OK, 200, "");
	ask_at(CHECK(TLS, .match_text = T("\"DOWN\"")), "127.0.0.1", "https");
	assert_last(PROBE_BODY, 0, "DOWN");
	ask_at(CHECK(TLS, .match_pointer = T("/status"), .match_value = T("UP")), "127.0.0.1",
			"https");
	assert_last(PROBE_OK, 200, "");
}

static void methods_are_those_asked_for(void **state)
{
	static const char *const methods[] = { "GET", "POST", "OPTIONS" };

	(void) state;
	for (size_t i = 0; i < 3; i++) {
		ask_at(CHECK(TLS, .method = T(methods[i]), .match_pointer = T("/method"),
				       .match_value = T(methods[i])),
				"127.0.0.1", "https");
		assert_last(PROBE_OK, 200, "HTTP 200");
	}
	ask_at(CHECK(TLS, .method = T("HEAD"), .path = T("/204")), "127.0.0.1", "https");
	assert_last(PROBE_STATUS, 204, "HTTP 204");
}

static void a_path_goes_as_it_is_typed(void **state)
{
	(void) state;
	ask_at(CHECK(TLS, .path = T("/a/../b/%2e?x=1&y=//"), .match_pointer = T("/path"),
			       .match_value = T("/a/../b/%2e?x=1&y=//")),
			"127.0.0.1", "https");
	assert_last(PROBE_OK, 200, "HTTP 200");
}

static void a_large_body_is_not_read_to_its_end(void **state)
{
	(void) state;
	ask_at(CHECK(TLS, .path = T("/large")), "127.0.0.1", "https");
	assert_last(PROBE_OK, 200, "HTTP 200");
	assert_true(last.attempt.bytes_received < 100000);
	ask_at(CHECK(TLS, .path = T("/large"), .match_text = T("y")), "127.0.0.1", "https");
	assert_last(PROBE_BODY, 0, "not in the first 65536 bytes");
	assert_true(last.attempt.bytes_received < 150000);
}

static void who_sends_headers_without_end_is_left(void **state)
{
	(void) state;
	ask_at(CHECK(TLS, .path = T("/headers")), "127.0.0.1", "https");
	assert_last(PROBE_PROTOCOL, 0, "headers");
}

static void what_is_no_http_is_told(void **state)
{
	(void) state;
	ask_at(CHECK(TLS), "127.0.0.1", "tls-garbage");
	assert_last(PROBE_PROTOCOL, 0, "HTTP/0.9");
	ask_at(CHECK(TLS), "127.0.0.1", "tls-hang-up");
	assert_last(PROBE_RESET, 0, "");
}

static void who_hangs_is_left_at_the_deadline(void **state)
{
	struct target *target = target_at(
			CHECK(TLS, .path = T("/hang")), "127.0.0.1", port_of("https"), false);
	struct target *silent = target_at(CHECK(TLS), "127.0.0.1", port_of("silent"), false);

	(void) state;
	ask(target, SHORT_USEC);
	assert_last(PROBE_TIMEOUT, 0, "waiting for the answer");
	ask(silent, SHORT_USEC);
	assert_last(PROBE_TIMEOUT, 0, "connecting, with TLS");
	target_free(target);
	target_free(silent);
}

static void a_closed_port_refuses(void **state)
{
	struct target *target = target_at(CHECK(TLS), "127.0.0.1", 1, false);

	(void) state;
	ask(target, LONG_USEC);
	assert_last(PROBE_REFUSED, ECONNREFUSED, "refused");
	target_free(target);
}

/* ---- connections that are kept ---- */

static void a_connection_is_used_again_when_asked(void **state)
{
	struct target *target = target_at(
			CHECK(TLS, .keep_alive = true), "127.0.0.1", port_of("https"), false);

	(void) state;
	ask(target, LONG_USEC);
	assert_int_equal(last.attempt.connections, 1);
	for (int i = 0; i < 3; i++) {
		ask(target, LONG_USEC);
		assert_last(PROBE_OK, 200, "HTTP 200");
		assert_int_equal(last.attempt.connections, 0);
	}
	engine_curl.forget(shard.opened, &last.attempt); /* its connection ends with the probe */
	ask(target, LONG_USEC);
	assert_last(PROBE_OK, 200, "HTTP 200");
	assert_int_equal(last.attempt.connections, 1);
	target_free(target);
}

static void without_being_asked_each_attempt_connects(void **state)
{
	struct target *target = target_at(CHECK(TLS), "127.0.0.1", port_of("https"), false);

	(void) state;
	for (int i = 0; i < 3; i++) {
		ask(target, LONG_USEC);
		assert_int_equal(last.attempt.connections, 1);
	}
	assert_null(last.attempt.kept);
	target_free(target);
}

static void an_answer_too_long_to_be_read_ends_its_connection(void **state)
{
	struct target *target = target_at(CHECK(TLS, .keep_alive = true, .path = T("/large")),
			"127.0.0.1", port_of("https"), false);

	(void) state;
	ask(target, LONG_USEC);
	ask(target, LONG_USEC);
	assert_last(PROBE_OK, 200, "HTTP 200");
	assert_int_equal(last.attempt.connections, 1);
	target_free(target);
}

/* ---- names ---- */

static void a_name_is_resolved(void **state)
{
	(void) state;
	ask_at(CHECK(HTTP), "localhost", "http");
	assert_last(PROBE_OK, 200, "HTTP 200");
	ask_at(CHECK(TLS), "localhost", "https");
	assert_last(PROBE_OK, 200, "HTTP 200");
}

static void a_name_without_address_is_told(void **state)
{
	struct target *target = target_at(CHECK(HTTP), "nowhere.invalid", 80, false);

	(void) state;
	ask(target, LONG_USEC);
	assert_last(PROBE_NO_ADDRESS, 0, "nowhere.invalid");
	target_free(target);
}

static void tcp_to_a_name_speaks_and_hears(void **state)
{
	struct target *target;

	(void) state;
	ask_at(CHECK(TCP), "localhost", "silent");
	assert_last(PROBE_OK, 0, "accepts connections");
	ask_at(CHECK(TCP, .send = T("PING\r\n"), .expect_text = T("+PONG")), "localhost", "redis");
	assert_last(PROBE_OK, 0, "answers as expected");
	ask_at(CHECK(TCP, .expect_text = T("220 ")), "localhost", "banner");
	assert_last(PROBE_OK, 0, "answers as expected");
	ask_at(CHECK(TCP, .send = T("x")), "localhost", "silent");
	assert_last(PROBE_OK, 0, "takes what is sent");
	ask_at(CHECK(TCP, .send = T("PING\r\n"), .expect_text = T("+PING")), "localhost", "redis");
	assert_last(PROBE_BODY, 0, "expected \"+PING\"");
	ask_at(CHECK(TCP, .send = T("x"), .expect_text = T("y")), "localhost", "hang-up");
	assert_last(PROBE_RESET, 0, "");
	target = target_at(CHECK(TCP, .send = T("x"), .expect_text = T("y")), "localhost",
			port_of("silent"), false);
	ask(target, SHORT_USEC);
	assert_last(PROBE_TIMEOUT, 0, "waiting for the answer");
	target_free(target);
	target = target_at(CHECK(TCP), "localhost", 1, false);
	ask(target, LONG_USEC);
	assert_last(PROBE_REFUSED, ECONNREFUSED, "");
	target_free(target);
}

/* ---- gRPC ---- */

static void ask_grpc(const char *service, const char *server)
{
	ask_at(CHECK(GRPC, .grpc_service = T(service)), "127.0.0.1", server);
}

static void a_grpc_server_says_how_it_is(void **state)
{
	char name[1025];

	(void) state;
	ask_grpc(NULL, "grpc");
	assert_last(PROBE_OK, 1, "SERVING");
	assert_int_equal(last.attempt.connections, 1);
	ask_grpc("shop", "grpc");
	assert_last(PROBE_OK, 1, "SERVING");
	ask_grpc("closed", "grpc");
	assert_last(PROBE_NOT_SERVING, 2, "NOT_SERVING");
	ask_grpc("undecided", "grpc");
	assert_last(PROBE_NOT_SERVING, 0, "UNKNOWN");
	ask_grpc("nobody", "grpc");
	assert_last(PROBE_NOT_SERVING, 5, "no service \"nobody\"");
	ask_grpc("deep", "grpc");
	assert_last(PROBE_OK, 1, "SERVING");
	ask_grpc("broken", "grpc");
	assert_last(PROBE_STATUS, 13,
			"gRPC status 13 INTERNAL: the database is \303\274berfull.100 %");
	memset(name, 's', sizeof(name));
	name[127] = '\0';
	ask_grpc(name, "grpc");
	assert_last(PROBE_OK, 1, "SERVING");
	name[127] = 's';
	name[128] = '\0';
	ask_grpc(name, "grpc");
	assert_last(PROBE_OK, 1, "SERVING");
	name[128] = 's';
	name[1024] = '\0';
	ask_grpc(name, "grpc");
	assert_last(PROBE_OK, 1, "SERVING");
}

static void a_grpc_server_without_health_is_told_from_one_that_is_ill(void **state)
{
	(void) state;
	ask_grpc(NULL, "grpc-bare");
	assert_last(PROBE_STATUS, 12, "UNIMPLEMENTED");
}

static void grpc_goes_over_tls(void **state)
{
	(void) state;
	ask_at(CHECK(GRPC, .tls = true, .tls_ca = server_file("ca.pem")), "127.0.0.1", "grpc-tls");
	assert_last(PROBE_OK, 1, "SERVING");
	ask_at(CHECK(GRPC, .tls = true, .tls_ca = server_file("ca.pem"),
			       .tls_server_name = T("shop.test")),
			"127.0.0.1", "grpc-tls");
	assert_last(PROBE_OK, 1, "SERVING");
	ask_at(CHECK(GRPC, .tls = true, .tls_ca = server_file("other-ca.pem")), "127.0.0.1",
			"grpc-tls");
	assert_last(PROBE_TLS, 0, "certificate");
	ask_at(CHECK(GRPC), "localhost", "grpc");
	assert_last(PROBE_OK, 1, "SERVING");
}

static void grpc_with_who_speaks_no_http2_fails(void **state)
{
	(void) state;
	ask_at(CHECK(GRPC, .tls = true, .tls_ca = server_file("ca.pem")), "127.0.0.1", "https");
	assert_last(PROBE_PROTOCOL, 0, "no HTTP/2");
	ask_grpc(NULL, "http");
	assert_last(PROBE_PROTOCOL, 0, "another protocol");
	ask_grpc(NULL, "hang-up");
	assert_int_equal(probe_reason_outcome(last.verdict.reason), PROBE_IS_DOWN);
}

static void a_slow_grpc_server_is_left_at_the_deadline(void **state)
{
	struct target *target = target_at(CHECK(GRPC, .grpc_service = T("slow")), "127.0.0.1",
			port_of("grpc"), false);

	(void) state;
	ask(target, SHORT_USEC);
	assert_true(last.verdict.reason == PROBE_TIMEOUT ||
			(last.verdict.reason == PROBE_STATUS && last.verdict.code == 4));
	target_free(target);
}

static void liars_over_http2_are_found_out(void **state)
{
	static const struct {
		const char *server;
		enum probe_reason reason;
		int code;
		const char *text;
	} cases[] = {
		{ "h2-good", PROBE_OK, 1, "SERVING" },
		{ "h2-no-status", PROBE_PROTOCOL, 0, "no grpc-status" },
		{ "h2-odd-status", PROBE_PROTOCOL, 0, "no valid grpc-status" },
		{ "h2-status-first", PROBE_STATUS, 14, "UNAVAILABLE: going away" },
		{ "h2-no-message", PROBE_PROTOCOL, 0, "no message" },
		{ "h2-long-frame", PROBE_PROTOCOL, 0, "not as long as it says" },
		{ "h2-two-frames", PROBE_PROTOCOL, 0, "not as long as it says" },
		{ "h2-compressed", PROBE_PROTOCOL, 0, "compressed" },
		{ "h2-no-protobuf", PROBE_PROTOCOL, 0, "no HealthCheckResponse" },
		{ "h2-unknown-state", PROBE_PROTOCOL, 0, "42" },
		{ "h2-html", PROBE_STATUS, 404, "HTTP 404 instead of a gRPC answer" },
		{ "h2-plain", PROBE_PROTOCOL, 0, "not application/grpc" },
		{ "h2-flood", PROBE_PROTOCOL, 0, "too long" },
		{ "h2-reset", PROBE_PROTOCOL, 0, "" },
		{ "h2-goaway", PROBE_PROTOCOL, 0, "" },
		{ "h2-cut", PROBE_RESET, 0, "" },
		{ "h2-rubbish", PROBE_PROTOCOL, 0, "another protocol" },
		{ "h2-http1", PROBE_PROTOCOL, 0, "another protocol" },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ask_grpc(NULL, cases[i].server);
		assert_last(cases[i].reason, cases[i].code, cases[i].text);
	}
}

/* ---- this node's faults ---- */

static void without_a_descriptor_nothing_is_proven(void **state)
{
	struct rlimit limit, none;
	struct target *target = target_at(CHECK(TLS), "127.0.0.1", port_of("https"), false);
	int fd;

	(void) state;
	ask(target, LONG_USEC); /* what is opened once is open */
	fd = dup(0);
	assert_return_code(getrlimit(RLIMIT_NOFILE, &limit), errno);
	none = limit;
	none.rlim_cur = (rlim_t) fd;
	(void) close(fd);
	assert_return_code(setrlimit(RLIMIT_NOFILE, &none), errno);
	ask(target, LONG_USEC);
	assert_return_code(setrlimit(RLIMIT_NOFILE, &limit), errno);
	assert_last(PROBE_LOCAL, EMFILE, "cannot open a socket");
	target_free(target);
}

static void a_socket_that_cannot_be_watched_proves_nothing(void **state)
{
	struct target *target = target_at(CHECK(TLS), "127.0.0.1", port_of("https"), false);

	(void) state;
	shard.refuses = true;
	ask(target, LONG_USEC);
	assert_int_equal(last.verdict.reason, PROBE_LOCAL);
	shard.refuses = false;
	ask(target, LONG_USEC);
	assert_last(PROBE_OK, 200, "HTTP 200");
	target_free(target);
}

static void many_at_once_do_not_disturb_each_other(void **state)
{
	static struct trial trials[120];
	struct target *targets[3] = {
		target_at(CHECK(TLS), "127.0.0.1", port_of("https"), false),
		target_at(CHECK(TLS), "127.0.0.1", port_of("https-expired"), false),
		target_at(CHECK(GRPC), "127.0.0.1", port_of("grpc"), false),
	};
	static const enum probe_reason expected[3] = { PROBE_OK, PROBE_TLS, PROBE_OK };

	(void) state;
	for (size_t i = 0; i < 120; i++)
		trial_start(&shard, &trials[i], targets[i % 3], LONG_USEC);
	for (size_t i = 0; i < 120; i += 10) {
		engine_curl.cancel(shard.opened, &trials[i].attempt);
		trials[i].is_done = true;
		trials[i].verdict.reason = expected[i % 3];
	}
	for (size_t i = 0; i < 120; i++) {
		trial_wait(&shard, &trials[i]);
		assert_int_equal(trials[i].verdict.reason, expected[i % 3]);
	}
	for (size_t i = 0; i < 3; i++)
		target_free(targets[i]);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_server_with_a_certificate_of_the_ca_is_up),
		TEST(a_certificate_of_another_ca_is_refused),
		TEST(without_a_ca_the_system_decides),
		TEST(a_certificate_for_another_name_is_refused),
		TEST(an_expired_certificate_is_refused),
		TEST(unverified_means_unverified),
		TEST(the_server_name_is_told_and_verified),
		TEST(tls_with_who_speaks_none_fails),
		TEST(status_and_body_are_judged),
		TEST(methods_are_those_asked_for),
		TEST(a_path_goes_as_it_is_typed),
		TEST(a_large_body_is_not_read_to_its_end),
		TEST(who_sends_headers_without_end_is_left),
		TEST(what_is_no_http_is_told),
		TEST(who_hangs_is_left_at_the_deadline),
		TEST(a_closed_port_refuses),
		TEST(a_connection_is_used_again_when_asked),
		TEST(without_being_asked_each_attempt_connects),
		TEST(an_answer_too_long_to_be_read_ends_its_connection),
		TEST(a_name_is_resolved),
		TEST(a_name_without_address_is_told),
		TEST(tcp_to_a_name_speaks_and_hears),
		TEST(a_grpc_server_says_how_it_is),
		TEST(a_grpc_server_without_health_is_told_from_one_that_is_ill),
		TEST(grpc_goes_over_tls),
		TEST(grpc_with_who_speaks_no_http2_fails),
		TEST(a_slow_grpc_server_is_left_at_the_deadline),
		TEST(liars_over_http2_are_found_out),
		TEST(without_a_descriptor_nothing_is_proven),
		TEST(a_socket_that_cannot_be_watched_proves_nothing),
		TEST(many_at_once_do_not_disturb_each_other),
	};

	return cmocka_run_group_tests(tests, health_servers_start, health_servers_stop);
}
