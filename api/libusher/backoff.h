#pragma once

/* How long to wait before asking a daemon that has gone away again: at random between 0.1 s and a
 * bound that doubles from 0.2 to 5 s, so that processes that lost it together do not come back
 * together, not even once the bound is reached. */

#include <stdint.h>

#define BACKOFF_MIN_USEC UINT64_C(100000)
#define BACKOFF_MAX_USEC UINT64_C(5000000)

struct backoff {
	uint64_t bound_usec; /* of the last delay; 0: none yet, or all is well again */
};

static inline uint64_t backoff_next_usec(struct backoff *backoff, uint64_t random)
{
	uint64_t bound = backoff->bound_usec * 2;

	if (bound < 2 * BACKOFF_MIN_USEC)
		bound = 2 * BACKOFF_MIN_USEC;
	if (bound > BACKOFF_MAX_USEC)
		bound = BACKOFF_MAX_USEC;
	backoff->bound_usec = bound;
	return BACKOFF_MIN_USEC + random % (bound - BACKOFF_MIN_USEC + 1);
}

static inline void backoff_reset(struct backoff *backoff)
{
	backoff->bound_usec = 0;
}
