#include "backoff.h"

uint64_t backoff_ceiling_usec(unsigned attempt)
{
	uint64_t ceiling = BACKOFF_MIN_USEC;

	while (attempt-- > 0 && ceiling < BACKOFF_MAX_USEC)
		ceiling *= 2;
	return ceiling < BACKOFF_MAX_USEC ? ceiling : BACKOFF_MAX_USEC;
}

uint64_t backoff_delay_usec(unsigned attempt, uint64_t random)
{
	return 1 + random % backoff_ceiling_usec(attempt);
}
