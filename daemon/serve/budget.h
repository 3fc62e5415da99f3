#pragma once

/* What a drain may cost before anybody starts it: the declared windows added up, which part of them
 * is proven by evidence rather than assumed, and how many picks of the leaving endpoint to expect.
 * Pure. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "snapshot.h"
#include "text.h"

#define BUDGET_WINDOWS_MAX 4

struct budget {
	struct budget_window {
		const char *name;
		uint64_t usec;
		bool proven; /* ends with evidence, and at the latest after this time */
	} windows[BUDGET_WINDOWS_MAX];
	size_t count;
	uint64_t worst_usec;
	uint64_t assumed_usec; /* of that, what no evidence can shorten */
	uint64_t rate_per_s;
	double share;   /* of the endpoint that is chosen most */
	uint64_t picks; /* of it within the worst case, rounded up */
};

/* snapshot NULL: nothing is known; then one endpoint gets every pick. */
void budget_of(const struct drain_config *drain, const struct snapshot *snapshot,
		uint64_t rate_per_s, struct budget *ret);
/* ", \"windows\": [...], ...": what stands between a service's name and the end. */
void budget_render(const struct budget *budget, struct text *text);
