#pragma once

/* How current an answer is: what every interface says with it. */

#include <stdint.h>

/* What is known of a source's word about one service. */
enum source_state {
	SOURCE_UNKNOWN, /* never answered */
	SOURCE_LIVE,
	SOURCE_STALE,  /* the last answer is older than max_age */
	SOURCE_FAILED, /* the last attempt failed; the answer is the one before */
	SOURCE_DENIED, /* the registry refuses; somebody must act */
};

const char *source_state_to_string(enum source_state state);

struct freshness {
	enum source_state state;
	uint64_t age_usec; /* upper bound; USEC_FOREVER while never answered */
	uint64_t max_age_usec;
	const char *source; /* name of the source that the bound comes from; NULL: none. Borrowed
			       for as long as its context is unchanged */
};
