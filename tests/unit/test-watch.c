/* Watches over real sockets: what comes, in which order, and what becomes of those who do not read.
 */

#include <fcntl.h>

#include "serving.h"

static struct serving serving;
static struct context *catalog;

static const struct fake_endpoint ready[] = {
	{ "catalog-a", USHER_ADMIN_READY, 1, false },
	{ "catalog-b", USHER_ADMIN_READY, 1, false },
};
static const struct fake_endpoint draining[] = {
	{ "catalog-a", USHER_ADMIN_DRAINING, 1, false },
	{ "catalog-b", USHER_ADMIN_READY, 1, false },
};
static const struct fake_endpoint withdrawn[] = {
	{ "catalog-a", USHER_ADMIN_DRAINING, 1, true },
	{ "catalog-b", USHER_ADMIN_READY, 1, false },
};

static int start(void **state)
{
	(void) state;
	catalog = fake_add_context("catalog");
	serving_start(&serving);
	return 0;
}

static int stop(void **state)
{
	(void) state;
	serving_stop(&serving);
	return 0;
}

static int watch(const char *query)
{
	int fd = client_connect(serving.consumer);
	char request[256];

	(void) snprintf(request, sizeof(request),
			"GET /v1/services/catalog/endpoints?watch=true%s HTTP/1.1\r\nHost: x\r\nUsher-Consumer: tester\r\n\r\n",
			query);
	client_send(fd, request);
	return fd;
}

static void a_watch_begins_with_the_whole_list(void **state)
{
	const char *text;
	int fd;

	(void) state;
	fake_publish(catalog, ready, 2);
	fd = watch("");
	text = client_read_until(&serving, fd, "]}\n");
	assert_has(text, "application/x-ndjson");
	assert_has(text,
			"{\"type\": \"snapshot\", \"service\": \"catalog\", \"revision\": 1, \"freshness\": {\"state\": \"live\"");
	assert_has(text, "\"id\": \"catalog-b\"");
	(void) close(fd);
}

static void draining_is_an_update_before_the_removal(void **state)
{
	const char *text;
	int fd;

	(void) state;
	fake_publish(catalog, ready, 2);
	fd = watch("");
	client_read_until(&serving, fd, "]}\n");
	fake_publish(catalog, draining, 2);
	text = client_read_until(&serving, fd, "\"removed\": []}\n");
	assert_has(text, "{\"type\": \"update\", \"revision\": 2");
	assert_has(text, "\"changed\": [{\"id\": \"catalog-a\"");
	assert_has(text, "\"admin_state\": \"draining\"");
	assert_has_not(text, "catalog-b");
	fake_publish(catalog, withdrawn, 2);
	text = client_read_until(&serving, fd, "\"removed\": [\"catalog-a\"]}\n");
	assert_has(text, "{\"type\": \"update\", \"revision\": 3");
	assert_has(text, "\"changed\": []");
	(void) close(fd);
}

static void a_line_says_why_nobody_is_left_to_choose(void **state)
{
	static const struct fake_endpoint nobody[] = {
		{ "catalog-a", USHER_ADMIN_READY, 1, true },
		{ "catalog-b", USHER_ADMIN_READY, 1, true },
	};
	const char *text;
	int fd;

	(void) state;
	catalog->why_none = PICK_ALL_UNHEALTHY;
	catalog->why_none_stage = "health";
	fake_publish(catalog, nobody, 2);
	fd = watch("");
	text = client_read_until(&serving, fd, "]}\n");
	assert_has(text, "\"revision\": 1, \"code\": \"all_unhealthy\", \"freshness\"");
	catalog->why_none = PICK_FILTERED;
	catalog->why_none_stage = "zone";
	fake_publish(catalog, nobody, 2);
	text = client_read_until(&serving, fd, "\"removed\": []}\n");
	assert_has(text,
			"{\"type\": \"update\", \"revision\": 2, \"code\": \"filtered\", \"stage\": \"zone\", \"freshness\"");
	assert_has(text, "\"changed\": []");
	catalog->why_none = PICK_OK;
	catalog->why_none_stage = NULL;
	fake_publish(catalog, ready, 2);
	text = client_read_until(&serving, fd, "\"removed\": []}\n");
	assert_has(text, "{\"type\": \"update\", \"revision\": 3, \"freshness\"");
	(void) close(fd);
}

static void a_service_without_an_answer_sends_bookmarks_and_then_the_list(void **state)
{
	const char *text;
	int fd = watch("");

	(void) state;
	text = client_read_until(&serving, fd, "}}\n");
	assert_has(text,
			"{\"type\": \"bookmark\", \"revision\": 0, \"freshness\": {\"state\": \"unknown\", \"age_ms\": null");
	assert_has_not(text, "endpoints");
	fake_publish(catalog, ready, 2);
	assert_has(client_read_until(&serving, fd, "]}\n"), "\"type\": \"snapshot\"");
	(void) close(fd);
}

static void a_known_revision_is_gone_on_from(void **state)
{
	const char *text;
	int first, again;

	(void) state;
	fake_publish(catalog, ready, 2);
	first = watch("");
	client_read_until(&serving, first, "]}\n");
	(void) close(first);
	serving_settle(&serving);
	fake_publish(catalog, draining, 2);
	fake_publish(catalog, withdrawn, 2);

	again = watch("&revision=1");
	text = client_read_until(&serving, again, "\"removed\": [\"catalog-a\"]}\n");
	assert_has(text, "{\"type\": \"update\", \"revision\": 2");
	assert_has_not(text, "snapshot");
	(void) close(again);
}

static void the_revision_in_force_gets_a_bookmark_and_nothing_else(void **state)
{
	const char *text;
	int fd;

	(void) state;
	fake_publish(catalog, ready, 2);
	fd = watch("&revision=1");
	text = client_read_until(&serving, fd, "}}\n");
	assert_has(text, "{\"type\": \"bookmark\", \"revision\": 1");
	assert_has_not(text, "snapshot");
	(void) close(fd);
}

static void an_unknown_revision_gets_the_whole_list(void **state)
{
	int fd;

	(void) state;
	fake_publish(catalog, ready, 2);
	fd = watch("&revision=77");
	assert_has(client_read_until(&serving, fd, "]}\n"), "\"type\": \"snapshot\"");
	(void) close(fd);
}

static void bookmarks_renew_the_age_within_a_third_of_max_age(void **state)
{
	int fd;

	(void) state;
	catalog->config.max_age_usec = 90000;
	fake_publish(catalog, ready, 2);
	fd = watch("");
	client_read_until(&serving, fd, "]}\n");
	for (int i = 0; i < 3; i++) {
		uint64_t before = clock_boot_usec();

		client_read_until(&serving, fd, "\"type\": \"bookmark\"");
		/* The interval is 30 ms; where max_age is not configured, it is this. */
		assert_true(clock_boot_usec() - before < 10 * USEC_PER_SEC);
	}
	(void) close(fd);
}

static void a_change_of_state_is_told_at_once(void **state)
{
	int fd;

	(void) state;
	fake_publish(catalog, ready, 2);
	fd = watch("");
	client_read_until(&serving, fd, "]}\n");
	catalog->freshness.state = SOURCE_FAILED;
	fake_directory.events->renewed(fake_directory.userdata, catalog);
	assert_has(client_read_until(&serving, fd, "}}\n"), "\"state\": \"failed\"");
	(void) close(fd);
}

static void what_the_first_line_told_is_not_told_again(void **state)
{
	int fd;

	(void) state;
	fake_publish(catalog, ready, 2);
	fd = watch("");
	client_read_until(&serving, fd, "]}\n");
	fake_directory.events->renewed(fake_directory.userdata, catalog);
	serving_settle(&serving);
	assert_int_equal(recv(fd, (char[1]){}, 1, MSG_DONTWAIT), -1);
	(void) close(fd);
}

/* Publish until the daemon has had to drop updates for a watcher that reads nothing. */
static void publish_much(void)
{
	for (int i = 0; i < 3000; i++) {
		fake_publish(catalog, i % 2 ? ready : draining, 2);
		serving_turn(&serving);
	}
}

static void who_does_not_read_gets_a_resync_and_the_newest(void **state)
{
	const char *text;
	char wanted[64];
	int fd;

	(void) state;
	fake_publish(catalog, ready, 2);
	fd = watch("");
	serving_settle(&serving);
	publish_much();
	(void) snprintf(wanted, sizeof(wanted), "\"revision\": %llu",
			(unsigned long long) fake_directory.revision);
	text = client_read_until(&serving, fd, wanted);
	assert_has(text, "{\"type\": \"resync\"}\n");
	assert_has(strstr(text, "resync"), "\"type\": \"snapshot\"");
	(void) close(fd);
}

static void who_does_not_read_does_not_hold_up_others(void **state)
{
	int stuck, quick;

	(void) state;
	fake_publish(catalog, ready, 2);
	stuck = watch("");
	serving_settle(&serving);
	publish_much();
	quick = watch("");
	client_read_until(&serving, quick, "]}\n");
	fake_publish(catalog, withdrawn, 2);
	client_read_until(&serving, quick, "\"removed\": [\"catalog-a\"]}\n");
	(void) close(stuck);
	(void) close(quick);
}

static size_t open_descriptors(void)
{
	size_t count = 0;

	for (int fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void who_hangs_up_is_noticed_at_once(void **state)
{
	size_t before, fds[50];

	(void) state;
	fake_publish(catalog, ready, 2);
	serving_settle(&serving);
	before = open_descriptors();
	for (size_t i = 0; i < 50; i++) {
		fds[i] = (size_t) watch("");
		client_read_until(&serving, (int) fds[i], "]}\n");
	}
	for (size_t i = 0; i < 50; i++)
		(void) close((int) fds[i]);
	serving_settle(&serving);
	assert_int_equal(open_descriptors(), before);
	assert_has(call(&serving, serving.consumer, "GET", "/metrics", ""), "usher_streams 0\n");
}

static void who_only_stops_sending_is_still_told(void **state)
{
	int fd;

	(void) state;
	fake_publish(catalog, ready, 2);
	fd = watch("");
	client_read_until(&serving, fd, "]}\n");
	assert_int_equal(shutdown(fd, SHUT_WR), 0);
	serving_settle(&serving);
	fake_publish(catalog, withdrawn, 2);
	client_read_until(&serving, fd, "\"removed\": [\"catalog-a\"]}\n");
	(void) close(fd);
}

static void stopping_ends_the_stream_with_the_reason(void **state)
{
	const char *text;
	int fd;

	(void) state;
	fake_publish(catalog, ready, 2);
	fd = watch("");
	client_read_until(&serving, fd, "]}\n");
	server_quiesce(serving.server);
	text = client_read_until(&serving, fd, "0\r\n\r\n");
	assert_has(text, "{\"type\": \"end\", \"code\": \"shutting_down\"}\n");
	(void) close(fd);
}

static void a_removed_service_ends_the_stream_with_the_reason(void **state)
{
	int fd;

	(void) state;
	fake_publish(catalog, ready, 2);
	fd = watch("");
	client_read_until(&serving, fd, "]}\n");
	fake_remove_context(catalog);
	assert_has(client_read_until(&serving, fd, "0\r\n\r\n"),
			"{\"type\": \"end\", \"code\": \"removed\"}\n");
	(void) close(fd);
}

static void many_watchers_share_one_text(void **state)
{
	static int fds[200];
	const size_t count = ELEMENTS(fds);

	(void) state;
	fake_publish(catalog, ready, 2);
	for (size_t i = 0; i < count; i++) {
		fds[i] = watch("");
		client_read_until(&serving, fds[i], "]}\n");
	}
	fake_publish(catalog, withdrawn, 2);
	for (size_t i = 0; i < count; i++)
		client_read_until(&serving, fds[i], "\"removed\": [\"catalog-a\"]}\n");
	for (size_t i = 0; i < count; i++)
		(void) close(fds[i]);
	serving_settle(&serving);
}

static void evidence(uint64_t revision, struct consumer_evidence *ret)
{
	server_rollout_above()->consumers(serving.server, "catalog", revision, ret);
}

static void what_a_watcher_has_read_is_seen_in_its_socket(void **state)
{
	struct consumer_evidence e;
	int fd;

	(void) state;
	fake_publish(catalog, ready, 2);
	fd = watch("");
	client_read_until(&serving, fd, "]}\n");
	serving_settle(&serving);
	evidence(1, &e);
	assert_int_equal(e.connected, 1);
	assert_int_equal(e.caught_up, 1);

	fake_publish(catalog, withdrawn, 2);
	serving_settle(&serving);
	evidence(2, &e);
	assert_int_equal(e.caught_up, 0);
	assert_string_equal(e.behind, "tester");
	assert_int_equal(e.behind_revision, 1);

	client_read_until(&serving, fd, "\"removed\": [\"catalog-a\"]}\n");
	serving_settle(&serving);
	evidence(2, &e);
	assert_int_equal(e.caught_up, 1);
	assert_null(e.behind);
	(void) close(fd);
	serving_settle(&serving);
	evidence(2, &e);
	assert_int_equal(e.connected, 0);
}

static void a_drain_is_followed_to_its_end(void **state)
{
	const struct rollout_above *above = server_rollout_above();
	const char *text;
	int fd;

	(void) state;
	fake_rollout.exists = true;
	(void) snprintf(fake_rollout.record.id, DRAIN_ID_MAX, "d-1");
	fd = client_connect(serving.consumer);
	client_send(fd, "GET /v1/drains/d-1?watch=true HTTP/1.1\r\nHost: x\r\n\r\n");
	text = client_read_until(&serving, fd, "}}\n");
	assert_has(text,
			"{\"type\": \"drain\", \"drain\": {\"id\": \"d-1\", \"state\": \"running\"}}");
	above->changed(serving.server, &fake_rollout.record);
	client_read_until(&serving, fd, "}}\n");
	fake_rollout.record.state = DRAIN_DONE;
	above->changed(serving.server, &fake_rollout.record);
	text = client_read_until(&serving, fd, "0\r\n\r\n");
	assert_has(text, "\"state\": \"done\"");
	(void) close(fd);
}

static void a_finished_drain_is_told_once(void **state)
{
	int fd = client_connect(serving.consumer);

	(void) state;
	fake_rollout.exists = true;
	fake_rollout.record.state = DRAIN_CANCELLED;
	(void) snprintf(fake_rollout.record.id, DRAIN_ID_MAX, "d-1");
	client_send(fd, "GET /v1/drains/d-1?watch=true HTTP/1.1\r\nHost: x\r\n\r\n");
	client_read_until(&serving, fd, "0\r\n\r\n");
	(void) close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, start, stop)
		T(a_watch_begins_with_the_whole_list),
		T(draining_is_an_update_before_the_removal),
		T(a_line_says_why_nobody_is_left_to_choose),
		T(a_service_without_an_answer_sends_bookmarks_and_then_the_list),
		T(a_known_revision_is_gone_on_from),
		T(the_revision_in_force_gets_a_bookmark_and_nothing_else),
		T(an_unknown_revision_gets_the_whole_list),
		T(bookmarks_renew_the_age_within_a_third_of_max_age),
		T(a_change_of_state_is_told_at_once),
		T(what_the_first_line_told_is_not_told_again),
		T(who_does_not_read_gets_a_resync_and_the_newest),
		T(who_does_not_read_does_not_hold_up_others),
		T(who_hangs_up_is_noticed_at_once),
		T(who_only_stops_sending_is_still_told),
		T(stopping_ends_the_stream_with_the_reason),
		T(a_removed_service_ends_the_stream_with_the_reason),
		T(many_watchers_share_one_text),
		T(what_a_watcher_has_read_is_seen_in_its_socket),
		T(a_drain_is_followed_to_its_end),
		T(a_finished_drain_is_told_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
