#pragma once

/* When to ask again, and for what. Pure: time comes in, and randomness is its own. */

#include <stdbool.h>
#include <stdint.h>

struct schedule {
	uint64_t interval_usec, resync_usec;
	uint64_t due_usec;             /* of the next request */
	uint64_t all_usec;             /* when the list of all is due; 0: at once */
	uint64_t not_before_usec;      /* it is not asked for again because of a hash */
	unsigned failures, mismatches; /* in a row */
	uint64_t random;
};

void schedule_init(
		struct schedule *s, uint64_t interval_usec, uint64_t resync_usec, uint64_t random);

/* Whether it must be the list of all: it is time, or what has changed since the last answer may
 * no longer be told of. */
bool schedule_all_is_due(const struct schedule *s, uint64_t answered_usec, uint64_t now_usec);

void schedule_at_once(struct schedule *s, uint64_t now_usec);
void schedule_failed(struct schedule *s, uint64_t now_usec);
/* The list of all was read. */
void schedule_listed(struct schedule *s, uint64_t now_usec);
/* The server counts what we do. */
void schedule_same(struct schedule *s, uint64_t now_usec);
/* The server counts others. True: the list of all is asked for at once; else, as it has just been
 * read, or is again and again of no help, only after a while. */
bool schedule_differs(struct schedule *s, bool just_listed, uint64_t now_usec);
