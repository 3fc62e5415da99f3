#pragma once

/* A constructor that leaves a trace: whoever refuses the plug-in must find none. */

#include <stdlib.h>

__attribute__((constructor)) static void leave_a_trace(void)
{
	(void) setenv("USHER_TEST_TRACE", __FILE__, 1); // NOLINT(concurrency-mt-unsafe)
}
