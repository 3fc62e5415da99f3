#pragma once

/* Finding ascending ids in a sealed set, one after the other: all of them together cost one way
 * through the set, where a search for each would cost a hundred thousand. */

#include <errno.h>
#include <string.h>
#include <usher/endpoint.h>

struct endpoints_walk {
	const struct usher_endpoints *set;
	size_t next; /* where no id before it is looked for any more */
};

/* The index of an id that is not before the last one asked for, or -ENOENT. */
static inline ssize_t endpoints_walk_to(struct endpoints_walk *walk, const char *id)
{
	size_t count = usher_endpoints_count(walk->set);

	for (; walk->next < count; walk->next++) {
		int order = strcmp(usher_endpoints_id(walk->set, walk->next), id);

		if (order == 0)
			return (ssize_t) walk->next;
		if (order > 0)
			break;
	}
	return -ENOENT;
}
