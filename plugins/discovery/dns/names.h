#pragma once

/* Which name to ask DNS for. */

#include <usher/plugin.h>

#include "message.h"

/* The name of a wanted service by a template with {name}, {service} and {port}; one that ends in a
 * dot is taken as it is, without the dot. Errors: EINVAL (no name of DNS, no such placeholder, no
 * port to put in), with a message. */
int names_expand(const char *template, const struct usher_wanted *wanted,
		char ret[MESSAGE_NAME_MAX], struct usher_error *reterr);
/* Below a domain. Errors: as above. */
int names_append(const char *name, const char *domain, char ret[MESSAGE_NAME_MAX],
		struct usher_error *reterr);
/* Labels of 1 to 63 letters, digits, hyphens and underscores, 253 bytes in all. EINVAL. */
int names_check(const char *name, struct usher_error *reterr);
/* For options: a template whose placeholders are those above. EINVAL. */
int names_check_template(const char *template, struct usher_error *reterr);
