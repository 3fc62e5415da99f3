/* The connection of a session to the server of the moment, and time. */

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "own.h"
#include "retry.h"
#include "session-private.h"

#define READ_BYTES   65536
#define REFUSALS_MIN 3
#define TRICKLE_USEC UINT64_C(60000000) /* for one answer that comes little by little */

int zk_server_check(const char *server, struct usher_error *reterr)
{
	char host[USHER_TEXT_MAX];
	uint16_t port;

	return usher_authority_parse(server, ZK_PORT, host, &port, reterr);
}

/* ---- the connection ---- */

void session_close_connection(struct zk_session *s)
{
	if (s->fd >= 0)
		(void) close(s->fd);
	s->fd = -1;
	s->lookup = zk_lookup_free(s->lookup);
	s->phase = PHASE_IDLE;
	s->greeted = s->has_answered = false;
	s->lost = 0;
	s->out.size = 0;
	s->out.failed = false;
	s->in_size = s->in_at = 0;
	session_forget_requests(s);
}

void zk_session_lose(struct zk_session *s, int code, const char *text)
{
	if (s->lost < 0)
		return;
	s->lost = code;
	(void) snprintf(s->lost_text, sizeof(s->lost_text), "%.200s: %.300s", zk_session_server(s),
			text);
}

static void lose_by_errno(struct zk_session *s, int error)
{
	char text[128];

	zk_session_lose(s, -error, strerror_r(error, text, sizeof(text)));
}

static void greet(struct zk_session *s)
{
	struct zk_greeting greeting = s->granted;

	greeting.timeout_ms = (int32_t) (s->config.timeout_usec / 1000);
	greeting.read_only = s->config.read_only;
	zk_put_greeting(&s->out, &greeting, s->zxid);
	explicit_bzero(greeting.password, sizeof(greeting.password));
	s->phase = PHASE_GREETING;
}

static void connect_to(struct zk_session *s, const struct sockaddr_storage *address, socklen_t size)
{
	int one = 1;

	s->phase = PHASE_CONNECTING;
	s->began_usec = retry_now_usec();
	s->fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->fd < 0) {
		lose_by_errno(s, errno);
		return;
	}
	(void) setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(s->fd, (const struct sockaddr *) address, size) == 0)
		greet(s);
	else if (errno != EINPROGRESS)
		lose_by_errno(s, errno);
}

/* A name may stand for several addresses: one of them. */
static void finish_lookup(struct zk_session *s)
{
	struct sockaddr_storage address = { 0 };
	const char *why = NULL;
	socklen_t size = 0;
	int r;

	zk_lookup_process(s->lookup);
	r = zk_lookup_result(s->lookup, retry_random(&s->random), &address, &size, &why);
	if (r == 0)
		return;
	s->lookup = zk_lookup_free(s->lookup);
	if (r < 0)
		zk_session_lose(s, r, why);
	else
		connect_to(s, &address, size);
}

static void begin_connecting(struct zk_session *s)
{
	struct sockaddr_storage address = { 0 };
	socklen_t size = 0;
	uint16_t port;

	(void) usher_authority_parse(zk_session_server(s), ZK_PORT, s->host, &port, NULL);
	if (zk_lookup_is_address(s->host, port, &address, &size)) {
		connect_to(s, &address, size);
		return;
	}
	s->phase = PHASE_LOOKING_UP;
	s->lookup = zk_lookup_new(s->host, port, s->config.connect_usec, s->config.name_servers);
	if (!s->lookup)
		zk_session_lose(s, -ENOMEM, "no memory, or no descriptor, is left");
}

static void finish_connecting(struct zk_session *s)
{
	struct pollfd p = { .fd = s->fd, .events = POLLOUT };
	socklen_t size = sizeof(int);
	int error = 0;

	if (poll(&p, 1, 0) <= 0)
		return;
	if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
		error = errno;
	if (error)
		lose_by_errno(s, error);
	else
		greet(s);
}

void session_flush(struct zk_session *s)
{
	size_t sent = 0;

	while (sent < s->out.size) {
		ssize_t n = send(s->fd, s->out.data + sent, s->out.size - sent, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			/* What the server had to say before it closed comes first. */
			if (errno != EAGAIN && errno != EPIPE && errno != ECONNRESET)
				lose_by_errno(s, errno);
			break;
		}
		sent += (size_t) n;
	}
	if (sent > 0)
		memmove(s->out.data, s->out.data + sent, s->out.size - sent);
	s->out.size -= sent;
}

static int make_room(struct zk_session *s)
{
	unsigned char *grown;

	if (s->in_at > 0) {
		memmove(s->in, s->in + s->in_at, s->in_size - s->in_at);
		s->in_size -= s->in_at;
		s->in_at = 0;
	}
	if (s->in_capacity - s->in_size >= READ_BYTES)
		return 0;
	grown = realloc(s->in, s->in_size * 2 + READ_BYTES);
	if (!grown)
		return -ENOMEM;
	s->in = grown;
	s->in_capacity = s->in_size * 2 + READ_BYTES;
	return 0;
}

static void end_of_stream(struct zk_session *s, int error)
{
	if (s->phase == PHASE_GREETING) {
		s->refusals++;
		if (s->refused_usec == 0)
			s->refused_usec = retry_now_usec();
		zk_session_lose(s, -ECONNRESET,
				"it closes the connection instead of opening a session: it is not "
				"serving, knows less than was seen before, or has too many "
				"connections");
	} else if (error) {
		lose_by_errno(s, error);
	} else {
		zk_session_lose(s, -ECONNRESET, "it has closed the connection");
	}
}

static void receive(struct zk_session *s)
{
	while (s->in_size - s->in_at < ZK_FRAME_MAX + READ_BYTES) {
		ssize_t n;

		if (make_room(s) < 0) {
			zk_session_lose(s, -ENOMEM, "out of memory");
			return;
		}
		n = recv(s->fd, s->in + s->in_size, READ_BYTES, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			if (n == 0 || errno != EAGAIN)
				end_of_stream(s, n == 0 ? 0 : errno);
			return;
		}
		s->in_size += (size_t) n;
		s->heard_usec = retry_now_usec();
		if (n < READ_BYTES)
			return;
	}
}

/* ---- time ---- */

static uint64_t timeout_usec(const struct zk_session *s)
{
	return (uint64_t) s->timeout_ms * 1000;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

uint64_t zk_session_due_usec(const struct zk_session *s)
{
	uint64_t due;

	if (s->lost < 0 || s->greeted)
		return 0;
	switch (s->phase) {
	case PHASE_IDLE:
		return s->retry_usec;
	case PHASE_LOOKING_UP:
		return zk_lookup_due_usec(s->lookup);
	case PHASE_CONNECTING:
	case PHASE_GREETING:
		return s->began_usec + s->config.connect_usec;
	case PHASE_OPEN:
		break;
	}
	due = earlier(s->said_usec + timeout_usec(s) / 3, s->heard_usec + timeout_usec(s) * 2 / 3);
	if (s->is_read_only)
		due = earlier(due, s->began_usec + ZK_READ_ONLY_USEC);
	if (s->requests) {
		uint64_t asked = s->requests->sent_usec;

		/* What comes little by little is an answer, too. */
		due = earlier(due,
				(asked > s->heard_usec ? asked : s->heard_usec) + ZK_ANSWER_USEC);
		due = earlier(due, asked + TRICKLE_USEC);
	}
	return due;
}

/* Whether everybody refuses us for what we have seen, for longer than a session lasts. */
static bool is_refused(const struct zk_session *s, uint64_t now)
{
	return s->refusals >= REFUSALS_MIN * s->servers &&
			now - s->refused_usec >= s->config.timeout_usec;
}

static void begin_without_past(struct zk_session *s)
{
	s->is_doubtful |= s->zxid != 0;
	explicit_bzero(&s->granted, sizeof(s->granted));
	s->zxid = 0;
	s->refusals = 0;
	s->refused_usec = 0;
}

static void look_at_time(struct zk_session *s)
{
	uint64_t now = retry_now_usec();

	if (s->lost < 0)
		return;
	switch (s->phase) {
	case PHASE_IDLE:
		if (now < s->retry_usec)
			return;
		if (is_refused(s, now))
			begin_without_past(s);
		begin_connecting(s);
		return;
	case PHASE_LOOKING_UP:
		return;
	case PHASE_CONNECTING:
	case PHASE_GREETING:
		if (now >= s->began_usec + s->config.connect_usec)
			zk_session_lose(s, -ETIMEDOUT, "it does not open a session in time");
		return;
	case PHASE_OPEN:
		break;
	}
	if (now >= s->said_usec + timeout_usec(s) / 3)
		session_send_ping(s);
	if (now < zk_session_due_usec(s))
		return;
	if (s->is_read_only && now >= s->began_usec + ZK_READ_ONLY_USEC)
		zk_session_lose(s, -EAGAIN,
				"the server is read-only, for it has lost its majority; looking "
				"for another");
	else
		zk_session_lose(s, -ETIMEDOUT, "it does not answer any more");
}

int zk_session_fd(const struct zk_session *s)
{
	return s->lookup ? zk_lookup_fd(s->lookup) : s->fd;
}

short zk_session_events(const struct zk_session *s)
{
	switch (s->phase) {
	case PHASE_IDLE:
		return 0;
	case PHASE_LOOKING_UP:
		return POLLIN;
	case PHASE_CONNECTING:
		return POLLOUT;
	case PHASE_GREETING:
	case PHASE_OPEN:
		break;
	}
	return s->out.size > 0 ? POLLIN | POLLOUT : POLLIN;
}

void zk_session_process(struct zk_session *s)
{
	if (s->lost == 0 && s->phase == PHASE_LOOKING_UP)
		finish_lookup(s);
	if (s->lost == 0 && s->phase == PHASE_CONNECTING)
		finish_connecting(s);
	if (s->lost == 0 && s->phase >= PHASE_GREETING)
		receive(s);
	look_at_time(s);
	if (s->lost == 0 && s->phase >= PHASE_GREETING)
		session_flush(s);
}
