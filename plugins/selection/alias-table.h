#pragma once

/* Draws of positions in proportion to weights, in a time that does not depend on how many there
 * are: the alias method (Walker 1977), built as by Vose (1991), but in whole numbers, so that the
 * shares are those of the weights and nothing is lost to rounding.
 *
 * Each of n positions has a column of the height S, the sum of all weights. A column is filled with
 * w * n of its own position as far as that goes, and up to the brim with one other. A draw is one
 * of the n * S unit squares: its column and its height. A column is one word, for what a draw costs
 * is the cache line that it touches.
 *
 * For selectors of this tree; uses nothing but the public headers. */

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <usher/plugin.h>

#define ALIAS_BITS    17 /* of a column: the position that fills it up; the rest: its own height */
#define ALIAS_MASK    ((UINT64_C(1) << ALIAS_BITS) - 1)
#define ALIAS_SUM_MAX (UINT64_C(1) << (64 - ALIAS_BITS))

_Static_assert(USHER_ENDPOINTS_MAX <= ALIAS_MASK, "a position does not fit in a column");
_Static_assert((uint64_t) USHER_ENDPOINTS_MAX *USHER_WEIGHT_MAX *USHER_WEIGHT_UNIT < ALIAS_SUM_MAX,
		"a height does not fit in a column");
_Static_assert(ALIAS_SUM_MAX <= UINT64_MAX / USHER_ENDPOINTS_MAX, "n * S overflows");

struct alias_table {
	size_t count;
	uint64_t sum;       /* of the weights; 0: nothing can be drawn */
	uint64_t columns[]; /* count */
};

/* Positions whose columns are not filled up yet: lacking ones from the front, those with more than
 * a column from the back. */
struct alias_work {
	size_t lacking, ample;
	uint64_t *heights;
	uint32_t *positions;
};

static inline uint64_t alias_column(uint64_t height, size_t other)
{
	return height << ALIAS_BITS | other;
}

static inline void alias_sort_in(struct alias_work *work, uint64_t sum, uint32_t position)
{
	if (work->heights[position] < sum)
		work->positions[work->lacking++] = position;
	else
		work->positions[--work->ample] = position;
}

static inline void alias_fill_up(struct alias_table *t, struct alias_work *work)
{
	while (work->lacking > 0) {
		uint32_t low = work->positions[--work->lacking];
		uint32_t high = work->positions[work->ample++];

		/* What is lacking here is what is too much elsewhere, to the unit. */
		assert(work->ample <= t->count);
		t->columns[low] = alias_column(work->heights[low], high);
		work->heights[high] -= t->sum - work->heights[low];
		alias_sort_in(work, t->sum, high);
	}
	for (; work->ample < t->count; work->ample++) {
		uint32_t position = work->positions[work->ample];

		t->columns[position] = alias_column(t->sum, position);
	}
}

/* The table of the candidates' weights. Errors: ENOMEM; EOVERFLOW (weights above USHER_WEIGHT_MAX
 * that add up to 2^47). */
static inline int alias_table_new(const struct usher_view *view, const uint32_t *candidates,
		size_t count, struct alias_table **ret)
{
	struct alias_table *t = malloc(sizeof(*t) + count * sizeof(t->columns[0]));
	struct alias_work work = { .ample = count,
		.heights = malloc(count * sizeof(*work.heights)),
		.positions = malloc(count * sizeof(*work.positions)) };
	int r = -ENOMEM;

	if (!t || (count > 0 && (!work.heights || !work.positions)))
		goto out;
	*t = (struct alias_table){ .count = count };
	for (size_t i = 0; i < count; i++) {
		t->sum += view->weights[candidates[i]];
		work.heights[i] = (uint64_t) view->weights[candidates[i]] * count;
	}
	r = -EOVERFLOW;
	if (t->sum >= ALIAS_SUM_MAX)
		goto out;
	for (size_t i = 0; i < count; i++)
		alias_sort_in(&work, t->sum, (uint32_t) i);
	alias_fill_up(t, &work);
	*ret = t;
	t = NULL;
	r = 0;
out:
	free(t);
	free(work.heights);
	free(work.positions);
	return r;
}

/* A random number scaled to 0..bound-1, and what is left of it for another: the halves of a product
 * (Lemire 2019). */
static inline uint64_t alias_scale(uint64_t random, uint64_t bound, uint64_t *ret_rest)
{
	unsigned __int128 product = (unsigned __int128) random * bound;

	*ret_rest = (uint64_t) product;
	return (uint64_t) (product >> 64);
}

static inline size_t alias_table_at(const struct alias_table *t, size_t position, uint64_t random)
{
	uint64_t rest, column = t->columns[position];
	uint64_t height = alias_scale(random, t->sum, &rest);

	return height < column >> ALIAS_BITS ? position : column & ALIAS_MASK;
}

/* One position, as the random number says; sum must not be 0. */
static inline size_t alias_table_draw(const struct alias_table *t, uint64_t random)
{
	uint64_t rest;
	size_t position = (size_t) alias_scale(random, t->count, &rest);

	return alias_table_at(t, position, rest);
}

/* One from any column but this one's: mostly another position. */
static inline size_t alias_table_draw_elsewhere(
		const struct alias_table *t, size_t position, uint64_t random)
{
	uint64_t rest;

	position += 1 + (size_t) alias_scale(random, t->count - 1, &rest);
	return alias_table_at(t, position < t->count ? position : position - t->count, rest);
}

/* ---- with or without a table ---- */

/* What is drawn from: the table, or the weights one after the other where a stage has left out some
 * that are in the table. As many as in the table are those of the table. */
struct lot {
	const struct alias_table *table;
	const struct usher_view *view;
	const uint32_t *candidates;
	size_t count;
	uint64_t sum;  /* 0: nothing can be drawn */
	bool is_whole; /* the candidates are all endpoints */
};

static inline uint64_t lot_sum(
		const struct usher_view *view, const uint32_t *candidates, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += view->weights[candidates[i]];
	return sum;
}

static inline struct lot lot_of(const struct alias_table *table, const struct usher_view *view,
		const uint32_t *candidates, size_t count)
{
	if (table && table->count != count)
		table = NULL;
	return (struct lot){ .table = table,
		.view = view,
		.candidates = candidates,
		.count = count,
		.sum = table ? table->sum : lot_sum(view, candidates, count),
		/* Candidates are in rising order, from 0 on at the lowest. */
		.is_whole = candidates[count - 1] == count - 1 };
}

/* The endpoint at a position, without a look at the list where there is no need for one. */
static inline uint32_t lot_endpoint(const struct lot *lot, size_t position)
{
	return lot->is_whole ? (uint32_t) position : lot->candidates[position];
}

/* Through the weights of all positions but `except`. */
static inline size_t lot_scan(const struct lot *lot, uint64_t sum, size_t except, uint64_t random)
{
	uint64_t rest, slot = alias_scale(random, sum, &rest);
	size_t i = 0;

	for (;; i++) {
		uint32_t weight = lot->view->weights[lot->candidates[i]];

		if (i == except)
			continue;
		if (slot < weight)
			return i;
		slot -= weight;
	}
}

static inline size_t lot_draw(const struct lot *lot, uint64_t random)
{
	return lot->table ? alias_table_draw(lot->table, random)
			  : lot_scan(lot, lot->sum, SIZE_MAX, random);
}

/* A selector's prepare, share and, with free(), release. */
static inline int lot_prepare(const void *instance, const struct usher_view *view,
		const uint32_t *candidates, size_t count, void **ret_prepared)
{
	struct alias_table *table;
	int r;

	(void) instance;
	r = alias_table_new(view, candidates, count, &table);
	if (r >= 0)
		*ret_prepared = table;
	return r;
}

static inline double lot_share(const void *instance, const struct usher_view *view,
		const uint32_t *candidates, size_t count, size_t position)
{
	uint64_t sum = lot_sum(view, candidates, count);

	(void) instance;
	return sum == 0 ? 0 : (double) view->weights[candidates[position]] / (double) sum;
}

/* ---- the best of a few ---- */

/* Another number from one (SplitMix64; Steele, Lea and Flood 2014). */
static inline uint64_t lot_random(uint64_t random, uint64_t nth)
{
	random += nth * UINT64_C(0x9e3779b97f4a7c15);
	random = (random ^ random >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	random = (random ^ random >> 27) * UINT64_C(0x94d049bb133111eb);
	return random ^ random >> 31;
}

/* How often a draw that gave the same one again is repeated: where there are two both should be
 * looked at, and one that has nearly all the weight should not hold anything up. */
#define LOT_REDRAWS 3

/* Another position than this one, or the same where none is found. */
static inline size_t lot_draw_another(
		const struct lot *lot, size_t position, uint64_t random, uint64_t *nth)
{
	size_t other = position;
	uint64_t sum;

	if (!lot->table) {
		sum = lot->sum - lot->view->weights[lot_endpoint(lot, position)];
		return sum == 0 ? position
				: lot_scan(lot, sum, position, lot_random(random, ++*nth));
	}
	for (int i = 0; i <= LOT_REDRAWS && other == position; i++)
		other = alias_table_draw_elsewhere(
				lot->table, position, lot_random(random, ++*nth));
	return other;
}

/* Draw `choices` of them and keep the best, the first drawn where none is better (power of two
 * choices: Mitzenmacher 2001). So where all are as good as the next the shares are those of the
 * weights, whatever the further draws bring. -1: none has weight. */
static inline ssize_t lot_choose(const struct lot *lot, uint64_t random, int64_t choices,
		bool (*is_better)(const void *userdata, uint32_t candidate, uint32_t than),
		const void *userdata)
{
	uint64_t nth = 0;
	size_t best;

	if (lot->sum == 0)
		return -1;
	best = lot_draw(lot, random);
	for (int64_t i = 1; i < choices; i++) {
		size_t next = lot_draw_another(lot, best, random, &nth);

		if (next != best &&
				is_better(userdata, lot->candidates[next], lot->candidates[best]))
			best = next;
	}
	return (ssize_t) best;
}
