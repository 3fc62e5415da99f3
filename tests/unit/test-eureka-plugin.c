/* The plug-in eureka against a server that is played. */

#include "eureka.h"
#include "fake-source.h"
#include "schedule.h"
#include "scripted-server.h"

#define SEC UINT64_C(1000000)

extern const struct usher_plugin usher_plugin;

/* ---- a bench with a server ---- */

#define LEASE_OLD                                                                       \
	"\"leaseInfo\":{\"durationInSecs\":90,\"registrationTimestamp\":1700000000000," \
	"\"lastRenewalTimestamp\":1700000900000}"
#define LEASE_NEW                                                                       \
	"\"leaseInfo\":{\"durationInSecs\":90,\"registrationTimestamp\":1700000000000," \
	"\"lastRenewalTimestamp\":1700000000000}"
#define ONE(id, port, status, action, lease)                                                      \
	"{\"instanceId\":\"" id "\",\"app\":\"WEB\",\"ipAddr\":\"10.0.0.1\",\"status\":\"" status \
	"\",\"port\":{\"$\":" port ",\"@enabled\":\"true\"},\"actionType\":\"" action             \
	"\",\"lastUpdatedTimestamp\":\"1700000000001\"," lease "}"
#define A      ONE("a", "8001", "UP", "ADDED", LEASE_OLD)
#define B      ONE("b", "8002", "UP", "ADDED", LEASE_OLD)
#define A_NEW  ONE("a", "8001", "UP", "ADDED", LEASE_NEW)
#define A_GONE ONE("a", "8001", "UP", "DELETED", LEASE_OLD)
#define B_GONE ONE("b", "8002", "UP", "DELETED", LEASE_OLD)
#define ALL(hash, l)                                    \
	"{\"applications\":{\"apps__hashcode\":\"" hash \
	"\",\"application\":[{\"name\":\"WEB\",\"instance\":[" l "]}]}}"

#define SAYS_MAX 24

struct says {
	const char *body;   /* NULL: nothing, and the connection is closed */
	const char *status; /* NULL: 200 */
};

struct bench {
	struct scripted_server server, other;
	const char *servers[3];
	struct eureka eureka;
	struct usher_source source;
	struct says says[SAYS_MAX]; /* one a request; the last one again and again */
	char asked[SAYS_MAX][128];
	char credentials[256];
	atomic_uint count;
	unsigned said;
	unsigned until; /* so many answers and failures of the first service */
};

static bool server_answer(struct scripted_connection *c)
{
	struct bench *b = c->server->userdata;
	unsigned n = atomic_load(&b->count);
	const struct says *s;
	const char *authorization = strstr(c->request, "Authorization: ");

	if (n < SAYS_MAX)
		(void) sscanf(c->request, "GET %127s", b->asked[n]);
	if (authorization)
		(void) snprintf(b->credentials, sizeof(b->credentials), "%.*s",
				(int) strcspn(authorization, "\r"), authorization);
	atomic_store(&b->count, n + 1);
	s = &b->says[n < b->said ? n : b->said - 1];
	if (!s->body)
		return false;
	return scripted_reply(c, s->status ? s->status : "200 OK", "", s->body);
}

static unsigned answers_of(const struct fake_answer *a)
{
	return a->offers + a->confirms + a->fails;
}

static int bench_on_wait(
		struct usher_source *source, const struct usher_wait *wait, unsigned number)
{
	struct bench *b = source->userdata;

	(void) number;
	if (answers_of(&source->answers[0]) >= b->until)
		return 0;
	return fake_source_wait_http(source, wait);
}

static void set_up(struct bench *b)
{
	memset(b, 0, sizeof(*b));
	scripted_server_start(&b->server, server_answer, b);
	b->servers[0] = b->server.url;
	b->eureka = (struct eureka){
		.http = { .servers = b->servers,
				.verify = true,
				.connections = 8,
				.connect_timeout_usec = 60 * SEC },
		.interval_usec = 10000,
		.resync_usec = 3600 * SEC,
		.settle_usec = 90 * SEC,
		.lease_usec = 90 * SEC,
	};
	b->source.on_wait = bench_on_wait;
	b->source.userdata = b;
	fake_source_want(&b->source, "shop", "web", NULL);
}

static void say(struct bench *b, const char *body)
{
	b->says[b->said++].body = body;
}

static void say_status(struct bench *b, const char *status, const char *body)
{
	b->says[b->said++] = (struct says){ .body = body, .status = status };
}

static const struct fake_answer *run(struct bench *b, unsigned until)
{
	b->until = until;
	assert_ok(usher_plugin.discovery->run(&b->eureka, &b->source));
	return fake_source_answer(&b->source, "shop");
}

static void tear_down(struct bench *b)
{
	fake_source_done(&b->source);
	registration_done(&b->eureka);
	scripted_server_stop(&b->server);
}

static size_t count_of(const struct fake_answer *a)
{
	return a->set ? usher_endpoints_count(a->set) : 0;
}

/* ---- all, and what changes ---- */

static void test_all_are_asked_for_once_and_then_what_has_changed(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	say(&b, ALL("UP_1_", A));
	say(&b, ALL("UP_1_", A));
	say(&b, ALL("UP_2_", A "," B));
	a = run(&b, 2);
	assert_string_equal(b.asked[0], "/apps/");
	assert_string_equal(b.asked[1], "/apps/delta");
	assert_string_equal(b.asked[2], "/apps/delta");
	assert_int_equal(a->offers, 2);
	assert_int_equal(a->verdict, USHER_FRESH);
	assert_int_equal(count_of(a), 2);
	assert_true(fake_source_knows(&b.source, "web"));
	tear_down(&b);
}

static void test_that_nothing_has_changed_is_confirmed(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	say(&b, ALL("UP_1_", A));
	say(&b, ALL("UP_1_", ""));
	a = run(&b, 4);
	assert_int_equal(a->offers, 1);
	assert_int_equal(a->confirms, 3);
	tear_down(&b);
}

static void test_the_hash_of_another_state_asks_for_all_again(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	say(&b, ALL("UP_1_", A));
	say(&b, ALL("UP_1_", ""));
	say(&b, ALL("UP_2_", "")); /* of b it does not tell */
	say(&b, ALL("UP_2_", A "," B));
	say(&b, ALL("UP_2_", ""));
	a = run(&b, 2);
	assert_string_equal(b.asked[3], "/apps/");
	assert_int_equal(count_of(a), 2);
	tear_down(&b);
}

static void test_a_hash_that_stays_another_is_not_run_after(void **state)
{
	const struct fake_answer *a;
	unsigned all = 0;
	struct bench b;

	(void) state;
	set_up(&b);
	say(&b, ALL("UP_1_", A));
	say(&b, ALL("UP_7_", A));
	a = run(&b, 8);
	for (unsigned i = 0; i < 8; i++)
		all += strcmp(b.asked[i], "/apps/") == 0;
	assert_int_equal(all, 1);
	assert_int_equal(a->fails, 0);
	assert_int_equal(count_of(a), 1);
	tear_down(&b);
}

static void test_a_server_that_tells_no_changes_is_asked_for_all(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	say(&b, ALL("UP_1_", A));
	say_status(&b, "403 Forbidden", "");
	say(&b, ALL("UP_2_", A "," B));
	a = run(&b, 2);
	assert_string_equal(b.asked[1], "/apps/delta");
	assert_string_equal(b.asked[2], "/apps/");
	assert_string_equal(b.asked[3], "/apps/");
	assert_int_equal(a->fails, 0);
	assert_int_equal(count_of(a), 2);
	tear_down(&b);
}

/* ---- what is not believed ---- */

static void test_who_was_taken_out_is_gone_at_once(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	say(&b, ALL("UP_2_", A "," B));
	say(&b, ALL("UP_2_", ""));
	say(&b, ALL("", A_GONE "," B_GONE));
	a = run(&b, 2);
	assert_int_equal(a->verdict, USHER_FRESH);
	assert_int_equal(count_of(a), 0);
	tear_down(&b);
}

static void test_who_is_not_listed_any_more_stays_and_it_is_said(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	say(&b, ALL("UP_2_", A "," B));
	say(&b, ALL("UP_2_", ""));
	say(&b, ALL("UP_1_", "")); /* started again, it has heard of one */
	say(&b, ALL("UP_1_", A));
	say(&b, ALL("UP_1_", A));
	a = run(&b, 3);
	assert_int_equal(count_of(a), 2);
	assert_int_equal(a->offers, 1);
	assert_int_equal(a->fails, 2);
	assert_errno(a->code, EAGAIN);
	assert_non_null(strstr(a->text, "lists 1 of 2 instances"));
	tear_down(&b);
}

static void test_who_comes_back_is_not_missed(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	say(&b, ALL("UP_2_", A "," B));
	say(&b, ALL("UP_2_", ""));
	say(&b, ALL("UP_1_", ""));
	say(&b, ALL("UP_1_", A));
	say(&b, ALL("UP_1_", A));
	say(&b, ALL("UP_2_", A "," B));
	a = run(&b, 3);
	assert_int_equal(a->fails, 1);
	assert_int_equal(a->code, 0);
	assert_int_equal(a->offers, 2);
	assert_int_equal(count_of(a), 2);
	tear_down(&b);
}

static void test_who_does_not_come_back_is_gone_after_a_while(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	b.eureka.settle_usec = 1;
	say(&b, ALL("UP_2_", A "," B));
	say(&b, ALL("UP_2_", ""));
	say(&b, ALL("UP_1_", ""));
	say(&b, ALL("UP_1_", A));
	say(&b, ALL("UP_1_", A));
	a = run(&b, 2);
	assert_int_equal(a->fails, 0);
	assert_int_equal(count_of(a), 1);
	tear_down(&b);
}

static void test_a_server_that_knows_nobody_is_not_believed_at_once(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	say(&b, ALL("", ""));
	a = run(&b, 2);
	assert_int_equal(a->offers, 0);
	assert_int_equal(a->fails, 2);
	assert_errno(a->code, EAGAIN);
	assert_non_null(strstr(a->text, "lists no instance of web"));
	tear_down(&b);
}

static void test_a_server_that_has_known_others_long_is_believed_to_have_none(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	fake_source_want(&b.source, "other", "other", NULL);
	say(&b, ALL("UP_1_", A));
	say(&b, ALL("UP_1_", ""));
	(void) run(&b, 1);
	a = fake_source_answer(&b.source, "other");
	assert_int_equal(a->offers, 1);
	assert_int_equal(a->verdict, USHER_FRESH);
	assert_int_equal(count_of(a), 0);
	tear_down(&b);
}

static void test_what_a_young_server_lists_is_doubted(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	say(&b, ALL("UP_1_", A_NEW));
	say(&b, ALL("UP_1_", ""));
	a = run(&b, 1);
	assert_int_equal(a->verdict, USHER_SUSPECT);
	assert_int_equal(count_of(a), 1);
	tear_down(&b);
}

static void test_none_that_can_be_used_is_no_emptiness(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	b.source.wanted[0].port = "https";
	say(&b, ALL("UP_1_", A));
	say(&b, ALL("UP_1_", ""));
	a = run(&b, 1);
	assert_null(a->set);
	assert_errno(a->code, ENOENT);
	assert_non_null(strstr(a->text,
			"none of the 1 instances of web can be used: a has no port "
			"https"));
	tear_down(&b);
}

/* ---- what goes wrong ---- */

static void test_statuses_are_told_with_what_to_do(void **state)
{
	static const struct {
		const char *status, *text;
		int code;
	} cases[] = {
		{ "404 Not Found", "does the URL end", ENOENT },
		{ "401 Unauthorized", "give `user`", EACCES },
		{ "403 Forbidden", "waits for its peers", EAGAIN },
		{ "500 Internal Server Error", "500", EIO },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct fake_answer *a;
		struct bench b;

		set_up(&b);
		say_status(&b, cases[i].status, "");
		a = run(&b, 1);
		assert_null(a->set);
		assert_int_equal(a->code, -cases[i].code);
		assert_non_null(strstr(a->text, cases[i].text));
		tear_down(&b);
	}
}

static void test_who_gave_a_name_and_may_not_read_is_denied(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	b.eureka.http.user = "usher";
	b.eureka.http.password = "secret";
	say_status(&b, "403 Forbidden", "{\"error\":\"Forbidden\"}");
	a = run(&b, 1);
	assert_errno(a->code, EACCES);
	assert_string_equal(b.credentials, "Authorization: Basic dXNoZXI6c2VjcmV0");
	tear_down(&b);
}

static void test_nonsense_is_told_and_got_over(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	say(&b, ALL("UP_1_", A));
	say(&b, ALL("UP_1_", ""));
	say(&b, "<html>");
	say(&b, ALL("UP_1_", ""));
	a = run(&b, 3);
	assert_int_equal(a->fails, 1);
	assert_int_equal(a->code, 0);
	assert_int_equal(a->offers + a->confirms, 2);
	tear_down(&b);
}

static bool other_answer(struct scripted_connection *c)
{
	struct bench *b = c->server->userdata;

	if (strncmp(c->request, "GET /apps/delta", 15) == 0)
		return scripted_reply(c, "200 OK", "", ALL("UP_2_", ""));
	atomic_fetch_add(&b->count, 100);
	return scripted_reply(c, "200 OK", "", ALL("UP_2_", A "," B));
}

static void test_another_server_is_asked_for_all(void **state)
{
	const struct fake_answer *a;
	struct bench b;

	(void) state;
	set_up(&b);
	scripted_server_start(&b.other, other_answer, &b);
	b.servers[1] = b.other.url;
	/* Whichever is the first, only the other one answers. */
	say_status(&b, "500 Internal Server Error", "");
	a = run(&b, 3);
	assert_true(a->offers >= 1);
	assert_int_equal(count_of(a), 2);
	assert_true(atomic_load(&b.count) >= 100);
	tear_down(&b);
	scripted_server_stop(&b.other);
}

/* ---- when to ask ---- */

static void test_back_off_is_spread_over_all_of_its_window(void **state)
{
	uint64_t least = UINT64_MAX, most = 0;

	(void) state;
	for (unsigned i = 0; i < 500; i++) {
		struct schedule s;

		schedule_init(&s, 10 * SEC, 300 * SEC, i * UINT64_C(0x9e3779b97f4a7c15));
		for (unsigned k = 0; k < 20; k++)
			schedule_failed(&s, 1000);
		least = s.due_usec < least ? s.due_usec : least;
		most = s.due_usec > most ? s.due_usec : most;
	}
	assert_true(most <= 30 * SEC + 1001);
	assert_true(most - least >= 24 * SEC);
}

static void test_the_first_back_off_is_short(void **state)
{
	struct schedule s;

	(void) state;
	schedule_init(&s, 10 * SEC, 300 * SEC, 7);
	schedule_failed(&s, 1000);
	assert_true(s.due_usec > 1000 && s.due_usec <= 1001 + SEC / 5);
}

static void test_those_who_ask_do_not_ask_together(void **state)
{
	uint64_t least = UINT64_MAX, most = 0;

	(void) state;
	for (unsigned i = 0; i < 500; i++) {
		struct schedule s;

		schedule_init(&s, 10 * SEC, 300 * SEC, i * UINT64_C(0x9e3779b97f4a7c15));
		schedule_same(&s, 0);
		least = s.due_usec < least ? s.due_usec : least;
		most = s.due_usec > most ? s.due_usec : most;
	}
	assert_true(least >= 9 * SEC && most <= 11 * SEC);
	assert_true(most - least >= SEC * 16 / 10);
}

static void test_all_are_asked_for_when_changes_are_no_longer_told(void **state)
{
	struct schedule s;

	(void) state;
	schedule_init(&s, 10 * SEC, 300 * SEC, 7);
	assert_true(schedule_all_is_due(&s, 0, 1000 * SEC));
	schedule_listed(&s, 1000 * SEC);
	assert_false(schedule_all_is_due(&s, 1000 * SEC, 1100 * SEC));
	assert_true(schedule_all_is_due(&s, 1000 * SEC, 1141 * SEC));
	assert_true(schedule_all_is_due(&s, 1339 * SEC, 1340 * SEC));
}

static void test_a_hash_of_its_own_is_run_after_less_and_less(void **state)
{
	uint64_t now = 1000 * SEC, before = 0;
	struct schedule s;

	(void) state;
	schedule_init(&s, 10 * SEC, 300 * SEC, 7);
	schedule_listed(&s, now);
	assert_true(schedule_differs(&s, false, now));
	for (unsigned i = 0; i < 5; i++) {
		schedule_listed(&s, now);
		assert_false(schedule_differs(&s, true, now));
		assert_false(schedule_differs(&s, false, now));
		assert_true(s.all_usec - now > before);
		before = s.all_usec - now;
		now = s.all_usec;
	}
	schedule_same(&s, now);
	assert_false(schedule_differs(&s, false, now - 1));
	assert_true(schedule_differs(&s, false, now));
}

/* ---- options ---- */

static void test_options_out_of_range_are_refused_with_the_range(void **state)
{
	const char *servers[] = { "http://h:8761/eureka", NULL };
	struct eureka e = { .http.servers = servers,
		.interval_usec = SEC / 2,
		.resync_usec = 300 * SEC,
		.settle_usec = 90 * SEC,
		.lease_usec = 90 * SEC };
	struct usher_error err = { 0 };

	(void) state;
	assert_errno(usher_plugin.init(&e, &err), ERANGE);
	assert_string_equal(err.text, "interval: 500ms is not in 1s..10m");
	e.interval_usec = 10 * SEC;
	assert_ok(usher_plugin.init(&e, &err));
	e.lease_usec = SEC;
	assert_errno(usher_plugin.init(&e, &err), ERANGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_are_asked_for_once_and_then_what_has_changed),
		cmocka_unit_test(test_that_nothing_has_changed_is_confirmed),
		cmocka_unit_test(test_the_hash_of_another_state_asks_for_all_again),
		cmocka_unit_test(test_a_hash_that_stays_another_is_not_run_after),
		cmocka_unit_test(test_a_server_that_tells_no_changes_is_asked_for_all),
		cmocka_unit_test(test_who_was_taken_out_is_gone_at_once),
		cmocka_unit_test(test_who_is_not_listed_any_more_stays_and_it_is_said),
		cmocka_unit_test(test_who_comes_back_is_not_missed),
		cmocka_unit_test(test_who_does_not_come_back_is_gone_after_a_while),
		cmocka_unit_test(test_a_server_that_knows_nobody_is_not_believed_at_once),
		cmocka_unit_test(test_a_server_that_has_known_others_long_is_believed_to_have_none),
		cmocka_unit_test(test_what_a_young_server_lists_is_doubted),
		cmocka_unit_test(test_none_that_can_be_used_is_no_emptiness),
		cmocka_unit_test(test_statuses_are_told_with_what_to_do),
		cmocka_unit_test(test_who_gave_a_name_and_may_not_read_is_denied),
		cmocka_unit_test(test_nonsense_is_told_and_got_over),
		cmocka_unit_test(test_another_server_is_asked_for_all),
		cmocka_unit_test(test_back_off_is_spread_over_all_of_its_window),
		cmocka_unit_test(test_the_first_back_off_is_short),
		cmocka_unit_test(test_those_who_ask_do_not_ask_together),
		cmocka_unit_test(test_all_are_asked_for_when_changes_are_no_longer_told),
		cmocka_unit_test(test_a_hash_of_its_own_is_run_after_less_and_less),
		cmocka_unit_test(test_options_out_of_range_are_refused_with_the_range),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
