#include "lookup.h"

#include <ares.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/epoll.h>

#include "own.h"
#include "retry.h"

#define TRIES  2
#define ROUNDS 4 /* parts of the time: the first server has one of them, then the next is asked */
#define EVENTS 16

struct zk_lookup {
	ares_channel channel;
	int epoll_fd;
	uint64_t until_usec;
	bool is_done;
	int status;
	struct ares_addrinfo *found;
};

bool zk_lookup_is_address(
		const char *host, uint16_t port, struct sockaddr_storage *ret, socklen_t *ret_size)
{
	const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
		.ai_socktype = SOCK_STREAM };
	struct addrinfo *one = NULL;
	char service[8];

	(void) snprintf(service, sizeof(service), "%u", (unsigned) port);
	if (getaddrinfo(host, service, &hints, &one) != 0)
		return false;
	memcpy(ret, one->ai_addr, one->ai_addrlen);
	*ret_size = one->ai_addrlen;
	freeaddrinfo(one);
	return true;
}

/* ---- what c-ares calls ---- */

static void lookup_on_socket(void *data, ares_socket_t fd, int readable, int writable)
{
	const struct zk_lookup *l = data;
	struct epoll_event event = {
		.events = (readable ? EPOLLIN : 0u) | (writable ? EPOLLOUT : 0u), .data.fd = fd
	};

	if (!readable && !writable)
		(void) epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	else if (epoll_ctl(l->epoll_fd, EPOLL_CTL_MOD, fd, &event) < 0)
		(void) epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static void lookup_on_answer(void *data, int status, int timeouts, struct ares_addrinfo *found)
{
	struct zk_lookup *l = data;

	(void) timeouts;
	l->is_done = true;
	l->status = status;
	l->found = found;
}

/* ---- the lookup ---- */

static void ask(struct zk_lookup *l, const char *host, uint16_t port)
{
	const struct ares_addrinfo_hints hints = { .ai_flags = ARES_AI_NUMERICSERV | ARES_AI_NOSORT,
		.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM };
	char service[8];

	(void) snprintf(service, sizeof(service), "%u", (unsigned) port);
	ares_getaddrinfo(l->channel, host, service, &hints, lookup_on_answer, l);
}

struct zk_lookup *zk_lookup_new(
		const char *host, uint16_t port, uint64_t timeout_usec, const char *name_servers)
{
	struct zk_lookup *l = calloc(1, sizeof(*l));
	struct ares_options options = {
		.timeout = (int) (timeout_usec / 1000 / ROUNDS),
		.tries = TRIES,
		.sock_state_cb = lookup_on_socket,
		.sock_state_cb_data = l,
	};

	if (!l)
		return NULL;
	l->until_usec = retry_now_usec() + timeout_usec;
	l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (l->epoll_fd < 0 ||
			ares_init_options(&l->channel, &options,
					ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES |
							ARES_OPT_SOCK_STATE_CB) != ARES_SUCCESS) {
		l->channel = NULL;
		return zk_lookup_free(l);
	}
	if (name_servers && ares_set_servers_ports_csv(l->channel, name_servers) != ARES_SUCCESS)
		return zk_lookup_free(l);
	ask(l, host, port);
	return l;
}

struct zk_lookup *zk_lookup_free(struct zk_lookup *l)
{
	if (!l)
		return NULL;
	if (l->channel)
		ares_destroy(l->channel); /* what is under way comes back first */
	if (l->found)
		ares_freeaddrinfo(l->found);
	own_close(&l->epoll_fd);
	free(l);
	return NULL;
}

int zk_lookup_fd(const struct zk_lookup *l)
{
	return l->epoll_fd;
}

uint64_t zk_lookup_due_usec(const struct zk_lookup *l)
{
	uint64_t now = retry_now_usec(), due;
	struct timeval left;

	if (l->is_done)
		return now;
	if (!ares_timeout(l->channel, NULL, &left))
		return l->until_usec;
	due = now + (uint64_t) left.tv_sec * 1000000 + (uint64_t) left.tv_usec;
	return due < l->until_usec ? due : l->until_usec;
}

void zk_lookup_process(struct zk_lookup *l)
{
	struct epoll_event events[EVENTS];
	int count = epoll_wait(l->epoll_fd, events, EVENTS, 0);

	for (int i = 0; i < count; i++) {
		ares_socket_t fd = events[i].data.fd;
		uint32_t what = events[i].events;

		ares_process_fd(l->channel,
				what & (EPOLLIN | EPOLLERR | EPOLLHUP) ? fd : ARES_SOCKET_BAD,
				what & EPOLLOUT ? fd : ARES_SOCKET_BAD);
	}
	ares_process_fd(l->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	if (!l->is_done && retry_now_usec() >= l->until_usec)
		ares_cancel(l->channel);
}

/* ---- what was found ---- */

static const char *why_not(const struct zk_lookup *l)
{
	if (l->status == ARES_ECANCELLED || l->status == ARES_ETIMEOUT)
		return "no name server says in time which address it has";
	return l->status == ARES_SUCCESS ? "it has no address" : ares_strerror(l->status);
}

int zk_lookup_result(const struct zk_lookup *l, uint64_t random, struct sockaddr_storage *ret,
		socklen_t *ret_size, const char **ret_why)
{
	const struct ares_addrinfo_node *one = l->found ? l->found->nodes : NULL;
	size_t count = 0;

	if (!l->is_done)
		return 0;
	for (const struct ares_addrinfo_node *n = one; n; n = n->ai_next)
		count++;
	if (count == 0) {
		*ret_why = why_not(l);
		return -EHOSTUNREACH;
	}
	for (size_t which = (size_t) (random % count); which > 0; which--)
		one = one->ai_next;
	memcpy(ret, one->ai_addr, (size_t) one->ai_addrlen);
	*ret_size = (socklen_t) one->ai_addrlen;
	return 1;
}
