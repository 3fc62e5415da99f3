/* The floor of an API over a Unix socket: an epoll loop that reads requests of a known size and
 * answers each with the same bytes, without looking at either.
 *
 *     bench-echo SOCKET REQUEST-BYTES RESPONSE-FILE
 *
 * Says "ready" on standard output once it listens; ends when its standard input does. */

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define EVENTS_MAX      256
#define CONNECTIONS_MAX 1024 /* descriptors below it */

static size_t request_size;
static char *response;
static size_t response_size;
static size_t unread[CONNECTIONS_MAX]; /* by descriptor: bytes of the request that are to come */

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "bench-echo: %s: %s\n", what, strerror(errno)); /* NOLINT */
	exit(1);                                                        /* NOLINT */
}

static void load_response(const char *path)
{
	FILE *file = fopen(path, "re");
	struct stat st;

	if (!file || fstat(fileno(file), &st) < 0)
		die(path);
	response_size = (size_t) st.st_size;
	response = malloc(response_size);
	if (!response || fread(response, 1, response_size, file) != response_size)
		die(path);
	(void) fclose(file);
}

static int listen_at(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	(void) snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (fd < 0 || bind(fd, (const struct sockaddr *) &address, sizeof(address)) < 0 ||
			listen(fd, SOMAXCONN) < 0)
		die(path);

	return fd;
}

static void watch(int epoll_fd, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
		die("epoll_ctl");
}

static void accept_one(int epoll_fd, int listen_fd)
{
	int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		return;
	if (fd >= CONNECTIONS_MAX) {
		(void) close(fd);
		return;
	}
	unread[fd] = request_size;
	watch(epoll_fd, fd);
}

static void answer(int fd)
{
	for (size_t sent = 0; sent < response_size;) {
		ssize_t size = send(fd, response + sent, response_size - sent, MSG_NOSIGNAL);

		if (size <= 0)
			return;
		sent += (size_t) size;
	}
}

static void serve(int fd)
{
	char buffer[4096];
	ssize_t size = recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT);

	if (size <= 0) {
		if (size == 0 || errno != EAGAIN)
			(void) close(fd);
		return;
	}
	for (size_t left = (size_t) size; left > 0;) {
		size_t part = left < unread[fd] ? left : unread[fd];

		left -= part;
		unread[fd] -= part;
		if (unread[fd] > 0)
			continue;
		answer(fd);
		unread[fd] = request_size;
	}
}

int main(int argc, char **argv)
{
	struct epoll_event events[EVENTS_MAX];
	int epoll_fd, listen_fd;

	if (argc != 4 || (request_size = strtoul(argv[2], NULL, 10)) == 0) {
		fprintf(stderr, "usage: bench-echo SOCKET REQUEST-BYTES RESPONSE-FILE\n"); /* NOLINT
											    */
		return 2;
	}
	load_response(argv[3]);
	listen_fd = listen_at(argv[1]);
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_fd < 0)
		die("epoll");
	watch(epoll_fd, listen_fd);
	watch(epoll_fd, STDIN_FILENO);
	(void) puts("ready");
	(void) fflush(stdout);

	for (;;) {
		int count = epoll_wait(epoll_fd, events, EVENTS_MAX, -1);

		for (int i = 0; i < count; i++) {
			if (events[i].data.fd == STDIN_FILENO)
				return 0;
			if (events[i].data.fd == listen_fd)
				accept_one(epoll_fd, listen_fd);
			else
				serve(events[i].data.fd);
		}
	}
}
