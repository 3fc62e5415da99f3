#pragma once

/* The health of endpoints as JSON: what consumers are told, and what people are told beside it. */

#include <stdint.h>

#include "context.h"
#include "text.h"

/* ", \"health\": {\"state\": ...}" of one endpoint; nothing where the service has none. */
void render_health(struct text *text, const struct snapshot *snapshot, uint32_t i);
/* The same with what is known of it now: since when, the last result, the last error. */
void render_health_detail(struct text *text, const struct context *context,
		const struct snapshot *snapshot, uint32_t i, uint64_t now_usec);
/* {"state": ...} with all that is known of the i-th of what is observed. */
void render_health_of(struct text *text, const struct health *health, size_t i, uint64_t now_usec);
/* ", \"panic\": true", or nothing. */
void render_panic(struct text *text, bool panic);
/* {"unknown": 0, "up": 3, ...}, or null. */
void render_health_counts(struct text *text, const struct snapshot *snapshot);
/* How the endpoints are asked and judged, or null. */
void render_health_policy(struct text *text, const struct health_config *config);

const char *check_kind_to_string(enum check_kind kind);
