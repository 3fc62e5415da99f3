#pragma once

/* What the log says of a source's services: that they fail, that removals are held back, that they
 * are stale, and the end of each.
 *
 * A registry that goes down fails ten thousand services at once. What happens within
 * REPORT_DELAY_USEC is told in one line, in detail where it is about one service. */

#include <stdbool.h>
#include <stdint.h>

#include "config.h"
#include "context.h"

#define REPORT_DELAY_USEC UINT64_C(200000)

enum report_kind {
	REPORT_FAILING,
	REPORT_RECOVERED,
	REPORT_HELD,
	REPORT_RELEASED,
	REPORT_RETURNED,
	REPORT_STALE,
	REPORT_FRESH,
	REPORT_KINDS,
};

struct report {
	uint64_t due_usec; /* 0: nothing to tell */
	struct report_part {
		unsigned count;
		char service[CONFIG_NAME_MAX + 1]; /* the first */
		char why[256];                     /* what is true of all of them */
		char detail[USHER_ERROR_TEXT_MAX]; /* the line, if there is no other */
	} parts[REPORT_KINDS];
};

struct origin;

void report_failing(struct origin *o, const struct context *c, const struct feed *feed,
		uint64_t now_usec);
void report_recovered(
		struct origin *o, const struct context *c, uint64_t after_usec, uint64_t now_usec);
void report_held(struct origin *o, const struct context *c, const struct feed *feed,
		uint64_t now_usec);
void report_released(struct origin *o, const struct context *c, const struct feed *feed,
		uint64_t now_usec);
void report_returned(struct origin *o, const struct context *c, size_t count, uint64_t now_usec);
void report_stale(struct origin *o, const struct context *c, const struct freshness *freshness,
		uint64_t now_usec);
void report_fresh(struct origin *o, const struct context *c, const struct freshness *freshness,
		uint64_t now_usec);

/* Write what has gathered. */
void report_write(struct origin *o);
