/* What may be said about a registry that is spoken to over HTTP. */

#include "http-private.h"
#include "ownership.h"
#include "test.h"

static const char *const one_server[] = { "http://h", NULL };

static void check(const struct usher_http_options *options, int code, const char *text)
{
	struct usher_error err = {};

	assert_errno(usher_http_check(options, &err), code);
	assert_string_equal(err.text, text);
}

static void servers_that_can_be_reached_are_taken(void **state)
{
	static const char *const servers[] = { "http://10.0.0.1:8500", "https://[fd00::1]/eureka",
		"http://consul", "https://nacos.internal:8848/nacos/", "http://h/a@b",
		"http://h:65535", NULL };
	const struct usher_http_options options = { .servers = servers };

	(void) state;
	assert_ok(usher_http_check(&options, NULL));
}

static void a_server_that_cannot_be_meant_is_named_by_its_place_in_the_list(void **state)
{
	static const struct {
		const char *server, *fault;
	} cases[] = {
		{ "ftp://h", "\"ftp://h\" does not begin with http:// or https://" },
		{ "127.0.0.1:8500", "\"127.0.0.1:8500\" does not begin with http:// or https://" },
		{ "", "\"\" does not begin with http:// or https://" },
		{ "http://h:99999", "\"http://h:99999\" has a port that is not in 1..65535" },
		{ "http://h:0", "\"http://h:0\" has a port that is not in 1..65535" },
		{ "http://h:80a", "\"http://h:80a\" has a port that is not in 1..65535" },
		{ "http://h h:1", "\"http://h h:1\" has a blank or a control character in it" },
		{ "http://h:1\n", "\"http://h:1?\" has a blank or a control character in it" },
		{ "http://", "\"http://\" names no host" },
		{ "https://:80", "\"https://:80\" names no host" },
		{ "https://h/?",
				"\"https://h/?\" has a query or a fragment, and the URL of a server has none" },
		{ "http://[fd00::1",
				"\"http://[fd00::1\" is no URL of a server: write http://HOST:PORT or https://HOST:PORT, perhaps with a path" },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS(cases); i++) {
		const char *servers[] = { "http://good", cases[i].server, NULL };
		char text[USHER_ERROR_TEXT_MAX];

		(void) snprintf(text, sizeof(text), "servers[1]: %s", cases[i].fault);
		check(&(const struct usher_http_options){ .servers = servers }, EINVAL, text);
	}
}

static void what_may_be_secret_in_a_server_is_not_shown(void **state)
{
	static const struct {
		const char *server, *shown;
	} cases[] = {
		{ "http://bob:S3CRET@h:1", "\"http://***@h:1\" has credentials in it" },
		{ "https://S3CRET@h/x", "\"https://***@h/x\" has credentials in it" },
		{ "http://bob:S3/C?R#E@T@h:1", "\"http://***@h:1\" has credentials in it" },
		{ "http://bob:1?S3CRET@h:1", "\"http://***@h:1\" has a query" },
		{ "http://h:1/?accessToken=S3CRET", "\"http://h:1/?***\" has a query" },
		{ "http://h:1/?a=S3CRET@b", "\"http://***@b\" has a query" },
		{ "http://h:1/#S3CRET", "\"http://h:1/#***\" has a query" },
		{ "http://bob:S3CRET@h/?x=S3CRET", "\"http://***@h/?***\" has credentials in it" },
		{ "bob:S3CRET@h:1", "\"***@h:1\" does not begin with" },
		{ "bob:S3CRET://x@h:1", "\"***@h:1\" does not begin with" },
		{ "?S3CRET", "\"?***\" does not begin with" },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS(cases); i++) {
		const char *servers[] = { cases[i].server, NULL };
		const struct usher_http_options options = { .servers = servers };
		char text[USHER_ERROR_TEXT_MAX];
		struct usher_error err = {};

		(void) snprintf(text, sizeof(text), "servers[0]: %s", cases[i].shown);
		assert_errno(usher_http_check(&options, &err), EINVAL);
		if (strncmp(err.text, text, strlen(text)) != 0)
			fail_msg("%s: \"%s\" instead of \"%s\"", cases[i].server, err.text, text);
		assert_null(strstr(err.text, "S3"));
	}
}

static void there_is_a_least_and_a_most_of_servers(void **state)
{
	const char *servers[USHER_HTTP_SERVERS_MAX + 2] = { NULL };
	const struct usher_http_options options = { .servers = servers };

	(void) state;
	check(&(const struct usher_http_options){}, EINVAL, "servers: is empty; name at least one");
	check(&options, EINVAL, "servers: is empty; name at least one");
	for (size_t i = 0; i < USHER_HTTP_SERVERS_MAX; i++)
		servers[i] = "http://h";
	assert_ok(usher_http_check(&options, NULL));
	servers[USHER_HTTP_SERVERS_MAX] = "http://h";
	check(&options, E2BIG, "servers: 65 are given, and at most 64 are possible");
}

static void options_that_contradict_each_other_are_refused(void **state)
{
	static const struct {
		struct usher_http_options options;
		const char *text;
	} cases[] = {
		{ { .servers = one_server, .key = "/k" },
				"key: is given without certificate; a client's certificate and its key go together" },
		{ { .servers = one_server, .certificate = "/c" },
				"certificate: is given without key; a client's certificate and its key go together" },
		{ { .servers = one_server, .token = "t", .token_file = "/t" },
				"token: is given beside token_file; remove one of them" },
		{ { .servers = one_server, .user = "u", .password = "p", .password_file = "/p" },
				"password: is given beside password_file; remove one of them" },
		{ { .servers = one_server, .password = "p" }, "password: is given without user" },
		{ { .servers = one_server, .password_file = "/p" },
				"password_file: is given without user" },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS(cases); i++)
		check(&cases[i].options, EINVAL, cases[i].text);
}

static void texts_that_cannot_be_sent_are_refused_without_being_shown(void **state)
{
	static const struct {
		struct usher_http_options options;
		const char *text;
	} cases[] = {
		{ { .servers = one_server, .token = "" }, "token: is empty" },
		{ { .servers = one_server, .token = "S3CRET\r\nX-Evil: 1" },
				"token: has a control character in it, such as the end of a line" },
		{ { .servers = one_server, .token = "S3CRET\n" },
				"token: has a control character in it, such as the end of a line" },
		{ { .servers = one_server, .user = "" }, "user: is empty" },
		{ { .servers = one_server, .user = "a\x7f" },
				"user: has a control character in it, such as the end of a line" },
		{ { .servers = one_server, .user = "u", .password = "S3\tCRET" },
				"password: has a control character in it, such as the end of a line" },
		{ { .servers = one_server, .server_name = "" },
				"server_name: is no name of a host" },
		{ { .servers = one_server, .server_name = "a b" },
				"server_name: is no name of a host" },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS(cases); i++)
		check(&cases[i].options, EINVAL, cases[i].text);
}

static void an_empty_password_is_one(void **state)
{
	const struct usher_http_options options = {
		.servers = one_server, .user = "u", .password = "", .server_name = "consul.service"
	};

	(void) state;
	assert_ok(usher_http_check(&options, NULL));
}

static void what_the_check_refuses_is_not_opened(void **state)
{
	const char *servers[] = { "http://bob:S3CRET@h:1", NULL };
	const struct usher_http_options options = { .servers = servers };
	const struct usher_http_config config = { .size = sizeof(config), .options = &options };
	struct usher_http *h = NULL;
	struct usher_error err = {};

	(void) state;
	assert_errno(usher_http_new(NULL, &config, &h, &err), EINVAL);
	assert_null(h);
	assert_null(strstr(err.text, "S3CRET"));
}

static int check_everything(void *userdata)
{
	const struct usher_http_options options = { .servers = one_server,
		.server_name = "consul",
		.token = "t",
		.user = "u",
		.password = "p",
		.certificate = "/c",
		.key = "/k" };

	(void) userdata;
	return usher_http_check(&options, NULL);
}

static void running_out_of_memory_is_said(void **state)
{
	(void) state;
	assert_survives_oom(check_everything, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(servers_that_can_be_reached_are_taken),
		cmocka_unit_test(a_server_that_cannot_be_meant_is_named_by_its_place_in_the_list),
		cmocka_unit_test(what_may_be_secret_in_a_server_is_not_shown),
		cmocka_unit_test(there_is_a_least_and_a_most_of_servers),
		cmocka_unit_test(options_that_contradict_each_other_are_refused),
		cmocka_unit_test(texts_that_cannot_be_sent_are_refused_without_being_shown),
		cmocka_unit_test(an_empty_password_is_one),
		cmocka_unit_test(what_the_check_refuses_is_not_opened),
		cmocka_unit_test(running_out_of_memory_is_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
