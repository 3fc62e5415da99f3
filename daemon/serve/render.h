#pragma once

/* The words of the API: endpoints, freshness and the like as JSON. One place, so that a list, a
 * pick and a watch cannot disagree. */

#include "context.h"
#include "directory.h"
#include "record.h"
#include "text.h"

/* {"state": ..., "age_ms": ..., "max_age_ms": ..., "source": ...} */
void render_freshness(struct text *text, const struct freshness *freshness);
/* Milliseconds, rounded up (an age is an upper bound), or null for USEC_FOREVER. */
void render_age(struct text *text, uint64_t age_usec);
/* ", \"code\": ...", and with filtered ", \"stage\": ...": why none is chosen; nothing where some
 * are. */
void render_why_none(struct text *text, const struct context *context);
/* One endpoint of the snapshot. */
void render_endpoint(struct text *text, const struct context *context,
		const struct snapshot *snapshot, uint32_t i);
/* The same from nothing but its arguments, on any thread. */
void render_endpoint_named(struct text *text, const struct snapshot *snapshot, uint32_t i,
		const struct snapshot_names *names);
/* The same, with "chosen" and "left_out", and all that is known of its health now. */
void render_endpoint_judged(struct text *text, struct context *context,
		const struct snapshot *snapshot, uint32_t i, bool drained, uint64_t now_usec);
/* A record, as it is on disk. */
void render_drain(struct text *text, const struct drain_record *record);
void render_bool(struct text *text, bool value);
/* A number of 0..1 that reads as a fraction at its ends, too: 0.0, 0.25, 1.0. */
void render_share(struct text *text, double share);
/* null for 0. */
void render_wall_time(struct text *text, uint64_t wall_usec);
/* Text that came from outside and may be no UTF-8: what does not belong becomes '?'. */
void render_unclean(struct text *text, const char *string);
/* ", " before every item but the first: *comma starts as "". */
void render_comma(struct text *text, const char **comma);
