#pragma once

/* Randomness for choosing and spreading, not for secrets: xoshiro256++ (Blackman and Vigna 2019),
 * seeded from the kernel. Thread: one generator a thread. */

#include <stdint.h>

struct random {
	uint64_t state[4];
};

void random_init(struct random *random);
uint64_t random_next(struct random *random);
/* Uniform in 0..bound-1, bound > 0 (Lemire 2019, without the rejection step: bias below bound /
 * 2^64). */
uint64_t random_below(struct random *random, uint64_t bound);
