#include "lateness.h"

#define FINE_BITS 3 /* eight buckets an octave */
#define FINE      (UINT64_C(1) << FINE_BITS)

static size_t bucket_of(uint64_t value)
{
	unsigned octave;

	if (value < 2 * FINE)
		return (size_t) value;
	octave = 63 - (unsigned) __builtin_clzll(value);
	return (octave - FINE_BITS) * FINE + (value >> (octave - FINE_BITS));
}

static uint64_t bucket_end(size_t bucket)
{
	size_t octave = bucket / FINE;

	if (bucket < 2 * FINE)
		return bucket;
	return ((FINE + bucket % FINE + 1) << (octave - 1)) - 1;
}

_Static_assert(LATENESS_BUCKETS >= (64 - FINE_BITS + 1) * FINE, "every value has a bucket");

void lateness_add(struct lateness *l, uint64_t late_usec, uint64_t now_usec)
{
	struct lateness_window *window;

	if (now_usec - l->since_usec >= LATENESS_WINDOW_USEC) {
		l->filling ^= 1;
		l->windows[l->filling] = (struct lateness_window){};
		if (now_usec - l->since_usec >= 2 * LATENESS_WINDOW_USEC)
			l->windows[l->filling ^ 1] = (struct lateness_window){};
		l->since_usec = now_usec;
	}
	window = &l->windows[l->filling];
	window->count++;
	window->buckets[bucket_of(late_usec)]++;
	if (late_usec > window->max_usec)
		window->max_usec = late_usec;
}

uint64_t lateness_max(const struct lateness *l)
{
	uint64_t a = l->windows[0].max_usec, b = l->windows[1].max_usec;

	return a > b ? a : b;
}

uint64_t lateness_quantile(const struct lateness *l, double share)
{
	uint64_t count = l->windows[0].count + l->windows[1].count, seen = 0;
	uint64_t max = lateness_max(l);

	for (size_t i = 0; i < LATENESS_BUCKETS; i++) {
		seen += (uint64_t) l->windows[0].buckets[i] + l->windows[1].buckets[i];
		if (seen > 0 && (double) seen >= share * (double) count)
			return bucket_end(i) < max ? bucket_end(i) : max;
	}
	return max;
}
