#pragma once

/* Which of the node's addresses an instance is registered with. Pure.
 *
 * What nobody else can reach is never chosen: link-local, multicast and unspecified addresses,
 * interfaces that are down, addresses that are still being tried; loopback only where a pattern
 * names its interface. Of the rest, one in an earlier network wins, then on an interface of an
 * earlier pattern, then of the family that is preferred, then one that is not being phased out,
 * then a lasting before a temporary one, then the lower index of the interface, then the kernel's
 * order (which begins with the primary address). */

#include <arpa/inet.h>
#include <net/if.h>

#include "config.h"

struct interface_address {
	char interface[IF_NAMESIZE];
	unsigned index;
	bool is_link; /* only while a table is filled: the interface, and no address of it */
	bool is_up, is_loopback;
	bool is_ipv6;
	bool is_tried; /* not yet known to be unique, or known not to be */
	bool is_deprecated, is_temporary;
	uint8_t bytes[16]; /* IPv4: the first four */
};

/* Errors: EADDRNOTAVAIL, with why each address is none. */
int address_choose(const struct address_config *config, const struct interface_address *addresses,
		size_t count, char ret[INET6_ADDRSTRLEN], struct usher_error *reterr);
