#pragma once

/* A loop with a deadline: for awaiting what another thread will do, never for letting time pass. */

#include <time.h>

#include <systemd/sd-event.h>

#include "test.h"

#define LOOP_DEADLINE_USEC (120 * UINT64_C(1000000))

/* Turn the loop until reached(userdata), or fail the test. */
static inline void loop_until(sd_event *event, bool (*reached)(void *userdata), void *userdata)
{
	struct timespec now;
	uint64_t end;

	(void) clock_gettime(CLOCK_MONOTONIC, &now);
	end = (uint64_t) now.tv_sec * 1000000 + LOOP_DEADLINE_USEC;
	while (!reached(userdata)) {
		assert_ok(sd_event_run(event, 100000));
		(void) clock_gettime(CLOCK_MONOTONIC, &now);
		if ((uint64_t) now.tv_sec * 1000000 > end)
			fail_msg("what the loop waits for has not come");
	}
}

/* Turn the loop for as long as it has something to do at once. */
static inline void loop_drain(sd_event *event)
{
	while (sd_event_run(event, 0) > 0)
		;
}
