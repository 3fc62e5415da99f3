#pragma once

/* The addresses of this node, as the kernel has them, and when they change.
 *
 * What is followed is that something has changed (rtnetlink); what counts is one look at all of it
 * afterwards, once it has been quiet for a moment. */

#include <systemd/sd-event.h>

#include "address-choice.h"

#define INTERFACES_ADDRESSES_MAX 4096
#define INTERFACES_QUIET_USEC    UINT64_C(200000)

struct interface_table {
	struct interface_address *items;
	size_t count, capacity;
};

void interface_table_done(struct interface_table *table);
bool interface_table_equal(const struct interface_table *a, const struct interface_table *b);
/* Take netlink messages of a dump of links, then of one of addresses; until
 * interface_table_settle() the links themselves are in the table, too. The messages are only read
 * (the kernel's macros know no const). > 0: that was the end of the dump. Errors: EBADMSG, E2BIG,
 * ENOMEM, and what the kernel says. */
int interface_table_take(struct interface_table *table, void *messages, size_t size);
/* Drop what has no address. */
void interface_table_settle(struct interface_table *table);

struct interfaces;

/* Errors: what socket and bind say, ENOMEM. */
int interfaces_new(sd_event *event, void (*changed)(void *userdata), void *userdata,
		struct interfaces **ret);
struct interfaces *interfaces_free(struct interfaces *i); /* NULL is fine */
/* Borrowed until the loop turns. */
const struct interface_table *interfaces_table(const struct interfaces *i);
