#include "clock.h"

#include <stdio.h>
#include <time.h>

static uint64_t read_clock(clockid_t id)
{
	struct timespec now;

	(void) clock_gettime(id, &now);
	return (uint64_t) now.tv_sec * USEC_PER_SEC + (uint64_t) now.tv_nsec / 1000;
}

uint64_t clock_boot_usec(void)
{
	return read_clock(CLOCK_BOOTTIME);
}

uint64_t clock_wall_usec(void)
{
	return read_clock(CLOCK_REALTIME);
}

uint64_t clock_monotonic_usec(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

const char *clock_wall_format(uint64_t wall_usec, char *ret)
{
	time_t seconds = (time_t) (wall_usec / USEC_PER_SEC);
	char date[CLOCK_TEXT_MAX];
	struct tm parts;

	if (!gmtime_r(&seconds, &parts) ||
			strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &parts) == 0)
		date[0] = 0;
	(void) snprintf(ret, CLOCK_TEXT_MAX, "%.20s.%06uZ", date,
			(unsigned) (wall_usec % USEC_PER_SEC));
	return ret;
}
