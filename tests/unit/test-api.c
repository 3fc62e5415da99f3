/* The API over real sockets: shapes, rights, refusals. */

#include "reports.h"
#include "serving.h"

static struct serving serving;
static struct context *catalog;

static const struct fake_endpoint three[] = {
	{ "catalog-a", USHER_ADMIN_READY, 2, false },
	{ "catalog-b", USHER_ADMIN_READY, 1, false },
	{ "catalog-c", USHER_ADMIN_DRAINING, 1, false },
};

static int start(void **state)
{
	(void) state;
	catalog = fake_add_context("catalog");
	(void) fake_add_context("search");
	serving_start(&serving);
	fake_publish(catalog, three, 3);
	return 0;
}

static int stop(void **state)
{
	(void) state;
	serving_stop(&serving);
	return 0;
}

static void a_list_has_the_shape_of_the_contract(void **state)
{
	const char *answer = call(
			&serving, serving.consumer, "GET", "/v1/services/catalog/endpoints", "");

	(void) state;
	assert_has(answer, "HTTP/1.1 200");
	assert_has(answer, "Content-Type: application/json");
	assert_has(answer,
			"{\"service\": \"catalog\", \"revision\": 1, \"freshness\": {\"state\": \"live\", \"age_ms\": 822, \"max_age_ms\": 30000, \"source\": \"files\"}, \"endpoints\": [");
	assert_has(answer,
			"{\"id\": \"catalog-a\", \"uid\": null, \"address\": \"10.0.0.5\", \"port\": 8080, \"secure\": false, \"zone\": \"east\", \"weight\": 2, \"conditions\": {\"ready\": true, \"serving\": true, \"terminating\": false}, \"admin_state\": \"ready\", \"metadata\": {\"API_VERSION\": \"1.0\"}, \"source\": \"files\"}");
	assert_has(answer, "\"admin_state\": \"draining\"");
}

static void a_list_of_all_says_who_is_left_out(void **state)
{
	const char *answer = call(&serving, serving.consumer, "GET",
			"/v1/services/catalog/endpoints?all=true", "");

	(void) state;
	assert_has(answer, "\"chosen\": true}");
	assert_has(answer,
			"\"chosen\": false, \"left_out\": {\"stage\": \"admin\", \"reason\": \"because\"}}");
}

static void a_service_without_an_answer_is_unknown_and_never_empty(void **state)
{
	const char *answer = call(
			&serving, serving.consumer, "GET", "/v1/services/search/endpoints", "");

	(void) state;
	assert_has(answer, "HTTP/1.1 503");
	assert_has(answer, "\"code\": \"source_unknown\"");
	assert_has(answer, "\"age_ms\": null");
	assert_has(answer, "Retry-After: 1");
}

static void picks_take_turns_and_tell_their_freshness(void **state)
{
	int fd = client_connect(serving.consumer);

	(void) state;
	for (int i = 0; i < 4; i++) {
		const char *answer = client_call(
				&serving, fd, "POST", "/v1/services/catalog/pick", "", "");

		assert_has(answer, "HTTP/1.1 200");
		assert_has(answer, "{\"service\": \"catalog\", \"revision\": 1, \"freshness\": {");
		assert_has(answer,
				i % 2 ? "\"endpoint\": {\"id\": \"catalog-b\""
				      : "\"endpoint\": {\"id\": \"catalog-a\"");
	}
	(void) close(fd);
}

static void a_cached_pick_is_not_told_past_its_revision(void **state)
{
	static const struct fake_endpoint heavier[] = { { "catalog-a", USHER_ADMIN_READY, 7,
			false } };

	(void) state;
	assert_has(call(&serving, serving.consumer, "POST", "/v1/services/catalog/pick", ""),
			"\"weight\": 2");
	fake_publish(catalog, heavier, 1);
	assert_has(call(&serving, serving.consumer, "POST", "/v1/services/catalog/pick", ""),
			"\"weight\": 7");
}

/* What consumers do not see may come and go without a new revision, and numbers the rest anew. */
static void a_cached_pick_is_of_its_snapshot_not_only_of_its_revision(void **state)
{
	static const struct fake_endpoint before[] = {
		{ "catalog-a", USHER_ADMIN_READY, 1, true },
		{ "catalog-b", USHER_ADMIN_READY, 1, false },
		{ "catalog-c", USHER_ADMIN_READY, 1, false },
	};
	const struct directory_events *events = fake_directory.events;
	uint64_t revision;

	(void) state;
	fake_publish(catalog, before, 3);
	revision = catalog->snapshot->revision;
	catalog->turn = 0;
	assert_has(call(&serving, serving.consumer, "POST", "/v1/services/catalog/pick", ""),
			"\"id\": \"catalog-b\"");
	fake_directory.events = NULL; /* consumers could not tell them apart */
	fake_publish(catalog, before + 1, 2);
	fake_directory.events = events;
	catalog->snapshot->revision = revision;
	catalog->turn = 1;
	assert_has(call(&serving, serving.consumer, "POST", "/v1/services/catalog/pick", ""),
			"\"id\": \"catalog-c\"");
}

static void a_pick_without_an_answer_says_which_fact_failed(void **state)
{
	const char *answer;

	(void) state;
	catalog->pick_result = PICK_FILTERED;
	answer = call(&serving, serving.consumer, "POST", "/v1/services/catalog/pick", "");
	assert_has(answer, "HTTP/1.1 503");
	assert_has(answer, "Content-Type: application/problem+json");
	assert_has(answer, "\"code\": \"filtered\"");
	assert_has(answer, "\"stage\": \"zone\"");
	assert_has(answer, "\"service\": \"catalog\"");
	assert_has(answer, "\"freshness\": {");
}

static void unknown_members_are_refused_with_the_nearest_known_one(void **state)
{
	const char *answer = call(&serving, serving.consumer, "POST", "/v1/services/catalog/pick",
			"{\"hnit\": \"x\"}");

	(void) state;
	assert_has(answer, "HTTP/1.1 400");
	assert_has(answer, "did you mean hint?");
	answer = call(&serving, serving.consumer, "POST", "/v1/services/catalog/pick",
			"{\"hint\": 3}");
	assert_has(answer, "HTTP/1.1 400");
	assert_has(answer, "hint: is a text");
}

static void unknown_parameters_are_refused(void **state)
{
	(void) state;
	assert_has(call(&serving, serving.consumer, "GET",
				   "/v1/services/catalog/endpoints?wathc=true", ""),
			"did you mean watch?");
	assert_has(call(&serving, serving.consumer, "GET", "/v1/services/catalog/endpoints?all=yes",
				   ""),
			"all: yes is neither true nor false");
	assert_has(call(&serving, serving.consumer, "GET", "/v1/services?x=%zz", ""),
			"HTTP/1.1 400");
}

static void an_answer_older_than_asked_for_is_refused(void **state)
{
	const char *answer = call(&serving, serving.consumer, "GET",
			"/v1/services/catalog/endpoints?max_age=500ms", "");

	(void) state;
	assert_has(answer, "HTTP/1.1 503");
	assert_has(answer, "\"code\": \"stale\"");
	assert_has(call(&serving, serving.consumer, "GET",
				   "/v1/services/catalog/endpoints?max_age=5s", ""),
			"HTTP/1.1 200");
}

static void a_stale_directory_is_served_or_not_as_the_policy_says(void **state)
{
	(void) state;
	catalog->freshness.age_usec = 31 * USEC_PER_SEC;
	catalog->freshness.state = SOURCE_STALE;
	assert_has(call(&serving, serving.consumer, "GET", "/v1/services/catalog/endpoints", ""),
			"\"state\": \"stale\"");
	catalog->config.on_stale = STALE_FAIL;
	assert_has(call(&serving, serving.consumer, "GET", "/v1/services/catalog/endpoints", ""),
			"\"code\": \"stale\"");
	assert_has(call(&serving, serving.consumer, "GET",
				   "/v1/services/catalog/endpoints?all=true", ""),
			"HTTP/1.1 200");
}

static void the_consumer_socket_changes_nothing(void **state)
{
	const char *answer = call(&serving, serving.consumer, "POST", "/v1/drains",
			"{\"service\": \"catalog\", \"endpoint\": \"catalog-a\"}");

	(void) state;
	assert_has(answer, "HTTP/1.1 403");
	assert_has(answer, "\"code\": \"forbidden\"");
	assert_has(answer, serving.admin);
	assert_has(call(&serving, serving.consumer, "POST", "/v1/reload", ""), "HTTP/1.1 403");
}

static void the_admin_socket_starts_a_drain_and_notes_who_asked(void **state)
{
	const char *answer;

	(void) state;
	(void) snprintf(fake_rollout.record.id, DRAIN_ID_MAX, "d-1");
	answer = call(&serving, serving.admin, "POST", "/v1/drains",
			"{\"service\": \"catalog\", \"endpoint\": \"catalog-a\", \"timeout\": \"120s\"}");
	assert_has(answer, "HTTP/1.1 201");
	assert_has(answer, "\"id\": \"d-1\"");
	assert_has(fake_rollout.requested_by, "uid 0");
	fake_rollout.result = 1;
	assert_has(call(&serving, serving.admin, "POST", "/v1/drains",
				   "{\"service\": \"catalog\", \"endpoint\": \"catalog-a\"}"),
			"HTTP/1.1 200");
}

static int start_a_drain_on_a_slow_disk(void)
{
	int fd = client_connect(serving.admin);

	fake_rollout.exists = true;
	fake_rollout.disk_waits = true;
	(void) snprintf(fake_rollout.record.id, DRAIN_ID_MAX, "d-1");
	client_send(fd, "POST /v1/drains HTTP/1.1\r\nHost: x\r\nContent-Length: 47\r\n\r\n{\"service\": \"catalog\", \"endpoint\": \"catalog-a\"}");
	serving_settle(&serving);
	assert_int_equal(recv(fd, (char[1]){}, 1, 0), -1);
	return fd;
}

static void a_drain_is_answered_once_a_crash_cannot_forget_it(void **state)
{
	const struct rollout_above *above = server_rollout_above();
	int fd = start_a_drain_on_a_slow_disk();

	(void) state;
	above->recorded(serving.server, &fake_rollout.record);
	serving_settle(&serving);
	assert_int_equal(recv(fd, (char[1]){}, 1, 0), -1);
	fake_rollout.disk_waits = false;
	above->recorded(serving.server, &fake_rollout.record);
	assert_has(client_read_until(&serving, fd, "}\n"), "HTTP/1.1 201");
	(void) close(fd);
}

static void a_drain_that_the_disk_does_not_take_is_not_called_started(void **state)
{
	const char *text;
	int fd = start_a_drain_on_a_slow_disk();

	(void) state;
	text = client_read_until(&serving, fd, "}\n");
	assert_has(text, "HTTP/1.1 503");
	assert_has(text, "\"code\": \"store_failed\"");
	(void) close(fd);
}

static void refusals_of_the_rollout_have_their_own_codes(void **state)
{
	static const struct {
		int result;
		const char *status, *code;
	} cases[] = {
		{ -EPERM, "409", "refused" },
		{ -EALREADY, "409", "conflict" },
		{ -EIO, "503", "store_failed" },
		{ -E2BIG, "429", "too_many" },
		{ -ENOENT, "404", "unknown_endpoint" },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS(cases); i++) {
		const char *answer;

		fake_rollout.result = cases[i].result;
		answer = call(&serving, serving.admin, "POST", "/v1/drains",
				"{\"service\": \"catalog\", \"endpoint\": \"x\"}");
		assert_has(answer, cases[i].status);
		assert_has(answer, cases[i].code);
	}
}

static void wrong_methods_and_paths_are_told_apart(void **state)
{
	const char *answer =
			call(&serving, serving.consumer, "GET", "/v1/services/catalog/pick", "");

	(void) state;
	assert_has(answer, "HTTP/1.1 405");
	assert_has(answer, "Allow: POST");
	assert_has(call(&serving, serving.consumer, "GET", "/v1/nonsense", ""), "HTTP/1.1 404");
	assert_has(call(&serving, serving.consumer, "DELETE", "/v1/services", ""),
			"Allow: GET, HEAD");
	assert_has(call(&serving, serving.consumer, "GET", "/v1/services/nobody", ""),
			"unknown_service");
}

static void bodies_have_a_limit_and_the_daemon_survives_them(void **state)
{
	static char large[70000];
	const char *answer;

	(void) state;
	memset(large, ' ', sizeof(large) - 1);
	answer = call(&serving, serving.consumer, "POST", "/v1/services/catalog/pick", large);
	assert_has(answer, "HTTP/1.1 413");
	assert_has(answer, "\"code\": \"too_large\"");
	assert_has(call(&serving, serving.consumer, "GET", "/healthz", ""), "alive");
}

static void head_answers_like_get_without_a_body(void **state)
{
	int fd = client_connect(serving.consumer);
	const char *answer =
			client_call(&serving, fd, "HEAD", "/v1/services/catalog/endpoints", "", "");

	(void) state;
	assert_has(answer, "HTTP/1.1 200");
	assert_has_not(answer, "endpoints");
	answer = client_call(
			&serving, fd, "HEAD", "/v1/services/catalog/endpoints?watch=true", "", "");
	assert_has(answer, "application/x-ndjson");
	(void) close(fd);
}

static void an_escaped_slash_belongs_to_the_name(void **state)
{
	(void) state;
	assert_has(call(&serving, serving.consumer, "GET", "/v1/services/a%2Fb", ""),
			"\"service\": \"a/b\"");
}

static void every_reading_call_answers(void **state)
{
	static const char *const paths[] = { "/v1/services", "/v1/services/catalog",
		"/v1/services/catalog/explain", "/v1/services/catalog/budget?rate=200",
		"/v1/sources", "/v1/consumers", "/v1/status", "/v1/drains", "/metrics", "/healthz",
		"/readyz", "/" };

	(void) state;
	for (size_t i = 0; i < ELEMENTS(paths); i++)
		assert_has(call(&serving, serving.consumer, "GET", paths[i], ""), "HTTP/1.1 200");
}

static void the_budget_adds_the_declared_windows_up(void **state)
{
	const char *answer = call(&serving, serving.consumer, "GET",
			"/v1/services/catalog/budget?rate=200", "");

	(void) state;
	assert_has(answer, "\"worst_case_ms\": 72000, \"assumed_ms\": 67000");
	/* Two thirds of 200 picks a second go to the heavier of the chosen. */
	assert_has(answer, "\"rate_per_s\": 200, \"share\": 0.6667, \"worst_case\": 9600");
}

static void reports_and_acks_are_checked(void **state)
{
	(void) state;
	assert_has(call(&serving, serving.consumer, "PUT",
				   "/v1/services/catalog/endpoints/catalog-a/in-flight",
				   "{\"count\": 3, \"ttl\": \"10s\"}"),
			"HTTP/1.1 204");
	assert_has(call(&serving, serving.consumer, "PUT",
				   "/v1/services/catalog/endpoints/x/in-flight", "{\"count\": 3}"),
			"unknown_endpoint");
	assert_has(call(&serving, serving.consumer, "PUT",
				   "/v1/services/catalog/endpoints/catalog-a/in-flight", "{}"),
			"count: is missing");
	assert_has(call(&serving, serving.consumer, "PUT", "/v1/consumers/self/ack",
				   "{\"service\": \"catalog\", \"revision\": 1}"),
			"HTTP/1.1 204");
	assert_has(call(&serving, serving.consumer, "PUT", "/v1/consumers/self/ack",
				   "{\"service\": \"catalog\", \"revision\": 99}"),
			"has not been published yet");
}

static void more_requests_after_the_removal_are_a_stale_pick(void **state)
{
	static const char path[] = "/v1/services/catalog/endpoints/catalog-a/in-flight";
	static char service[] = "catalog", endpoint[] = "catalog-a";
	int fd = client_connect(serving.consumer);
	const struct drain_record *record = &fake_rollout.record;

	(void) state;
	client_call(&serving, fd, "PUT", path, "", "{\"count\": 1}");
	fake_rollout.exists = true;
	fake_rollout.record.service = service;
	fake_rollout.record.endpoint = endpoint;
	fake_rollout.record.removal_revision = ++fake_directory.revision;
	/* Sent perhaps before the removal, and only reported after it. */
	client_call(&serving, fd, "PUT", path, "", "{\"count\": 2}");
	assert_int_equal(record->last_stale_pick_wall_usec, 0);
	client_call(&serving, fd, "PUT", path, "", "{\"count\": 2}");
	assert_int_equal(record->last_stale_pick_wall_usec, 0);
	client_call(&serving, fd, "PUT", path, "", "{\"count\": 3}");
	assert_int_not_equal(record->last_stale_pick_wall_usec, 0);
	(void) close(fd);
}

static const char *report(const char *body)
{
	return call(&serving, serving.consumer, "POST", "/v1/services/catalog/reports", body);
}

static void reports_are_handed_on(void **state)
{
	struct context *c = catalog;

	(void) state;
	assert_has(report("[{\"endpoint\": \"catalog-a\", \"outcome\": \"ok\"},"
			  "{\"endpoint\": \"catalog-b\", \"outcome\": \"timeout\","
			  " \"latency_ms\": 1000.5, \"count\": 3}]"),
			"HTTP/1.1 204");
	assert_int_equal(c->reports, 2);
	assert_int_equal(c->report.outcome, USHER_OUTCOME_TIMEOUT);
	assert_int_equal(c->report.latency_usec, 1000500);
	assert_int_equal(c->report.count, 3);
	assert_true(c->report.now_usec > 0);
	assert_has(report("{\"reports\": [{\"endpoint\": \"catalog-a\", \"outcome\": \"error\","
			  "\"latency_ms\": 0}]}"),
			"HTTP/1.1 204");
	assert_int_equal(c->report.outcome, USHER_OUTCOME_ERROR);
	assert_int_equal(c->report.latency_usec, 1);
	assert_int_equal(c->report.count, 1);
	assert_has(report("[]"), "HTTP/1.1 204");
	assert_int_equal(c->reports, 3);
}

static void a_report_about_an_endpoint_that_has_gone_is_no_error(void **state)
{
	const char *metrics;

	(void) state;
	assert_has(report("[{\"endpoint\": \"gone\", \"outcome\": \"failed\", \"count\": 5}]"),
			"HTTP/1.1 204");
	metrics = call(&serving, serving.consumer, "GET", "/metrics", "");
	assert_has(metrics, "usher_reports_total{outcome=\"failed\"} 5\n");
	assert_has(metrics, "usher_reports_unknown_total 5\n");
}

static void one_wrong_report_refuses_all_of_a_call(void **state)
{
	static const struct {
		const char *second, *why;
	} cases[] = {
		{ "{\"outcome\": \"ok\"}", "reports[1]: endpoint: is missing" },
		{ "{\"endpoint\": \"a\"}", "reports[1]: outcome: is missing" },
		{ "{\"endpoint\": \"a\", \"outcome\": \"fail\"}",
				"reports[1]: outcome: \\\"fail\\\" is none of ok, error, failed and timeout; did you mean failed?" },
		{ "{\"endpoint\": \"a\", \"outcome\": \"ok\", \"count\": 0}",
				"reports[1]: count: 0 is not in 1..4294967295" },
		{ "{\"endpoint\": \"a\", \"outcome\": \"ok\", \"latency_ms\": 86400001}",
				"reports[1]: latency_ms: is not in 0..86400000" },
		{ "{\"endpoint\": \"a\", \"outcome\": \"ok\", \"latency\": 1}",
				"reports[1]: latency: is not known here; did you mean latency_ms?" },
	};
	struct context *c = catalog;

	(void) state;
	for (size_t i = 0; i < ELEMENTS(cases); i++) {
		char body[512];
		const char *answer;

		(void) snprintf(body, sizeof(body),
				"[{\"endpoint\": \"catalog-a\", \"outcome\": \"ok\"}, %s]",
				cases[i].second);
		answer = report(body);
		assert_has(answer, "HTTP/1.1 400");
		assert_has(answer, cases[i].why);
	}
	assert_int_equal(c->reports, 0);
	assert_has(call(&serving, serving.consumer, "POST", "/v1/services/other/reports", "[]"),
			"unknown_service");
}

static void reports_of_one_call_have_a_limit(void **state)
{
	static const char one[] = "{\"endpoint\":\"catalog-a\",\"outcome\":\"ok\"},";
	struct context *c = catalog;
	static char body[(REPORTS_MAX + 2) * sizeof(one)];
	size_t length = 1;

	(void) state;
	body[0] = '[';
	for (int i = 0; i < REPORTS_MAX; i++, length += sizeof(one) - 1)
		memcpy(body + length, one, sizeof(one));
	body[length - 1] = ']';
	assert_has(report(body), "HTTP/1.1 204");
	assert_int_equal(c->reports, REPORTS_MAX);
	body[length - 1] = ',';
	memcpy(body + length, one, sizeof(one));
	body[length + sizeof(one) - 2] = ']';
	assert_has(report(body), "HTTP/1.1 413");
	assert_has(report(body), "more than 1000 reports in one call; send them in several");
	assert_int_equal(c->reports, REPORTS_MAX);
}

static void open_requests_reach_the_context(void **state)
{
	struct context *c = catalog;
	int fd = client_connect(serving.consumer);

	(void) state;
	assert_has(client_call(&serving, fd, "PUT",
				   "/v1/services/catalog/endpoints/catalog-a/in-flight", "",
				   "{\"count\": 3}"),
			"HTTP/1.1 204");
	assert_int_equal(c->in_flight, 3);
	(void) close(fd);
	serving_settle(&serving);
	assert_int_equal(c->in_flight, 0);
}

static int ask_for_something_new(void)
{
	int fd = client_connect(serving.consumer);

	fake_directory.lazy = true;
	client_send(fd, "POST /v1/services/new/pick HTTP/1.1\r\nHost: x\r\nContent-Length: 14\r\n\r\n{\"hint\":\"h\\\"\"}");
	serving_settle(&serving);
	assert_int_equal(recv(fd, (char[1]){}, 1, 0), -1);
	return fd;
}

static void the_first_call_for_a_service_waits_for_its_first_answer(void **state)
{
	int fd = ask_for_something_new();

	(void) state;
	fake_publish(directory_find(&fake_directory, "new"), three, 3);
	assert_has(client_read_until(&serving, fd, "}}\n"), "\"service\": \"new\"");
	(void) close(fd);
}

static void the_first_call_for_a_service_learns_of_a_failure(void **state)
{
	int fd = ask_for_something_new();
	struct context *c = directory_find(&fake_directory, "new");

	(void) state;
	fake_directory.events->renewed(fake_directory.userdata, c);
	serving_settle(&serving);
	assert_int_equal(recv(fd, (char[1]){}, 1, 0), -1);
	c->freshness.state = SOURCE_FAILED;
	fake_directory.events->renewed(fake_directory.userdata, c);
	assert_has(client_read_until(&serving, fd, "}}\n"), "HTTP/1.1 503");
	(void) close(fd);
}

static void nobody_waits_for_a_first_answer_for_ever(void **state)
{
	int fd = ask_for_something_new();

	(void) state;
	assert_has(client_read_until(&serving, fd, "}}\n"), "\"code\": \"source_unknown\"");
	/* And not again: it is no new service any more. */
	assert_has(client_call(&serving, fd, "POST", "/v1/services/new/pick", "", ""),
			"\"code\": \"source_unknown\"");
	(void) close(fd);
}

static void who_waits_for_a_first_answer_may_leave(void **state)
{
	int fds[4];

	(void) state;
	for (size_t i = 0; i < ELEMENTS(fds); i++)
		fds[i] = ask_for_something_new();
	for (size_t i = 0; i < ELEMENTS(fds); i++)
		(void) close(fds[i]);
	fake_publish(directory_find(&fake_directory, "new"), three, 3);
	serving_settle(&serving);
	assert_has(call(&serving, serving.consumer, "POST", "/v1/services/new/pick", ""),
			"\"service\": \"new\"");
}

static void who_waits_for_a_first_answer_is_answered_at_the_end(void **state)
{
	int fd = ask_for_something_new();

	(void) state;
	server_quiesce(serving.server);
	assert_has(client_read_until(&serving, fd, "}}\n"), "\"code\": \"source_unknown\"");
	(void) close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, start, stop)
		T(a_list_has_the_shape_of_the_contract),
		T(a_list_of_all_says_who_is_left_out),
		T(a_service_without_an_answer_is_unknown_and_never_empty),
		T(picks_take_turns_and_tell_their_freshness),
		T(a_cached_pick_is_not_told_past_its_revision),
		T(a_cached_pick_is_of_its_snapshot_not_only_of_its_revision),
		T(a_pick_without_an_answer_says_which_fact_failed),
		T(unknown_members_are_refused_with_the_nearest_known_one),
		T(unknown_parameters_are_refused),
		T(an_answer_older_than_asked_for_is_refused),
		T(a_stale_directory_is_served_or_not_as_the_policy_says),
		T(the_consumer_socket_changes_nothing),
		T(the_admin_socket_starts_a_drain_and_notes_who_asked),
		T(a_drain_is_answered_once_a_crash_cannot_forget_it),
		T(a_drain_that_the_disk_does_not_take_is_not_called_started),
		T(refusals_of_the_rollout_have_their_own_codes),
		T(wrong_methods_and_paths_are_told_apart),
		T(bodies_have_a_limit_and_the_daemon_survives_them),
		T(head_answers_like_get_without_a_body),
		T(an_escaped_slash_belongs_to_the_name),
		T(every_reading_call_answers),
		T(the_budget_adds_the_declared_windows_up),
		T(reports_and_acks_are_checked),
		T(more_requests_after_the_removal_are_a_stale_pick),
		T(reports_are_handed_on),
		T(a_report_about_an_endpoint_that_has_gone_is_no_error),
		T(one_wrong_report_refuses_all_of_a_call),
		T(reports_of_one_call_have_a_limit),
		T(open_requests_reach_the_context),
		T(the_first_call_for_a_service_waits_for_its_first_answer),
		T(the_first_call_for_a_service_learns_of_a_failure),
		T(nobody_waits_for_a_first_answer_for_ever),
		T(who_waits_for_a_first_answer_may_leave),
		T(who_waits_for_a_first_answer_is_answered_at_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
