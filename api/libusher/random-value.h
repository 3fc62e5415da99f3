#pragma once

/* A number for spreading things, never 0. */

#include <stdint.h>
#include <sys/random.h>

#include "boot-clock.h"

static inline uint64_t random_value(void)
{
	uint64_t value = 0;

	/* Where the kernel has no entropy yet, the clock spreads well enough. */
	if (getrandom(&value, sizeof(value), GRND_NONBLOCK) != (ssize_t) sizeof(value))
		value = boot_clock_usec() * UINT64_C(0x9e3779b97f4a7c15);
	return value | 1;
}
