/* Turns in proportion to the weights, spread out: 5:1:1 gives a a b a c a a, not a a a a a b c.
 *
 * Which one is next is a function of the cursor alone, so that picks share no state but a counter,
 * and over one period (the sum of the weights divided by their greatest common divisor) each is
 * chosen exactly as often as its weight says.
 *
 * Short periods are written down at publication, in the order of nginx's smooth weighted balancing
 * (nginx 1.3.1, changeset 52327e0627f4): every turn each endpoint gains its weight, the one that
 * has gained most is chosen and loses the sum of all.
 *
 * Long periods are walked by a step near the golden section of the period that has no divisor in
 * common with it: slot = cursor * step mod period, looked up in the sums of the weights. No divisor
 * in common means that every slot comes once a period, so the shares stay exact; the golden section
 * keeps the visits of every interval of slots apart (Sós 1957, the three-distance theorem; Knuth,
 * The Art of Computer Programming 3, 6.4).
 *
 * So that a pick takes as long among many as among few, the division is one by a constant, done by
 * multiplying (Shoup's; Harvey 2014, Faster arithmetic for number-theoretic transforms, section 2),
 * and a guide table (Chen and Asau 1974) leads to the sums: one of its words tells the answer for
 * nearly every slot.
 *
 * Where a stage has looked at the request, the picks that see one set of candidates are an unknown
 * selection of all picks and counting them proves nothing; there the choice is random in proportion
 * to the weights. */

#include <errno.h>
#include <stdlib.h>
#include <usher/plugin.h>

/* What writing a period down may cost: 32 KiB, and a third of a millisecond. What is longer is
 * smooth by the golden section. */
#define TURNS_MAX      8192
#define TURNS_WORK_MAX (UINT64_C(1) << 18)

/* The most slots that a period can have; sums need 64 bits, products of two sums 128. */
_Static_assert((uint64_t) USHER_ENDPOINTS_MAX *USHER_WEIGHT_MAX *USHER_WEIGHT_UNIT < UINT64_MAX / 2,
		"sums overflow");

#define POSITION_BITS 17 /* of a word of the guide; the rest: a number of slots */
#define POSITION_MASK ((UINT64_C(1) << POSITION_BITS) - 1)
#define SLOTS_MANY    (UINT64_MAX >> POSITION_BITS)

_Static_assert(USHER_ENDPOINTS_MAX <= POSITION_MASK, "a position does not fit in the guide");

struct prepared {
	uint64_t period;  /* 0: nobody has weight */
	uint64_t step;    /* from one slot to the next */
	uint64_t step_up; /* step * 2^64 / period */
	size_t count;
	uint32_t *turns; /* positions by slot, or: */
	uint64_t *ends;  /* sums of weights: position i has the slots ends[i-1]..ends[i]-1 */
	unsigned shift;  /* a slot is in bucket slot >> shift */
	/* Of each bucket: who has its first slots, and how many; the others are the next one's.
	 * SLOTS_MANY: look at the ends. */
	uint64_t *guide;
};

static uint64_t greatest_common_divisor(uint64_t a, uint64_t b)
{
	while (b != 0) {
		uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

static uint64_t sum_of_weights(
		const struct usher_view *view, const uint32_t *candidates, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += view->weights[candidates[i]];
	return sum;
}

static uint64_t divisor_of_weights(
		const struct usher_view *view, const uint32_t *candidates, size_t count)
{
	uint64_t divisor = 0;

	for (size_t i = 0; i < count && divisor != 1; i++)
		divisor = greatest_common_divisor(divisor, view->weights[candidates[i]]);
	return divisor;
}

/* ---- short periods ---- */

static int write_positions_down(struct prepared *p, const uint32_t *weights)
{
	size_t turn = 0;

	p->turns = malloc(p->period * sizeof(*p->turns));
	if (!p->turns)
		return -ENOMEM;
	for (size_t i = 0; i < p->count; i++)
		if (weights[i] > 0)
			p->turns[turn++] = (uint32_t) i;
	return 0;
}

static int write_turns_down(struct prepared *p, const uint32_t *weights)
{
	int64_t *gained = calloc(p->count, sizeof(*gained));

	p->turns = malloc(p->period * sizeof(*p->turns));
	if (!gained || !p->turns) {
		free(gained);
		return -ENOMEM;
	}

	for (uint64_t turn = 0; turn < p->period; turn++) {
		size_t best = SIZE_MAX;

		for (size_t i = 0; i < p->count; i++) {
			gained[i] += weights[i];
			if (weights[i] > 0 && (best == SIZE_MAX || gained[i] > gained[best]))
				best = i;
		}
		gained[best] -= (int64_t) p->period;
		p->turns[turn] = (uint32_t) best;
	}
	free(gained);
	return 0;
}

/* ---- long periods ---- */

/* How many steps near the golden section are looked at. */
#define STEPS_TRIED 64

/* The largest partial quotient of step / period as a continued fraction, by Euclid's algorithm:
 * what bounds how unevenly its multiples lie (Knuth 2, 3.3.3, theorem K). UINT64_MAX: they have a
 * divisor in common. */
static uint64_t unevenness(uint64_t step, uint64_t period)
{
	uint64_t largest = 0, a = period, b = step;

	while (b != 0) {
		uint64_t quotient = a / b, rest = a % b;

		if (quotient > largest)
			largest = quotient;
		a = b;
		b = rest;
	}
	return a == 1 ? largest : UINT64_MAX;
}

/* Near period / golden ratio, the most even of those that have no divisor in common with the
 * period. Among so many neighbours there always is one: no number below 2^64 has more than 15
 * primes. */
static uint64_t golden_step(uint64_t period)
{
	/* 2^64 / golden ratio */
	const uint64_t golden = UINT64_C(0x9e3779b97f4a7c15);
	uint64_t middle = (uint64_t) (((unsigned __int128) period * golden) >> 64);
	uint64_t best = 1, best_unevenness = UINT64_MAX;

	for (uint64_t i = 0; i < STEPS_TRIED; i++) {
		uint64_t step = middle - STEPS_TRIED / 2 + i;
		uint64_t uneven = unevenness(step, period);

		if (uneven < best_unevenness) {
			best_unevenness = uneven;
			best = step;
		}
	}
	return best;
}

static int sum_up(struct prepared *p, const uint32_t *weights)
{
	uint64_t end = 0;

	p->ends = malloc(p->count * sizeof(*p->ends));
	if (!p->ends)
		return -ENOMEM;
	for (size_t i = 0; i < p->count; i++)
		p->ends[i] = end += weights[i];
	p->step = golden_step(p->period);
	return 0;
}

/* What the guide says of the bucket that begins with this slot, which is the position's. */
static uint64_t guide_word(const struct prepared *p, uint64_t first, size_t position)
{
	uint64_t size = UINT64_C(1) << p->shift, rest = p->ends[position] - first;

	if (rest >= size)
		return size << POSITION_BITS | position;
	if (position + 1 == p->count || p->ends[position + 1] - first >= size)
		return rest << POSITION_BITS | position;
	return SLOTS_MANY << POSITION_BITS | position;
}

/* As many buckets as endpoints, up to twice as many: more are more memory than they save steps. */
static int write_guide(struct prepared *p)
{
	size_t buckets, position = 0;

	while ((p->period - 1) >> p->shift >= 2 * p->count)
		p->shift++;
	buckets = (size_t) ((p->period - 1) >> p->shift) + 1;
	p->guide = malloc(buckets * sizeof(*p->guide));
	if (!p->guide)
		return -ENOMEM;
	for (size_t i = 0; i < buckets; i++) {
		uint64_t first = (uint64_t) i << p->shift;

		while (p->ends[position] <= first)
			position++;
		p->guide[i] = guide_word(p, first, position);
	}
	return 0;
}

/* The first position from `low` on whose end is above the slot: never one of weight 0, whose end is
 * that of the one before. It is near by, so the steps get longer before they get shorter. */
static size_t search_ends(const struct prepared *p, size_t low, uint64_t slot)
{
	size_t high = low, stride = 1;

	while (high < p->count - 1 && p->ends[high] <= slot) {
		low = high + 1;
		high = p->count - 1 - high > stride ? high + stride : p->count - 1;
		stride *= 2;
	}
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (p->ends[middle] > slot)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static size_t position_of_slot(const struct prepared *p, uint64_t slot)
{
	uint64_t word = p->guide[slot >> p->shift], slots = word >> POSITION_BITS;
	size_t position = word & POSITION_MASK;

	if (slots == SLOTS_MANY)
		return search_ends(p, position, slot);
	return position + ((slot & ((UINT64_C(1) << p->shift) - 1)) >= slots);
}

/* ---- the selector ---- */

static void weighted_release(void *prepared)
{
	struct prepared *p = prepared;

	if (!p)
		return;
	free(p->turns);
	free(p->ends);
	free(p->guide);
	free(p);
}

static int prepare_turns(struct prepared *p, const uint32_t *weights, size_t with_weight)
{
	int r;

	if (p->period == 0)
		return 0;
	/* Divided by their divisor, weights that are alike are all 1. */
	if (p->period == with_weight)
		return write_positions_down(p, weights);
	if (p->period <= TURNS_MAX && p->period * p->count <= TURNS_WORK_MAX)
		return write_turns_down(p, weights);
	r = sum_up(p, weights);
	return r < 0 ? r : write_guide(p);
}

static int weighted_prepare(const void *instance, const struct usher_view *view,
		const uint32_t *candidates, size_t count, void **ret_prepared)
{
	uint64_t divisor = divisor_of_weights(view, candidates, count);
	size_t with_weight = 0;
	struct prepared *p;
	uint32_t *weights;
	int r;

	(void) instance;
	p = calloc(1, sizeof(*p));
	weights = calloc(count ? count : 1, sizeof(*weights));
	if (!p || !weights) {
		free(p);
		free(weights);
		return -ENOMEM;
	}

	p->count = count;
	for (size_t i = 0; i < count && divisor > 0; i++) {
		weights[i] = (uint32_t) (view->weights[candidates[i]] / divisor);
		p->period += weights[i];
		with_weight += weights[i] > 0;
	}
	p->step = p->period > 1;
	r = prepare_turns(p, weights, with_weight);
	if (p->period > 0)
		p->step_up = (uint64_t) (((unsigned __int128) p->step << 64) / p->period);
	free(weights);
	if (r < 0) {
		weighted_release(p);
		return r;
	}
	*ret_prepared = p;
	return 0;
}

static ssize_t pick_by_chance(const struct usher_view *view, const struct usher_request *request,
		const uint32_t *candidates, size_t count)
{
	uint64_t sum = sum_of_weights(view, candidates, count);
	/* 0..sum-1 by the high half of a product (Lemire 2019). */
	uint64_t slot = (uint64_t) (((unsigned __int128) request->random * sum) >> 64);

	for (size_t i = 0; i < count; i++) {
		uint32_t weight = view->weights[candidates[i]];

		if (slot < weight)
			return (ssize_t) i;
		slot -= weight;
	}
	return -1;
}

/* cursor * step mod period: what the estimate of the quotient is short of is less than 2, and the
 * period is less than 2^63. */
static uint64_t slot_of(const struct prepared *p, uint64_t cursor)
{
	uint64_t quotient = (uint64_t) (((unsigned __int128) cursor * p->step_up) >> 64);
	uint64_t slot = cursor * p->step - quotient * p->period;

	return slot >= p->period ? slot - p->period : slot;
}

static ssize_t weighted_pick(const void *instance, const void *prepared,
		const struct usher_view *view, const struct usher_request *request,
		const uint32_t *candidates, size_t count)
{
	const struct prepared *p = prepared;
	uint64_t slot;

	(void) instance;
	if (!p)
		return pick_by_chance(view, request, candidates, count);
	if (p->period == 0)
		return -1;

	slot = slot_of(p, request->cursor);
	return (ssize_t) (p->turns ? p->turns[slot] : position_of_slot(p, slot));
}

static double weighted_share(const void *instance, const struct usher_view *view,
		const uint32_t *candidates, size_t count, size_t position)
{
	uint64_t sum = sum_of_weights(view, candidates, count);

	(void) instance;
	return sum == 0 ? 0 : (double) view->weights[candidates[position]] / (double) sum;
}

USHER_PLUGIN(.name = "weighted_round_robin", .summary = "Turns in proportion to the weights",
		.selector = &(const struct usher_selector){
				.size = sizeof(struct usher_selector),
				.prepare = weighted_prepare,
				.release = weighted_release,
				.pick = weighted_pick,
				.share = weighted_share,
		});
