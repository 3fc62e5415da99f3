#pragma once

/* How late things began, of the last half minute to minute: a histogram of a fixed size whose
 * buckets are an eighth of their value wide. Thread: its owner's. */

#include <stddef.h>
#include <stdint.h>

#define LATENESS_WINDOW_USEC UINT64_C(30000000)
#define LATENESS_BUCKETS     512

struct lateness {
	/* The window that is being filled and the one before. */
	struct lateness_window {
		uint64_t count, max_usec;
		uint32_t buckets[LATENESS_BUCKETS];
	} windows[2];
	unsigned filling;
	uint64_t since_usec; /* when the filling began */
};

void lateness_add(struct lateness *l, uint64_t late_usec, uint64_t now_usec);
/* share in 0..1 of the values are not above the answer: the upper end of their bucket, or the
 * greatest value. 0 when there are none. */
uint64_t lateness_quantile(const struct lateness *l, double share);
uint64_t lateness_max(const struct lateness *l);
