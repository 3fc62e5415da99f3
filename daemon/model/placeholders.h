#pragma once

/* What people configure to be called for an endpoint, with the endpoint's own values filled in.
 *
 * Placeholders: {id} {address} {port} {service} {uid} {zone} {metadata.NAME}, and {ready} where
 * there is something to be said; other braces are text. In a URL their values are percent-encoded,
 * and an IPv6 address has its brackets. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <usher/endpoint.h>

struct placeholders {
	const char *service;
	const struct usher_endpoints *set;
	size_t i;          /* the endpoint's place in the set */
	uint16_t port;     /* 0: the endpoint's */
	const char *ready; /* NULL: {ready} is text */
};

/* To be freed. Errors: EINVAL (metadata that the endpoint does not have), ENOMEM. */
int placeholders_expand(const char *text, const struct placeholders *p, bool url, char **ret,
		struct usher_error *reterr);
