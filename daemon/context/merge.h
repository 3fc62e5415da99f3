#pragma once

/* One set of endpoints from what the sources of a service say, in their order. Pure.
 *
 * first   the first source whose answer is not empty; when all that have answered are empty, empty.
 *         One that has never answered does not stand in the way of a later one.
 * union   all of them. An id that two name is one endpoint, and so is an address and port that two
 *         name: the earlier source wins, and where they differ it is marked as a conflict. Of the
 *         fields that a source decides its word goes before, and nobody disagrees about them.
 * race    the one that leads, see merge_race(). */

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
	uint8_t (*origins)[MERGE_FIELDS]; /* of each endpoint, the source of each field; NULL: that
					     of the endpoint */
};

struct merge_rules {
	enum merge_policy policy;
	unsigned decides[CONFIG_FEEDS_MAX]; /* of each source, bits of enum merge_field; for union
					     */
	size_t leader;                      /* for race */
};

/* feeds[i]: what the i-th source says; NULL: it has never answered. Errors: ENOMEM, E2BIG (more
 * than USHER_ENDPOINTS_MAX together). */
int merge(const struct merge_rules *rules, struct usher_endpoints *const *feeds, size_t count,
		struct merged *ret);
void merged_done(struct merged *m);

/* A source in a race. */
struct racer {
	bool answered;
	bool empty;
	bool live;         /* its last word was no failure, and its answer is not past max_age */
	uint64_t age_usec; /* of its answer */
};

/* Who leads now, or MERGE_NONE: nobody has answered. The leader stays for as long as it is live and
 * not empty, so that two which disagree do not take turns. Else the one takes over whose answer is
 * the youngest, of those that are live and not empty; where there is none, the leader keeps its
 * last endpoints, and whoever has endpoints goes before who has none. */
size_t merge_race(const struct racer *racers, size_t count, size_t leader);

/* Add the i-th endpoint of another set, whole. Errors: as usher_endpoints_add. */
int merge_copy_endpoint(struct usher_endpoints *to, const struct usher_endpoints *from, size_t i);
