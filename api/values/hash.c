#include <string.h>
#include <usher/hash.h>
#include <xxhash.h>

uint64_t usher_hash(const void *data, size_t size, uint64_t seed)
{
	return XXH3_64bits_withSeed(data, size, seed);
}

uint64_t usher_hash_text(const char *text, uint64_t seed)
{
	return usher_hash(text ? text : "", text ? strlen(text) : 0, seed);
}
