#include "address-choice.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#define REASONS_MAX 6

/* The position of the first pattern that matches, or -1. */
static int find_pattern(char *const *patterns, const char *name)
{
	for (int i = 0; patterns && patterns[i]; i++)
		if (fnmatch(patterns[i], name, 0) == 0)
			return i;
	return -1;
}

static bool is_in_network(const struct interface_address *a, const struct network_config *network)
{
	unsigned whole = network->prefix / 8, rest = network->prefix % 8;

	if (a->is_ipv6 != network->is_ipv6 || memcmp(a->bytes, network->bytes, whole) != 0)
		return false;
	return rest == 0 || ((a->bytes[whole] ^ network->bytes[whole]) >> (8 - rest)) == 0;
}

static int find_network(const struct address_config *config, const struct interface_address *a)
{
	for (size_t i = 0; i < config->network_count; i++)
		if (is_in_network(a, &config->networks[i]))
			return (int) i;
	return -1;
}

static bool is_local_to_link(const struct interface_address *a)
{
	if (a->is_ipv6)
		return a->bytes[0] == 0xfe && (a->bytes[1] & 0xc0) == 0x80;
	return a->bytes[0] == 169 && a->bytes[1] == 254;
}

static bool is_of_loopback(const struct interface_address *a)
{
	static const uint8_t one[16] = { [15] = 1 };

	return a->is_loopback || (a->is_ipv6 ? memcmp(a->bytes, one, 16) == 0 : a->bytes[0] == 127);
}

static bool is_no_host(const struct interface_address *a)
{
	static const uint8_t zero[16];

	if (a->is_ipv6)
		return a->bytes[0] == 0xff || memcmp(a->bytes, zero, 16) == 0;
	return a->bytes[0] >= 224 || a->bytes[0] == 0;
}

static bool is_of_wanted_family(const struct address_config *config, bool is_ipv6)
{
	switch (config->family) {
	case ADDRESS_IPV4:
		return !is_ipv6;
	case ADDRESS_IPV6:
		return is_ipv6;
	case ADDRESS_PREFER_IPV4:
	case ADDRESS_PREFER_IPV6:
		break;
	}
	return true;
}

/* Why it is none, or NULL: it may be used. */
static const char *why_not(const struct address_config *config, const struct interface_address *a)
{
	bool names_some = config->interfaces && config->interfaces[0];
	int pattern = find_pattern(config->interfaces, a->interface);

	if (find_pattern(config->ignored_interfaces, a->interface) >= 0)
		return "its interface is ignored";
	if (names_some && pattern < 0)
		return "its interface is none of those in interfaces";
	if (!a->is_up)
		return "its interface is down";
	if (is_of_loopback(a) && pattern < 0)
		return "loopback";
	if (is_local_to_link(a))
		return "link-local";
	if (is_no_host(a))
		return "no address of a host";
	if (a->is_tried)
		return "it is not known to be unique";
	if (!is_of_wanted_family(config, a->is_ipv6))
		return "of the other family";
	if (config->network_count > 0 && find_network(config, a) < 0)
		return "in none of the networks";
	return NULL;
}

/* Whether a comes before b; both may be used. */
static bool is_better(const struct address_config *config, const struct interface_address *a,
		const struct interface_address *b)
{
	bool ipv6_first = config->family == ADDRESS_PREFER_IPV6;
	const int of_a[] = { find_network(config, a),
		find_pattern(config->interfaces, a->interface), a->is_ipv6 != ipv6_first,
		a->is_deprecated, a->is_temporary, (int) a->index };
	const int of_b[] = { find_network(config, b),
		find_pattern(config->interfaces, b->interface), b->is_ipv6 != ipv6_first,
		b->is_deprecated, b->is_temporary, (int) b->index };

	for (size_t i = 0; i < sizeof(of_a) / sizeof(of_a[0]); i++)
		if (of_a[i] != of_b[i])
			return of_a[i] < of_b[i];
	return false;
}

static const char *format(const struct interface_address *a, char ret[INET6_ADDRSTRLEN])
{
	if (!inet_ntop(a->is_ipv6 ? AF_INET6 : AF_INET, a->bytes, ret, INET6_ADDRSTRLEN))
		ret[0] = '\0';
	return ret;
}

static int refuse(const struct address_config *config, const struct interface_address *addresses,
		size_t count, struct usher_error *reterr)
{
	char text[USHER_ERROR_TEXT_MAX] = "", address[INET6_ADDRSTRLEN];
	size_t used = 0;

	for (size_t i = 0; i < count && i < REASONS_MAX && used < sizeof(text); i++)
		used += (size_t) snprintf(text + used, sizeof(text) - used, "%s%s of %s (%s)",
				i > 0 ? ", " : "", format(&addresses[i], address),
				addresses[i].interface, why_not(config, &addresses[i]));
	return usher_error_set(reterr, -EADDRNOTAVAIL,
			"no address of this node qualifies%s%.300s%s; say one in address, or change address_from",
			count > 0 ? ": " : "", text, count > REASONS_MAX ? ", ..." : "");
}

int address_choose(const struct address_config *config, const struct interface_address *addresses,
		size_t count, char ret[INET6_ADDRSTRLEN], struct usher_error *reterr)
{
	const struct interface_address *best = NULL;

	for (size_t i = 0; i < count; i++) {
		const struct interface_address *a = &addresses[i];

		if (!why_not(config, a) && (!best || is_better(config, a, best)))
			best = a;
	}
	if (!best)
		return refuse(config, addresses, count, reterr);
	(void) format(best, ret);
	return 0;
}
