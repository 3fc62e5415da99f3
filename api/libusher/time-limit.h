#pragma once

/* A point of CLOCK_MONOTONIC, for a condition of that clock to wait until. */

#include <stdint.h>
#include <time.h>

static inline struct timespec time_limit_after(uint64_t usec)
{
	struct timespec limit;

	(void) clock_gettime(CLOCK_MONOTONIC, &limit);
	limit.tv_sec += (time_t) (usec / 1000000);
	limit.tv_nsec += (long) (usec % 1000000) * 1000;
	if (limit.tv_nsec >= 1000000000) {
		limit.tv_sec++;
		limit.tv_nsec -= 1000000000;
	}
	return limit;
}
