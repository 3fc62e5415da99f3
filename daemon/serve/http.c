#include "http.h"

#include <errno.h>
#include <fcntl.h>
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

static bool announces_far_too_much(struct request *q)
{
	const char *length = request_header(q, MHD_HTTP_HEADER_CONTENT_LENGTH);

	return length && strtoull(length, NULL, 10) > REQUEST_SWALLOW_MAX;
}

// NOLINTNEXTLINE(readability-function-size): the signature is libmicrohttpd's
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
		/* An answer now closes the connection, for the body stays unread; whoever still
		 * writes may not see it. So what is not far too much is read first. */
		if (announces_far_too_much(q)) {
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
	request_abandon(q);
	if (q->listed && code == MHD_REQUEST_TERMINATED_COMPLETED_OK)
		reading_flushed_list(&q->peer->list);
	if (q->status >= 100 && q->status < 600)
		q->server->requests[q->status / 100]++;
	*state = NULL;
}

static size_t door_limit(enum server_door which)
{
	static const size_t limits[] = {
		[DOOR_CONSUMER] = HTTP_CONSUMER_MAX,
		[DOOR_ADMIN] = HTTP_ADMIN_MAX,
		[DOOR_HTTP] = HTTP_OPEN_MAX,
	};

	return limits[which];
}

/* Without memory for the peer its requests are cut off: see http_on_request(). */
static void meet(struct door *door, struct MHD_Connection *connection, void **state)
{
	const union MHD_ConnectionInfo *info =
			MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	bool over_limit = door->http.connections++ >= door_limit(door->which);
	struct peer *peer = info ? peer_new(door, connection, info->connect_fd, over_limit) : NULL;

	*state = peer;
	if (door->http.starved && !door->http.nudging) {
		log_info(NULL, "Accepting connections on %s again", door->path);
		door->http.starved = false;
	}
	if (door->which == DOOR_HTTP)
		(void) MHD_set_connection_option(
				connection, MHD_CONNECTION_OPTION_TIMEOUT, HTTP_OPEN_TIMEOUT);
}

static void http_on_connection(void *userdata, struct MHD_Connection *connection, void **state,
		enum MHD_ConnectionNotificationCode code)
{
	struct door *door = userdata;

	switch (code) {
	case MHD_CONNECTION_NOTIFY_STARTED:
		meet(door, connection, state);
		break;
	case MHD_CONNECTION_NOTIFY_CLOSED:
		door->http.connections--;
		*state = peer_free(*state);
		break;
	}
}

/* The only sign of a failed accept(). */
static bool says_out_of_descriptors(const char *format)
{
	return strstr(format, "system resource limit");
}

static void http_on_log(void *userdata, const char *format, va_list args)
{
	struct door *door = userdata;
	char line[512];

	if (says_out_of_descriptors(format))
		door->http.starved_again = true;
	if (log_priority() < LOG_DEBUG)
		return;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	(void) vsnprintf(line, sizeof(line), format, args);
#pragma GCC diagnostic pop
	line[strcspn(line, "\n")] = '\0';
	log_debug(NULL, "libmicrohttpd: %s", line);
}

void http_run_soon(struct http *http)
{
	(void) sd_event_source_set_enabled(http->again, SD_EVENT_ONESHOT);
}

/* What is left to do after a run: again now, later, or when something comes. */
static void arm(struct http *http, bool busy)
{
	MHD_UNSIGNED_LONG_LONG msec = 0;

	if (!busy && MHD_get_timeout(http->daemon, &msec) == MHD_NO) {
		(void) sd_event_source_set_enabled(http->later, SD_EVENT_OFF);
		return;
	}
	if (busy || msec == 0) {
		http_run_soon(http);
		return;
	}
	(void) sd_event_source_set_time(http->later, clock_boot_usec() + msec * USEC_PER_MSEC);
	(void) sd_event_source_set_enabled(http->later, SD_EVENT_ONESHOT);
}

static void rest_on(struct http *http)
{
	(void) sd_event_source_set_time_relative(http->rested, HTTP_REST_USEC);
	(void) sd_event_source_set_enabled(http->rested, SD_EVENT_ONESHOT);
}

/* A connection that closes at once: libmicrohttpd, which could not accept, tries again only after
 * one has closed, and only in the run that follows. */
static void nudge(struct http *http)
{
	static const struct sockaddr nobody = { .sa_family = AF_UNIX };
	int fd;

	if (http->connections == 0) {
		http_run_soon(http);
		return;
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) {
		rest_on(http);
		return;
	}
	http->nudging = true;
	(void) MHD_add_connection(http->daemon, fd, &nobody, sizeof(nobody));
	http->nudging = false;
	http_run_soon(http);
}

static void rest(struct http *http)
{
	http->starved_again = false;
	if (http->reserve >= 0) {
		(void) close(take_fd(http->reserve));
		nudge(http);
		return;
	}
	if (!http->starved)
		log_warning(NULL,
				"Cannot accept connections on %s: too many open files; trying again every %u ms until it works",
				http->door->path, (unsigned) (HTTP_REST_USEC / USEC_PER_MSEC));
	http->starved = true;
	/* Alone, it would try without a pause. */
	if (http->connections == 0)
		(void) sd_event_source_set_enabled(http->ready, SD_EVENT_OFF);
	rest_on(http);
}

static int spare_descriptor(void)
{
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void run(struct http *http)
{
	MHD_UNSIGNED_LONG_LONG msec;
	bool busy = true;

	for (unsigned i = 0; busy && i < HTTP_RUNS_A_TURN; i++) {
		(void) MHD_run(http->daemon);
		busy = MHD_get_timeout(http->daemon, &msec) == MHD_YES && msec == 0;
	}
	arm(http, busy);
	if (http->starved_again)
		rest(http);
	else if (http->door->which == DOOR_ADMIN && http->reserve < 0)
		http->reserve = spare_descriptor();
	if (http->connections == 0)
		server_door_emptied(http->door);
}

static int http_on_rested(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct http *http = userdata;

	(void) source;
	(void) usec;
	(void) sd_event_source_set_enabled(http->ready, SD_EVENT_ON);
	nudge(http);
	return 0;
}

static int http_on_ready(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	(void) source;
	(void) fd;
	(void) events;
	run(userdata);
	return 0;
}

static int http_on_again(sd_event_source *source, void *userdata)
{
	(void) source;
	run(userdata);
	return 0;
}

static int http_on_later(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void) source;
	(void) usec;
	run(userdata);
	return 0;
}

static int add_sources(struct http *http)
{
	sd_event *event = http->door->server->event;
	const union MHD_DaemonInfo *info =
			MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	int r;

	if (!info)
		return -ENOTSUP;
	r = sd_event_add_io(event, &http->ready, info->epoll_fd, EPOLLIN, http_on_ready, http);
	if (r < 0)
		return r;
	r = sd_event_add_defer(event, &http->again, http_on_again, http);
	if (r < 0)
		return r;
	(void) sd_event_source_set_enabled(http->again, SD_EVENT_ONESHOT);
	r = sd_event_add_time(event, &http->later, CLOCK_BOOTTIME, 0, 0, http_on_later, http);
	if (r < 0)
		return r;
	(void) sd_event_source_set_enabled(http->later, SD_EVENT_OFF);
	r = sd_event_add_time(event, &http->rested, CLOCK_BOOTTIME, 0, 0, http_on_rested, http);
	if (r < 0)
		return r;
	return sd_event_source_set_enabled(http->rested, SD_EVENT_OFF);
}

void http_init(struct http *http)
{
	*http = (struct http){ .reserve = -1 };
}

int http_start(struct http *http, struct door *door)
{
	/* Processes of one machine share its clock: no Date for them. */
	const unsigned date = door->which == DOOR_HTTP ? 0 : MHD_USE_SUPPRESS_DATE_NO_CLOCK;

	http->door = door;
	http->daemon = MHD_start_daemon(
			MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG | date, 0,
			NULL, NULL, http_on_request, door, MHD_OPTION_EXTERNAL_LOGGER, http_on_log,
			door, MHD_OPTION_LISTEN_SOCKET, door->fd, MHD_OPTION_CONNECTION_LIMIT,
			(unsigned) (door_limit(door->which) + HTTP_OVER_MAX),
			MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t) HTTP_CONNECTION_MEMORY,
			MHD_OPTION_URI_LOG_CALLBACK, http_on_uri, door,
			MHD_OPTION_UNESCAPE_CALLBACK, http_on_escape, door,
			MHD_OPTION_NOTIFY_CONNECTION, http_on_connection, door,
			MHD_OPTION_NOTIFY_COMPLETED, http_on_completed, door, MHD_OPTION_END);
	if (!http->daemon)
		return -ENOMEM;
	if (door->which == DOOR_ADMIN)
		http->reserve = spare_descriptor();
	return add_sources(http);
}

void http_quiesce(struct http *http)
{
	if (!http->daemon)
		return;
	(void) MHD_quiesce_daemon(http->daemon);
	http_run_soon(http);
}

void http_stop(struct http *http)
{
	if (http->daemon) {
		/* Nothing may be suspended when libmicrohttpd stops. */
		reload_waits_cancel(http->door->server, http->door);
		waits_cancel(&http->door->server->first_waits, http->door);
		waits_cancel(&http->door->server->drain_waits, http->door);
		waits_cancel(&http->door->server->registration_waits, http->door);
		streams_cut(http->door->server, http->door);
		(void) MHD_run(http->daemon);
	}
	http->ready = sd_event_source_disable_unref(http->ready);
	http->again = sd_event_source_disable_unref(http->again);
	http->later = sd_event_source_disable_unref(http->later);
	http->rested = sd_event_source_disable_unref(http->rested);
	if (http->reserve >= 0)
		(void) close(take_fd(http->reserve));
	if (http->daemon)
		MHD_stop_daemon(http->daemon);
	http->daemon = NULL;
}
