#pragma once

/* What checks cost, as JSON: before they run, and while they do. */

#include "context.h"
#include "directory.h"
#include "health.h"
#include "text.h"

/* What the checks of services cost: what their configuration lets expect, and what the probes did.
 */
struct check_cost {
	struct health_cost estimate, measured;
};

/* Of one service, for so many endpoints (0: those that there are). */
void check_cost_of(const struct context *context, size_t endpoints, struct check_cost *ret);
void check_cost_add(struct check_cost *sum, const struct check_cost *cost);
/* "estimate": {...}, "measured": {...} or null before the first probe. */
void render_check_cost(struct text *text, const struct check_cost *cost);
/* {"max_rate_per_s", "threads", ...}: how the node's one prober keeps up. */
void render_prober(struct text *text, const struct directory *directory);
