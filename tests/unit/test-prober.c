/* The prober against real servers on loopback. */

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "check-bench.h"
#include "clock.h"
#include "inbox.h"
#include "loop.h"
#include "ownership.h"
#include "probe-server.h"
#include "prober.h"
#include "shard-private.h"

#define PROBES_MAX 4096
#define MSEC       UINT64_C(1000)
#define HTTP_OK    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

#define TIMES_MAX 48

struct times {
	uint64_t started_usec, took_usec, late_usec;
};

/* What the core has learned of each probe. */
struct seen {
	struct bench *bench;
	unsigned count;
	unsigned by_reason[PROBE_LOCAL + 1];
	struct probe_result last;
	struct times times[TIMES_MAX]; /* of the first results */
	struct probe *probe;
};

struct bench {
	sd_event *event;
	struct inbox *inbox;
	struct prober *prober;
	struct seen seen[PROBES_MAX];
	unsigned count;
	uint64_t first_started_usec, last_started_usec; /* of all results */
	unsigned results;
	/* what is waited for */
	unsigned wanted;
	const char *text;
	const struct probe_server *server;
	/* remove the probe of this result while it is told */
	struct seen *remove, *remover;
	struct target *spare;
};

static void note_times(struct bench *b, struct seen *seen, const struct probe_result *result)
{
	if (seen->count < TIMES_MAX)
		seen->times[seen->count] = (struct times){ result->started_usec, result->took_usec,
			result->late_usec };
	if (b->results == 0 || result->started_usec < b->first_started_usec)
		b->first_started_usec = result->started_usec;
	if (result->started_usec > b->last_started_usec)
		b->last_started_usec = result->started_usec;
	b->results++;
}

static void on_results(void *userdata, const struct probe_result *results, size_t count)
{
	struct bench *b = userdata;

	for (size_t i = 0; i < count; i++) {
		struct seen *seen = results[i].userdata;

		if (!seen) {
			assert_null(results[i].probe);
			continue;
		}
		assert_non_null(seen->probe); /* a removed one tells nothing */
		note_times(b, seen, &results[i]);
		seen->count++;
		seen->by_reason[results[i].verdict.reason]++;
		seen->last = results[i];
		if (b->remover == seen && b->remove->probe) {
			prober_remove(b->prober, b->remove->probe);
			b->remove->probe = NULL;
		}
	}
}

static int setup(void **state)
{
	static const struct prober_config config = { .threads = 1 };
	struct bench *b = calloc(1, sizeof(*b));

	assert_non_null(b);
	assert_ok(sd_event_new(&b->event));
	assert_ok(inbox_new(b->event, &b->inbox));
	assert_ok(prober_new(b->inbox, &config, on_results, b, &b->prober));
	*state = b;
	return 0;
}

static int teardown(void **state)
{
	struct bench *b = *state;

	prober_free(b->prober);
	inbox_free(b->inbox);
	sd_event_unref(b->event);
	free(b);
	return 0;
}

static struct seen *ask_each(struct bench *b, struct target *target, uint64_t interval_usec,
		uint64_t timeout_usec)
{
	const struct probe_timing timing = { .interval_usec = interval_usec,
		.timeout_usec = timeout_usec };
	struct seen *seen = &b->seen[b->count++];

	assert_true(b->count <= PROBES_MAX);
	seen->bench = b;
	assert_ok(prober_add(b->prober, target, &timing, seen, &seen->probe));
	return seen;
}

/* Every 20 ms, with a minute for an answer. */
static struct seen *ask(struct bench *b, struct target *target)
{
	return ask_each(b, target, 20 * MSEC, 60000 * MSEC);
}

static bool has_enough(void *userdata)
{
	const struct seen *seen = userdata;

	return seen->count >= seen->bench->wanted;
}

static void await(struct seen *seen, unsigned count)
{
	seen->bench->wanted = count;
	loop_until(seen->bench->event, has_enough, seen);
}

static bool has_text(void *userdata)
{
	const struct seen *seen = userdata;

	return seen->count > 0 && strcmp(seen->last.verdict.text, seen->bench->text) == 0;
}

static void await_text(struct seen *seen, const char *text)
{
	seen->bench->text = text;
	loop_until(seen->bench->event, has_text, seen);
}

static bool was_kept(void *userdata)
{
	const struct probe_server *server = userdata;
	unsigned accepted = server->accepted; /* first: it is not more than were asked later */

	return accepted > 0 && accepted < server->asked;
}

/* Until a connection has been used again. */
static void await_kept(struct bench *b, struct probe_server *server)
{
	loop_until(b->event, was_kept, server);
}

static void await_end(const struct probe_server *server)
{
	for (int i = 0; i < 120000 && server->ended < 1; i++)
		(void) usleep(1000);
	assert_int_equal(server->ended, 1);
}

static struct target *http_at(uint16_t port)
{
	return target_at(CHECK(.kind = CHECK_HTTP, .path = T("/health"), .method = T("GET")),
			"127.0.0.1", port, false);
}

static struct target *tcp_at(uint16_t port)
{
	return target_at(CHECK(.kind = CHECK_TCP), "127.0.0.1", port, false);
}

/* Where nobody listens: it stays bound until the test program ends, so that nobody else can. */
static uint16_t closed_port(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (const struct sockaddr *) &address, size), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *) &address, &size), 0);
	return ntohs(address.sin_port);
}

/* ---- tcp ---- */

static void a_port_that_listens_is_up(void **state)
{
	struct bench *b = *state;
	uint16_t port;
	int fd = probe_server_listen(64, &port);
	struct seen *seen = ask(b, tcp_at(port));

	await(seen, 3);
	assert_int_equal(seen->by_reason[PROBE_OK], seen->count);
	assert_string_equal(seen->last.verdict.text, "it accepts connections");
	(void) close(fd);
}

static void a_port_without_a_listener_is_refused(void **state)
{
	struct bench *b = *state;
	struct seen *seen = ask(b, tcp_at(closed_port()));

	await(seen, 2);
	assert_int_equal(seen->by_reason[PROBE_REFUSED], seen->count);
	assert_int_equal(seen->last.verdict.code, ECONNREFUSED);
	assert_string_equal(seen->last.verdict.text, "cannot connect: Connection refused");
}

static void a_server_is_told_something_and_answers_as_expected(void **state)
{
	struct bench *b = *state;
	struct probe_server server = { .answer = "+PONG\r\n" };
	struct seen *seen;

	probe_server_start(&server);
	seen = ask(b,
			target_at(CHECK(.kind = CHECK_TCP, .send = T("PING\r\n"),
						  .expect_text = T("+PONG")),
					"127.0.0.1", server.port, false));
	await(seen, 3);
	assert_int_equal(seen->by_reason[PROBE_OK], seen->count);
	assert_string_equal(server.request, "PING\r\n");
	assert_true(server.accepted >= 3);
	probe_server_stop(&server);
}

static void an_answer_in_pieces_is_put_together(void **state)
{
	struct bench *b = *state;
	struct probe_server server = { .answer = "220 mail.example ESMTP\r\n", .in_bytes = true };
	struct seen *seen;

	probe_server_start(&server);
	seen = ask(b,
			target_at(CHECK(.kind = CHECK_TCP, .send = T("x"),
						  .expect_text = T("220 mail.example ESMTP\r\n")),
					"127.0.0.1", server.port, false));
	await(seen, 2);
	assert_int_equal(seen->by_reason[PROBE_OK], seen->count);
	probe_server_stop(&server);
}

static void another_answer_is_shown(void **state)
{
	struct bench *b = *state;
	struct probe_server server = { .answer = "-LOADING\r\n" };
	struct seen *seen;

	probe_server_start(&server);
	seen = ask(b,
			target_at(CHECK(.kind = CHECK_TCP, .send = T("PING\r\n"),
						  .expect_text = T("+PONG")),
					"127.0.0.1", server.port, false));
	await(seen, 1);
	assert_int_equal(seen->last.verdict.reason, PROBE_BODY);
	assert_string_equal(
			seen->last.verdict.text, "it answers \"-LOADING..\", expected \"+PONG\"");
	probe_server_stop(&server);
}

static void a_connection_that_ends_without_an_answer_is_reset(void **state)
{
	struct bench *b = *state;
	struct probe_server server = { .closes_early = true };
	struct seen *seen;

	probe_server_start(&server);
	seen = ask(b, http_at(server.port));
	await(seen, 1);
	assert_int_equal(seen->last.verdict.reason, PROBE_RESET);
	probe_server_stop(&server);
}

/* ---- http ---- */

static void an_http_server_is_asked_and_believed(void **state)
{
	struct bench *b = *state;
	struct probe_server server = { .answer = HTTP_OK };
	struct seen *seen;
	struct probe_stats stats;
	struct prober_stats all;

	probe_server_start(&server);
	seen = ask(b, http_at(server.port));
	await(seen, 3);
	assert_int_equal(seen->by_reason[PROBE_OK], seen->count);
	assert_string_equal(seen->last.verdict.text, "HTTP 200");
	assert_memory_equal(server.request, "GET /health HTTP/1.1\r\n", 22);
	probe_stats(seen->probe, &stats);
	assert_int_equal(stats.probes, seen->count);
	/* One that was broken off, for the prober stood still, has connected as well. */
	prober_stats(b->prober, &all);
	assert_in_range(stats.connections, seen->count, seen->count + all.discarded);
	assert_in_range(stats.bytes_received, seen->count * strlen(HTTP_OK),
			(seen->count + all.discarded) * strlen(HTTP_OK));
	probe_server_stop(&server);
}

static void a_status_that_is_not_expected_is_told(void **state)
{
	struct bench *b = *state;
	struct probe_server server = {
		.answer = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
	};
	struct seen *seen;

	probe_server_start(&server);
	seen = ask(b, http_at(server.port));
	await(seen, 1);
	assert_int_equal(seen->last.verdict.reason, PROBE_STATUS);
	assert_int_equal(seen->last.verdict.code, 503);
	assert_string_equal(seen->last.verdict.text, "HTTP 503, expected 200");
	probe_server_stop(&server);
}

static void what_is_no_http_is_told(void **state)
{
	struct bench *b = *state;
	struct probe_server server = { .answer = "SSH-2.0-OpenSSH_9.2p1" };
	struct seen *seen;

	probe_server_start(&server);
	seen = ask(b, http_at(server.port));
	await(seen, 1);
	assert_int_equal(seen->last.verdict.reason, PROBE_PROTOCOL);
	assert_string_equal(seen->last.verdict.text,
			"the answer is no HTTP: it does not begin like HTTP/1.1: "
			"\"SSH-2.0-OpenSSH_9.2p1\"");
	probe_server_stop(&server);
}

static void a_body_is_read_as_far_as_a_match_needs_it(void **state)
{
	struct bench *b = *state;
	/* The body never ends. */
	struct probe_server server = { .answer = "HTTP/1.1 200 OK\r\n\r\ndata: all is well\n\n",
		.in_bytes = true };
	struct seen *seen;

	probe_server_start(&server);
	seen = ask(b,
			target_at(CHECK(.kind = CHECK_HTTP, .path = T("/"), .method = T("GET"),
						  .match_text = T("is well")),
					"127.0.0.1", server.port, false));
	await(seen, 2);
	assert_int_equal(seen->by_reason[PROBE_OK], seen->count);
	probe_server_stop(&server);
}

static void a_value_in_a_chunked_body_is_found(void **state)
{
	struct bench *b = *state;
	struct probe_server server = {
		.answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
			  "\r\n6\r\n{\"stat\r\n9\r\nus\":\"UP\"}\r\n0\r\n\r\n",
		.in_bytes = true
	};
	struct seen *seen;

	probe_server_start(&server);
	seen = ask(b,
			target_at(CHECK(.kind = CHECK_HTTP, .path = T("/"), .method = T("GET"),
						  .match_pointer = T("/status"),
						  .match_value = T("UP")),
					"127.0.0.1", server.port, false));
	await(seen, 2);
	assert_int_equal(seen->by_reason[PROBE_OK], seen->count);
	probe_server_stop(&server);
}

/* ---- connections that are kept ---- */

static struct target *kept_http_at(uint16_t port)
{
	return target_at(CHECK(.kind = CHECK_HTTP, .path = T("/"), .method = T("GET"),
					 .keep_alive = true),
			"127.0.0.1", port, false);
}

static void a_kept_connection_is_used_again(void **state)
{
	struct bench *b = *state;
	struct probe_server server = { .answer = HTTP_OK };
	struct probe_stats stats;
	struct seen *seen;

	probe_server_start(&server);
	seen = ask(b, kept_http_at(server.port));
	await(seen, 5);
	assert_int_equal(seen->by_reason[PROBE_OK], seen->count);
	assert_int_equal(server.accepted, 1);
	probe_stats(seen->probe, &stats);
	assert_int_equal(stats.connections, 1);
	probe_server_stop(&server);
}

static void the_rest_of_an_answer_does_not_hold_up_the_verdict(void **state)
{
	struct bench *b = *state;
	struct probe_server server = { .answer = HTTP_OK, .in_bytes = true };
	struct seen *seen;

	probe_server_start(&server);
	seen = ask(b, kept_http_at(server.port));
	await(seen, 5);
	await_kept(b, &server); /* but where the rest came later than the next attempt */
	assert_int_equal(seen->by_reason[PROBE_OK], seen->count);
	probe_server_stop(&server);
}

static void a_kept_connection_that_the_server_ends_says_nothing_of_it(void **state)
{
	struct bench *b = *state;
	/* In the very moment in which the third request comes. */
	struct probe_server server = { .answer = HTTP_OK, .closes_after = 2 };
	struct seen *seen;

	probe_server_start(&server);
	seen = ask(b, kept_http_at(server.port));
	await(seen, 7);
	assert_int_equal(seen->by_reason[PROBE_OK], seen->count);
	assert_true(server.accepted >= 3);
	probe_server_stop(&server);
}

static void a_server_that_closes_after_each_answer_is_connected_anew(void **state)
{
	struct bench *b = *state;
	struct probe_server server = { .answer = HTTP_OK, .closes = true };
	struct seen *seen;

	probe_server_start(&server);
	seen = ask(b, kept_http_at(server.port));
	await(seen, 4);
	assert_int_equal(seen->by_reason[PROBE_OK], seen->count);
	assert_true(server.accepted >= 4);
	probe_server_stop(&server);
}

static void a_kept_connection_that_goes_silent_is_given_up(void **state)
{
	struct bench *b = *state;
	/* As when the address it was made from is no longer the node's: nothing is refused, nothing
	 * comes. */
	struct probe_server server = { .answer = HTTP_OK, .mutes_after = 2 };
	struct seen *seen;
	unsigned good;

	probe_server_start(&server);
	seen = ask_each(b, kept_http_at(server.port), 20 * MSEC, 400 * MSEC);
	while (seen->by_reason[PROBE_TIMEOUT] == 0)
		await(seen, seen->count + 1);
	good = seen->by_reason[PROBE_OK];
	while (seen->by_reason[PROBE_OK] == good)
		await(seen, seen->count + 1);
	assert_true(server.accepted >= 2);
	probe_server_stop(&server);
}

static struct target *kept_ping_at(uint16_t port)
{
	return target_at(CHECK(.kind = CHECK_TCP, .send = T("PING\r\n"), .expect_text = T("+PONG"),
					 .keep_alive = true),
			"127.0.0.1", port, false);
}

static void what_follows_the_expected_answer_is_no_part_of_the_next(void **state)
{
	struct bench *b = *state;
	struct probe_server server = { .answer = "+PONG\r\n", .in_bytes = true };
	struct seen *seen;

	probe_server_start(&server);
	seen = ask(b, kept_ping_at(server.port));
	await(seen, 5);
	await_kept(b, &server);
	assert_int_equal(seen->by_reason[PROBE_OK], seen->count);
	probe_server_stop(&server);
}

static void the_rest_of_an_answer_that_comes_late_is_no_part_of_the_next(void **state)
{
	struct bench *b = *state;
	struct probe_server server = { .answer = "+PONG\r\n", .holds_back = 2 };
	struct seen *seen;

	probe_server_start(&server);
	seen = ask(b, kept_ping_at(server.port));
	await(seen, 6);
	assert_int_equal(seen->by_reason[PROBE_OK], seen->count);
	assert_true(server.accepted > 1);
	probe_server_stop(&server);
}

static void what_a_server_says_first_it_says_once_a_connection(void **state)
{
	struct bench *b = *state;
	struct probe_server server = { .answer = "220 ready\r\n", .speaks_first = true };
	struct seen *seen;

	probe_server_start(&server);
	seen = ask(b,
			target_at(CHECK(.kind = CHECK_TCP, .expect_text = T("220 "),
						  .keep_alive = true),
					"127.0.0.1", server.port, false));
	await(seen, 4);
	assert_int_equal(seen->by_reason[PROBE_OK], seen->count);
	probe_server_stop(&server);
}

static void a_kept_connection_ends_with_its_probe(void **state)
{
	struct bench *b = *state;
	struct probe_server server = { .answer = HTTP_OK };
	struct seen *seen;

	probe_server_start(&server);
	seen = ask(b, kept_http_at(server.port));
	await(seen, 2);
	prober_remove(b->prober, seen->probe);
	seen->probe = NULL;
	await_end(&server);
	probe_server_stop(&server);
}

/* ---- time ---- */

static void no_answer_in_time_says_what_was_waited_for(void **state)
{
	struct bench *b = *state;
	struct probe_server server = {};
	struct seen *seen;

	probe_server_start(&server);
	seen = ask_each(b, http_at(server.port), 20 * MSEC, 50 * MSEC);
	/* A busy machine may need as long to connect. */
	await_text(seen, "no answer within 0.05 s (waiting for the answer)");
	assert_int_equal(seen->by_reason[PROBE_TIMEOUT], seen->count);
	assert_true(seen->last.took_usec >= 50 * MSEC);
	probe_server_stop(&server);
}

/* A port whose queue of connections is full: nothing is refused, nothing gets through. */
struct black_hole {
	int listen_fd, fds[8];
	uint16_t port;
};

static void black_hole_open(struct black_hole *hole)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	hole->listen_fd = probe_server_listen(0, &hole->port);
	address.sin_port = htons(hole->port);
	for (size_t i = 0; i < 8; i++) {
		hole->fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		(void) connect(hole->fds[i], (const struct sockaddr *) &address, sizeof(address));
	}
}

static void black_hole_close(struct black_hole *hole)
{
	for (size_t i = 0; i < 8; i++)
		(void) close(hole->fds[i]);
	(void) close(hole->listen_fd);
}

static void one_black_hole_among_a_hundred_delays_nobody(void **state)
{
	struct bench *b = *state;
	struct probe_server server = { .answer = HTTP_OK };
	struct black_hole hole;
	struct seen *lost, *given_up;

	black_hole_open(&hole);
	probe_server_start(&server);
	lost = ask_each(b, http_at(hole.port), 100 * MSEC, 3600000 * MSEC);
	given_up = ask_each(b, http_at(hole.port), 100 * MSEC, 1000 * MSEC);
	for (unsigned i = 0; i < 99; i++)
		(void) ask_each(b, http_at(server.port), 50 * MSEC, 60000 * MSEC);
	for (unsigned i = 2; i < 101; i++) {
		struct seen *seen = &b->seen[i];

		await(seen, 5);
		assert_int_equal(seen->by_reason[PROBE_OK], seen->count);
	}
	assert_int_equal(lost->count, 0); /* it has waited all the time */
	await(given_up, 1);
	assert_int_equal(given_up->last.verdict.reason, PROBE_TIMEOUT);
	assert_string_equal(given_up->last.verdict.text, "no answer within 1 s (connecting)");
	probe_server_stop(&server);
	black_hole_close(&hole);
}

static uint64_t due_usec(const struct times *times)
{
	return times->started_usec - times->late_usec;
}

static uint64_t end_usec(const struct times *times)
{
	return times->started_usec + times->took_usec;
}

static void an_interval_is_kept_from_due_time_to_due_time(void **state)
{
	const uint64_t interval = 20 * MSEC;
	struct bench *b = *state;
	struct probe_server server = { .answer = HTTP_OK };
	bool is_known = false, is_broken = false;
	struct prober_stats stats;
	struct seen *seen;
	uint64_t base = 0;

	probe_server_start(&server);
	seen = ask(b, http_at(server.port));
	await(seen, 41);
	for (unsigned i = 1; i < 41; i++) {
		uint64_t ended = end_usec(&seen->times[i - 1]), due = due_usec(&seen->times[i]);

		if (is_known) {
			base += interval;
			/* One that has missed its time is due at once, and then again when it
			 * would have been. */
			if (base < ended)
				base += (ended - base) / interval * interval;
			is_known = due == (base < ended ? ended : base);
			is_broken |= !is_known;
		} else if (due != ended) { /* after a random part of the interval */
			base = due;
			is_known = true;
		}
	}
	/* Who has stood still begins anew. */
	prober_stats(b->prober, &stats);
	assert_true(!is_broken || stats.standstills + stats.discarded > 0);
	assert_true(is_known || is_broken);
	probe_server_stop(&server);
}

static uint64_t base_of(const struct seen *seen)
{
	return __atomic_load_n(&seen->probe->base_usec, __ATOMIC_RELAXED);
}

static bool all_have_a_base(void *userdata)
{
	const struct bench *b = userdata;

	for (unsigned i = 0; i < b->count; i++)
		if (base_of(&b->seen[i]) == 0)
			return false;
	return true;
}

static void first_attempts_come_at_once_and_second_ones_spread(void **state)
{
	const uint64_t interval = 36000000 * MSEC;
	struct bench *b = *state;
	uint16_t port = closed_port();
	unsigned halves[2] = {};

	/* Spread over the interval, the first would come in hours. */
	for (unsigned i = 0; i < 60; i++)
		(void) ask_each(b, tcp_at(port), interval, 60000 * MSEC);
	for (unsigned i = 0; i < 60; i++)
		await(&b->seen[i], 1);
	loop_until(b->event, all_have_a_base, b);
	for (unsigned i = 0; i < 60; i++)
		halves[base_of(&b->seen[i]) - b->seen[i].times[0].started_usec > interval / 2]++;
	assert_true(halves[0] > 10);
	assert_true(halves[1] > 10);
}

static bool all_asked(void *userdata)
{
	struct bench *b = userdata;

	for (unsigned i = 0; i < b->count; i++)
		if (b->seen[i].count == 0)
			return false;
	return true;
}

static void first_attempts_of_very_many_keep_to_the_burst(void **state)
{
	struct bench *b = *state;
	uint64_t begin = clock_boot_usec();
	uint16_t port = closed_port();

	for (unsigned i = 0; i < 1000; i++)
		(void) ask_each(b, tcp_at(port), 60000 * MSEC, 1000 * MSEC);
	loop_until(b->event, all_asked, b);
	/* A twentieth of PROBER_BURST at once, and 900 at 2,000 a second. */
	assert_true(clock_boot_usec() - begin >= 440 * MSEC);
}

static void a_cap_on_the_rate_stretches_all_intervals_and_says_so(void **state)
{
	struct bench *b = *state;
	const struct prober_config config = { .threads = 1, .max_rate = 100 };
	uint16_t port = closed_port();
	struct prober_stats stats;
	double seconds;

	prober_configure(b->prober, &config);
	for (unsigned i = 0; i < 50; i++)
		(void) ask_each(b, tcp_at(port), 50 * MSEC, 1000 * MSEC);
	prober_stats(b->prober, &stats);
	assert_true(stats.wanted_rate > 999 && stats.wanted_rate < 1001);
	assert_true(stats.stretch > 9.9 && stats.stretch < 10.1);

	loop_until(b->event, all_asked, b);
	await(&b->seen[0], b->seen[0].count + 2);
	/* No more than the cap, plus what may begin at once. */
	seconds = (double) (b->last_started_usec - b->first_started_usec) / 1e6;
	assert_true(b->results <= 100 * seconds + 10);
	/* It is measured, and not what the intervals ask for. */
	prober_stats(b->prober, &stats);
	assert_true(stats.rate > 0 && stats.rate < 500);

	for (unsigned i = 10; i < 50; i++)
		prober_remove(b->prober, b->seen[i].probe);
	for (unsigned i = 10; i < 50; i++)
		b->seen[i].probe = NULL;
	prober_stats(b->prober, &stats);
	assert_true(stats.stretch > 1.9 && stats.stretch < 2.1);
	assert_int_equal(stats.count, 10);
}

static void a_shorter_interval_moves_the_next_attempt_forward(void **state)
{
	struct bench *b = *state;
	struct seen *seen = ask_each(b, tcp_at(closed_port()), 3600000 * MSEC, 1000 * MSEC);

	await(seen, 1);
	prober_set_interval(b->prober, seen->probe, 20 * MSEC);
	await(seen, 4); /* or the loop's deadline passes */
}

/* ---- standing still ---- */

/* A process of its own, which can be stopped: it asks the server at the port that it reads, and
 * tells each result, with how often it has stood still until then. */
struct asker {
	pid_t pid;
	int port_fd, told_fd;
};

struct told {
	unsigned char reason, standstills;
};

static int told_fd; /* in the asker */

static void tell_results(void *userdata, const struct probe_result *results, size_t count)
{
	struct prober **prober = userdata;
	struct prober_stats stats;

	prober_stats(*prober, &stats);
	for (size_t i = 0; i < count; i++) {
		struct told told = { (unsigned char) results[i].verdict.reason,
			(unsigned char) stats.standstills };

		if (write(told_fd, &told, sizeof(told)) < 0)
			_exit(0);
	}
}

static _Noreturn void asker_run(int port_fd, uint64_t timeout_usec)
{
	static const struct prober_config config = { .threads = 1 };
	const struct probe_timing timing = { .interval_usec = 20 * MSEC,
		.timeout_usec = timeout_usec };
	struct prober *prober;
	struct inbox *inbox;
	struct probe *probe;
	sd_event *event;
	uint16_t port;

	if (read(port_fd, &port, sizeof(port)) != sizeof(port) || sd_event_new(&event) < 0 ||
			inbox_new(event, &inbox) < 0 ||
			prober_new(inbox, &config, tell_results, &prober, &prober) < 0 ||
			prober_add(prober, http_at(port), &timing, NULL, &probe) < 0)
		_exit(1);
	_exit(sd_event_loop(event));
}

/* Before there are threads. */
static void asker_start(struct asker *asker, uint64_t timeout_usec)
{
	int ports[2], told[2];

	assert_int_equal(pipe(ports), 0);
	assert_int_equal(pipe(told), 0);
	asker->pid = fork();
	assert_true(asker->pid >= 0);
	if (asker->pid == 0) {
		(void) prctl(PR_SET_PDEATHSIG, SIGKILL);
		told_fd = told[1];
		asker_run(ports[0], timeout_usec);
	}
	(void) close(ports[0]);
	(void) close(told[1]);
	asker->port_fd = ports[1];
	asker->told_fd = told[0];
}

static struct told asker_read(struct asker *asker)
{
	struct told told = {};

	assert_int_equal(read(asker->told_fd, &told, sizeof(told)), sizeof(told));
	return told;
}

static bool asker_has_told(const struct asker *asker)
{
	struct pollfd told = { .fd = asker->told_fd, .events = POLLIN };

	return poll(&told, 1, 0) > 0;
}

static void pass(uint64_t usec)
{
	struct timespec span = { .tv_sec = (time_t) (usec / 1000000),
		.tv_nsec = (long) (usec % 1000000) * 1000 };

	(void) nanosleep(&span, NULL);
}

static void asker_halt(struct asker *asker)
{
	assert_int_equal(kill(asker->pid, SIGSTOP), 0);
	assert_int_equal(waitpid(asker->pid, NULL, WUNTRACED), asker->pid);
}

/* While it waits for an answer, which comes meanwhile. */
static void asker_stand_still(struct asker *asker, struct probe_server *server, uint64_t usec)
{
	(void) pthread_mutex_lock(server->gate);
	while (server->at_gate == 0)
		(void) sched_yield();
	asker_halt(asker);
	while (asker_has_told(asker)) /* of before; a busy machine may have been late then */
		(void) asker_read(asker);
	(void) pthread_mutex_unlock(server->gate);
	pass(usec);
	assert_int_equal(kill(asker->pid, SIGCONT), 0);
}

static void asker_stop(struct asker *asker)
{
	assert_int_equal(kill(asker->pid, SIGKILL), 0);
	assert_int_equal(waitpid(asker->pid, NULL, 0), asker->pid);
	(void) close(asker->port_fd);
	(void) close(asker->told_fd);
}

static void an_answer_that_was_in_time_is_not_blamed_for_being_read_late(void **state)
{
	static const struct {
		uint64_t stopped_usec, timeout_usec;
		bool is_standstill;
	} cases[] = {
		{ 900 * MSEC, 700 * MSEC, false },
		{ 1800 * MSEC, 700 * MSEC, true },
		{ 2500 * MSEC, 60000 * MSEC, true },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
		struct probe_server server = { .answer = HTTP_OK, .gate = &gate };
		struct asker asker;
		struct told told;

		asker_start(&asker, cases[i].timeout_usec);
		probe_server_start(&server);
		assert_int_equal(write(asker.port_fd, &server.port, 2), 2);
		(void) asker_read(&asker);
		asker_stand_still(&asker, &server, cases[i].stopped_usec);
		told = asker_read(&asker);
		assert_int_equal(told.reason, PROBE_OK);
		if (cases[i].is_standstill)
			assert_true(told.standstills >= 1);
		asker_stop(&asker);
		probe_server_stop(&server);
	}
}

/* The answer lies there when the loop finds out that it was away, and that it asks everybody anew.
 */
static void an_answer_that_came_during_a_standstill_is_nobodys(void **state)
{
	struct bench *b = *state;
	pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
	struct probe_server server = { .answer = HTTP_OK, .gate = &gate };
	struct probe_server other = { .answer = HTTP_OK };
	struct prober_stats stats;
	struct seen *seen;
	struct shard *shard;

	probe_server_start(&server);
	probe_server_start(&other);
	seen = ask(b, http_at(server.port));
	(void) ask(b, http_at(other.port)); /* keeps the loop turning */
	await(seen, 1);
	shard = seen->probe->shard;

	(void) pthread_mutex_lock(&gate);
	while (server.at_gate == 0)
		(void) sched_yield();
	(void) pthread_mutex_lock(&shard->lock);
	pass(500 * MSEC); /* until it waits for the lock */
	(void) pthread_mutex_unlock(&gate);
	pass(2 * SHARD_STANDSTILL_USEC);
	(void) pthread_mutex_unlock(&shard->lock);

	await(seen, seen->count + 5);
	assert_int_equal(seen->by_reason[PROBE_OK], seen->count);
	prober_stats(b->prober, &stats);
	assert_true(stats.standstills >= 1);
	probe_server_stop(&server);
	probe_server_stop(&other);
}

/* One that stands still in each attempt, past its end, has an excuse for a few of them only. */
static void whoever_is_always_short_of_time_still_finds_the_dead(void **state)
{
	struct black_hole hole;
	struct asker asker;

	(void) state;
	asker_start(&asker, 100 * MSEC);
	black_hole_open(&hole);
	assert_int_equal(write(asker.port_fd, &hole.port, 2), 2);
	for (int i = 0; i < 400 && !asker_has_told(&asker); i++) {
		pass(20 * MSEC);
		asker_halt(&asker);
		pass(250 * MSEC);
		assert_int_equal(kill(asker.pid, SIGCONT), 0);
	}
	assert_true(asker_has_told(&asker));
	assert_int_equal(asker_read(&asker).reason, PROBE_TIMEOUT);
	asker_stop(&asker);
	black_hole_close(&hole);
}

/* ---- removal ---- */

static void a_removed_probe_is_broken_off_and_tells_nothing(void **state)
{
	struct bench *b = *state;
	struct probe_server server = {};
	struct seen *seen, *other;
	struct prober_stats stats;

	probe_server_start(&server);
	seen = ask(b, http_at(server.port));
	while (server.asked == 0)
		(void) sd_event_run(b->event, 1000);
	prober_remove(b->prober, seen->probe);
	seen->probe = NULL;
	await_end(&server);

	other = ask(b, tcp_at(closed_port()));
	await(other, 3);
	assert_int_equal(seen->count, 0);
	assert_int_equal(server.asked, 1);
	prober_stats(b->prober, &stats);
	assert_int_equal(stats.count, 1);
	assert_int_equal(stats.discarded, 0);
	probe_server_stop(&server);
}

static void a_probe_may_be_removed_while_results_are_told(void **state)
{
	struct bench *b = *state;
	uint16_t port = closed_port();

	for (unsigned i = 0; i < 50; i++)
		(void) ask_each(b, tcp_at(port), MSEC, 1000 * MSEC);
	b->remover = &b->seen[10];
	b->remove = &b->seen[11];
	await(&b->seen[10], 5);
	assert_null(b->seen[11].probe);
	b->remover = b->remove = &b->seen[20];
	await(&b->seen[21], b->seen[21].count + 5);
	assert_null(b->seen[20].probe);
}

static void very_many_come_and_go(void **state)
{
	struct bench *b = *state;
	uint16_t port = closed_port();

	for (unsigned i = 0; i < PROBES_MAX; i++)
		(void) ask_each(b, tcp_at(port), 1000 * MSEC, 1000 * MSEC);
	await(&b->seen[0], 1);
	for (unsigned i = 0; i < PROBES_MAX; i += 2) {
		prober_remove(b->prober, b->seen[i].probe);
		b->seen[i].probe = NULL;
	}
	await(&b->seen[1], 2);
}

static void there_is_room_for_a_hundred_thousand_and_a_maximum(void **state)
{
	const struct probe_timing timing = { .interval_usec = 3600000 * MSEC,
		.timeout_usec = 1000 * MSEC };
	struct check *check = CHECK(.kind = CHECK_TCP);
	struct usher_endpoints *set = one_endpoint("127.0.0.1", closed_port(), false, NULL, 0);
	struct bench *b = *state;
	struct prober_stats stats;
	int r = 0;

	b->seen[0].bench = b;
	for (unsigned i = 0; r >= 0; i++) {
		struct target *target = NULL;
		struct probe *probe;

		assert_ok(target_new(check, "catalog", set, 0, &target, NULL));
		r = prober_add(b->prober, target, &timing, &b->seen[0], &probe);
		b->seen[0].probe = probe;
		if (r < 0)
			target_free(target);
		assert_true(i <= PROBER_PROBES_MAX);
	}
	assert_errno(r, E2BIG);
	await(&b->seen[0], 500);
	prober_stats(b->prober, &stats);
	assert_int_equal(stats.count, PROBER_PROBES_MAX);
	usher_endpoints_unref(set);
	check_unref(check);
}

static void probes_are_spread_over_threads(void **state)
{
	const struct prober_config config = { .threads = 3 };
	struct bench *b = *state;
	uint16_t port = closed_port();

	prober_free(b->prober);
	assert_ok(prober_new(b->inbox, &config, on_results, b, &b->prober));
	for (unsigned i = 0; i < 300; i++)
		(void) ask_each(b, tcp_at(port), 20 * MSEC, 1000 * MSEC);
	for (unsigned i = 0; i < 300; i++)
		await(&b->seen[i], 3);
	for (unsigned i = 0; i < 300; i += 2) {
		prober_remove(b->prober, b->seen[i].probe);
		b->seen[i].probe = NULL;
	}
	await(&b->seen[1], b->seen[1].count + 3);
}

/* ---- the node's own faults ---- */

static void a_node_without_descriptors_blames_nobody(void **state)
{
	struct bench *b = *state;
	struct rlimit before, none;
	struct prober_stats stats;
	struct seen *seen;
	unsigned locals;
	uint16_t port;
	int fd = probe_server_listen(512, &port); /* nobody accepts: that would need descriptors */

	seen = ask(b, tcp_at(port));
	await(seen, 1);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){ .rlim_cur = 0, .rlim_max = before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	while (seen->by_reason[PROBE_LOCAL] == 0)
		await(seen, seen->count + 1);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_string_equal(seen->last.verdict.text, "cannot open a socket: Too many open files");
	assert_int_equal(probe_reason_outcome(seen->last.verdict.reason), PROBE_IS_NOTHING);

	await(seen, seen->count + 3);
	locals = seen->by_reason[PROBE_LOCAL];
	assert_int_equal(seen->last.verdict.reason, PROBE_OK);
	assert_int_equal(seen->by_reason[PROBE_OK] + locals, seen->count);
	prober_stats(b->prober, &stats);
	assert_int_equal(stats.local, locals);
	(void) close(fd);
}

/* A prober that begins while the process may have so many descriptors; it may have no more after
 * this. Returns what was before. */
static struct rlimit begin_with_descriptors(struct bench *b, rlim_t count)
{
	static const struct prober_config config = { .threads = 1 };
	struct rlimit before, few;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = (struct rlimit){ .rlim_cur = count, .rlim_max = before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	prober_free(b->prober);
	assert_ok(prober_new(b->inbox, &config, on_results, b, &b->prober));
	return before;
}

/* What is logged goes there. */
static int log_begin(int *ret_stderr)
{
	int fd = memfd_create("log", MFD_CLOEXEC);

	assert_true(fd >= 0);
	*ret_stderr = dup(STDERR_FILENO);
	assert_true(dup2(fd, STDERR_FILENO) >= 0);
	return fd;
}

static const char *log_read(int fd)
{
	static char text[65536];
	ssize_t size = pread(fd, text, sizeof(text) - 1, 0);

	assert_true(size >= 0);
	text[size] = '\0';
	return text;
}

static bool is_told_late(void *userdata)
{
	const int *log = userdata;

	return strstr(log_read(*log), "Probes begin late by more than their interval (") != NULL;
}

static bool is_under_way(void *userdata)
{
	const struct bench *b = userdata;
	struct prober_stats stats;

	prober_stats(b->prober, &stats);
	return stats.under_way > 0;
}

static void a_black_hole_leaves_descriptors_to_others_and_is_told(void **state)
{
	struct bench *b = *state;
	struct rlimit before = begin_with_descriptors(b, 256);
	struct probe_server server = { .answer = HTTP_OK };
	struct black_hole hole;
	struct prober_stats stats;
	struct seen *other;
	int log, err, fds[64];
	char *told;

	black_hole_open(&hole);
	probe_server_start(&server);
	log = log_begin(&err);
	for (unsigned i = 0; i < 1500; i++)
		(void) ask_each(b, http_at(hole.port), 100 * MSEC, 100 * MSEC);
	other = ask_each(b, http_at(server.port), 100 * MSEC, 60000 * MSEC);
	await(other, 1);
	prober_stats(b->prober, &stats);
	assert_int_equal(stats.room, 128);
	assert_true(stats.under_way <= 128);
	loop_until(b->event, is_under_way, b);
	for (size_t i = 0; i < ELEMENTS(fds); i++)
		assert_true((fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0);
	loop_until(b->event, is_told_late, &log);

	await(other, other->count + 1);
	assert_int_equal(other->by_reason[PROBE_OK], other->count);
	prober_stats(b->prober, &stats);
	assert_int_equal(stats.local, 0);
	assert_true(stats.late_p99_usec > 100 * MSEC);
	for (size_t i = 0; i < ELEMENTS(fds); i++)
		(void) close(fds[i]);
	assert_true(dup2(err, STDERR_FILENO) >= 0);
	told = strstr(log_read(log), "Probes have all of the 128 descriptors open");
	assert_non_null(told);
	assert_non_null(strstr(told, "raise LimitNOFILE"));
	assert_null(strstr(told + 1, "Probes have all of")); /* it is told once */
	(void) close(err);
	(void) close(log);
	probe_server_stop(&server);
	black_hole_close(&hole);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static bool have_ended(void *userdata)
{
	const struct bench *b = userdata;

	return b->server->ended >= b->wanted;
}

static void kept_connections_make_room_for_who_has_none(void **state)
{
	struct bench *b = *state;
	struct rlimit before = begin_with_descriptors(b, 144); /* 16 of which are for probes */
	struct probe_server server = { .answer = HTTP_OK };
	struct black_hole hole;

	black_hole_open(&hole);
	probe_server_start(&server);
	b->server = &server;
	for (unsigned i = 0; i < 20; i++)
		(void) ask_each(b, kept_http_at(server.port), 3600000 * MSEC, 60000 * MSEC);
	loop_until(b->event, all_asked, b);
	/* Some of the room is nobody's to keep. */
	b->wanted = 8;
	loop_until(b->event, have_ended, b);
	assert_int_equal(server.accepted - server.ended, 12);

	for (unsigned i = 0; i < 16; i++)
		(void) ask_each(b, http_at(hole.port), 3600000 * MSEC, 1000 * MSEC);
	b->wanted = 20;
	loop_until(b->event, have_ended, b);
	loop_until(b->event, all_asked, b);
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(b->seen[i].by_reason[PROBE_OK], b->seen[i].count);
	for (unsigned i = 20; i < 36; i++)
		assert_int_equal(b->seen[i].by_reason[PROBE_TIMEOUT], b->seen[i].count);
	probe_server_stop(&server);
	black_hole_close(&hole);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static int begin_and_end(void *userdata)
{
	struct bench *b = userdata;
	static const struct prober_config config = { .threads = 1 };
	const struct probe_timing timing = { .interval_usec = 1000 * MSEC,
		.timeout_usec = 1000 * MSEC };
	struct prober *prober = NULL;
	struct probe *probe;
	int r;

	r = prober_new(b->inbox, &config, on_results, b, &prober);
	if (r < 0)
		return r;
	r = prober_add(prober, b->spare, &timing, &b->seen[0], &probe);
	if (r >= 0)
		b->spare = NULL;
	prober_free(prober);
	return r;
}

static void a_prober_that_cannot_begin_leaves_the_target_alone(void **state)
{
	struct bench *b = *state;

	b->spare = tcp_at(closed_port());
	assert_survives_oom(begin_and_end, b);
	assert_null(b->spare);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_port_that_listens_is_up),
		TEST(a_port_without_a_listener_is_refused),
		TEST(a_server_is_told_something_and_answers_as_expected),
		TEST(an_answer_in_pieces_is_put_together),
		TEST(another_answer_is_shown),
		TEST(a_connection_that_ends_without_an_answer_is_reset),
		TEST(an_http_server_is_asked_and_believed),
		TEST(a_status_that_is_not_expected_is_told),
		TEST(what_is_no_http_is_told),
		TEST(a_body_is_read_as_far_as_a_match_needs_it),
		TEST(a_value_in_a_chunked_body_is_found),
		TEST(a_kept_connection_is_used_again),
		TEST(the_rest_of_an_answer_does_not_hold_up_the_verdict),
		TEST(a_kept_connection_that_the_server_ends_says_nothing_of_it),
		TEST(a_server_that_closes_after_each_answer_is_connected_anew),
		TEST(a_kept_connection_that_goes_silent_is_given_up),
		TEST(what_follows_the_expected_answer_is_no_part_of_the_next),
		TEST(the_rest_of_an_answer_that_comes_late_is_no_part_of_the_next),
		TEST(what_a_server_says_first_it_says_once_a_connection),
		TEST(a_kept_connection_ends_with_its_probe),
		TEST(no_answer_in_time_says_what_was_waited_for),
		TEST(one_black_hole_among_a_hundred_delays_nobody),
		TEST(an_interval_is_kept_from_due_time_to_due_time),
		TEST(first_attempts_come_at_once_and_second_ones_spread),
		TEST(first_attempts_of_very_many_keep_to_the_burst),
		TEST(a_cap_on_the_rate_stretches_all_intervals_and_says_so),
		TEST(a_shorter_interval_moves_the_next_attempt_forward),
		TEST(an_answer_that_was_in_time_is_not_blamed_for_being_read_late),
		TEST(an_answer_that_came_during_a_standstill_is_nobodys),
		TEST(whoever_is_always_short_of_time_still_finds_the_dead),
		TEST(a_removed_probe_is_broken_off_and_tells_nothing),
		TEST(a_probe_may_be_removed_while_results_are_told),
		TEST(very_many_come_and_go),
		TEST(there_is_room_for_a_hundred_thousand_and_a_maximum),
		TEST(probes_are_spread_over_threads),
		TEST(a_node_without_descriptors_blames_nobody),
		TEST(a_black_hole_leaves_descriptors_to_others_and_is_told),
		TEST(kept_connections_make_room_for_who_has_none),
		TEST(a_prober_that_cannot_begin_leaves_the_target_alone),
	};

	return cmocka_run_group_tests_name("prober", tests, NULL, NULL);
}
