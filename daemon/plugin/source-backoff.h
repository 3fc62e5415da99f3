#pragma once

/* How long to wait before the next attempt: full jitter, so that a thousand daemons that lost the
 * same registry do not come back together (Brooker 2015, "Exponential Backoff And Jitter"). */

#include <stdint.h>

#define SOURCE_BACKOFF_MIN_USEC UINT64_C(200000)
#define SOURCE_BACKOFF_MAX_USEC UINT64_C(30000000)

/* The ceiling is SOURCE_BACKOFF_MIN_USEC for attempt 0, and doubles up to SOURCE_BACKOFF_MAX_USEC.
 */
uint64_t source_backoff_ceiling_usec(unsigned attempt);
/* Uniform in 1..ceiling; random is 64 fresh bits. */
uint64_t source_backoff_usec(unsigned attempt, uint64_t random);
