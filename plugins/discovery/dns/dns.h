#pragma once

/* The instance of the plug-in: its options, which never change. */

#include <usher/plugin.h>

enum dns_records {
	DNS_RECORDS_AUTO, /* SRV where the name begins with an underscore */
	DNS_RECORDS_SRV,
	DNS_RECORDS_ADDRESS,
};

enum dns_addresses {
	DNS_PREFER_IPV4, /* a target's IPv6 addresses where it has no IPv4 one */
	DNS_PREFER_IPV6,
	DNS_IPV4,
	DNS_IPV6,
	DNS_BOTH,
};

enum dns_rotates {
	DNS_ROTATES_AUTO, /* as far as the answers show it */
	DNS_ROTATES_YES,
	DNS_ROTATES_NO,
};

struct dns {
	const char *const *servers;
	const char *const *search;
	const char *name;
	int records, addresses, rotates; /* of the enums above */
	int64_t port, queries;
	uint64_t ttl_min_usec, ttl_max_usec, hold_usec, timeout_usec;
	bool tcp, require_soa;
};
