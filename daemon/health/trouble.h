#pragma once

/* Something that is told once when it begins, and once when it has not been for a while. Pure; time
 * is an argument. */

#include <stdbool.h>
#include <stdint.h>

struct trouble {
	bool is_told;
	uint64_t last_usec; /* when it was seen last */
};

/* 1: it begins, -1: it has ended, 0: there is nothing to tell. */
int trouble_note(struct trouble *t, bool is_there, uint64_t quiet_usec, uint64_t now_usec);
