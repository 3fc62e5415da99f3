#include "address.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <usher/endpoint.h>

#define HOST_MAX  253
#define LABEL_MAX 63

/* An IPv6 address, with a zone as in fe80::1%eth0 where it is link-local. */
static bool is_ipv6(const char *text, char *ret_canonical, size_t size)
{
	char bare[INET6_ADDRSTRLEN], canonical[INET6_ADDRSTRLEN];
	const char *percent = strchr(text, '%');
	struct in6_addr address;
	size_t length = percent ? (size_t) (percent - text) : strlen(text);

	if (length >= sizeof(bare))
		return false;
	memcpy(bare, text, length);
	bare[length] = 0;
	if (inet_pton(AF_INET6, bare, &address) != 1)
		return false;
	if (percent) {
		size_t zone_length = strlen(percent + 1);

		if (!IN6_IS_ADDR_LINKLOCAL(&address) || zone_length == 0 ||
				zone_length >= IF_NAMESIZE ||
				strspn(percent + 1,
						"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") !=
						zone_length)
			return false;
	}
	if (ret_canonical)
		(void) snprintf(ret_canonical, size, "%s%s",
				inet_ntop(AF_INET6, &address, canonical, sizeof(canonical)),
				percent ? percent : "");
	return true;
}

static bool is_ipv4(const char *text)
{
	struct in_addr address;

	return inet_pton(AF_INET, text, &address) == 1;
}

static bool is_host_name(const char *text)
{
	size_t length = strlen(text), label = 0;
	bool numeric = true;

	if (length > 1 && text[length - 1] == '.')
		length--;
	if (length == 0 || length > HOST_MAX)
		return false;
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char) text[i];

		if (c == '.') {
			if (label == 0 || text[i - 1] == '-')
				return false;
			label = 0;
			numeric = true;
			continue;
		}
		if (!isalnum(c) && c != '-' && c != '_')
			return false;
		if ((c == '-' && label == 0) || ++label > LABEL_MAX)
			return false;
		numeric = numeric && isdigit(c);
	}
	/* A name whose last label is a number is an IPv4 address gone wrong: 10.0.0.256 */
	return label > 0 && text[length - 1] != '-' && !numeric;
}

static int check_form(const char *text, struct usher_error *reterr)
{
	if (!text || !*text)
		return usher_error_set(reterr, -EINVAL, "the address is empty");
	if (is_ipv4(text) || is_ipv6(text, NULL, 0) || is_host_name(text))
		return 0;
	if (text[0] == '[')
		return usher_error_set(reterr, -EINVAL,
				"address \"%s\" is in brackets; write the IPv6 address without them, and the port apart",
				text);
	if (strchr(text, ':') && strchr(text, ':') == strrchr(text, ':'))
		return usher_error_set(reterr, -EINVAL,
				"address \"%s\" contains a port; write the address and the port apart",
				text);
	return usher_error_set(reterr, -EINVAL,
			"address \"%s\" is neither an IPv4 or IPv6 address nor a host name", text);
}

/* Unspecified, multicast or broadcast: who connects there reaches itself, or nobody. */
static bool is_nobodys(const char *text)
{
	struct in6_addr address;
	struct in_addr address_v4;

	if (inet_pton(AF_INET, text, &address_v4) == 1) {
		in_addr_t host = ntohl(address_v4.s_addr);

		return host == INADDR_ANY || host == INADDR_BROADCAST || IN_MULTICAST(host);
	}
	return inet_pton(AF_INET6, text, &address) == 1 &&
			(IN6_IS_ADDR_UNSPECIFIED(&address) || IN6_IS_ADDR_MULTICAST(&address));
}

int usher_address_check(const char *text, struct usher_error *reterr)
{
	int r = check_form(text, reterr);

	if (r == 0 && is_nobodys(text))
		return usher_error_set(reterr, -EINVAL,
				"address \"%s\" is nobody's; write one that the instance is reached at",
				text);
	return r;
}

const char *address_canonical(const char *text, char *buffer)
{
	return is_ipv6(text, buffer, USHER_TEXT_MAX) ? buffer : text;
}

static int port_parse(const char *text, uint16_t *ret, struct usher_error *reterr)
{
	size_t length = strlen(text);
	unsigned long value;

	if (length == 0 || length > 5 || strspn(text, "0123456789") != length)
		return usher_error_set(
				reterr, -EINVAL, "port \"%s\" is not a number in 1..65535", text);
	value = strtoul(text, NULL, 10);
	if (value < 1 || value > 65535)
		return usher_error_set(reterr, -EINVAL, "port %s is not in 1..65535", text);
	*ret = (uint16_t) value;
	return 0;
}

/* Where the port begins (NULL: none given), and the address without brackets. */
static int authority_split(const char *text, char *ret_address, const char **ret_port,
		struct usher_error *reterr)
{
	const char *end, *port = NULL, *colon;
	size_t length;

	if (text[0] == '[') {
		end = strchr(text, ']');
		if (!end || (end[1] && end[1] != ':'))
			return usher_error_set(reterr, -EINVAL,
					"\"%s\" is not of the form [IPV6]:PORT", text);
		if (end[1])
			port = end + 2;
		text++;
	} else {
		colon = strchr(text, ':');
		if (colon && strchr(colon + 1, ':'))
			return usher_error_set(reterr, -EINVAL,
					"\"%s\" may be an address alone or an address and a port; write [IPV6]:PORT",
					text);
		end = colon ? colon : text + strlen(text);
		if (colon)
			port = colon + 1;
	}
	length = (size_t) (end - text);
	if (length >= USHER_TEXT_MAX)
		return usher_error_set(reterr, -EINVAL, "the address has more than %d bytes",
				USHER_TEXT_MAX - 1);
	memcpy(ret_address, text, length);
	ret_address[length] = 0;
	*ret_port = port;
	return 0;
}

int usher_authority_parse(const char *text, uint16_t default_port, char *ret_address,
		uint16_t *ret_port, struct usher_error *reterr)
{
	char address[USHER_TEXT_MAX] = "";
	uint16_t port = default_port;
	const char *port_text = NULL;
	int r;

	if (strchr(text, '@')) /* who writes that means USER:PASSWORD@, which nobody is to see */
		return usher_error_set(reterr, -EINVAL,
				"there is an \"@\" in it; write ADDRESS:PORT, and credentials elsewhere");
	r = authority_split(text, address, &port_text, reterr);
	if (r < 0)
		return r;
	if (text[0] == '[' && !is_ipv6(address, NULL, 0))
		return usher_error_set(reterr, -EINVAL,
				"\"%s\": what stands in brackets is no IPv6 address", text);
	r = check_form(address, reterr);
	if (r < 0)
		return r;
	if (port_text) {
		r = port_parse(port_text, &port, reterr);
		if (r < 0)
			return usher_error_prefix(reterr, r, "\"%s\"", text);
	} else if (port == 0) {
		return usher_error_set(
				reterr, -EINVAL, "\"%s\" has no port; write ADDRESS:PORT", text);
	}
	memcpy(ret_address, address, strlen(address) + 1);
	*ret_port = port;
	return 0;
}

const char *usher_authority_format(const char *address, uint16_t port, char *ret)
{
	bool brackets = strchr(address, ':') != NULL;

	(void) snprintf(ret, USHER_AUTHORITY_MAX, "%s%s%s:%u", brackets ? "[" : "", address,
			brackets ? "]" : "", port);
	return ret;
}
