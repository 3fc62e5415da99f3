#pragma once

/* How often something may begin: a bucket of tokens that fills at a rate. Pure; time is an
 * argument. */

#include <stdbool.h>
#include <stdint.h>

struct pace {
	double rate;  /* a second; 0: as often as asked */
	double depth; /* how many may begin at once after a rest; at least 1 */
	double tokens;
	uint64_t filled_usec;
};

/* A full bucket. */
void pace_init(struct pace *p, double rate, double depth, uint64_t now_usec);
/* Another rate and depth from now on; tokens that are there stay, up to the depth. */
void pace_set(struct pace *p, double rate, double depth, uint64_t now_usec);
/* Whether one may begin now. */
bool pace_allows(struct pace *p, uint64_t now_usec);
/* One begins. */
void pace_take(struct pace *p);
/* When the next may begin; 0: at once. */
uint64_t pace_next_usec(const struct pace *p);
