/* The same key goes to the same endpoint, and when an endpoint comes or goes only the keys that are
 * its own move: consistent hashing (Karger et al. 1997) on a circle, as in ketama (Last.fm 2007).
 *
 * The circle has a power of two of places. Every endpoint puts points on it, the more the heavier
 * it is; a place belongs to the point on it, and one without belongs to the next one clockwise.
 * Where several points meet, the one that came first has the place: an endpoint's r-th point comes
 * at (r + u) / weight, u in 0..1 out of the point's hash. So twice as many points as places fill
 * the circle nearly as evenly as rendezvous hashing would (the first to come to a place is the
 * heavier the likelier, to the exact proportion), and which points are there does not depend on who
 * else is there, but for those that come last.
 *
 * The n-th point of an id is the n-th number of SplitMix64 from the id's hash, upper bits for the
 * place, lower ones for u. It is not libketama's MD5 of "host:port-n": that has no answer to points
 * that meet, and would tie an endpoint's keys to its address. */

#include <usher/plugin.h>

#include "../lookup-table.h"

#define RING_MAX     (INT64_C(1) << 23) /* places */
#define PLACES_EACH  8                  /* an endpoint at least, as far as max_size lets */
#define GROWTH_SHIFT 3 /* by so much at once, for keys move where the circle grows */
/* The fewer places there are without a point, the fewer keys move beside those that must; among
 * many endpoints these are few in any case. */
#define POINTS_OF_A_PLACE         4
#define POINTS_OF_A_PLACE_OF_MANY 2
#define PLACES_MANY               65536
#define LATE_POINTS               64
#define BOUND_MAX                 1000 /* percent */

struct ring_hash {
	int64_t min_size, max_size; /* options, powers of two */
	double bound;               /* option; 0: none */
};

/* ---- options ---- */

static int check_size(const char *option, int64_t size, struct usher_error *reterr)
{
	if ((size & (size - 1)) == 0)
		return 0;
	return usher_error_set(reterr, -EINVAL, "%s %lld is not a power of two, such as 16384",
			option, (long long) size);
}

static int ring_hash_init(void *instance, struct usher_error *reterr)
{
	struct ring_hash *h = instance;
	int r;

	r = check_size("min_size", h->min_size, reterr);
	if (r >= 0)
		r = check_size("max_size", h->max_size, reterr);
	if (r < 0)
		return r;
	if (h->min_size > h->max_size)
		return usher_error_set(reterr, -ERANGE,
				"min_size %lld is above max_size %lld; write a smaller min_size or a larger max_size",
				(long long) h->min_size, (long long) h->max_size);
	if (h->bound > 0 && h->bound <= 1)
		return usher_error_set(reterr, -ERANGE,
				"bounded_load %.0f%% is not above 100%%: it is what an endpoint may have open, against its part of all; write 0%% for no bound",
				h->bound * 100);
	return 0;
}

/* ---- the circle ---- */

/* A point on a place: when it came (a float above 0, whose bits rise with it) above whose it is. */
#define NOBODY UINT64_MAX

static uint64_t point_of(double when, uint32_t position)
{
	union {
		float number;
		uint32_t bits;
	} f = { .number = (float) when };

	return (uint64_t) f.bits << 32 | position;
}

/* The size of the circle, as a power of two. */
static unsigned places_shift(const struct ring_hash *h, size_t count)
{
	unsigned shift = (unsigned) __builtin_ctzll((uint64_t) h->min_size);
	unsigned last = (unsigned) __builtin_ctzll((uint64_t) h->max_size);

	while (shift < last && UINT64_C(1) << shift < (uint64_t) count * PLACES_EACH)
		shift += GROWTH_SHIFT;
	return shift < last ? shift : last;
}

static size_t place_of(uint64_t hash, unsigned shift)
{
	return shift == 0 ? 0 : (size_t) (hash >> (64 - shift));
}

/* Put the points of one candidate on the circle: those that come before the last, and the first in
 * any case. */
static void put_points(uint64_t *circle, unsigned shift, uint64_t id_hash, uint32_t position,
		double by_weight, double last)
{
	for (uint64_t r = 0;; r++) {
		uint64_t hash = lookup_mix(id_hash, r + 1);
		uint64_t *place = &circle[place_of(hash, shift)];
		double when = ((double) r + ((double) (uint32_t) hash + 0.5) * 0x1p-32) * by_weight;
		uint64_t point = point_of(when, position);

		if (r > 0 && when >= last)
			return;
		*place = point < *place ? point : *place;
	}
}

/* Places without a point belong to the next one clockwise. */
static void give_places_away(struct lookup_table *t, const uint64_t *circle)
{
	size_t first = 0;
	uint32_t owner;

	while (first < t->places - 1 && circle[first] == NOBODY)
		first++;
	owner = (uint32_t) circle[first];
	for (size_t i = t->places; i-- > 0;) {
		if (circle[i] != NOBODY)
			owner = (uint32_t) circle[i];
		lookup_table_give(t, i, owner);
	}
}

/* Who came too late everywhere gets the first place that it has a point on and whose owner can do
 * without it. */
static void give_one(struct lookup_table *t, uint32_t *places_of, unsigned shift, uint32_t position)
{
	for (uint64_t r = 0; r < LATE_POINTS; r++) {
		uint64_t hash = lookup_mix(t->hashes[position], r + 1);
		uint32_t owner = (uint32_t) lookup_table_owner(t, hash);

		if (places_of[owner] < 2)
			continue;
		places_of[owner]--;
		places_of[position]++;
		lookup_table_give(t, place_of(hash, shift), position);
		return;
	}
}

static int give_everyone_one(struct lookup_table *t, const struct usher_view *view, unsigned shift)
{
	uint32_t *places_of = calloc(t->count, sizeof(*places_of));

	if (!places_of)
		return -ENOMEM;
	for (size_t i = 0; i < t->places; i++)
		places_of[lookup_table_at(t, i)]++;
	for (uint32_t i = 0; i < t->count; i++)
		if (places_of[i] == 0 && view->weights[t->candidates[i]] > 0)
			give_one(t, places_of, shift, i);
	free(places_of);
	return 0;
}

static int fill_circle(
		struct lookup_table *t, const struct usher_view *view, unsigned shift, uint64_t sum)
{
	uint64_t *circle = malloc(t->places * sizeof(*circle));
	int points = t->places < PLACES_MANY ? POINTS_OF_A_PLACE : POINTS_OF_A_PLACE_OF_MANY;
	double last = (double) t->places * points / (double) sum;

	if (!circle)
		return -ENOMEM;
	for (size_t i = 0; i < t->places; i++)
		circle[i] = NOBODY;
	for (size_t i = 0; i < t->count; i++) {
		uint32_t weight = view->weights[t->candidates[i]];

		if (weight > 0)
			put_points(circle, shift, t->hashes[i], (uint32_t) i, 1 / (double) weight,
					last);
	}
	give_places_away(t, circle);
	free(circle);
	return give_everyone_one(t, view, shift);
}

/* ---- the selector ---- */

static int ring_hash_prepare(const void *instance, const struct usher_view *view,
		const uint32_t *candidates, size_t count, void **ret_prepared)
{
	const struct ring_hash *h = instance;
	unsigned shift = places_shift(h, count);
	struct lookup_table *t;
	uint64_t sum = 0;
	int r;

	for (size_t i = 0; i < count; i++)
		sum += view->weights[candidates[i]];
	r = lookup_table_new(view, candidates, count, sum == 0 ? 0 : (size_t) 1 << shift, &t);
	if (r < 0)
		return r;
	if (sum > 0)
		r = fill_circle(t, view, shift, sum);
	if (r < 0) {
		lookup_table_release(t);
		return r;
	}
	*ret_prepared = t;
	return 0;
}

static ssize_t ring_hash_pick(const void *instance, const void *prepared,
		const struct usher_view *view, const struct usher_request *request,
		const uint32_t *candidates, size_t count)
{
	const struct ring_hash *h = instance;
	struct lookup_limit limit;

	if (h->bound <= 0 || !view->active)
		return lookup_pick(prepared, view, request, candidates, count, NULL);
	limit = lookup_limit_of(view, candidates, count, h->bound);
	return lookup_pick(prepared, view, request, candidates, count, &limit);
}

static const struct usher_option ring_hash_options[] = {
	{ .name = "min_size",
			.type = USHER_OPTION_INTEGER,
			.offset = offsetof(struct ring_hash, min_size),
			.help = "The least number of places on the circle, a power of two in "
				"1..8388608.",
			.default_text = "16384",
			.min = 1,
			.max = RING_MAX },
	{ .name = "max_size",
			.type = USHER_OPTION_INTEGER,
			.offset = offsetof(struct ring_hash, max_size),
			.help = "The largest number of places on the circle, a power of two in "
				"1..8388608.",
			.default_text = "262144",
			.min = 1,
			.max = RING_MAX },
	{ .name = "bounded_load",
			.type = USHER_OPTION_SHARE,
			.offset = offsetof(struct ring_hash, bound),
			.help = "How many requests an endpoint may have open before its keys go "
				"elsewhere, against its part of all that are open, such as 125%; "
				"0%: as many as come.",
			.default_text = "0%",
			.min = 0,
			.max = BOUND_MAX },
	{},
};

USHER_PLUGIN(.name = "ring_hash", .summary = "The same key to the same one, on a circle",
		.instance_size = sizeof(struct ring_hash), .options = ring_hash_options,
		.init = ring_hash_init,
		.selector = &(const struct usher_selector){
				.size = sizeof(struct usher_selector),
				.prepare = ring_hash_prepare,
				.release = lookup_table_release,
				.pick = ring_hash_pick,
				.share = lookup_share,
				.flags = USHER_SELECTOR_SUBSETS,
		});
