/* Checks, and what they ask an endpoint. */

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <unistd.h>

#include "check-bench.h"

#define HTTP .kind = CHECK_HTTP, .tls_verify = true

static void refused(const struct check_config *config, int error, const char *why)
{
	struct check *check = NULL;
	struct usher_error err = {};

	assert_errno(check_new(config, &check, &err), error);
	assert_null(check);
	if (!strstr(err.text, why))
		fail_msg("\"%s\" does not say \"%s\"", err.text, why);
}
#define REFUSED(error, why, ...) refused(&(const struct check_config){ __VA_ARGS__ }, error, why)

/* ---- the configuration ---- */

static void what_breaks_a_request_apart_is_refused(void **state)
{
	(void) state;
	REFUSED(EINVAL, "percent-encode", HTTP, .path = T("/health HTTP/1.1\r\nX-Evil: 1"));
	REFUSED(EINVAL, "percent-encode", HTTP, .path = T("/two words"));
	REFUSED(EINVAL, "percent-encode", HTTP, .path = T("/\303\244"));
	REFUSED(EINVAL, "fragment", HTTP, .path = T("/a#b"));
	REFUSED(EINVAL, "is a URL", HTTP, .path = T("http://other/health"));
	REFUSED(EINVAL, "host: ", HTTP, .host = T("shop\r\nX-Evil: 1"));
	REFUSED(EINVAL, "host: ", HTTP, .host = T("a b"));
	REFUSED(EINVAL, "GET, HEAD", HTTP, .method = T("GET / HTTP/1.1\r\n\r\n"));
	REFUSED(EINVAL, "server_name", HTTP, .tls_server_name = T("a/b"));
}

static void contradictions_of_match_are_refused(void **state)
{
	(void) state;
	REFUSED(EINVAL, "either text, or", HTTP, .match_text = T("ok"), .match_pointer = T("/a"),
			.match_value = T("b"));
	REFUSED(EINVAL, "needs the value", HTTP, .match_pointer = T("/a"));
	REFUSED(EINVAL, "needs a pointer", HTTP, .match_value = T("b"));
	REFUSED(EINVAL, "begin with '/'", HTTP, .match_pointer = T("status"),
			.match_value = T("b"));
	REFUSED(EINVAL, "~0", HTTP, .match_pointer = T("/a~b"), .match_value = T("b"));
	REFUSED(EINVAL, "~0", HTTP, .match_pointer = T("/a~"), .match_value = T("b"));
	REFUSED(EINVAL, "HEAD has no body", HTTP, .match_text = T("ok"), .method = T("HEAD"));
}

static void files_that_are_needed_are_looked_at(void **state)
{
	char empty[] = "/tmp/usher-check-XXXXXX";
	char *nothing[] = { NULL }, *missing[] = { T("/nonexistent/probe"), NULL };
	char *folder[] = { T("/tmp/"), NULL }, *program[] = { empty, NULL };
	int fd = mkstemp(empty);

	(void) state;
	assert_true(fd >= 0);
	(void) close(fd);
	REFUSED(ENOENT, "/nonexistent/ca.pem", HTTP, .tls_ca = T("/nonexistent/ca.pem"));
	REFUSED(EINVAL, "no certificate", HTTP, .tls_ca = empty);
	REFUSED(EINVAL, "verify: false", .kind = CHECK_HTTP, .tls_ca = empty);
	REFUSED(EINVAL, "no command", .kind = CHECK_EXEC);
	REFUSED(EINVAL, "no command", .kind = CHECK_EXEC, .command = nothing);
	REFUSED(ENOENT, "/nonexistent/probe", .kind = CHECK_EXEC, .command = missing);
	REFUSED(EACCES, "no file", .kind = CHECK_EXEC, .command = folder);
	REFUSED(EINVAL, "there is no check", .kind = CHECK_NONE);
	REFUSED(EACCES, empty, .kind = CHECK_EXEC, .command = program);
	(void) unlink(empty);
}

static void a_check_is_a_copy(void **state)
{
	struct status_range range = { 200, 299 };
	char path[] = "/health", word[] = "/bin/true", *command[] = { word, NULL };
	struct check *http, *exec;

	(void) state;
	http = CHECK(HTTP, .path = path, .expect = &range, .expect_count = 1);
	exec = CHECK(.kind = CHECK_EXEC, .command = command);
	path[1] = word[1] = 'X';
	range.first = 1;
	assert_string_equal(check_config(http)->path, "/health");
	assert_int_equal(check_config(http)->expect[0].first, 200);
	assert_string_equal(check_config(exec)->command[0], "/bin/true");
	assert_false(check_config_equal(check_config(http), check_config(exec)));
	check_unref(http);
	check_unref(exec);
}

static void checks_are_equal_when_they_ask_alike(void **state)
{
	struct status_range a = { 200, 200 }, b = { 200, 201 };
	const struct check_config one = { HTTP, .path = T("/a"), .expect = &a, .expect_count = 1 };
	struct check_config other = one;

	(void) state;
	assert_true(check_config_equal(&one, &other));
	other.expect = &b;
	assert_false(check_config_equal(&one, &other));
	other = one;
	other.path = T("/b");
	assert_false(check_config_equal(&one, &other));
	other.path = NULL;
	assert_false(check_config_equal(&one, &other));
	other = one;
	other.keep_alive = true;
	assert_false(check_config_equal(&one, &other));
}

/* ---- targets ---- */

static void a_request_is_ready_to_be_sent(void **state)
{
	struct target *t;

	(void) state;
	t = target_at(CHECK(HTTP, .path = T("/health?full=1")), "10.0.0.5", 8080, false);
	assert_true(t->is_numeric);
	assert_int_equal(t->sockaddr_size, sizeof(struct sockaddr_in));
	assert_int_equal(((struct sockaddr_in *) &t->sockaddr)->sin_port, htons(8080));
	assert_string_equal(t->request,
			"GET /health?full=1 HTTP/1.1\r\n"
			"Host: 10.0.0.5:8080\r\n"
			"User-Agent: usherd\r\n"
			"Accept: */*\r\n"
			"Connection: close\r\n"
			"\r\n");
	assert_int_equal(t->request_size, strlen(t->request));
	target_free(t);

	t = target_at(CHECK(HTTP, .method = T("POST"), .host = T("shop.test"), .keep_alive = true),
			"10.0.0.5", 80, false);
	assert_string_equal(t->request,
			"POST / HTTP/1.1\r\n"
			"Host: shop.test\r\n"
			"User-Agent: usherd\r\n"
			"Accept: */*\r\n"
			"Content-Length: 0\r\n"
			"\r\n");
	target_free(t);
}

static void ipv6_stands_in_brackets(void **state)
{
	struct target *t;

	(void) state;
	t = target_at(CHECK(HTTP), "fd00::10", 8080, false);
	assert_true(t->is_numeric);
	assert_int_equal(((struct sockaddr_in6 *) &t->sockaddr)->sin6_port, htons(8080));
	assert_string_equal(t->host, "[fd00::10]:8080");
	target_free(t);

	t = target_at(CHECK(HTTP), "fd00::10", 80, false);
	assert_string_equal(t->host, "[fd00::10]");
	target_free(t);

	t = target_at(CHECK(HTTP), "fe80::1%lo", 8080, false);
	assert_true(t->is_numeric);
	assert_int_not_equal(((struct sockaddr_in6 *) &t->sockaddr)->sin6_scope_id, 0);
	assert_string_equal(t->host, "[fe80::1]:8080");
	target_free(t);
}

static void names_and_tls_are_for_curl(void **state)
{
	struct target *t;

	(void) state;
	t = target_at(CHECK(HTTP, .path = T("health")), "shop.test", 8080, false);
	assert_false(t->is_numeric);
	assert_null(t->request);
	assert_string_equal(t->url, "http://shop.test:8080/health");
	assert_null(t->connect_to);
	target_free(t);

	t = target_at(CHECK(HTTP), "10.0.0.5", 443, true);
	assert_true(t->tls);
	assert_string_equal(t->url, "https://10.0.0.5:443/");
	assert_string_equal(t->host, "10.0.0.5");
	target_free(t);

	t = target_at(CHECK(HTTP, .host = T("shop.test:9")), "fd00::10", 8443, true);
	assert_string_equal(t->url, "https://shop.test:8443/");
	assert_string_equal(t->connect_to, "::[fd00::10]:8443");
	assert_string_equal(t->host, "shop.test:9");
	target_free(t);

	t = target_at(CHECK(HTTP, .tls_server_name = T("sni.test"), .tls = true), "10.0.0.5", 8443,
			false);
	assert_string_equal(t->url, "https://sni.test:8443/");
	assert_string_equal(t->connect_to, "::10.0.0.5:8443");
	assert_string_equal(t->host, "sni.test:8443");
	target_free(t);

	t = target_at(CHECK(.kind = CHECK_GRPC), "10.0.0.5", 50051, false);
	assert_string_equal(t->url, "http://10.0.0.5:50051/grpc.health.v1.Health/Check");
	target_free(t);
}

static void tls_is_off_where_it_is_said_so(void **state)
{
	struct target *t = target_at(CHECK(HTTP, .tls_off = true), "10.0.0.5", 8443, true);

	(void) state;
	assert_false(t->tls);
	assert_non_null(t->request);
	target_free(t);
	t = target_at(CHECK(.kind = CHECK_TCP), "10.0.0.5", 8443, true);
	assert_false(t->tls);
	target_free(t);
}

static void labels_say_port_and_path_where_they_are(void **state)
{
	const struct usher_label labels[] = { { "health_path", "up" }, { "health_port", "81" } };
	struct usher_endpoints *with = one_endpoint("10.0.0.5", 8080, false, labels, 2);
	struct usher_endpoints *without = one_endpoint("10.0.0.5", 8080, false, NULL, 0);
	struct check *check = CHECK(HTTP, .path = T("/health"), .port = 82,
			.port_label = T("health_port"), .path_label = T("health_path"));
	struct usher_error err = {};
	struct target *t = NULL;

	(void) state;
	assert_ok(target_new(check, "catalog", with, 0, &t, &err));
	assert_int_equal(t->port, 81);
	assert_string_equal(t->path, "/up");
	target_free(t);
	assert_ok(target_new(check, "catalog", without, 0, &t, &err));
	assert_int_equal(t->port, 82);
	assert_string_equal(t->path, "/health");
	target_free(t);
	usher_endpoints_unref(with);
	usher_endpoints_unref(without);
	check_unref(check);
}

static void a_label_that_says_nothing_usable_is_told(void **state)
{
	static const struct {
		const char *label, *value, *why;
	} cases[] = {
		{ "health_port", "0", "1..65535" },
		{ "health_port", "65536", "1..65535" },
		{ "health_port", "", "1..65535" },
		{ "health_port", "80 ", "1..65535" },
		{ "health_port", "http", "1..65535" },
		{ "health_port", "4294967376", "1..65535" },
		{ "health_path", "/a b", "percent-encode" },
		{ "health_path", "/x#y", "fragment" },
	};
	struct check *check =
			CHECK(HTTP, .port_label = T("health_port"), .path_label = T("health_path"));

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct usher_label label = { cases[i].label, cases[i].value };
		struct usher_endpoints *set = one_endpoint("10.0.0.5", 8080, false, &label, 1);
		struct usher_error err = {};
		struct target *t = NULL;

		assert_errno(target_new(check, "catalog", set, 0, &t, &err), EINVAL);
		assert_non_null(strstr(err.text, cases[i].label));
		assert_non_null(strstr(err.text, cases[i].why));
		usher_endpoints_unref(set);
	}
	check_unref(check);
}

static void a_command_has_the_endpoints_own_words(void **state)
{
	char *command[] = { T("/bin/echo"), T("{address}:{port}"), T("{id}"), T("{service}"),
		T("{zone}"), T("{metadata.team}"), T("{\"json\": 1}"), T("{ready}"), NULL };
	const struct usher_label label = { "team", "red; rm -rf /" };
	struct usher_endpoints *set = one_endpoint("fd00::10", 8080, false, &label, 1);
	struct usher_endpoints *bare = one_endpoint("fd00::10", 8080, false, NULL, 0);
	struct check *check = CHECK(.kind = CHECK_EXEC, .command = command, .port = 81);
	struct usher_error err = {};
	struct target *t = NULL;

	(void) state;
	assert_ok(target_new(check, "catalog", set, 0, &t, &err));
	assert_string_equal(t->command[1], "fd00::10:81");
	assert_string_equal(t->command[2], "id");
	assert_string_equal(t->command[3], "catalog");
	assert_string_equal(t->command[4], "east");
	assert_string_equal(t->command[5], "red; rm -rf /");
	assert_string_equal(t->command[6], "{\"json\": 1}");
	assert_string_equal(t->command[7], "{ready}");
	assert_null(t->command[8]);
	target_free(t);
	t = NULL;
	assert_errno(target_new(check, "catalog", bare, 0, &t, &err), EINVAL);
	assert_non_null(strstr(err.text, "metadata.team"));
	usher_endpoints_unref(set);
	usher_endpoints_unref(bare);
	check_unref(check);
}

static void targets_are_the_same_when_the_question_is(void **state)
{
	struct target *one = target_at(CHECK(HTTP, .path = T("/a")), "10.0.0.5", 80, false);
	struct target *same = target_at(CHECK(HTTP, .path = T("/a")), "10.0.0.5", 80, false);
	struct target *others[] = {
		target_at(CHECK(HTTP, .path = T("/b")), "10.0.0.5", 80, false),
		target_at(CHECK(HTTP, .path = T("/a")), "10.0.0.6", 80, false),
		target_at(CHECK(HTTP, .path = T("/a")), "10.0.0.5", 81, false),
		target_at(CHECK(HTTP, .path = T("/a")), "10.0.0.5", 80, true),
		target_at(CHECK(.kind = CHECK_TCP), "10.0.0.5", 80, false),
	};

	(void) state;
	assert_true(target_same(one, same));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		assert_false(target_same(one, others[i]));
		target_free(others[i]);
	}
	target_free(one);
	target_free(same);
}

static int make_all(void *userdata)
{
	char *command[] = { T("/bin/true"), T("{address}"), NULL };
	struct status_range range = { 200, 299 };
	const struct check_config configs[] = {
		{ HTTP, .path = T("/a"), .host = T("b"), .expect = &range, .expect_count = 1 },
		{ HTTP, .tls = true, .tls_server_name = T("sni.test") },
		{ .kind = CHECK_EXEC, .command = command },
	};
	struct usher_endpoints *set = userdata;

	for (size_t i = 0; i < 3; i++) {
		struct check *check = NULL;
		struct target *target = NULL;
		int r;

		r = check_new(&configs[i], &check, NULL);
		if (r >= 0)
			r = target_new(check, "catalog", set, 0, &target, NULL);
		target_free(target);
		check_unref(check);
		if (r < 0)
			return r;
	}
	return 0;
}

static void memory_may_run_out(void **state)
{
	struct usher_endpoints *set = one_endpoint("10.0.0.5", 80, false, NULL, 0);

	(void) state;
	assert_survives_oom(make_all, set);
	usher_endpoints_unref(set);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_breaks_a_request_apart_is_refused),
		cmocka_unit_test(contradictions_of_match_are_refused),
		cmocka_unit_test(files_that_are_needed_are_looked_at),
		cmocka_unit_test(a_check_is_a_copy),
		cmocka_unit_test(checks_are_equal_when_they_ask_alike),
		cmocka_unit_test(a_request_is_ready_to_be_sent),
		cmocka_unit_test(ipv6_stands_in_brackets),
		cmocka_unit_test(names_and_tls_are_for_curl),
		cmocka_unit_test(tls_is_off_where_it_is_said_so),
		cmocka_unit_test(labels_say_port_and_path_where_they_are),
		cmocka_unit_test(a_label_that_says_nothing_usable_is_told),
		cmocka_unit_test(a_command_has_the_endpoints_own_words),
		cmocka_unit_test(targets_are_the_same_when_the_question_is),
		cmocka_unit_test(memory_may_run_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
