#pragma once

/* When to try again what has failed, for a plug-in that has many requests under way and keeps a
 * time for each: full jitter, so that a thousand daemons which lost one registry at one moment do
 * not come back at one moment. (Brooker, "Exponential Backoff and Jitter", 2015.) */

#include <stdint.h>
#include <sys/random.h>
#include <time.h>

#define RETRY_FIRST_USEC UINT64_C(200000)
#define RETRY_MOST_USEC  UINT64_C(30000000)

static inline uint64_t retry_now_usec(void)
{
	struct timespec t = { 0 };

	(void) clock_gettime(CLOCK_BOOTTIME, &t);
	return (uint64_t) t.tv_sec * 1000000 + (uint64_t) t.tv_nsec / 1000;
}

/* The state of a generator; the time stands in where the kernel has no random bits yet. */
static inline uint64_t retry_seed(void)
{
	uint64_t seed = 0;

	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
		seed = retry_now_usec();
	return seed;
}

/* SplitMix64 (Steele, Lea, Flood 2014). */
static inline uint64_t retry_random(uint64_t *state)
{
	uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* The longest wait after so many failures in turn: 0.2 s, doubling with each to 30 s. */
static inline uint64_t retry_window_usec(unsigned failures)
{
	unsigned doublings = failures > 1 ? failures - 1 : 0;
	uint64_t window = doublings > 8 ? RETRY_MOST_USEC : RETRY_FIRST_USEC << doublings;

	return window > RETRY_MOST_USEC ? RETRY_MOST_USEC : window;
}

/* How long to wait: anything from 1 us to that. */
static inline uint64_t retry_delay_usec(uint64_t *state, unsigned failures)
{
	return 1 + retry_random(state) % retry_window_usec(failures);
}
