#pragma once

/* Whether usherd may call itself ready: every declared service has its first answer, or has used up
 * its startup_timeout. */

#include <stdbool.h>
#include <stdint.h>

#include "directory.h"
#include "text.h"

struct readiness {
	bool ready;
	unsigned total; /* declared services */
	unsigned answered;
	unsigned gave_up;   /* of those without an answer, whose time is used up */
	uint64_t next_usec; /* when the next one's time is used up; USEC_FOREVER: none waits */
};

void readiness_judge(const struct directory *directory, uint64_t started_usec, uint64_t now_usec,
		struct readiness *ret);
/* "3 of 4 services have their first answer; waiting for catalog": at most a few names. */
void readiness_describe(const struct directory *directory, const struct readiness *readiness,
		struct text *text);
