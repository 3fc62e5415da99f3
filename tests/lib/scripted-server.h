#pragma once

/* A server that answers as a test has it: bytes as they are, at once, in pieces, or not at all. In
 * a thread of its own, one more for each connection; on loopback, at a port that the kernel
 * chooses. */

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test.h"

#define SCRIPTED_REQUEST_MAX 65536

struct scripted_server;

struct scripted_connection {
	struct scripted_server *server;
	int fd;
	unsigned number;                    /* of the connection, from 0 */
	unsigned requests;                  /* on this connection, with this one */
	char request[SCRIPTED_REQUEST_MAX]; /* the head of this one, and its body as far as it came
					       along */
};

/* Answer one request. False: close the connection. */
typedef bool (*scripted_answer)(struct scripted_connection *c);

struct scripted_server {
	int fd;
	uint16_t port;
	char url[64];
	scripted_answer answer;
	void *userdata;
	pthread_t thread;
	atomic_uint connections, open, most_open, requests;
	int stop[2]; /* a pipe that is closed at the end: whoever hangs looks at it */
	atomic_uint running;
};

static inline void scripted_send(struct scripted_connection *c, const char *bytes, size_t size)
{
	while (size > 0) {
		ssize_t n = send(c->fd, bytes, size, MSG_NOSIGNAL);

		if (n <= 0)
			return;
		bytes += n;
		size -= (size_t) n;
	}
}

static inline void scripted_say(struct scripted_connection *c, const char *text)
{
	scripted_send(c, text, strlen(text));
}

/* A whole answer with its length. */
static inline bool scripted_reply(struct scripted_connection *c, const char *status,
		const char *headers, const char *body)
{
	char head[1024];

	(void) snprintf(head, sizeof(head), "HTTP/1.1 %s\r\nContent-Length: %zu\r\n%s\r\n", status,
			strlen(body), headers);
	scripted_say(c, head);
	scripted_say(c, body);
	return true;
}

/* Until the other side goes, or the server is stopped. */
static inline bool scripted_hang(struct scripted_connection *c)
{
	struct pollfd fds[] = { { .fd = c->fd, .events = POLLIN | POLLRDHUP },
		{ .fd = c->server->stop[0], .events = POLLIN } };

	(void) poll(fds, 2, 60000);
	return false;
}

/* One head, up to the empty line. */
static inline bool scripted_read(struct scripted_connection *c)
{
	size_t size = 0;

	while (size + 1 < sizeof(c->request)) {
		struct pollfd fds[] = { { .fd = c->fd, .events = POLLIN },
			{ .fd = c->server->stop[0], .events = POLLIN } };
		ssize_t n;

		if (poll(fds, 2, 60000) <= 0 || fds[1].revents)
			return false;
		n = recv(c->fd, c->request + size, sizeof(c->request) - 1 - size, 0);
		if (n <= 0)
			return false;
		size += (size_t) n;
		c->request[size] = '\0';
		if (strstr(c->request, "\r\n\r\n"))
			return true;
	}
	return false;
}

static inline void *scripted_serve_one(void *userdata)
{
	struct scripted_connection *c = userdata;
	struct scripted_server *s = c->server;

	while (scripted_read(c)) {
		c->requests++;
		atomic_fetch_add(&s->requests, 1);
		if (!s->answer(c))
			break;
	}
	(void) close(c->fd);
	atomic_fetch_sub(&s->open, 1);
	free(c);
	atomic_fetch_sub(&s->running, 1);
	return NULL;
}

static inline void *scripted_serve(void *userdata)
{
	struct scripted_server *s = userdata;

	for (;;) {
		struct pollfd fds[] = { { .fd = s->fd, .events = POLLIN },
			{ .fd = s->stop[0], .events = POLLIN } };
		struct scripted_connection *c;
		pthread_t thread;
		unsigned open;

		if (poll(fds, 2, -1) < 0 || fds[1].revents)
			return NULL;
		c = calloc(1, sizeof(*c));
		if (!c)
			return NULL;
		c->server = s;
		c->fd = accept(s->fd, NULL, NULL);
		(void) setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
		c->number = atomic_fetch_add(&s->connections, 1);
		open = atomic_fetch_add(&s->open, 1) + 1;
		if (open > atomic_load(&s->most_open))
			atomic_store(&s->most_open, open);
		atomic_fetch_add(&s->running, 1);
		if (pthread_create(&thread, NULL, scripted_serve_one, c) != 0)
			return NULL;
		(void) pthread_detach(thread);
	}
}

static inline void scripted_server_start(
		struct scripted_server *s, scripted_answer answer, void *userdata)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(address);

	*s = (struct scripted_server){ .answer = answer, .userdata = userdata };
	s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(s->fd >= 0);
	assert_int_equal(bind(s->fd, (struct sockaddr *) &address, size), 0);
	assert_int_equal(listen(s->fd, 1024), 0);
	assert_int_equal(getsockname(s->fd, (struct sockaddr *) &address, &size), 0);
	s->port = ntohs(address.sin_port);
	(void) snprintf(s->url, sizeof(s->url), "http://127.0.0.1:%u", s->port);
	assert_int_equal(pipe(s->stop), 0);
	assert_int_equal(pthread_create(&s->thread, NULL, scripted_serve, s), 0);
}

static inline void scripted_server_stop(struct scripted_server *s)
{
	(void) close(s->stop[1]);
	(void) pthread_join(s->thread, NULL);
	while (atomic_load(&s->running) > 0)
		(void) poll(NULL, 0, 1);
	(void) close(s->stop[0]);
	(void) close(s->fd);
}
