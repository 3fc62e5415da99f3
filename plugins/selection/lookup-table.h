#pragma once

/* Consistent hashing by a table of places, each of which belongs to one candidate: a pick is the
 * hash of the key and one look at the table. How places are given away is the selector's.
 *
 * Where the owner may not be chosen (a stage has left it out, or it has as much to do as it may)
 * the key jumps to another place, which depends on the key alone: "random jumps" (Chen, Coleman and
 * Shrivastava 2021, Revisiting Consistent Hashing with Bounded Loads), which spread what one
 * endpoint does not take over all others instead of piling it on its neighbour. What comes after a
 * few jumps is decided by weighted rendezvous hashing over all (Thaler and Ravishankar 1998;
 * Schindelhauer and Schomaker 2005). Either way a key stays where it is as long as that may be
 * chosen.
 *
 * For selectors of this tree; uses nothing but the public headers. */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <usher/plugin.h>

#define LOOKUP_JUMPS      32
#define LOOKUP_SEED       UINT64_C(0x6c6f6f6b7570) /* of the hashes of keys and ids */
#define LOOKUP_NARROW_MAX 65536 /* candidates whose positions have two bytes in the table */

struct lookup_table {
	size_t count;         /* candidates */
	size_t places;        /* 0: nobody has weight */
	uint16_t *narrow;     /* position of the owner by place, or */
	uint32_t *wide;       /* the same for more candidates */
	uint32_t *candidates; /* as they were when the table was made */
	uint64_t *hashes;     /* of their ids */
};

/* SplitMix64 (Steele, Lea and Flood 2014), its n-th number from this seed. */
static inline uint64_t lookup_mix(uint64_t seed, uint64_t nth)
{
	uint64_t x = seed + nth * UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

/* hash scaled to 0..bound-1 by the high half of a product (Lemire 2019). */
static inline size_t lookup_scale(uint64_t hash, size_t bound)
{
	return (size_t) (((unsigned __int128) hash * bound) >> 64);
}

static inline uint64_t lookup_hash_id(const struct usher_view *view, uint32_t candidate)
{
	return usher_hash_text(usher_endpoints_id(view->endpoints, candidate), LOOKUP_SEED);
}

/* The key's, or a random one where the consumer names none. */
static inline uint64_t lookup_hash_request(const struct usher_request *request)
{
	if (!request->key || !request->key[0])
		return request->random;
	return usher_hash_text(request->key, LOOKUP_SEED);
}

/* ---- making one ---- */

static inline void lookup_table_release(void *prepared)
{
	struct lookup_table *t = prepared;

	if (!t)
		return;
	free(t->narrow);
	free(t->wide);
	free(t->candidates);
	free(t->hashes);
	free(t);
}

/* A table of `places` places that belong to nobody yet. ENOMEM. */
static inline int lookup_table_new(const struct usher_view *view, const uint32_t *candidates,
		size_t count, size_t places, struct lookup_table **ret)
{
	struct lookup_table *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->count = count;
	t->places = places;
	t->candidates = malloc((count + 1) * sizeof(*t->candidates));
	t->hashes = malloc((count + 1) * sizeof(*t->hashes));
	if (count <= LOOKUP_NARROW_MAX)
		t->narrow = malloc((places + 1) * sizeof(*t->narrow));
	else
		t->wide = malloc((places + 1) * sizeof(*t->wide));
	if (!t->candidates || !t->hashes || (!t->narrow && !t->wide)) {
		lookup_table_release(t);
		return -ENOMEM;
	}
	for (size_t i = 0; i < count; i++) {
		t->candidates[i] = candidates[i];
		t->hashes[i] = lookup_hash_id(view, candidates[i]);
	}
	*ret = t;
	return 0;
}

static inline void lookup_table_give(struct lookup_table *t, size_t place, uint32_t position)
{
	if (t->narrow)
		t->narrow[place] = (uint16_t) position;
	else
		t->wide[place] = position;
}

static inline size_t lookup_table_at(const struct lookup_table *t, size_t place)
{
	return t->narrow ? t->narrow[place] : t->wide[place];
}

static inline size_t lookup_table_owner(const struct lookup_table *t, uint64_t hash)
{
	return lookup_table_at(t, lookup_scale(hash, t->places));
}

/* ---- bounded load ---- */

/* No endpoint gets more than its part of the open requests times a factor (Mirrokni, Thorup and
 * Zadimoghaddam 2016, Consistent Hashing with Bounded Loads). */
struct lookup_limit {
	const uint32_t *active;
	const uint32_t *weights;
	double by_weight;
};

static inline bool lookup_is_full(const struct lookup_limit *limit, uint32_t candidate)
{
	return limit &&
			limit->active[candidate] >=
			ceil(limit->by_weight * limit->weights[candidate]);
}

/* With the request that is to be placed counted in. */
static inline struct lookup_limit lookup_limit_of(const struct usher_view *view,
		const uint32_t *candidates, size_t count, double factor)
{
	uint64_t active = 1, weights = 0;

	for (size_t i = 0; i < count; i++) {
		active += view->active[candidates[i]];
		weights += view->weights[candidates[i]];
	}
	return (struct lookup_limit){ .active = view->active,
		.weights = view->weights,
		.by_weight = weights == 0 ? 0 : factor * (double) active / (double) weights };
}

/* ---- picking ---- */

/* The position of a candidate in a list in rising order, or -1. */
static inline ssize_t lookup_find(const uint32_t *candidates, size_t count, uint32_t candidate)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (candidates[middle] < candidate)
			low = middle + 1;
		else
			high = middle;
	}
	return low < count && candidates[low] == candidate ? (ssize_t) low : -1;
}

/* What decides between two in rendezvous hashing; the least wins: -ln(u) / weight with u in 0..1,
 * exclusive. */
static inline double lookup_rendezvous(uint64_t hash, uint64_t id_hash, uint32_t weight)
{
	double u = (double) (lookup_mix(hash ^ id_hash, 1) >> 12) + 0.5;

	return -log(u * 0x1p-52) / weight;
}

/* Rendezvous over all that have weight and are not full. The candidates are in the order of the
 * table's, so one walk finds the hashes of their ids. */
static inline ssize_t lookup_meet(const struct lookup_table *t, const struct usher_view *view,
		uint64_t hash, const uint32_t *candidates, size_t count,
		const struct lookup_limit *limit)
{
	double least = INFINITY;
	ssize_t found = -1;
	size_t k = 0;

	for (size_t i = 0; i < count; i++) {
		uint32_t weight = view->weights[candidates[i]];
		uint64_t id_hash;
		double drawn;

		if (weight == 0 || lookup_is_full(limit, candidates[i]))
			continue;
		while (t && k < t->count && t->candidates[k] < candidates[i])
			k++;
		id_hash = t && k < t->count && t->candidates[k] == candidates[i]
				? t->hashes[k]
				: lookup_hash_id(view, candidates[i]);
		drawn = lookup_rendezvous(hash, id_hash, weight);
		if (drawn < least) {
			least = drawn;
			found = (ssize_t) i;
		}
	}
	return found;
}

static inline ssize_t lookup_jump(const struct lookup_table *t, const struct usher_view *view,
		uint64_t hash, const uint32_t *candidates, size_t count,
		const struct lookup_limit *limit)
{
	for (uint64_t i = 0; t && i < LOOKUP_JUMPS; i++) {
		size_t owner = lookup_table_owner(t, i == 0 ? hash : lookup_mix(hash, i));
		ssize_t position = count == t->count
				? (ssize_t) owner
				: lookup_find(candidates, count, t->candidates[owner]);

		if (position >= 0 && !lookup_is_full(limit, candidates[position]))
			return position;
	}
	return lookup_meet(t, view, hash, candidates, count, limit);
}

/* The position of the one that the request's key belongs to, or -1. limit: NULL where there is
 * none. */
static inline ssize_t lookup_pick(const struct lookup_table *t, const struct usher_view *view,
		const struct usher_request *request, const uint32_t *candidates, size_t count,
		const struct lookup_limit *limit)
{
	uint64_t hash = lookup_hash_request(request);
	ssize_t position;

	if (t && t->places == 0)
		return -1;
	if (t && t->count == count && !limit)
		return (ssize_t) lookup_table_owner(t, hash);
	position = lookup_jump(t, view, hash, candidates, count, limit);
	/* Nobody is below the limit only where rounding says so. */
	return position < 0 && limit ? lookup_meet(t, view, hash, candidates, count, NULL)
				     : position;
}

/* A selector's share: the long-run one over many keys. */
static inline double lookup_share(const void *instance, const struct usher_view *view,
		const uint32_t *candidates, size_t count, size_t position)
{
	uint64_t sum = 0;

	(void) instance;
	for (size_t i = 0; i < count; i++)
		sum += view->weights[candidates[i]];
	return sum == 0 ? 0 : (double) view->weights[candidates[position]] / (double) sum;
}
