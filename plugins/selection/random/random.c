/* Each pick is independent, and every candidate with weight is as likely as the next. */

#include <errno.h>
#include <stdlib.h>
#include <usher/plugin.h>

/* The positions that may be chosen: those with weight. */
struct prepared {
	size_t count;
	uint32_t positions[];
};

static size_t count_with_weight(
		const struct usher_view *view, const uint32_t *candidates, size_t count)
{
	size_t with_weight = 0;

	for (size_t i = 0; i < count; i++)
		with_weight += view->weights[candidates[i]] > 0;
	return with_weight;
}

static int random_prepare(const void *instance, const struct usher_view *view,
		const uint32_t *candidates, size_t count, void **ret_prepared)
{
	struct prepared *p;

	(void) instance;
	p = malloc(sizeof(*p) + count * sizeof(p->positions[0]));
	if (!p)
		return -ENOMEM;
	p->count = 0;
	for (size_t i = 0; i < count; i++)
		if (view->weights[candidates[i]] > 0)
			p->positions[p->count++] = (uint32_t) i;
	*ret_prepared = p;
	return 0;
}

/* 0..bound-1 by the high half of a product (Lemire 2019): bias below bound / 2^64. */
static size_t scale(uint64_t random, size_t bound)
{
	return (size_t) (((unsigned __int128) random * bound) >> 64);
}

static ssize_t nth_with_weight(
		const struct usher_view *view, const uint32_t *candidates, size_t count, size_t nth)
{
	for (size_t i = 0; i < count; i++) {
		if (view->weights[candidates[i]] == 0)
			continue;
		if (nth == 0)
			return (ssize_t) i;
		nth--;
	}
	return -1;
}

static ssize_t random_pick(const void *instance, const void *prepared,
		const struct usher_view *view, const struct usher_request *request,
		const uint32_t *candidates, size_t count)
{
	const struct prepared *p = prepared;
	size_t with_weight;

	(void) instance;
	if (p)
		return p->count == 0 ? -1
				     : (ssize_t) p->positions[scale(request->random, p->count)];

	with_weight = count_with_weight(view, candidates, count);
	if (with_weight == 0)
		return -1;
	return nth_with_weight(view, candidates, count, scale(request->random, with_weight));
}

static double random_share(const void *instance, const struct usher_view *view,
		const uint32_t *candidates, size_t count, size_t position)
{
	(void) instance;
	if (view->weights[candidates[position]] == 0)
		return 0;
	return 1.0 / (double) count_with_weight(view, candidates, count);
}

USHER_PLUGIN(.name = "random", .summary = "Any one, all as likely",
		.selector = &(const struct usher_selector){
				.size = sizeof(struct usher_selector),
				.flags = USHER_SELECTOR_IGNORES_WEIGHTS,
				.prepare = random_prepare,
				.release = free,
				.pick = random_pick,
				.share = random_share,
		});
