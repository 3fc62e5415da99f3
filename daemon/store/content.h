#pragma once

/* What a row of the ledger says: the endpoints and the registry's revision of a feed, or the JSON
 * of a drain. Immutable, and counted under the lock of the ledger. */

#include <stdbool.h>
#include <usher/endpoint.h>

struct content {
	unsigned refs;
	struct usher_endpoints *endpoints; /* NULL */
	bool finished;                     /* a drain */
	bool has_text;
	char text[];
};

/* Takes a reference to the set and copies the text; NULL when out of memory. */
struct content *content_new(struct usher_endpoints *endpoints, const char *text, bool finished);
struct content *content_ref(struct content *content);   /* NULL is fine */
struct content *content_unref(struct content *content); /* NULL is fine; returns NULL */
bool content_equal(const struct content *a, const struct content *b);
