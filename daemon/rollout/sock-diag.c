/* Open TCP connections, from one filtered dump of inet_diag.
 *
 * The request is the one that knows no address family (TCPDIAG_GETSOCK), for which the kernel walks
 * its table once for IPv4 and IPv6. The filter is bytecode: for each port `source port is P` or
 * `destination port is P`, and accept. A message may have up to 32 kB once the socket has seen a
 * big buffer, and a smaller one would lose the rest silently. */

#include "sock-diag.h"

#include <assert.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>

#include "ownership.h"
#include "probe-sockets.h"

#define RECEIVE_SIZE        65536
#define RECEIVE_TIMEOUT_SEC 5

/* The kernel's numbers (net/tcp_states.h, not exported): glibc's go no further than CLOSING. */
enum {
	TCP_STATE_ESTABLISHED = 1,
	TCP_STATE_SYN_SENT,
	TCP_STATE_SYN_RECV,
	TCP_STATE_FIN_WAIT1,
	TCP_STATE_FIN_WAIT2,
	TCP_STATE_TIME_WAIT,
	TCP_STATE_CLOSE,
	TCP_STATE_CLOSE_WAIT,
	TCP_STATE_LAST_ACK,
	TCP_STATE_LISTEN,
	TCP_STATE_CLOSING,
};
#define COUNTED_STATES                                                                       \
	(1u << TCP_STATE_ESTABLISHED | 1u << TCP_STATE_SYN_SENT | 1u << TCP_STATE_SYN_RECV | \
			1u << TCP_STATE_FIN_WAIT1 | 1u << TCP_STATE_FIN_WAIT2 |              \
			1u << TCP_STATE_CLOSE_WAIT | 1u << TCP_STATE_LAST_ACK |              \
			1u << TCP_STATE_CLOSING)

struct place {
	struct sock_diag_address address;
	uint16_t port;
	uint32_t target;
};

/* Without padding, so that keys compare by their bytes. */
struct connection {
	uint32_t target;
	uint8_t client[16];
	uint8_t port[2];
	uint8_t unused[2];
};

struct sock_diag_sample {
	struct connection *connections; /* sorted, each once */
	size_t count, capacity;
};

struct diag {
	struct place *places; /* sorted by port */
	size_t count;
	struct sock_diag_sample *sample;
	struct sock_diag_sample *checks; /* those that are usherd's own checks */
	uint32_t *inodes;                /* of its sockets; sorted */
	size_t inode_count;
};

struct sock_diag_sample *sock_diag_sample_free(struct sock_diag_sample *sample)
{
	if (sample)
		free(sample->connections);
	free(sample);
	return NULL;
}
DEFINE_CLEANUP(struct sock_diag_sample, sock_diag_sample_free);

/* ---- where ---- */

static void address_from_ipv4(const void *ipv4, struct sock_diag_address *ret)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	memcpy(ret->bytes, mapped, sizeof(mapped));
	memcpy(ret->bytes + 12, ipv4, 4);
}

static bool address_from_socket(const struct sockaddr *sa, struct sock_diag_address *ret)
{
	if (sa->sa_family == AF_INET)
		address_from_ipv4(&((const struct sockaddr_in *) (const void *) sa)->sin_addr, ret);
	else if (sa->sa_family == AF_INET6)
		memcpy(ret->bytes, &((const struct sockaddr_in6 *) (const void *) sa)->sin6_addr,
				16);
	else
		return false;
	return true;
}

static void address_from_diag(
		uint8_t family, const uint32_t words[4], struct sock_diag_address *ret)
{
	if (family == AF_INET)
		address_from_ipv4(words, ret);
	else
		memcpy(ret->bytes, words, 16);
}

static void resolve(struct sock_diag_target *target)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
	struct addrinfo *list = NULL;
	int code;

	code = getaddrinfo(target->address, NULL, &hints, &list);
	for (const struct addrinfo *ai = list;
			ai && target->address_count < SOCK_DIAG_ADDRESSES_MAX; ai = ai->ai_next)
		if (address_from_socket(ai->ai_addr, &target->addresses[target->address_count]))
			target->address_count++;
	if (list)
		freeaddrinfo(list);
	if (target->address_count > 0)
		return;

	target->code = -EHOSTUNREACH;
	(void) snprintf(target->fault, sizeof(target->fault), "cannot resolve %.60s: %.40s",
			target->address, code ? gai_strerror(code) : "it has no address");
}

static int place_compare(const void *a, const void *b)
{
	const struct place *left = a, *right = b;

	return (left->port > right->port) - (left->port < right->port);
}

static struct place *find_places(struct sock_diag_target *targets, size_t count, size_t *ret_count)
{
	struct place *places = calloc(count * SOCK_DIAG_ADDRESSES_MAX, sizeof(*places));
	size_t found = 0;

	if (!places)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		targets[i].code = 0;
		targets[i].open = 0;
		if (targets[i].address_count == 0)
			resolve(&targets[i]);
		for (size_t k = 0; k < targets[i].address_count; k++)
			places[found++] = (struct place){ targets[i].addresses[k], targets[i].port,
				(uint32_t) i };
	}
	qsort(places, found, sizeof(*places), place_compare);
	*ret_count = found;
	return places;
}

/* ---- the request ---- */

/* The kernel's struct inet_diag_hostcond without its addresses, of which a condition on a port has
 * none; nothing may follow that type. */
struct port_condition {
	uint8_t family;
	uint8_t prefix_len;
	int port;
};
static_assert(sizeof(struct port_condition) == sizeof(struct inet_diag_hostcond),
		"as the kernel reads it");
static_assert(offsetof(struct port_condition, port) == offsetof(struct inet_diag_hostcond, port),
		"as the kernel reads it");

/* One condition on a port and, where it holds, a jump to the end, which accepts. Where the last one
 * does not hold, it jumps beyond the end, which refuses. */
struct condition {
	struct inet_diag_bc_op op;
	struct port_condition host;
	struct inet_diag_bc_op accept;
};

static struct condition condition_on(unsigned char code, uint16_t port, size_t left)
{
	const size_t own = sizeof(struct inet_diag_bc_op) + sizeof(struct port_condition);

	return (struct condition){
		.op = { .code = code, .yes = (unsigned char) own, .no = sizeof(struct condition) },
		.host = { .family = AF_UNSPEC, .port = port },
		.accept = { .code = INET_DIAG_BC_JMP,
				.yes = sizeof(struct inet_diag_bc_op),
				.no = (unsigned short) (left - own) },
	};
}

/* Two conditions for each port; the last jump is not needed and left out. Returns the bytes. */
static size_t write_filter(const struct diag *diag, struct condition *conditions)
{
	size_t count = 0, size, written = 0;

	for (size_t i = 0; i < diag->count; i++)
		if (i == 0 || diag->places[i].port != diag->places[i - 1].port)
			count += 2;
	size = count * sizeof(*conditions) - sizeof(struct inet_diag_bc_op);

	for (size_t i = 0; i < diag->count; i++) {
		uint16_t port = diag->places[i].port;

		if (i > 0 && port == diag->places[i - 1].port)
			continue;
		conditions[written] = condition_on(
				INET_DIAG_BC_D_COND, port, size - written * sizeof(*conditions));
		written++;
		conditions[written] = condition_on(INET_DIAG_BC_S_COND, port,
				written + 1 == count ? sizeof(*conditions)
						     : size - written * sizeof(*conditions));
		written++;
	}
	return size;
}

static int send_request(int fd, const struct diag *diag)
{
	_Static_assert(sizeof(struct condition) == 16, "conditions follow each other in a program");
	autofree struct condition *conditions = calloc(2 * diag->count + 1, sizeof(*conditions));
	struct {
		struct nlmsghdr header;
		struct inet_diag_req body;
		struct rtattr attribute;
	} request = {
		.header = { .nlmsg_type = TCPDIAG_GETSOCK,
				.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
		.body = { .idiag_family = AF_INET, .idiag_states = COUNTED_STATES },
		.attribute = { .rta_type = INET_DIAG_REQ_BYTECODE },
	};
	struct iovec parts[2];
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
	size_t size;

	assert(diag->count > 0);
	if (!conditions)
		return -ENOMEM;
	size = write_filter(diag, conditions);
	request.attribute.rta_len = (unsigned short) RTA_LENGTH(size);
	request.header.nlmsg_len = (uint32_t) (sizeof(request) + size);
	parts[0] = (struct iovec){ &request, sizeof(request) };
	parts[1] = (struct iovec){ conditions, size };

	return sendmsg(fd, &message, 0) < 0 ? -errno : 0;
}

/* ---- the answer ---- */

static bool counts(const struct inet_diag_msg *socket, bool client)
{
	/* the FIN itself takes one number */
	bool unacknowledged = socket->idiag_wqueue > 1;

	switch (socket->idiag_state) {
	case TCP_STATE_ESTABLISHED:
	case TCP_STATE_SYN_SENT:
	case TCP_STATE_SYN_RECV:
		return true;
	case TCP_STATE_FIN_WAIT1:
		return client || unacknowledged;
	case TCP_STATE_FIN_WAIT2:
		return client && socket->idiag_inode != 0;
	case TCP_STATE_CLOSE_WAIT:
		return !client;
	case TCP_STATE_LAST_ACK:
	case TCP_STATE_CLOSING:
		return unacknowledged;
	default:
		return false;
	}
}

static int sample_add(struct sock_diag_sample *sample, uint32_t target,
		const struct sock_diag_address *client, uint16_t port)
{
	struct connection *c;

	if (sample->count == SOCK_DIAG_CONNECTIONS_MAX)
		return -E2BIG;
	if (sample->count == sample->capacity) {
		size_t capacity = sample->capacity ? 2 * sample->capacity : 64;

		c = reallocarray(sample->connections, capacity, sizeof(*c));
		if (!c)
			return -ENOMEM;
		sample->connections = c;
		sample->capacity = capacity;
	}
	c = &sample->connections[sample->count++];
	*c = (struct connection){ .target = target };
	memcpy(c->client, client->bytes, sizeof(c->client));
	memcpy(c->port, &port, sizeof(c->port));
	return 0;
}

/* A socket with the endpoint at one end: add the connection for each target that it belongs to. */
static int take_end(struct diag *diag, const struct inet_diag_msg *socket, bool client)
{
	const struct inet_diag_sockid *id = &socket->id;
	struct sock_diag_address server, other;
	bool own = client &&
			probe_sockets_have(diag->inodes, diag->inode_count, socket->idiag_inode);
	int r = 0;

	if (!counts(socket, client))
		return 0;
	address_from_diag(socket->idiag_family, client ? id->idiag_dst : id->idiag_src, &server);
	address_from_diag(socket->idiag_family, client ? id->idiag_src : id->idiag_dst, &other);

	for (size_t i = 0; i < diag->count && r >= 0; i++)
		if (htons(diag->places[i].port) == (client ? id->idiag_dport : id->idiag_sport) &&
				memcmp(&diag->places[i].address, &server, sizeof(server)) == 0)
			r = sample_add(own ? diag->checks : diag->sample, diag->places[i].target,
					&other, client ? id->idiag_sport : id->idiag_dport);
	return r;
}

/* > 0: that was all. */
static int take_messages(struct diag *diag, char *buffer, size_t size)
{
	size_t left = size;
	int r = 0;

	for (struct nlmsghdr *h = (struct nlmsghdr *) (void *) buffer; NLMSG_OK(h, left) && r >= 0;
			h = NLMSG_NEXT(h, left)) {
		const struct inet_diag_msg *socket = NLMSG_DATA(h);

		if (h->nlmsg_type == NLMSG_DONE)
			return 1;
		if (h->nlmsg_type == NLMSG_ERROR)
			return ((const struct nlmsgerr *) NLMSG_DATA(h))->error ?: -EPROTO;
		if (h->nlmsg_type != TCPDIAG_GETSOCK ||
				h->nlmsg_len < NLMSG_LENGTH(sizeof(*socket)))
			continue;

		r = take_end(diag, socket, true);
		if (r >= 0)
			r = take_end(diag, socket, false);
	}
	return r;
}

static int receive(struct diag *diag, int fd)
{
	autofree char *buffer = malloc(RECEIVE_SIZE);
	int r = 0;

	if (!buffer)
		return -ENOMEM;
	while (r == 0) {
		ssize_t size = recv(fd, buffer, RECEIVE_SIZE, MSG_TRUNC);

		if (size < 0 && errno == EINTR)
			continue;
		if (size < 0)
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
		if ((size_t) size > RECEIVE_SIZE)
			return -EMSGSIZE;
		/* Only now: each check that this part of the answer may show has been noted. */
		diag->inode_count = probe_sockets_copy(diag->inodes);
		r = take_messages(diag, buffer, (size_t) size);
	}
	return r;
}

static int connection_compare(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct connection));
}

static void sample_sort(struct sock_diag_sample *sample)
{
	if (sample->count > 0)
		qsort(sample->connections, sample->count, sizeof(*sample->connections),
				connection_compare);
}

static bool sample_has(const struct sock_diag_sample *sample, const struct connection *c)
{
	return sample->count > 0 &&
			bsearch(c, sample->connections, sample->count, sizeof(*c),
					connection_compare);
}

/* Sort, and leave each connection once: from both ends, and by each of a target's names; and none
 * of the checks', as the server's end shows them. */
static void sample_settle(struct sock_diag_sample *sample, struct sock_diag_sample *checks,
		struct sock_diag_target *targets)
{
	size_t kept = 0;

	sample_sort(sample);
	sample_sort(checks);
	for (size_t i = 0; i < sample->count; i++) {
		struct connection c = sample->connections[i];

		if (kept > 0 && connection_compare(&sample->connections[kept - 1], &c) == 0)
			continue;
		if (sample_has(checks, &c))
			continue;
		sample->connections[kept++] = c;
		targets[c.target].open++;
	}
	sample->count = kept;
}

static int dump(struct diag *diag)
{
	struct timeval timeout = { .tv_sec = RECEIVE_TIMEOUT_SEC };
	autoclose int fd = -1;
	int r;

	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) < 0)
		return -errno;

	r = send_request(fd, diag);
	return r < 0 ? r : receive(diag, fd);
}

int sock_diag_count(struct sock_diag_target *targets, size_t count, struct sock_diag_sample **ret,
		struct usher_error *reterr)
{
	cleanup(sock_diag_sample_freep) struct sock_diag_sample *sample = NULL;
	cleanup(sock_diag_sample_freep) struct sock_diag_sample *checks = NULL;
	autofree struct place *places = NULL;
	autofree uint32_t *inodes = NULL;
	size_t place_count;
	int r = 0;

	assert(count > 0);
	if (count > SOCK_DIAG_TARGETS_MAX)
		return usher_error_set(reterr, -E2BIG, "more than %d endpoints to count",
				SOCK_DIAG_TARGETS_MAX);

	sample = calloc(1, sizeof(*sample));
	checks = calloc(1, sizeof(*checks));
	inodes = calloc(PROBE_SOCKETS_MAX, sizeof(*inodes));
	places = find_places(targets, count, &place_count);
	if (!sample || !checks || !inodes || !places)
		return -ENOMEM;
	if (place_count > 0)
		r = dump(&(struct diag){ .places = places,
				.count = place_count,
				.sample = sample,
				.checks = checks,
				.inodes = inodes });
	if (r < 0)
		return usher_error_set(reterr,
				r == -ENOENT || r == -EOPNOTSUPP ? -EPROTONOSUPPORT : r,
				"cannot list TCP connections (sock_diag): %s", strerrordesc_np(-r));
	sample_settle(sample, checks, targets);
	*ret = take(sample);
	return 0;
}

/* The first connection of a target. */
static size_t sample_seek(const struct sock_diag_sample *sample, size_t target)
{
	size_t low = 0, high = sample->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		/* keys begin with the target in host order, and sort by bytes */
		if (memcmp(&sample->connections[middle].target, &(uint32_t){ (uint32_t) target },
				    sizeof(uint32_t)) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

size_t sock_diag_count_new(const struct sock_diag_sample *sample, size_t target,
		const struct sock_diag_sample *before, size_t before_target)
{
	size_t i, k, count = 0;

	if (!before)
		return 0;
	k = sample_seek(before, before_target);
	for (i = sample_seek(sample, target);
			i < sample->count && sample->connections[i].target == target; i++) {
		const struct connection *c = &sample->connections[i];
		struct connection key = *c;

		key.target = (uint32_t) before_target;
		while (k < before->count && before->connections[k].target == before_target &&
				connection_compare(&before->connections[k], &key) < 0)
			k++;
		if (k == before->count || before->connections[k].target != before_target ||
				connection_compare(&before->connections[k], &key) != 0)
			count++;
	}
	return count;
}
