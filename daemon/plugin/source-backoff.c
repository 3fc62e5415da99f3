#include "source-backoff.h"

uint64_t source_backoff_ceiling_usec(unsigned attempt)
{
	uint64_t ceiling = SOURCE_BACKOFF_MIN_USEC;

	while (attempt-- > 0 && ceiling < SOURCE_BACKOFF_MAX_USEC)
		ceiling *= 2;
	return ceiling < SOURCE_BACKOFF_MAX_USEC ? ceiling : SOURCE_BACKOFF_MAX_USEC;
}

uint64_t source_backoff_usec(unsigned attempt, uint64_t random)
{
	return 1 + random % source_backoff_ceiling_usec(attempt);
}
