#include "interfaces.h"

#include <assert.h>
#include <errno.h>
#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "clock.h"
#include "log.h"
#include "ownership.h"

#define RECEIVE_SIZE        65536
#define RECEIVE_TIMEOUT_SEC 1
#define MESSAGE_UNREADABLE  "7b4a7c2f5f0f4b52b0f3d1c2a6f1e9a1"

struct interfaces {
	sd_event_source *watch, *timer;
	void (*changed)(void *userdata);
	void *userdata;
	struct interface_table table;
	int error; /* of the last look; 0: it went well */
};

/* ---- the table ---- */

void interface_table_done(struct interface_table *table)
{
	free(table->items);
	*table = (struct interface_table){};
}

bool interface_table_equal(const struct interface_table *a, const struct interface_table *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++) {
		const struct interface_address *x = &a->items[i], *y = &b->items[i];

		if (strcmp(x->interface, y->interface) != 0 || x->index != y->index ||
				x->is_up != y->is_up || x->is_loopback != y->is_loopback ||
				x->is_ipv6 != y->is_ipv6 || x->is_tried != y->is_tried ||
				x->is_deprecated != y->is_deprecated ||
				x->is_temporary != y->is_temporary ||
				memcmp(x->bytes, y->bytes, sizeof(x->bytes)) != 0)
			return false;
	}
	return true;
}

static int add(struct interface_table *table, const struct interface_address *a)
{
	if (table->count == INTERFACES_ADDRESSES_MAX)
		return -E2BIG;
	if (table->count == table->capacity) {
		size_t capacity = table->capacity ? 2 * table->capacity : 32;
		struct interface_address *grown =
				reallocarray(table->items, capacity, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		table->items = grown;
		table->capacity = capacity;
	}
	table->items[table->count++] = *a;
	return 0;
}

void interface_table_settle(struct interface_table *table)
{
	size_t kept = 0;

	for (size_t i = 0; i < table->count; i++)
		if (!table->items[i].is_link)
			table->items[kept++] = table->items[i];
	table->count = kept;
}

/* ---- messages ---- */

struct attributes {
	struct rtattr *of[IFA_MAX > IFLA_IFNAME ? IFA_MAX + 1 : IFLA_IFNAME + 1];
};

/* The kernel's macros go past the end where the last one is not padded. */
static size_t step(size_t length, size_t left)
{
	size_t padded = NLMSG_ALIGN(length);

	return padded < left ? padded : left;
}

static void find_attributes(struct rtattr *first, size_t left, struct attributes *ret)
{
	struct rtattr *a = first;

	*ret = (struct attributes){};
	while (left >= sizeof(*a) && a->rta_len >= sizeof(*a) && a->rta_len <= left) {
		size_t length = step(a->rta_len, left);

		if (a->rta_type < ELEMENTS(ret->of))
			ret->of[a->rta_type] = a;
		a = (void *) ((char *) a + length);
		left -= length;
	}
}

static int take_link(struct interface_table *table, struct nlmsghdr *message)
{
	struct ifinfomsg *link = NLMSG_DATA(message);
	struct interface_address a = { .is_link = true };
	struct attributes attributes;
	struct rtattr *name;

	if (message->nlmsg_len < NLMSG_LENGTH(sizeof(*link)))
		return -EBADMSG;
	find_attributes(IFLA_RTA(link), message->nlmsg_len - NLMSG_LENGTH(sizeof(*link)),
			&attributes);
	name = attributes.of[IFLA_IFNAME];
	if (!name || RTA_PAYLOAD(name) == 0 || RTA_PAYLOAD(name) > sizeof(a.interface))
		return -EBADMSG;
	memcpy(a.interface, RTA_DATA(name), RTA_PAYLOAD(name));
	a.interface[sizeof(a.interface) - 1] = '\0';
	a.index = (unsigned) link->ifi_index;
	a.is_up = link->ifi_flags & IFF_UP;
	a.is_loopback = link->ifi_flags & IFF_LOOPBACK;
	return add(table, &a);
}

static const struct interface_address *find_link(
		const struct interface_table *table, unsigned index)
{
	for (size_t i = 0; i < table->count; i++)
		if (table->items[i].is_link && table->items[i].index == index)
			return &table->items[i];
	return NULL;
}

static void take_flags(
		const struct attributes *attributes, uint32_t flags, struct interface_address *ret)
{
	struct rtattr *more = attributes->of[IFA_FLAGS];

	if (more && RTA_PAYLOAD(more) >= sizeof(flags))
		memcpy(&flags, RTA_DATA(more), sizeof(flags));
	ret->is_tried = flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED) && !(flags & IFA_F_OPTIMISTIC);
	ret->is_deprecated = flags & IFA_F_DEPRECATED;
	/* Of IPv4 the same bit says that it is a secondary address, which lasts. */
	ret->is_temporary = ret->is_ipv6 && flags & IFA_F_TEMPORARY;
}

static int take_address(struct interface_table *table, struct nlmsghdr *message)
{
	struct ifaddrmsg *address = NLMSG_DATA(message);
	const struct interface_address *link;
	struct attributes attributes;
	struct interface_address a;
	struct rtattr *local;
	size_t size;

	if (message->nlmsg_len < NLMSG_LENGTH(sizeof(*address)))
		return -EBADMSG;
	link = find_link(table, address->ifa_index);
	if (!link || (address->ifa_family != AF_INET && address->ifa_family != AF_INET6))
		return 0; /* of an interface that has just come */
	a = *link;
	a.is_link = false;
	a.is_ipv6 = address->ifa_family == AF_INET6;
	size = a.is_ipv6 ? 16 : 4;
	find_attributes(IFA_RTA(address), message->nlmsg_len - NLMSG_LENGTH(sizeof(*address)),
			&attributes);
	/* IFA_ADDRESS is the other end's where there are two. */
	local = attributes.of[IFA_LOCAL] ? attributes.of[IFA_LOCAL] : attributes.of[IFA_ADDRESS];
	if (!local || RTA_PAYLOAD(local) < size)
		return -EBADMSG;
	memcpy(a.bytes, RTA_DATA(local), size);
	take_flags(&attributes, address->ifa_flags, &a);
	return add(table, &a);
}

static int take_error(struct nlmsghdr *message)
{
	const struct nlmsgerr *error = NLMSG_DATA(message);

	if (message->nlmsg_len < NLMSG_LENGTH(sizeof(*error)) || error->error >= 0)
		return -EBADMSG;
	return error->error;
}

static int take_message(struct interface_table *table, struct nlmsghdr *message)
{
	switch (message->nlmsg_type) {
	case NLMSG_DONE:
		return 1;
	case NLMSG_ERROR:
		return take_error(message);
	case RTM_NEWLINK:
		return take_link(table, message);
	case RTM_NEWADDR:
		return take_address(table, message);
	default:
		return 0;
	}
}

int interface_table_take(struct interface_table *table, void *messages, size_t size)
{
	struct nlmsghdr *message = messages;
	int r = 0;

	while (r == 0 && size >= sizeof(*message) && message->nlmsg_len >= sizeof(*message) &&
			message->nlmsg_len <= size) {
		size_t length = step(message->nlmsg_len, size);

		r = take_message(table, message);
		message = (void *) ((char *) message + length);
		size -= length;
	}
	return r;
}

/* ---- asking ---- */

static int open_socket(int flags, uint32_t groups)
{
	struct sockaddr_nl here = { .nl_family = AF_NETLINK, .nl_groups = groups };
	autoclose int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | flags, NETLINK_ROUTE);

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *) &here, sizeof(here)) < 0)
		return -errno;
	return take_fd(fd);
}

/* The kernel answers a dump in the course of the calls: nobody else is waited for. */
static int dump(int fd, uint16_t type, void *buffer, struct interface_table *table)
{
	const struct {
		struct nlmsghdr header;
		struct ifinfomsg link; /* begins as ifaddrmsg does: with the family, any */
	} request = { .header = { .nlmsg_len = sizeof(request),
				      .nlmsg_type = type,
				      .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP } };
	ssize_t size = send(fd, &request, sizeof(request), 0);
	int r = 0;

	while (size >= 0 && r == 0) {
		size = recv(fd, buffer, RECEIVE_SIZE, 0);
		if (size >= 0)
			r = interface_table_take(table, buffer, (size_t) size);
	}
	return size < 0 ? -errno : r;
}

static int look(struct interface_table *ret)
{
	const struct timeval patience = { .tv_sec = RECEIVE_TIMEOUT_SEC };
	autoclose int fd = open_socket(0, 0);
	autofree void *buffer = malloc(RECEIVE_SIZE);
	struct interface_table table = {};
	int r;

	if (fd < 0)
		return fd;
	if (!buffer)
		return -ENOMEM;
	(void) setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	r = dump(fd, RTM_GETLINK, buffer, &table);
	if (r >= 0)
		r = dump(fd, RTM_GETADDR, buffer, &table);
	if (r < 0) {
		interface_table_done(&table);
		return r;
	}
	interface_table_settle(&table);
	*ret = table;
	return 0;
}

/* ---- following ---- */

static void look_again(struct interfaces *i)
{
	struct interface_table table = {};
	int r = look(&table);

	if (r < 0 && i->error == 0)
		log_warning(FIELDS(.value[LOG_MESSAGE_ID] = MESSAGE_UNREADABLE),
				"Cannot read the addresses of this node: %s; going by those before",
				strerrordesc_np(-r));
	i->error = r < 0 ? r : 0;
	if (r < 0)
		return;
	if (interface_table_equal(&i->table, &table)) {
		interface_table_done(&table);
		return;
	}
	interface_table_done(&i->table);
	i->table = table;
	i->changed(i->userdata);
}

static int interfaces_on_quiet(sd_event_source *source, uint64_t usec, void *userdata)
{
	(void) source;
	(void) usec;
	look_again(userdata);
	return 0;
}

/* What it says is not read: one look tells all of it, and nothing is missed where messages were
 * lost. */
static int interfaces_on_change(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct interfaces *i = userdata;
	char buffer[8192];

	(void) source;
	(void) events;
	while (recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT) >= 0 || errno == ENOBUFS)
		;
	(void) sd_event_source_set_time_relative(i->timer, INTERFACES_QUIET_USEC);
	(void) sd_event_source_set_enabled(i->timer, SD_EVENT_ONESHOT);
	return 0;
}

static int follow(struct interfaces *i, sd_event *event)
{
	autoclose int fd = open_socket(
			SOCK_NONBLOCK, RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR);
	int r = fd;

	if (r >= 0)
		r = sd_event_add_io(event, &i->watch, fd, EPOLLIN, interfaces_on_change, i);
	if (r < 0)
		return r;
	(void) sd_event_source_set_io_fd_own(i->watch, true);
	(void) take_fd(fd);
	r = sd_event_add_time_relative(
			event, &i->timer, CLOCK_MONOTONIC, 0, 1, interfaces_on_quiet, i);
	return r < 0 ? r : sd_event_source_set_enabled(i->timer, SD_EVENT_OFF);
}

int interfaces_new(sd_event *event, void (*changed)(void *userdata), void *userdata,
		struct interfaces **ret)
{
	struct interfaces *i = calloc(1, sizeof(*i));
	int r;

	if (!i)
		return -ENOMEM;
	i->changed = changed;
	i->userdata = userdata;
	r = follow(i, event);
	if (r >= 0)
		r = look(&i->table);
	if (r < 0) {
		(void) interfaces_free(i);
		return r;
	}
	*ret = i;
	return 0;
}

struct interfaces *interfaces_free(struct interfaces *i)
{
	if (!i)
		return NULL;
	(void) sd_event_source_disable_unref(i->watch);
	(void) sd_event_source_disable_unref(i->timer);
	interface_table_done(&i->table);
	free(i);
	return NULL;
}

const struct interface_table *interfaces_table(const struct interfaces *i)
{
	return &i->table;
}
