#pragma once

/* How old an answer is, and what that makes of it. Pure: time is an argument. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "freshness.h"

/* Observed this long ago: it is not known when. */
#define STALENESS_AGE_UNKNOWN (UINT64_C(1) << 62)

/* One source of the answer. */
struct staleness_part {
	const char *source;
	enum source_state last; /* how its last attempt ended; SOURCE_UNKNOWN: there was none */
	bool answered;          /* it has an answer in force */
	bool contributes;       /* the endpoints are (also) its, or would be */
	uint64_t observed_usec; /* of the last proof; differences count, so it may lie before the
				   boot */
};

/* How long ago, or USEC_FOREVER when that is not known. A time after now (which a caller read a
 * moment before the source spoke) is now. */
uint64_t staleness_age(uint64_t observed_usec, uint64_t now_usec);

/* The age is that of the oldest part that contributes; past max_age the state is stale, whatever
 * else is wrong. Else it is the worst of the parts: denied, failed, unknown (the answer is the
 * disk's, its source has not spoken yet), live. A part that contributes and has never answered
 * counts when it failed; without any answer the state is unknown, failed or denied. */
void staleness_judge(const struct staleness_part *parts, size_t count, uint64_t max_age_usec,
		uint64_t now_usec, struct freshness *ret);

/* When the answer turns stale, or USEC_FOREVER: it is, or there is none. */
uint64_t staleness_deadline(const struct freshness *freshness, uint64_t now_usec);

/* The age of an answer that was stored with its wall-clock time, or USEC_FOREVER: a time in the
 * future, or none, proves nothing. */
uint64_t staleness_restored_age(uint64_t observed_wall_usec, uint64_t now_wall_usec);
