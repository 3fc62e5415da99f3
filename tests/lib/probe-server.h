#pragma once

/* A server for probes, on a port of its own of 127.0.0.1: answers every request the same, and
 * counts. It runs in a thread. */

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test.h"

#define PROBE_SERVER_CONNECTIONS 128

struct probe_server {
	/* set before it starts */
	const char *answer;    /* NULL: none, ever */
	bool in_bytes;         /* the answer a byte at a time */
	size_t holds_back;     /* so many bytes of an answer come in front of the next */
	bool speaks_first;     /* says the answer when it is connected to, and nothing more */
	bool closes;           /* after the answer */
	bool closes_early;     /* instead of an answer */
	pthread_mutex_t *gate; /* whoever holds it holds the answers back */
	unsigned closes_after; /* so many answers on one connection, before the next; 0: never */
	unsigned mutes_after;  /* as closes_after, but nothing comes any more */

	uint16_t port;
	atomic_uint accepted, asked, ended; /* connections, requests, connections that ended */
	atomic_uint at_gate;                /* whoever holds it sees here who waits for it */
	char request[1024];                 /* the last */

	pthread_t thread;
	int listen_fd, stop_pipe[2];
	struct pollfd polls[2 + PROBE_SERVER_CONNECTIONS];
	unsigned answers[2 + PROBE_SERVER_CONNECTIONS];
	nfds_t poll_count;
};

static inline int probe_server_listen(int backlog, uint16_t *ret_port)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (const struct sockaddr *) &address, size) < 0 ||
			listen(fd, backlog) < 0 ||
			getsockname(fd, (struct sockaddr *) &address, &size) < 0)
		fail_msg("cannot listen: %s", strerror(errno));
	*ret_port = ntohs(address.sin_port);
	return fd;
}

static inline void probe_server_drop(struct probe_server *s, nfds_t i)
{
	(void) close(s->polls[i].fd);
	s->polls[i] = s->polls[--s->poll_count];
	s->answers[i] = s->answers[s->poll_count];
	atomic_fetch_add(&s->ended, 1);
}

/* False: the connection has ended. */
static inline bool probe_server_serve(struct probe_server *s, nfds_t i)
{
	int fd = s->polls[i].fd;
	char request[sizeof(s->request)];
	ssize_t n = recv(fd, request, sizeof(request) - 1, 0);
	size_t size;

	if (n <= 0)
		return false;
	request[n] = '\0';
	(void) memcpy(s->request, request, sizeof(request));
	atomic_fetch_add(&s->asked, 1);
	if (s->gate) {
		atomic_fetch_add(&s->at_gate, 1);
		(void) pthread_mutex_lock(s->gate);
		atomic_fetch_sub(&s->at_gate, 1);
		(void) pthread_mutex_unlock(s->gate);
	}
	if (s->closes_early || (s->closes_after && s->answers[i] == s->closes_after))
		return false;
	if (!s->answer || s->speaks_first || (s->mutes_after && s->answers[i] == s->mutes_after))
		return true;
	size = strlen(s->answer) - s->holds_back;
	if (s->answers[i] > 0 && s->holds_back &&
			send(fd, s->answer + size, s->holds_back, MSG_NOSIGNAL) < 0)
		return false;
	for (size_t sent = 0; sent < size;) {
		size_t piece = s->in_bytes ? 1 : size - sent;

		n = send(fd, s->answer + sent, piece, MSG_NOSIGNAL);
		if (n < 0)
			return false;
		sent += (size_t) n;
	}
	s->answers[i]++;
	return !s->closes;
}

static inline void *probe_server_run(void *userdata)
{
	struct probe_server *s = userdata;

	while (poll(s->polls, s->poll_count, -1) >= 0 && !s->polls[1].revents) {
		for (nfds_t i = s->poll_count; i-- > 2;)
			if (s->polls[i].revents && !probe_server_serve(s, i))
				probe_server_drop(s, i);
		if (s->polls[0].revents && s->poll_count < 2 + PROBE_SERVER_CONNECTIONS) {
			int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC);

			if (fd < 0)
				continue;
			s->polls[s->poll_count] = (struct pollfd){ .fd = fd, .events = POLLIN };
			s->answers[s->poll_count++] = 0;
			atomic_fetch_add(&s->accepted, 1);
			if (s->speaks_first)
				(void) send(fd, s->answer, strlen(s->answer), MSG_NOSIGNAL);
		}
	}
	while (s->poll_count > 2)
		probe_server_drop(s, s->poll_count - 1);
	return NULL;
}

static inline void probe_server_start(struct probe_server *s)
{
	s->listen_fd = probe_server_listen(512, &s->port);
	assert_int_equal(pipe(s->stop_pipe), 0);
	s->polls[0] = (struct pollfd){ .fd = s->listen_fd, .events = POLLIN };
	s->polls[1] = (struct pollfd){ .fd = s->stop_pipe[0], .events = POLLIN };
	s->poll_count = 2;
	assert_int_equal(pthread_create(&s->thread, NULL, probe_server_run, s), 0);
}

static inline void probe_server_stop(struct probe_server *s)
{
	(void) close(s->stop_pipe[1]); /* poll sees the end */
	(void) pthread_join(s->thread, NULL);
	(void) close(s->stop_pipe[0]);
	(void) close(s->listen_fd);
}
