#pragma once

/* One service's directory as a follower keeps it, and whose turn is next.
 *
 * Turns are nginx's smooth weighted round robin: each endpoint gains its weight at every turn, the
 * richest is chosen and pays the sum of the weights; a b c with 5 1 1 come as a a b a c a a. Where
 * each starts is random, so that many processes that start together do not choose alike. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watch-line.h"

struct followed_endpoint {
	char *id;
	char *address;
	uint32_t weight; /* effective, in thousandths */
	uint16_t port;
	bool secure;
	bool ready;      /* the administrative state */
	int64_t balance; /* of turns; a weight counts TURN_UNIT */
};

struct followed_directory {
	struct followed_endpoint **endpoints; /* in the order of their ids */
	size_t count, capacity;
	uint64_t total; /* weight of those that may be chosen */
	bool uniform;   /* those all have the same weight: turns are a cursor */
	size_t cursor;
};

void followed_directory_done(struct followed_directory *d);
/* Become what a snapshot says, or change as an update says. random starts the turns; 0: at the
 * first. On failure the directory is as before. Errors: ENOMEM, E2BIG. */
int followed_directory_replace(
		struct followed_directory *d, const struct watch_line *line, uint64_t random);
int followed_directory_update(
		struct followed_directory *d, const struct watch_line *line, uint64_t random);
/* The next one, or NULL when none may be chosen. Borrowed until the next change. */
const struct followed_endpoint *followed_directory_turn(struct followed_directory *d);
