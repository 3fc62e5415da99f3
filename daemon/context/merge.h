#pragma once

/* One set of endpoints from what the sources of a service say, in their order. Pure.
 *
 * first   the first source whose answer is not empty; when all that have answered are empty, empty.
 *         One that has never answered does not stand in the way of a later one.
 * union   all of them. An id that two name is one endpoint, and so is an address and port that two
 *         name: the earlier source wins, and where they differ it is marked as a conflict. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <usher/endpoint.h>

#include "config.h"

#define MERGE_NONE SIZE_MAX

struct merged {
	struct usher_endpoints *endpoints; /* sealed, a reference; NULL: nobody has answered */
	size_t only;       /* the source that all are taken from, or MERGE_NONE: see sources */
	uint8_t *sources;  /* of each endpoint; NULL while `only` says it */
	uint8_t *conflict; /* 0 or 1 of each endpoint; NULL: none */
};

/* feeds[i]: what the i-th source says; NULL: it has never answered. Errors: ENOMEM, E2BIG (more
 * than USHER_ENDPOINTS_MAX together). */
int merge(enum merge_policy policy, struct usher_endpoints *const *feeds, size_t count,
		struct merged *ret);
void merged_done(struct merged *m);

/* Add the i-th endpoint of another set, whole. Errors: as usher_endpoints_add. */
int merge_copy_endpoint(struct usher_endpoints *to, const struct usher_endpoints *from, size_t i);
