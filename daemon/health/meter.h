#pragma once

/* How often something happens, of the last half minute to minute: two windows of counts. Pure; time
 * is an argument, and does not go back. */

#include <stdbool.h>
#include <stdint.h>

#define METER_WINDOW_USEC UINT64_C(30000000)
/* What has only just begun is told as of this long: a first result is no thousand a second. */
#define METER_LEAST_USEC UINT64_C(1000000)

struct meter {
	uint64_t since_usec; /* when the counting of `now` began; 0: nothing was counted yet */
	uint64_t now, before;
	bool has_before;
};

void meter_add(struct meter *m, uint64_t amount, uint64_t now_usec);
double meter_per_second(const struct meter *m, uint64_t now_usec);
