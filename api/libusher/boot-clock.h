#pragma once

/* Microseconds of CLOCK_BOOTTIME, which goes on while the machine is suspended and never jumps. */

#include <stdint.h>
#include <time.h>

static inline uint64_t boot_clock_usec(void)
{
	struct timespec now;

	(void) clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t) now.tv_sec * UINT64_C(1000000) + (uint64_t) now.tv_nsec / 1000;
}
