#pragma once

/* A real server on real sockets in a folder of its own, over a directory made by hand, and a client
 * that speaks to it while it turns the server's loop itself: no threads, so nothing to wait for. */

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "fake-core.h"
#include "server.h"

struct serving {
	char folder[64], node[8];
	char consumer[108], admin[108];
	sd_event *event;
	struct server *server;
	struct config config;
};

static inline void serving_turn(struct serving *s)
{
	assert_ok(sd_event_run(s->event, 1000));
}

/* Turn until nothing is left to do. */
static inline void serving_settle(struct serving *s)
{
	for (int idle = 0; idle < 3;)
		idle = sd_event_run(s->event, 2000) > 0 ? 0 : idle + 1;
}

static inline void serving_start(struct serving *s)
{
	int none[DOOR_MAX] = { -1, -1, -1 };
	struct usher_error error = {};

	*s = (struct serving){};
	(void) snprintf(s->folder, sizeof(s->folder), "/tmp/usher-serve-XXXXXX");
	assert_non_null(mkdtemp(s->folder));
	(void) snprintf(s->consumer, sizeof(s->consumer), "%s/usher.sock", s->folder);
	(void) snprintf(s->admin, sizeof(s->admin), "%s/admin.sock", s->folder);
	s->config.consumer = (struct listen_config){ .socket = s->consumer, .mode = 0666 };
	s->config.admin = (struct listen_config){ .socket = s->admin, .mode = 0660 };
	s->config.node_name = s->node;
	(void) snprintf(s->node, sizeof(s->node), "node-7");
	fake_directory.config = s->config;
	assert_ok(sd_event_new(&s->event));
	assert_ok(server_new(s->event, &fake_directory, &fake_rollout, &s->server));
	server_set_registrations(s->server, &fake_registrations);
	if (server_listen(s->server, &s->config, none, &error) < 0)
		fail_msg("%s", error.text);
}

static inline void serving_stop(struct serving *s)
{
	server_free(s->server);
	sd_event_unref(s->event);
	assert_int_equal(rmdir(s->folder), 0);
	fake_clear();
	fake_rollout = (struct rollout){};
	fake_registrations = (struct registrations){};
}

static inline int client_connect(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert_true(fd >= 0);
	(void) snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	assert_int_equal(connect(fd, (struct sockaddr *) &address, sizeof(address)), 0);
	return fd;
}

static inline void client_send(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t) strlen(text));
}

/* What comes until `wanted` is in it, turning the loop meanwhile. The text is static. */
static inline char *client_read_until(struct serving *s, int fd, const char *wanted)
{
	static char text[1024 * 1024];
	size_t length = 0;

	for (int turns = 0; turns < 5000; turns++) {
		ssize_t n = recv(fd, text + length, sizeof(text) - 1 - length, 0);

		if (n == 0)
			break;
		if (n > 0) {
			length += (size_t) n;
			text[length] = '\0';
			if (strstr(text, wanted))
				return text;
			continue;
		}
		serving_turn(s);
	}
	text[length] = '\0';
	fail_msg("\"%s\" did not come; this did: %s", wanted, text);
	return NULL;
}

/* One call on an open connection; the whole answer, with its head. */
static inline const char *client_call(struct serving *s, int fd, const char *method,
		const char *path, const char *headers, const char *body)
{
	char request[70000 * 2];
	char *answer;
	const char *end, *length;
	size_t wanted;

	(void) snprintf(request, sizeof(request),
			"%s %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: %zu\r\n\r\n%s", method,
			path, headers, strlen(body), body);
	for (size_t sent = 0; sent < strlen(request);) {
		ssize_t n = send(fd, request + sent, strlen(request) - sent, MSG_NOSIGNAL);

		if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
			break;
		if (n > 0)
			sent += (size_t) n;
		else
			serving_turn(s);
	}
	answer = client_read_until(s, fd, "\r\n\r\n");
	end = strstr(answer, "\r\n\r\n") + 4;
	length = strstr(answer, "Content-Length: ");
	if (!length || strcmp(method, "HEAD") == 0)
		return answer;
	wanted = (size_t) (end - answer) + strtoul(length + 16, NULL, 10);
	for (size_t have = strlen(answer); have < wanted;) {
		ssize_t n = recv(fd, answer + have, wanted - have, 0);

		if (n > 0)
			answer[have += (size_t) n] = '\0';
		else if (n == 0)
			break;
		else
			serving_turn(s);
	}
	return answer;
}

static inline const char *call(struct serving *s, const char *socket_path, const char *method,
		const char *path, const char *body)
{
	int fd = client_connect(socket_path);
	const char *answer = client_call(s, fd, method, path, "", body);

	(void) close(fd);
	return answer;
}

static inline void check_has(const char *text, const char *part, bool wanted)
{
	if (!strstr(text, part) == wanted)
		fail_msg("\"%s\" is %s: %s", part, wanted ? "not in" : "in", text);
}

#define assert_has(text, part)     check_has(text, part, true)
#define assert_has_not(text, part) check_has(text, part, false)
