#include "http.h"

#include <errno.h>
#include <microhttpd.h>
#include <string.h>
#include <sys/socket.h>

#include "clock.h"
#include "inside.h"
#include "peer.h"
#include "problem.h"
#include "reload-wait.h"

#define HTTP_RUNS_A_TURN 4

static struct peer *peer_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
			MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

/* The path as it was sent: names in it may have an escaped slash. */
static void *http_on_uri(void *userdata, const char *uri, struct MHD_Connection *connection)
{
	struct peer *peer = peer_of(connection);

	(void) userdata;
	if (!peer)
		return NULL;
	request_reset(&peer->request);
	text_add(&peer->request.path, uri, strcspn(uri, "?"));
	return &peer->request;
}

static size_t http_on_escape(void *userdata, struct MHD_Connection *connection, char *text)
{
	struct peer *peer = peer_of(connection);
	size_t length = strlen(text);

	(void) userdata;
	if (peer && url_decode(text, &length) < 0)
		peer->request.malformed = true;
	return length;
}

static enum MHD_Result take_body(struct request *q, const char *data, size_t *size)
{
	if (q->body.length + *size > REQUEST_BODY_MAX)
		q->too_large = true;
	if (q->too_large)
		q->swallowed += *size;
	else
		text_add(&q->body, data, *size);
	*size = 0;
	return q->swallowed > REQUEST_SWALLOW_MAX ? MHD_NO : MHD_YES;
}

static bool announces_too_much(struct request *q)
{
	const char *length = request_header(q, MHD_HTTP_HEADER_CONTENT_LENGTH);

	return length && strtoull(length, NULL, 10) > REQUEST_BODY_MAX;
}

static enum MHD_Result http_on_request(void *userdata, struct MHD_Connection *connection,
		const char *url, const char *method, const char *version, const char *upload,
		size_t *upload_size, void **state)
{
	struct request *q = *state;

	(void) userdata;
	(void) connection;
	(void) url;
	(void) version;
	if (!q)
		return MHD_NO;
	if (!q->begun) {
		q->begun = true;
		q->method = method_from_string(method);
		q->head = strcmp(method, "HEAD") == 0;
		/* An answer now closes the connection, for the body stays unread. */
		if (announces_too_much(q)) {
			q->too_large = true;
			request_dispatch(q);
			return q->queued ? MHD_YES : MHD_NO;
		}
		return MHD_YES;
	}
	if (*upload_size > 0)
		return take_body(q, upload, upload_size);
	request_dispatch(q);
	return q->queued || q->deferred ? MHD_YES : MHD_NO;
}

static void http_on_completed(void *userdata, struct MHD_Connection *connection, void **state,
		enum MHD_RequestTerminationCode code)
{
	struct request *q = *state;

	(void) userdata;
	(void) connection;
	if (!q)
		return;
	if (q->listed && code == MHD_REQUEST_TERMINATED_COMPLETED_OK)
		reading_flushed_list(&q->peer->list);
	if (q->status >= 100 && q->status < 600)
		q->server->requests[q->status / 100]++;
	*state = NULL;
}

static void http_on_connection(void *userdata, struct MHD_Connection *connection, void **state,
		enum MHD_ConnectionNotificationCode code)
{
	struct server *s = userdata;
	struct peer *peer = *state;

	switch (code) {
	case MHD_CONNECTION_NOTIFY_STARTED:
		*state = take(s->admitting);
		((struct peer *) *state)->connection = connection;
		break;
	case MHD_CONNECTION_NOTIFY_CLOSED:
		s->connections[peer->door]--;
		*state = peer_free(peer);
		break;
	}
}

static void http_on_log(void *userdata, const char *format, va_list args)
{
	char line[512];

	(void) userdata;
	if (log_priority() < LOG_DEBUG)
		return;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	(void) vsnprintf(line, sizeof(line), format, args);
#pragma GCC diagnostic pop
	line[strcspn(line, "\n")] = '\0';
	log_debug(NULL, "libmicrohttpd: %s", line);
}

static size_t door_limit(enum server_door door)
{
	static const size_t limits[] = {
		[DOOR_CONSUMER] = HTTP_CONNECTIONS_MAX,
		[DOOR_ADMIN] = HTTP_ADMIN_MAX,
		[DOOR_HTTP] = HTTP_OPEN_MAX,
	};

	return limits[door];
}

void http_admit(struct server *s, struct door *door, int fd)
{
	/* A client of a Unix socket has no address; libmicrohttpd wants one, and keeps a copy. */
	static const struct sockaddr nobody = { .sa_family = AF_UNIX };
	size_t limit = door_limit(door->which);
	struct peer *peer = NULL;

	if (s->connections[door->which] < limit + HTTP_OVER_MAX)
		peer = peer_new(s, door, fd, s->connections[door->which] >= limit);
	if (!peer) {
		(void) close(fd);
		return;
	}
	s->admitting = peer;
	s->connections[door->which]++;
	/* Takes the descriptor in any case, and the peer once it has told us of the connection. */
	if (MHD_add_connection(s->http, fd, &nobody, sizeof(nobody)) == MHD_NO) {
		if (!s->admitting)
			return;
		s->connections[door->which]--;
		s->admitting = peer_free(peer);
		return;
	}
	if (door->which == DOOR_HTTP)
		(void) MHD_set_connection_option(
				peer->connection, MHD_CONNECTION_OPTION_TIMEOUT, HTTP_OPEN_TIMEOUT);
}

void http_run_soon(struct server *s)
{
	(void) sd_event_source_set_enabled(s->http_again, SD_EVENT_ONESHOT);
}

/* What is left to do after a run: again now, later, or when something comes. */
static void arm(struct server *s, bool busy)
{
	MHD_UNSIGNED_LONG_LONG msec = 0;

	if (!busy && MHD_get_timeout(s->http, &msec) == MHD_NO) {
		(void) sd_event_source_set_enabled(s->http_later, SD_EVENT_OFF);
		return;
	}
	if (busy || msec == 0) {
		http_run_soon(s);
		return;
	}
	(void) sd_event_source_set_time(s->http_later, clock_boot_usec() + msec * USEC_PER_MSEC);
	(void) sd_event_source_set_enabled(s->http_later, SD_EVENT_ONESHOT);
}

void http_run(struct server *s)
{
	MHD_UNSIGNED_LONG_LONG msec;
	bool busy = true;

	for (unsigned i = 0; busy && i < HTTP_RUNS_A_TURN; i++) {
		(void) MHD_run(s->http);
		busy = MHD_get_timeout(s->http, &msec) == MHD_YES && msec == 0;
	}
	arm(s, busy);
}

static int http_on_ready(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	(void) source;
	(void) fd;
	(void) events;
	http_run(userdata);
	return 0;
}

static int http_on_again(sd_event_source *source, void *userdata)
{
	(void) source;
	http_run(userdata);
	return 0;
}

static int http_on_later(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void) source;
	(void) usec;
	http_run(userdata);
	return 0;
}

static int add_sources(struct server *s)
{
	const union MHD_DaemonInfo *info = MHD_get_daemon_info(s->http, MHD_DAEMON_INFO_EPOLL_FD);
	int r;

	if (!info)
		return -ENOTSUP;
	r = sd_event_add_io(s->event, &s->http_ready, info->epoll_fd, EPOLLIN, http_on_ready, s);
	if (r < 0)
		return r;
	r = sd_event_add_defer(s->event, &s->http_again, http_on_again, s);
	if (r < 0)
		return r;
	(void) sd_event_source_set_enabled(s->http_again, SD_EVENT_OFF);
	r = sd_event_add_time(s->event, &s->http_later, CLOCK_BOOTTIME, 0, 0, http_on_later, s);
	if (r < 0)
		return r;
	return sd_event_source_set_enabled(s->http_later, SD_EVENT_OFF);
}

int http_start(struct server *s)
{
	const unsigned limit = HTTP_CONNECTIONS_MAX + HTTP_ADMIN_MAX + HTTP_OPEN_MAX +
			DOOR_MAX * HTTP_OVER_MAX;

	s->http = MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET |
					MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG,
			0, NULL, NULL, http_on_request, s, MHD_OPTION_EXTERNAL_LOGGER, http_on_log,
			s, MHD_OPTION_CONNECTION_LIMIT, limit, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
			(size_t) HTTP_CONNECTION_MEMORY, MHD_OPTION_URI_LOG_CALLBACK, http_on_uri,
			s, MHD_OPTION_UNESCAPE_CALLBACK, http_on_escape, s,
			MHD_OPTION_NOTIFY_CONNECTION, http_on_connection, s,
			MHD_OPTION_NOTIFY_COMPLETED, http_on_completed, s, MHD_OPTION_END);
	if (!s->http)
		return -ENOMEM;
	return add_sources(s);
}

void http_stop(struct server *s)
{
	if (!s->http)
		return;
	/* Nothing may be suspended when libmicrohttpd stops. */
	reload_waits_cancel(s);
	for (struct stream *stream = s->streams.first; stream; stream = stream->next)
		stream_cut(stream);
	(void) MHD_run(s->http);
	s->http_ready = sd_event_source_disable_unref(s->http_ready);
	s->http_again = sd_event_source_disable_unref(s->http_again);
	s->http_later = sd_event_source_disable_unref(s->http_later);
	MHD_stop_daemon(s->http);
	s->http = NULL;
}

sd_event *http_event(struct server *s)
{
	return s->event;
}
