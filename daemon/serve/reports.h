#pragma once

/* How calls went, as consumers tell in POST /v1/services/{s}/reports. */

#include <stdint.h>
#include <usher/endpoint.h>

#define REPORTS_MAX             1000 /* in one call */
#define REPORT_LATENCY_MAX_USEC (UINT64_C(86400) * 1000000)

/* Since the start. */
struct reports_told {
	uint64_t calls[USHER_OUTCOMES]; /* by outcome */
	uint64_t unknown;               /* of those, to endpoints that are not there (any more) */
};
