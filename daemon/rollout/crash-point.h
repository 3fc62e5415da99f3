#pragma once

/* Where a test can have usherd end at once, as by kill -9: USHER_CRASH_AT=STEP:PLACE in the
 * environment, such as close:acted. Places of a step:
 *
 *   before   its record is on disk, it has not acted
 *   acted    it has acted, nobody has written that down
 *   after    its end is on disk
 *
 * Compiled in only where the CMake option USHER_CRASH_POINTS is on. */

#include "record.h"

#ifdef USHER_CRASH_POINTS
void crash_point(enum drain_step step, const char *place);
#else
static inline void crash_point(enum drain_step step, const char *place)
{
	(void) step;
	(void) place;
}
#endif
