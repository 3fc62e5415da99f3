/* What consumers have read, from their sockets and from what they say; and their in-flight reports.
 */

#include <sys/socket.h>

#include "clock.h"
#include "consumers.h"
#include "in-flight.h"
#include "test.h"

static struct consumers *consumers;
static struct in_flight *in_flight;
static int pair[2]; /* ours, the peer's */
static sd_event *event;
static uint64_t told; /* of catalog/a */

static void note_told(void *userdata, const char *service, const char *endpoint, uint64_t requests)
{
	(void) userdata;
	assert_string_equal(service, "catalog");
	if (strcmp(endpoint, "a") == 0)
		told = requests;
}
static int start(void **state)
{
	(void) state;
	consumers = consumers_new();
	assert_ok(sd_event_new(&event));
	in_flight = in_flight_new(event, note_told, NULL);
	told = 0;
	return consumers && in_flight ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)
				      : -1;
}

static int stop(void **state)
{
	(void) state;
	(void) close(pair[0]);
	(void) close(pair[1]);
	consumers_free(consumers);
	in_flight_free(in_flight);
	sd_event_unref(event);
	return 0;
}

static struct consumer *enter(pid_t pid, const char *name)
{
	struct consumer *c = consumers_enter(consumers, DOOR_CONSUMER, pid, 1000, name, 0);

	assert_non_null(c);
	return c;
}

static struct consumer_evidence evidence(uint64_t revision)
{
	struct consumer_evidence e;

	consumers_evidence(consumers, "catalog", revision, &e);
	return e;
}

static void write_some(void)
{
	assert_int_equal(write(pair[0], "0123456789", 10), 10);
}

static void read_all(void)
{
	char buffer[64];

	assert_int_equal(read(pair[1], buffer, sizeof(buffer)), 10);
}

static void connections_of_one_process_and_name_are_one_consumer(void **state)
{
	struct consumer *a = enter(4711, "shop"), *b = enter(4711, "shop"),
			*c = enter(4711, "other"), *d = enter(4712, "shop");

	(void) state;
	assert_ptr_equal(a, b);
	assert_ptr_not_equal(a, c);
	assert_ptr_not_equal(a, d);
	assert_int_equal(consumers_count(consumers, DOOR_CONSUMER), 3);
	consumers_leave(a);
	consumers_leave(c);
	consumers_leave(d);
	assert_int_equal(consumers_count(consumers, DOOR_CONSUMER), 1);
	consumers_leave(b);
	assert_int_equal(consumers_count(consumers, DOOR_CONSUMER), 0);
}

static void a_process_that_cannot_be_seen_is_a_consumer_a_connection(void **state)
{
	struct consumer *a = enter(0, NULL), *b = enter(0, NULL);

	(void) state;
	assert_ptr_not_equal(a, b);
	consumers_leave(a);
	consumers_leave(b);
}

static void without_a_name_a_consumer_is_called_after_its_program(void **state)
{
	struct consumer *c = enter(getpid(), NULL);

	(void) state;
	assert_non_null(strstr(consumer_name(c), "test-consumer"));
	assert_true(consumer_is_named(c, NULL));
	consumers_leave(c);
}

static void names_are_cut_and_cleaned(void **state)
{
	char name[300];
	struct consumer *c;

	(void) state;
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	name[1] = '\n';
	c = enter(1, name);
	assert_int_equal(strlen(consumer_name(c)), CONSUMER_NAME_MAX - 1);
	assert_int_equal(consumer_name(c)[1], '?');
	assert_true(consumer_is_named(c, name));
	consumers_leave(c);
}

static void a_watch_is_read_when_its_socket_is_empty(void **state)
{
	struct consumer *c = enter(1, "shop");
	struct reading watch = {};

	(void) state;
	assert_ok(reading_start_watch(&watch, c, "catalog", pair[0]));
	write_some();
	watch.sent = watch.flushed = 7;
	assert_int_equal(evidence(7).caught_up, 0);
	assert_string_equal(evidence(7).behind, "shop");
	read_all();
	assert_int_equal(evidence(7).caught_up, 1);
	assert_int_equal(evidence(8).caught_up, 0);
	assert_int_equal(evidence(8).behind_revision, 7);
	reading_stop(&watch);
	assert_int_equal(evidence(7).connected, 0);
	consumers_leave(c);
}

static void what_is_not_yet_in_the_socket_is_not_read(void **state)
{
	struct consumer *c = enter(1, "shop");
	struct reading watch = {};

	(void) state;
	assert_ok(reading_start_watch(&watch, c, "catalog", pair[0]));
	watch.sent = 7;
	assert_int_equal(evidence(7).caught_up, 0);
	reading_stop(&watch);
	consumers_leave(c);
}

static void the_watch_furthest_behind_counts(void **state)
{
	struct consumer *c = enter(1, "shop");
	struct reading first = {}, second = {};

	(void) state;
	assert_ok(reading_start_watch(&first, c, "catalog", pair[0]));
	assert_ok(reading_start_watch(&second, c, "catalog", pair[0]));
	first.read = 9;
	second.read = 6;
	assert_int_equal(evidence(9).connected, 1);
	assert_int_equal(evidence(9).caught_up, 0);
	assert_int_equal(evidence(9).behind_revision, 6);
	second.read = 9;
	assert_int_equal(evidence(9).caught_up, 1);
	reading_stop(&first);
	reading_stop(&second);
	consumers_leave(c);
}

static void who_acknowledges_is_believed_instead(void **state)
{
	struct consumer *c = enter(1, "shop");
	struct reading watch = {};

	(void) state;
	assert_ok(reading_start_watch(&watch, c, "catalog", pair[0]));
	watch.read = 9;
	assert_ok(consumer_ack(c, "catalog", 5));
	assert_int_equal(evidence(9).caught_up, 0);
	assert_ok(consumer_ack(c, "catalog", 9));
	assert_int_equal(evidence(9).caught_up, 1);
	reading_stop(&watch);
	consumers_leave(c);
}

static void a_lister_is_behind_until_it_has_read_a_newer_list(void **state)
{
	struct consumer *c = enter(1, "shop");
	struct reading list = {};

	(void) state;
	assert_ok(reading_sent_list(&list, c, "catalog", pair[0], 5));
	write_some();
	reading_flushed_list(&list);
	assert_int_equal(evidence(5).caught_up, 0);
	read_all();
	assert_int_equal(evidence(5).caught_up, 1);
	assert_int_equal(evidence(6).caught_up, 0);

	/* Another list on the same connection; then a question, so it has read that, too. */
	assert_ok(reading_sent_list(&list, c, "catalog", pair[0], 6));
	assert_int_equal(evidence(6).caught_up, 0);
	reading_flushed_list(&list);
	reading_answered_by_next_request(&list);
	assert_int_equal(evidence(6).caught_up, 1);
	reading_stop(&list);
	assert_int_equal(evidence(6).caught_up, 1);
	consumers_leave(c);
	assert_int_equal(evidence(6).connected, 0);
}

static void a_list_of_another_service_keeps_what_was_read_before(void **state)
{
	struct consumer *c = enter(1, "shop");
	struct reading list = {};

	(void) state;
	assert_ok(reading_sent_list(&list, c, "catalog", pair[0], 5));
	reading_flushed_list(&list);
	reading_answered_by_next_request(&list);
	assert_ok(reading_sent_list(&list, c, "search", pair[0], 6));
	assert_int_equal(evidence(5).caught_up, 1);
	reading_stop(&list);
	consumers_leave(c);
}

static uint64_t revision_in_force(void *userdata, const char *service)
{
	(void) userdata;
	(void) service;
	return 9;
}

static void consumers_are_shown_with_what_they_follow(void **state)
{
	struct consumer *c = enter(1, "shop");
	struct reading watch = {};
	struct text text = {};

	(void) state;
	assert_ok(reading_start_watch(&watch, c, "catalog", pair[0]));
	watch.sent = watch.flushed = watch.read = 8;
	consumers_render(consumers, 5000000, revision_in_force, NULL, &text);
	assert_non_null(strstr(text.data, "\"name\": \"shop\", \"pid\": 1, \"uid\": 1000"));
	assert_non_null(strstr(text.data,
			"\"door\": \"consumer\", \"connections\": 1, \"connected_ms\": 5000"));
	assert_non_null(strstr(text.data,
			"{\"service\": \"catalog\", \"watching\": true, \"sent\": 8, \"read\": 8, \"acked\": null, \"behind\": true}"));
	text_done(&text);
	reading_stop(&watch);
	consumers_leave(c);
}

static void interests_of_one_consumer_have_a_limit(void **state)
{
	struct consumer *c = enter(1, "shop");
	char service[32];

	(void) state;
	for (int i = 0; i < CONSUMER_INTERESTS_MAX; i++) {
		(void) snprintf(service, sizeof(service), "s-%d", i);
		assert_ok(consumer_ack(c, service, 1));
	}
	assert_errno(consumer_ack(c, "one-more", 1), E2BIG);
	assert_ok(consumer_ack(c, "s-0", 2));
	consumers_leave(c);
}

static int use_everything(void *userdata)
{
	struct consumer *c = consumers_enter(consumers, DOOR_CONSUMER, 5, 5, "x", 0);
	struct reading watch = {}, list = {};
	int r;

	(void) userdata;
	if (!c)
		return -ENOMEM;
	r = reading_start_watch(&watch, c, "catalog", pair[0]);
	if (r >= 0)
		r = reading_sent_list(&list, c, "search", pair[0], 1);
	if (r >= 0)
		r = consumer_ack(c, "orders", 1);
	reading_stop(&watch);
	reading_stop(&list);
	consumers_leave(c);
	return r;
}

static void running_out_of_memory_breaks_nothing(void **state)
{
	(void) state;
	assert_survives_oom(use_everything, NULL);
}

static int report(struct in_flight_reporter *reporter, const char *endpoint, uint64_t count,
		uint64_t now_usec, uint64_t ttl_usec)
{
	const struct in_flight_claim claim = {
		.service = "catalog", .endpoint = endpoint, .count = count, .ttl_usec = ttl_usec
	};

	return in_flight_report(in_flight, reporter, &claim, now_usec);
}

static struct in_flight_evidence reports(uint64_t now_usec)
{
	struct in_flight_evidence e;

	in_flight_evidence(in_flight, "catalog", "a", now_usec, &e);
	return e;
}

static void reports_add_up_and_end_with_their_time(void **state)
{
	struct in_flight_reporter one = {}, two = {};

	(void) state;
	assert_ok(report(&one, "a", 3, 0, 100));
	assert_ok(report(&two, "a", 4, 0, 200));
	assert_ok(report(&two, "b", 50, 0, 200));
	assert_int_equal(reports(50).requests, 7);
	assert_int_equal(reports(50).reporters, 2);
	assert_ok(report(&one, "a", 0, 50, 100));
	assert_int_equal(reports(60).requests, 4);
	assert_int_equal(reports(160).requests, 4);
	assert_int_equal(reports(160).reporters, 1);
	assert_int_equal(reports(200).reporters, 0);
	in_flight_forget(in_flight, &one);
	in_flight_forget(in_flight, &two);
}

static void reports_end_with_their_reporter(void **state)
{
	struct in_flight_reporter one = {};
	uint64_t count, revision;

	(void) state;
	assert_ok(report(&one, "a", 3, 0, 100));
	assert_ok(in_flight_last(in_flight, &one, "catalog", "a", &count, &revision));
	assert_int_equal(count, 3);
	in_flight_forget(in_flight, &one);
	assert_int_equal(reports(1).reporters, 0);
	assert_errno(in_flight_last(in_flight, &one, "catalog", "a", &count, &revision), ENOENT);
}

static void reports_have_a_limit_that_expired_ones_do_not_use(void **state)
{
	struct in_flight_reporter one = {};
	char id[32];

	(void) state;
	for (int i = 0; i < IN_FLIGHT_REPORTS_MAX; i++) {
		(void) snprintf(id, sizeof(id), "e-%d", i);
		assert_ok(report(&one, id, 1, 0, 100));
	}
	assert_errno(report(&one, "more", 1, 50, 100), E2BIG);
	assert_ok(report(&one, "more", 1, 100, 100));
	assert_int_equal(one.count, 1);
	in_flight_forget(in_flight, &one);
}

static void the_sum_of_reports_is_told_whenever_it_changes(void **state)
{
	const uint64_t sec = USEC_PER_SEC, start = 100 * USEC_PER_SEC;
	struct in_flight_reporter one = {}, two = {};

	(void) state;
	assert_ok(report(&one, "a", 3, start, 3 * sec));
	assert_ok(report(&two, "a", 4, start, 10 * sec));
	assert_ok(report(&two, "b", 50, start, 10 * sec));
	assert_int_equal(told, 7);
	assert_ok(report(&two, "a", 1, start + sec, 10 * sec));
	assert_int_equal(told, 4);
	in_flight_expire(in_flight, start + 3 * sec - 1);
	assert_int_equal(told, 4);
	in_flight_expire(in_flight, start + 4 * sec);
	assert_int_equal(told, 1);
	assert_int_equal(one.count, 0);
	in_flight_expire(in_flight, start + 12 * sec);
	assert_int_equal(told, 0);
	assert_int_equal(two.count, 0);
}

static void a_sum_has_no_overflow(void **state)
{
	struct in_flight_reporter one = {}, two = {};

	(void) state;
	assert_ok(report(&one, "a", UINT64_MAX, 0, 100));
	assert_ok(report(&two, "a", UINT64_MAX, 0, 100));
	assert_true(told == UINT64_MAX);
	in_flight_forget(in_flight, &one);
	assert_true(told == UINT64_MAX);
	assert_ok(report(&two, "a", 5, 0, 100));
	assert_int_equal(told, 5);
	in_flight_forget(in_flight, &two);
	assert_int_equal(told, 0);
}

static void what_lasts_longest_is_found_over_after_any_pause(void **state)
{
	const uint64_t start = 1000 * USEC_PER_SEC;
	struct in_flight_reporter one = {}, two = {};

	(void) state;
	assert_ok(report(&one, "a", 3, start, IN_FLIGHT_TTL_MAX));
	in_flight_expire(in_flight, start + IN_FLIGHT_TTL_MAX - 1);
	assert_int_equal(told, 3);
	in_flight_expire(in_flight, start + 50 * IN_FLIGHT_TTL_MAX);
	assert_int_equal(told, 0);
	assert_ok(report(&two, "a", 4, start + 90 * IN_FLIGHT_TTL_MAX, IN_FLIGHT_TTL_MAX));
	in_flight_expire(in_flight, start + 91 * IN_FLIGHT_TTL_MAX + IN_FLIGHT_SWEEP_USEC);
	assert_int_equal(told, 0);
}

static void the_loop_finds_what_is_over(void **state)
{
	struct in_flight_reporter one = {};

	(void) state;
	assert_ok(report(&one, "a", 3, clock_boot_usec(), 1000));
	while (told > 0)
		assert_ok(sd_event_run(event, UINT64_MAX));
	assert_int_equal(one.count, 0);
}

static int report_once(void *userdata)
{
	struct in_flight_reporter one = {};
	int r = report(&one, "a", 3, 0, 100);

	(void) userdata;
	in_flight_forget(in_flight, &one);
	return r;
}

static void a_report_without_memory_breaks_nothing(void **state)
{
	(void) state;
	assert_survives_oom(report_once, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, start, stop)
		T(connections_of_one_process_and_name_are_one_consumer),
		T(a_process_that_cannot_be_seen_is_a_consumer_a_connection),
		T(without_a_name_a_consumer_is_called_after_its_program),
		T(names_are_cut_and_cleaned),
		T(a_watch_is_read_when_its_socket_is_empty),
		T(what_is_not_yet_in_the_socket_is_not_read),
		T(the_watch_furthest_behind_counts),
		T(who_acknowledges_is_believed_instead),
		T(a_lister_is_behind_until_it_has_read_a_newer_list),
		T(a_list_of_another_service_keeps_what_was_read_before),
		T(consumers_are_shown_with_what_they_follow),
		T(interests_of_one_consumer_have_a_limit),
		T(running_out_of_memory_breaks_nothing),
		T(reports_add_up_and_end_with_their_time),
		T(reports_end_with_their_reporter),
		T(reports_have_a_limit_that_expired_ones_do_not_use),
		T(the_sum_of_reports_is_told_whenever_it_changes),
		T(a_sum_has_no_overflow),
		T(what_lasts_longest_is_found_over_after_any_pause),
		T(the_loop_finds_what_is_over),
		T(a_report_without_memory_breaks_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
