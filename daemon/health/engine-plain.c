/* TCP, and HTTP/1.1 over it, to addresses that need no resolving and connections without TLS: what
 * most checks are, at the price of a handful of system calls.
 *
 * A connection costs socket, connect, send, one epoll_ctl, recv, setsockopt, close, and a share of
 * a wait. The request is sent without waiting for the connection, which mostly is there by then
 * where the server is near; each descriptor is added to epoll once, edge-triggered, and not at all
 * if everything is known before. What is not kept is closed by a reset, so that neither side is
 * left with a connection in TIME_WAIT. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine.h"
#include "expectation.h"
#include "http-answer.h"
#include "probe-sockets.h"

#define BUFFER_SIZE   65536
#define SPARE_MAX     256 /* connections' memory that is kept for the next */
#define BODY_FIRST    1024
#define BODY_KEPT_MAX 4096 /* of a connection's memory, for its next answer */

enum conn_state {
	CONN_CONNECTS,
	CONN_SENDS,
	CONN_RECEIVES,
	CONN_DRAINS, /* kept: the verdict is known, the rest of the answer is not there */
	CONN_RESTS,  /* kept */
};

struct conn {
	struct shard_watch watch; /* first */
	struct plain *plain;
	struct attempt *attempt;
	enum conn_state state;
	bool is_watched;
	bool is_used_again;
	size_t sent;
	size_t matched; /* tcp: bytes of expect_text */
	size_t drained; /* bytes after the verdict */
	char *body;
	size_t body_size, body_capacity;
	struct http_answer answer;
	struct conn *next_spare;
};

struct plain {
	struct shard *shard;
	struct conn *spare;
	unsigned spare_count;
	char buffer[BUFFER_SIZE];
};

/* How much of so many bytes is shown in a verdict. */
#define SHOWN(size) (int) ((size) < 40 ? (size) : 40)

static const struct check_config *config_of(const struct attempt *attempt)
{
	return check_config(attempt->target->check);
}

static bool is_http(const struct attempt *attempt)
{
	return config_of(attempt)->kind == CHECK_HTTP;
}

/* ---- connections ---- */

static struct conn *conn_new(struct plain *plain, struct attempt *attempt)
{
	struct conn *conn = plain->spare;

	if (conn) {
		plain->spare = conn->next_spare;
		plain->spare_count--;
	} else {
		conn = calloc(1, sizeof(*conn));
		if (!conn)
			return NULL;
	}
	conn->plain = plain;
	conn->attempt = attempt;
	conn->watch.fd = -1;
	return conn;
}

static void conn_close(struct conn *conn)
{
	const struct linger reset = { .l_onoff = 1, .l_linger = 0 };

	if (conn->watch.fd < 0)
		return;
	if (conn->is_watched)
		shard_watch_remove(conn->plain->shard, &conn->watch);
	(void) setsockopt(conn->watch.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	(void) close(conn->watch.fd);
	conn->watch.fd = -1;
	conn->is_watched = false;
}

static void conn_release(struct conn *conn)
{
	struct plain *plain = conn->plain;

	conn_close(conn);
	if (conn->body_capacity > BODY_KEPT_MAX || plain->spare_count == SPARE_MAX) {
		free(conn->body);
		conn->body = NULL;
		conn->body_capacity = 0;
	}
	if (plain->spare_count == SPARE_MAX) {
		free(conn);
		return;
	}
	conn->next_spare = plain->spare;
	plain->spare = conn;
	plain->spare_count++;
}

/* The attempt's end. The connection may be kept for the next one: at rest, or while the rest of its
 * answer comes. */
static void conn_finish(struct conn *conn, const struct verdict *verdict, bool keep)
{
	struct attempt *attempt = conn->attempt;

	attempt->state = NULL;
	if (keep && !attempt->closes)
		attempt->kept = conn;
	else
		conn_release(conn);
	attempt_finish(attempt, verdict);
}

static void conn_fail(struct conn *conn, int error, const char *doing)
{
	struct verdict verdict;

	verdict_set_errno(&verdict, error, doing);
	conn_finish(conn, &verdict, false);
}

/* ---- tcp ---- */

static void conn_break(struct conn *conn, const struct verdict *verdict);

static void tcp_succeed(struct conn *conn, const char *text)
{
	bool keep = check_config_keeps_alive(config_of(conn->attempt));
	struct verdict verdict;

	verdict_set(&verdict, PROBE_OK, 0, "%s", text);
	conn->state = CONN_RESTS;
	conn_finish(conn, &verdict, keep);
}

/* True: the attempt has ended. */
static bool tcp_take(struct conn *conn, const char *data, size_t size)
{
	const char *expected = config_of(conn->attempt)->expect_text;
	size_t left = strlen(expected) - conn->matched;
	size_t length = size < left ? size : left;
	struct verdict verdict;

	if (memcmp(data, expected + conn->matched, length) != 0) {
		verdict_set(&verdict, PROBE_BODY, 0, "it answers \"%.*s%.*s\", expected \"%.40s\"",
				SHOWN(conn->matched), expected, SHOWN(size), data, expected);
		conn_break(conn, &verdict);
		return true;
	}
	conn->matched += length;
	if (expected[conn->matched])
		return false;
	tcp_succeed(conn, "it answers as expected");
	return true;
}

/* ---- http ---- */

static bool http_needs_body(const struct conn *conn)
{
	const struct check_config *config = config_of(conn->attempt);

	if (!expectation_takes_status(config, conn->answer.status) ||
			conn->body_size == CHECK_BODY_MAX)
		return false;
	switch (expectation_of_body(config)) {
	case EXPECTS_NO_BODY:
		return false;
	case EXPECTS_TEXT:
		return !expectation_is_met(config, conn->body, conn->body_size);
	case EXPECTS_VALUE:
		return true;
	}
	return false;
}

static void http_judge(struct conn *conn, bool at_end)
{
	const struct check_config *config = config_of(conn->attempt);
	struct verdict verdict;

	expectation_judge(config, conn->answer.status, conn->body, conn->body_size, &verdict);
	conn->state = at_end ? CONN_RESTS : CONN_DRAINS;
	conn_finish(conn, &verdict, config->keep_alive && conn->answer.reusable);
}

/* Errors: ENOMEM. */
static int http_keep_body(struct conn *conn, const char *data, size_t size)
{
	if (size > CHECK_BODY_MAX - conn->body_size)
		size = CHECK_BODY_MAX - conn->body_size;
	if (conn->body_capacity - conn->body_size < size) {
		size_t capacity = conn->body_capacity ? conn->body_capacity : BODY_FIRST;
		char *body;

		while (capacity - conn->body_size < size)
			capacity *= 2;
		body = realloc(conn->body, capacity);
		if (!body)
			return -ENOMEM;
		conn->body = body;
		conn->body_capacity = capacity;
	}
	if (size > 0)
		memcpy(conn->body + conn->body_size, data, size);
	conn->body_size += size;
	return 0;
}

static void http_fail(struct conn *conn, const char *data, size_t size)
{
	struct verdict verdict;

	if (conn->answer.status == 0)
		verdict_set(&verdict, PROBE_PROTOCOL, 0, "the answer is no HTTP: %s: \"%.*s\"",
				conn->answer.fault, SHOWN(size), data);
	else
		verdict_set(&verdict, PROBE_PROTOCOL, 0, "the answer is no HTTP: %s",
				conn->answer.fault);
	conn_finish(conn, &verdict, false);
}

/* True: the attempt has ended. It does so as soon as enough is known; what is left of the answer is
 * drained from a connection that is kept. */
static bool http_take(struct conn *conn, const char *data, size_t size)
{
	const char *all = data, *body;
	size_t all_size = size, body_size;
	int event, r = 0;

	while ((event = http_answer_read(&conn->answer, &data, &size, &body, &body_size)) >
					HTTP_ANSWER_MORE &&
			event != HTTP_ANSWER_END && r >= 0)
		if (event == HTTP_ANSWER_BODY && http_needs_body(conn))
			r = http_keep_body(conn, body, body_size);

	if (event < 0)
		http_fail(conn, all, all_size);
	else if (r < 0)
		conn_fail(conn, -r, "keep the body");
	else if (event == HTTP_ANSWER_END || (conn->answer.has_head && !http_needs_body(conn)))
		http_judge(conn, event == HTTP_ANSWER_END && size == 0);
	else
		return false;
	return true;
}

/* ---- an attempt ---- */

static const char *conn_doing(const struct conn *conn)
{
	if (conn->watch.fd < 0)
		return "open a socket";
	return conn->state == CONN_CONNECTS ? "connect" : "send";
}

/* Send what is not sent yet, which is also how to learn whether the connection is there. 1: all is
 * sent, 0: there is to be waited. Errors: those of send(). */
static int conn_send(struct conn *conn)
{
	const struct target *target = conn->attempt->target;
	const char *data =
			is_http(conn->attempt) ? target->request : config_of(conn->attempt)->send;
	size_t size = is_http(conn->attempt) ? target->request_size : data ? strlen(data) : 0;

	do {
		ssize_t n = send(conn->watch.fd, data ? data + conn->sent : "", size - conn->sent,
				MSG_NOSIGNAL);

		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		conn->state = CONN_SENDS;
		conn->attempt->phase = "sending";
		conn->sent += (size_t) n;
		conn->attempt->bytes_sent += (uint32_t) n;
	} while (conn->sent < size);
	return 1;
}

/* True: the attempt has ended, for nothing is to come. */
static bool conn_on_sent(struct conn *conn)
{
	conn->state = CONN_RECEIVES;
	conn->attempt->phase = "waiting for the answer";
	if (is_http(conn->attempt) || config_of(conn->attempt)->expect_text)
		return false;
	tcp_succeed(conn, "it accepts connections");
	return true;
}

static void conn_on_ready(struct shard_watch *watch, uint32_t events);

/* Wait for what is still to come. */
static void conn_wait(struct conn *conn)
{
	uint32_t events = EPOLLIN | EPOLLRDHUP | EPOLLET;
	int r = 0;

	if (conn->state != CONN_RECEIVES)
		events |= EPOLLOUT;
	if (!conn->is_watched)
		r = shard_watch_add(conn->plain->shard, &conn->watch, events);
	else if (events & EPOLLOUT)
		r = shard_watch_change(conn->plain->shard, &conn->watch, events);
	if (r < 0)
		conn_fail(conn, -r, "watch the connection");
	else
		conn->is_watched = true;
}

static void conn_prepare(struct conn *conn)
{
	const struct check_config *config = config_of(conn->attempt);

	conn->sent = conn->matched = conn->body_size = conn->drained = 0;
	if (config->kind == CHECK_HTTP)
		http_answer_init(&conn->answer,
				config->method && strcmp(config->method, "HEAD") == 0);
}

/* Errors: those of socket() and connect(). */
static int conn_connect(struct conn *conn)
{
	const struct target *target = conn->attempt->target;

	conn->state = CONN_CONNECTS;
	conn->attempt->phase = "connecting";
	conn->watch.ready = conn_on_ready;
	conn->watch.fd = socket(
			target->sockaddr.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (conn->watch.fd < 0)
		return -errno;
	conn->attempt->connections++;
	probe_socket_note(conn->watch.fd);
	if (connect(conn->watch.fd, (const struct sockaddr *) &target->sockaddr,
			    target->sockaddr_size) < 0 &&
			errno != EINPROGRESS)
		return -errno;
	return 0;
}

/* Over a new connection. */
static void conn_begin(struct conn *conn)
{
	int r;

	conn->is_used_again = false;
	conn_prepare(conn);
	r = conn_connect(conn);
	if (r >= 0)
		r = conn_send(conn);
	if (r < 0)
		conn_fail(conn, -r, conn_doing(conn));
	else if (r == 0 || !conn_on_sent(conn))
		conn_wait(conn);
}

/* A connection that was kept may have been ended by the other side in the same moment: that says
 * nothing of it, and a new one is made. Nor does what is no answer over TCP, where nobody knows the
 * end of an answer: it may be the rest of the last one. */
static void conn_break(struct conn *conn, const struct verdict *verdict)
{
	if (conn->is_used_again &&
			(conn->attempt->bytes_received == 0 || !is_http(conn->attempt))) {
		conn_close(conn);
		conn_begin(conn);
		return;
	}
	conn_finish(conn, verdict, false);
}

static void conn_break_by(struct conn *conn, int error, const char *doing)
{
	struct verdict verdict;

	verdict_set_errno(&verdict, error, doing);
	conn_break(conn, &verdict);
}

static void conn_on_end(struct conn *conn)
{
	struct verdict verdict;

	if (is_http(conn->attempt) && http_answer_close(&conn->answer) == 0) {
		conn->answer.reusable = false;
		http_judge(conn, true);
		return;
	}
	verdict_set(&verdict, PROBE_RESET, 0,
			"the connection ended before the answer was whole (after %u bytes)",
			conn->attempt->bytes_received);
	conn_break(conn, &verdict);
}

/* Whether recv() is to be called again: edges are told once, and a short answer is the last, unless
 * the end stands behind it. */
static bool is_more_there(size_t size, uint32_t events)
{
	return size == BUFFER_SIZE || events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR);
}

static void conn_receive(struct conn *conn, uint32_t events)
{
	struct plain *plain = conn->plain;
	ssize_t n;

	do {
		bool ended;

		n = recv(conn->watch.fd, plain->buffer, BUFFER_SIZE, 0);
		if (n < 0) {
			if (errno != EAGAIN)
				conn_break_by(conn, errno, "read the answer");
			return;
		}
		if (n == 0) {
			conn_on_end(conn);
			return;
		}
		conn->attempt->bytes_received += (uint32_t) n;
		ended = is_http(conn->attempt) ? http_take(conn, plain->buffer, (size_t) n)
					       : tcp_take(conn, plain->buffer, (size_t) n);
		if (ended)
			return;
	} while (is_more_there((size_t) n, events));
}

/* ---- connections that are kept ---- */

/* Whether it is still fit for another attempt. */
static bool conn_drain(struct conn *conn, const char *data, size_t size)
{
	const char *body;
	size_t body_size;
	int event;

	if (!is_http(conn->attempt))
		return true; /* what came behind the expected */
	if (conn->state == CONN_RESTS)
		return false;
	conn->drained += size;
	while ((event = http_answer_read(&conn->answer, &data, &size, &body, &body_size)) ==
			HTTP_ANSWER_BODY)
		;
	if (event == HTTP_ANSWER_END)
		conn->state = CONN_RESTS;
	return event >= 0 && size == 0 && conn->drained <= CHECK_BODY_MAX;
}

static void conn_on_kept_ready(struct conn *conn, uint32_t events)
{
	struct plain *plain = conn->plain;
	ssize_t n;

	do {
		n = recv(conn->watch.fd, plain->buffer, BUFFER_SIZE, 0);
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0 || !conn_drain(conn, plain->buffer, (size_t) n)) {
			conn->attempt->kept = NULL;
			conn_release(conn);
			return;
		}
	} while (is_more_there((size_t) n, events));
}

/* Go on sending; then what comes may be there already. */
static void conn_on_writable(struct conn *conn, uint32_t events)
{
	int r = conn_send(conn);

	if (r < 0)
		conn_break_by(conn, -r, conn_doing(conn));
	else if (r > 0 && !conn_on_sent(conn))
		conn_receive(conn, events);
}

static void conn_on_ready(struct shard_watch *watch, uint32_t events)
{
	struct conn *conn = (struct conn *) watch;

	switch (conn->state) {
	case CONN_CONNECTS:
	case CONN_SENDS:
		conn_on_writable(conn, events);
		return;
	case CONN_RECEIVES:
		conn_receive(conn, events);
		return;
	case CONN_DRAINS:
	case CONN_RESTS:
		conn_on_kept_ready(conn, events);
		return;
	}
}

/* ---- the engine ---- */

/* Over a connection that was kept, and is watched. */
static void conn_begin_again(struct conn *conn)
{
	int r;

	probe_socket_note(conn->watch.fd);
	conn->is_used_again = true;
	conn->state = CONN_SENDS;
	conn_prepare(conn);
	r = conn_send(conn);
	if (r < 0)
		conn_break_by(conn, -r, "send");
	else if (r == 0)
		conn_wait(conn);
	else
		(void) conn_on_sent(conn);
}

static int plain_start(void *engine, struct attempt *attempt)
{
	struct conn *conn = attempt->kept;

	attempt->kept = NULL;
	if (conn && conn->state == CONN_RESTS) {
		attempt->state = conn;
		conn_begin_again(conn);
		return 0;
	}
	if (conn)
		conn_release(conn); /* the rest of the last answer has not come yet */

	conn = conn_new(engine, attempt);
	if (!conn)
		return -ENOMEM;
	attempt->state = conn;
	conn_begin(conn);
	return 0;
}

static void plain_cancel(void *engine, struct attempt *attempt)
{
	(void) engine;
	conn_release(attempt->state);
}

static void plain_forget(void *engine, struct attempt *attempt)
{
	(void) engine;
	conn_release(attempt->kept);
}

static int plain_open(struct shard *shard, void **ret)
{
	struct plain *plain = malloc(sizeof(*plain));

	if (!plain)
		return -ENOMEM;
	plain->shard = shard;
	plain->spare = NULL;
	plain->spare_count = 0;
	*ret = plain;
	return 0;
}

static void plain_close(void *engine)
{
	struct plain *plain = engine;

	while (plain->spare) {
		struct conn *conn = plain->spare;

		plain->spare = conn->next_spare;
		free(conn->body);
		free(conn);
	}
	free(plain);
}

const struct engine engine_plain = {
	.name = "plain",
	.descriptors = 1,
	.forgets_at_once = true,
	.open = plain_open,
	.close = plain_close,
	.start = plain_start,
	.cancel = plain_cancel,
	.forget = plain_forget,
};
