/* Where a test can have usherd end at once. */

#include "crash-point.h"

#ifdef USHER_CRASH_POINTS

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void crash_point(enum drain_step step, const char *place)
{
	/* the environment does not change after the start */
	const char *wanted = getenv("USHER_CRASH_AT"); /* NOLINT(concurrency-mt-unsafe) */
	char here[64];

	if (!wanted)
		return;
	(void) snprintf(here, sizeof(here), "%s:%s", drain_step_to_string(step), place);
	if (strcmp(here, wanted) == 0)
		(void) raise(SIGKILL);
}

#endif
