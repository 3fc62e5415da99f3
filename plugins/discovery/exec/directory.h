#pragma once

/* What a program has printed: all services, each with its endpoints. Immutable once read. */

#include <stdbool.h>
#include <stddef.h>
#include <usher/endpoint.h>

struct directory_service {
	char *name;
	struct usher_endpoints *set; /* sealed */
};

struct directory {
	struct directory_service *all; /* sorted by name */
	size_t count;
};

/* Read a text. 1: it only says that nothing has changed, and *ret is not written. It is checked
 * whole: one malformed endpoint makes all of it malformed. Errors: EBADMSG (and when it is empty),
 * E2BIG, EEXIST, ENOMEM, ...; with NAME:LINE:COLUMN. */
int directory_parse(const char *name, const char *text, size_t size, struct directory **ret,
		struct usher_error *reterr);
struct directory *directory_free(struct directory *d); /* NULL is fine; returns NULL */
/* NULL: it is not in it. */
struct usher_endpoints *directory_find(const struct directory *d, const char *service);
/* Whether an endpoint of `before` is not in `now`. */
bool directory_lacks(const struct usher_endpoints *now, const struct usher_endpoints *before);
