#pragma once

/* A number for a text, the same on every node, in every version and for ever: what decides by a key
 * decides alike wherever it is asked. It is XXH3 of 64 bits (https://xxhash.com, whose output has
 * been frozen since 0.8.0). Not for secrets. Thread: any. */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Another seed, another number that has nothing to do with the first. */
uint64_t usher_hash(const void *data, size_t size, uint64_t seed);
/* The same of a text without its end; NULL is the empty text. */
uint64_t usher_hash_text(const char *text, uint64_t seed);
/* A hash, or anything else that is evenly spread, as a fraction in 0..1, 1 excluded. */
static inline double usher_hash_fraction(uint64_t hash)
{
	return (double) (hash >> 11) / 9007199254740992.0; /* 2^53: what a double holds exactly */
}

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
