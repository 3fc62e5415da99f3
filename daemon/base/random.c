#include "random.h"

#include <sys/random.h>

#include "clock.h"

/* SplitMix64, the seeding that the generator's authors recommend. */
static uint64_t split_mix(uint64_t *x)
{
	uint64_t z = (*x += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

void random_init(struct random *random)
{
	uint64_t seed;

	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
		seed = clock_boot_usec() ^ clock_wall_usec() << 20;
	for (int i = 0; i < 4; i++)
		random->state[i] = split_mix(&seed);
}

static uint64_t rotate_left(uint64_t x, int k)
{
	return x << k | x >> (64 - k);
}

uint64_t random_next(struct random *random)
{
	uint64_t *s = random->state;
	uint64_t result = rotate_left(s[0] + s[3], 23) + s[0];
	uint64_t t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotate_left(s[3], 45);
	return result;
}

uint64_t random_below(struct random *random, uint64_t bound)
{
	return (uint64_t) ((unsigned __int128) random_next(random) * bound >> 64);
}
