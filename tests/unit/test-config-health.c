/* What people may write under `health` and `prober`, and what they read when it cannot be. */

#include <math.h>

#include "config-texts.h"

#define CATALOG "services: {catalog: {health: "
#define END     "}}\n"

/* Of the service catalog, whose health is `text`. The configuration is kept for the test. */
static const struct health_config *health_of(struct config **keep, const char *text)
{
	char yaml[4096];

	(void) snprintf(yaml, sizeof(yaml), SOURCES "%s", text);
	*keep = parse(yaml);
	return &config_find_service(*keep, "catalog")->health;
}

static void assert_health_refused(const char *health, const char *expected)
{
	char yaml[4096], message[USHER_ERROR_TEXT_MAX];

	(void) snprintf(yaml, sizeof(yaml), SOURCES "services:\n catalog:\n  health: %s\n", health);
	(void) snprintf(message, sizeof(message), MAIN ":6:%s", expected);
	assert_refused(yaml, message);
}

/* ---- what holds ---- */

static void a_service_without_health_is_not_asked(void **state)
{
	struct config *c = NULL;
	const struct health_config *h = health_of(&c, "services: {catalog: }\n");

	(void) state;
	assert_int_equal(h->check.kind, CHECK_NONE);
	assert_false(h->outlier.enabled);
	assert_int_equal(c->prober.max_rate, 0);
	assert_int_equal(c->prober.threads, 1);
	config_unref(c);
}

static void a_check_has_the_defaults_of_the_tables(void **state)
{
	struct config *c = NULL;
	const struct health_config *h = health_of(&c, CATALOG "{http: }" END);

	(void) state;
	assert_int_equal(h->check.kind, CHECK_HTTP);
	assert_string_equal(h->check.path, "/");
	assert_string_equal(h->check.method, "GET");
	assert_int_equal(h->check.expect_count, 1);
	assert_int_equal(h->check.expect[0].first, 200);
	assert_int_equal(h->check.expect[0].last, 200);
	assert_int_equal(h->check.degraded_count, 0);
	assert_false(h->check.tls || h->check.tls_off);
	assert_true(h->check.tls_verify);
	assert_int_equal(h->interval_usec, 5000000);
	assert_int_equal(h->timeout_usec, 1000000);
	assert_int_equal(h->interval_down_usec, 0);
	assert_true(fabs(h->jitter - 0.1) < 1e-9);
	assert_int_equal(h->rise, 2);
	assert_int_equal(h->fall, 3);
	assert_int_equal(h->initial, USHER_HEALTH_UNKNOWN);
	assert_int_equal(h->flap_changes, 5);
	assert_int_equal(h->flap_window_usec, 60000000);
	assert_int_equal(h->flap_hold_usec, 30000000);
	assert_int_equal(h->on_all_down, DOWN_FAIL);
	assert_true(h->panic_threshold <= 0);
	config_unref(c);
}

static void everything_of_http_is_read(void **state)
{
	struct config *c = NULL;
	const struct health_config *h = health_of(&c,
			CATALOG
			"{http: {path: /health?deep=1, method: POST, host: \"shop:8080\", "
			"expect: [200, 300-399], degraded: 429, keep_alive: true, path_label: "
			"health_path, match: {pointer: /a~1b/0, value: true}, "
			"tls: {enabled: true, verify: false, ca: /ca.pem, server_name: "
			"shop.example}}, port: 8081, port_label: health_port, interval: 10ms, "
			"timeout: 1h, interval_down: 1s, jitter: 0%, rise: 1, fall: 1, initial: "
			"down, flapping: {changes: 0, window: 1s, hold: 0}, on_all_down: panic, "
			"panic_threshold: 50%}" END);
	const struct check_config *check = &h->check;

	(void) state;
	assert_string_equal(check->path, "/health?deep=1");
	assert_string_equal(check->path_label, "health_path");
	assert_string_equal(check->method, "POST");
	assert_string_equal(check->host, "shop:8080");
	assert_int_equal(check->expect_count, 2);
	assert_int_equal(check->expect[1].first, 300);
	assert_int_equal(check->expect[1].last, 399);
	assert_int_equal(check->degraded_count, 1);
	assert_int_equal(check->degraded[0].last, 429);
	assert_null(check->match_text);
	assert_string_equal(check->match_pointer, "/a~1b/0");
	assert_string_equal(check->match_value, "true");
	assert_true(check->keep_alive && check->tls && !check->tls_off && !check->tls_verify);
	assert_string_equal(check->tls_ca, "/ca.pem");
	assert_string_equal(check->tls_server_name, "shop.example");
	assert_int_equal(check->port, 8081);
	assert_string_equal(check->port_label, "health_port");
	assert_int_equal(h->interval_usec, 10000);
	assert_int_equal(h->timeout_usec, UINT64_C(3600000000));
	assert_int_equal(h->interval_down_usec, 1000000);
	assert_int_equal(h->rise, 1);
	assert_int_equal(h->initial, USHER_HEALTH_DOWN);
	assert_int_equal(h->flap_changes, 0);
	assert_int_equal(h->on_all_down, DOWN_PANIC);
	assert_true(fabs(h->panic_threshold - 0.5) < 1e-9);
	config_unref(c);
}

static void what_tcp_sends_may_have_escapes_of_yaml_or_of_c(void **state)
{
	struct config *c = NULL;
	const struct health_config *h = health_of(&c,
			CATALOG "{tcp: {send: \"PING\\r\\n\", expect: '+PO\\x4eG\\\\\\t'}}" END);

	(void) state;
	assert_int_equal(h->check.kind, CHECK_TCP);
	assert_string_equal(h->check.send, "PING\r\n");
	assert_string_equal(h->check.expect_text, "+PONG\\\t");
	config_unref(c);
}

static void grpc_and_exec_are_read(void **state)
{
	struct config *c = parse(
			SOURCES "services:\n"
				"  a: {health: {grpc: {service: shop.Catalog, tls: {enabled: "
				"false}}}}\n"
				"  b: {health: {exec: {command: [/check, \"{address}\"]}}}\n");
	const struct check_config *a = &c->services[0].health.check;
	const struct check_config *b = &c->services[1].health.check;

	(void) state;
	assert_int_equal(a->kind, CHECK_GRPC);
	assert_string_equal(a->grpc_service, "shop.Catalog");
	assert_true(a->tls_off && !a->tls && a->tls_verify);
	assert_int_equal(b->kind, CHECK_EXEC);
	assert_string_equal(b->command[1], "{address}");
	config_unref(c);
}

static void outliers_and_the_prober_are_read(void **state)
{
	struct config *c = NULL;
	const struct health_config *h = health_of(&c,
			"prober: {max_rate: 500, threads: 2}\n" CATALOG
			"{outlier: {enabled: true, consecutive: 3, failure_share: 20%, minimum_calls: 5, "
			"interval: 1s, minimum_endpoints: 2, max_ejected: 50%, ejection: 1s, "
			"max_ejection: 10s}}" END);

	(void) state;
	assert_int_equal(h->check.kind, CHECK_NONE);
	assert_true(h->outlier.enabled);
	assert_int_equal(h->outlier.consecutive, 3);
	assert_true(fabs(h->outlier.failure_share - 0.2) < 1e-9);
	assert_int_equal(h->outlier.minimum_calls, 5);
	assert_int_equal(h->outlier.interval_usec, 1000000);
	assert_int_equal(h->outlier.minimum_endpoints, 2);
	assert_true(fabs(h->outlier.max_ejected - 0.5) < 1e-9);
	assert_int_equal(h->outlier.ejection_usec, 1000000);
	assert_int_equal(h->outlier.max_ejection_usec, 10000000);
	assert_int_equal(c->prober.max_rate, 500);
	assert_int_equal(c->prober.threads, 2);
	config_unref(c);
}

/* ---- layers ---- */

#define DEFAULTS                                                                            \
	"defaults: {health: {http: {path: /health, expect: [204]}, interval: 7s, outlier: " \
	"{enabled: true}}}\n"

static void a_service_overrides_the_check_of_the_defaults_key_by_key(void **state)
{
	struct config *c = NULL;
	const struct health_config *h =
			health_of(&c, DEFAULTS CATALOG "{http: {path: /ready}, timeout: 2s}" END);

	(void) state;
	assert_int_equal(h->check.kind, CHECK_HTTP);
	assert_string_equal(h->check.path, "/ready");
	assert_int_equal(h->check.expect[0].first, 204);
	assert_int_equal(h->interval_usec, 7000000);
	assert_int_equal(h->timeout_usec, 2000000);
	config_unref(c);
}

static void another_kind_takes_the_place_of_that_of_the_defaults(void **state)
{
	struct config *c = NULL;
	const struct health_config *h = health_of(&c, DEFAULTS CATALOG "{tcp: }" END);

	(void) state;
	assert_int_equal(h->check.kind, CHECK_TCP);
	assert_null(h->check.path);
	assert_int_equal(h->check.expect_count, 0);
	assert_int_equal(h->interval_usec, 7000000);
	config_unref(c);
}

static void none_switches_off_what_the_defaults_say(void **state)
{
	struct config *c = NULL;
	const struct health_config *h = health_of(&c, DEFAULTS CATALOG "none" END);

	(void) state;
	assert_int_equal(h->check.kind, CHECK_NONE);
	assert_false(h->outlier.enabled);
	assert_null(h->check.path);
	assert_int_equal(h->interval_usec, 5000000);
	assert_int_equal(c->defaults.health.check.kind, CHECK_HTTP);
	config_unref(c);
}

static void settings_without_a_check_may_stand_in_the_defaults(void **state)
{
	struct config *c = NULL;
	const struct health_config *h = health_of(
			&c, "defaults: {health: {interval: 1s}}\nservices: {catalog: }\n");

	(void) state;
	assert_int_equal(h->check.kind, CHECK_NONE);
	assert_int_equal(h->interval_usec, 1000000);
	config_unref(c);
}

static void a_threshold_of_the_defaults_does_not_bind_who_fails(void **state)
{
	struct config *c = NULL;
	const struct health_config *h = health_of(&c,
			"defaults: {health: {on_all_down: panic, panic_threshold: 40%}}\n" CATALOG
			"{tcp: , on_all_down: fail}" END);

	(void) state;
	assert_int_equal(h->on_all_down, DOWN_FAIL);
	config_unref(c);
}

/* ---- what is refused ---- */

static void two_kinds_are_refused(void **state)
{
	(void) state;
	assert_health_refused("{tcp: {}, http: {}}",
			"21: services.catalog.health: \"http\" cannot be beside what is at " MAIN
			":6:12; keep one of http, tcp, grpc and exec");
	assert_files_refused(
			"/etc/usher/conf.d/a.yaml:1:21: defaults.health: \"tcp\" cannot be beside what is at " MAIN
			":4:21; keep one of http, tcp, grpc and exec",
			SOURCES "defaults: {health: {http: }}\n", "defaults: {health: {tcp: }}\n");
	assert_files_refused(
			"/etc/usher/conf.d/a.yaml:1:20: defaults.health: has another value at " MAIN
			":4:20; keep one of the two",
			SOURCES "defaults: {health: {http: }}\n", "defaults: {health: none}\n");
}

static void health_without_a_check_is_refused(void **state)
{
	(void) state;
	assert_health_refused("{interval: 1s}",
			"11: services.catalog.health: has no check; add one of http, tcp, grpc and exec, or outlier: {enabled: true}, or write none");
	assert_health_refused("nome",
			"11: services.catalog.health: must be a map or \"none\", not \"nome\"");
	assert_health_refused("{exec: {}}",
			"18: services.catalog.health.exec: \"command\" is missing: The argument vector: an absolute path, then its arguments; no shell. Exit status 0 is up.");
}

static void statuses_are_numbers_and_ranges(void **state)
{
	(void) state;
	assert_health_refused("{http: {expect: [2xx]}}",
			"28: services.catalog.health.http.expect[0]: 2xx is no status; write one like 200, or a range like 200-399, of 100..599");
	assert_health_refused("{http: {expect: 200-600}}",
			"27: services.catalog.health.http.expect: 200-600 is no status; write one like 200, or a range like 200-399, of 100..599");
	assert_health_refused("{http: {expect: [399-200]}}",
			"28: services.catalog.health.http.expect[0]: the range 399-200 ends before it begins; write 200-399");
	assert_health_refused("{http: {expect: []}}",
			"27: services.catalog.health.http.expect: is an empty list; name at least one status, such as 200");
	assert_health_refused("{http: {expect: [200-299], degraded: [404, 290-310]}}",
			"48: services.catalog.health.http.degraded: the status 290 counts as degraded and, by `expect`, as up; take it out of one of them");
}

static void a_match_is_of_one_form(void **state)
{
	(void) state;
	assert_health_refused("{http: {match: {text: ok, pointer: /a, value: b}}}",
			"26: services.catalog.health.http.match: has a text and a pointer; write either {text} or {pointer, value}");
	assert_health_refused("{http: {match: {pointer: /a}}}",
			"26: services.catalog.health.http.match: \"value\" is missing beside \"pointer\"");
	assert_health_refused("{http: {match: {value: a}}}",
			"26: services.catalog.health.http.match: \"pointer\" is missing beside \"value\"");
	assert_health_refused("{http: {match: }}",
			"26: services.catalog.health.http.match: says nothing; write {text: TEXT} or {pointer: /NAME, value: VALUE}");
	assert_health_refused("{http: {match: {pointer: status, value: UP}}}",
			"36: services.catalog.health.http.match.pointer: \"status\" is no JSON pointer; start it with /, like \"/status\"");
	assert_health_refused("{http: {match: {pointer: /a~b, value: UP}}}",
			"36: services.catalog.health.http.match.pointer: \"/a~b\" is no JSON pointer; write ~0 for ~ and ~1 for / in a name");
	assert_health_refused("{http: {method: HEAD, match: {text: ok}}}",
			"40: services.catalog.health.http.match: the answer to HEAD has no body to match; ask by GET, or leave match out");
}

static void texts_that_no_request_can_have_are_refused(void **state)
{
	(void) state;
	assert_health_refused("{http: {path: \"/a b\"}}",
			"25: services.catalog.health.http.path: has a byte that a request cannot have in its path; write it as %20");
	assert_health_refused("{http: {host: \"a b\"}}",
			"25: services.catalog.health.http.host: address \"a b\" is neither an IPv4 or IPv6 address nor a host name");
	assert_health_refused("{tcp: {send: 'a\\q'}}",
			"24: services.catalog.health.tcp.send: has a backslash before what is no escape; known are \\r, \\n, \\t, \\xHH (but \\x00), and \\\\ for a backslash");
	assert_health_refused("{tcp: {send: 'a\\x00'}}",
			"24: services.catalog.health.tcp.send: has a backslash before what is no escape; known are \\r, \\n, \\t, \\xHH (but \\x00), and \\\\ for a backslash");
	assert_health_refused("{exec: {command: [check]}}",
			"29: services.catalog.health.exec.command[0]: \"check\" is not an absolute path; there is no shell to look for it");
}

static void times_and_counts_have_bounds(void **state)
{
	(void) state;
	assert_health_refused("{tcp: , interval: 9ms}",
			"29: services.catalog.health.interval: 9ms is not in 10ms..1h");
	assert_health_refused("{tcp: , timeout: 0}",
			"28: services.catalog.health.timeout: 0 is not in 1ms..1h");
	assert_health_refused("{tcp: , rise: 0}",
			"25: services.catalog.health.rise: 0 is not in 1..1000");
	assert_health_refused("{tcp: , initial: degraded}",
			"28: services.catalog.health.initial: \"degraded\" is not offered; there are unknown, up and down");
	assert_health_refused("{tcp: , flapping: {changes: 1}}",
			"39: services.catalog.health.flapping.changes: one change is no flapping; write 2 or more, or 0 for never");
}

static void settings_that_could_do_nothing_are_refused(void **state)
{
	(void) state;
	assert_health_refused("{tcp: , panic_threshold: 50%}",
			"36: services.catalog.health.panic_threshold: is of no use while on_all_down is fail; write on_all_down: panic beside it");
	assert_health_refused("{outlier: {enabled: true, ejection: 10m}}",
			"21: services.catalog.health.outlier: is 5m at most, and the first ejection takes 10m already; raise max_ejection or shorten ejection");
	assert_health_refused("{outlier: {enabled: true, max_ejected: 0%}}",
			"50: services.catalog.health.outlier.max_ejected: nobody could be ejected; write a share (at least one may be ejected whatever it is), or enabled: false");
	assert_health_refused("{outlier: {enabled: true, consecutive: 0}}",
			"21: services.catalog.health.outlier: nothing ejects: consecutive is 0 and failure_share 100%; set one of them, or enabled: false");
}

static int parse_with_failing_memory(void *text)
{
	const char *texts[] = { text };
	struct config *c = NULL;
	int r = parse_texts(texts, 1, &c, NULL);

	config_unref(c);
	return r;
}

static void every_failing_allocation_is_survived(void **state)
{
	char text[] = SOURCES
			"node: {name: n}\n"
			"services:\n"
			"  a: {health: {http: {path: /h, expect: [200, 204], degraded: [429], "
			"match: {text: ok}, host: h, tls: {ca: /c, server_name: s}}}}\n"
			"  b: {health: {tcp: {send: a, expect: b}}}\n"
			"  c: {health: {exec: {command: [/a, b]}}}\n"
			"  d: {health: {grpc: {service: a}}}\n";

	(void) state;
	assert_survives_oom(parse_with_failing_memory, text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_service_without_health_is_not_asked),
		cmocka_unit_test(a_check_has_the_defaults_of_the_tables),
		cmocka_unit_test(everything_of_http_is_read),
		cmocka_unit_test(what_tcp_sends_may_have_escapes_of_yaml_or_of_c),
		cmocka_unit_test(grpc_and_exec_are_read),
		cmocka_unit_test(outliers_and_the_prober_are_read),
		cmocka_unit_test(a_service_overrides_the_check_of_the_defaults_key_by_key),
		cmocka_unit_test(another_kind_takes_the_place_of_that_of_the_defaults),
		cmocka_unit_test(none_switches_off_what_the_defaults_say),
		cmocka_unit_test(settings_without_a_check_may_stand_in_the_defaults),
		cmocka_unit_test(a_threshold_of_the_defaults_does_not_bind_who_fails),
		cmocka_unit_test(two_kinds_are_refused),
		cmocka_unit_test(health_without_a_check_is_refused),
		cmocka_unit_test(statuses_are_numbers_and_ranges),
		cmocka_unit_test(a_match_is_of_one_form),
		cmocka_unit_test(texts_that_no_request_can_have_are_refused),
		cmocka_unit_test(times_and_counts_have_bounds),
		cmocka_unit_test(settings_that_could_do_nothing_are_refused),
		cmocka_unit_test(every_failing_allocation_is_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
