/* Each pick is independent, and an endpoint is as likely as its weight says: twice the weight,
 * twice the picks.
 *
 * A pick takes as long among ten thousand as among three (alias-table.h). Where a stage has looked
 * at the request the weights of what it left are gone through, as the stage has gone through them.
 */

#include <usher/plugin.h>

#include "../alias-table.h"

static int weighted_random_prepare(const void *instance, const struct usher_view *view,
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

static ssize_t weighted_random_pick(const void *instance, const void *prepared,
		const struct usher_view *view, const struct usher_request *request,
		const uint32_t *candidates, size_t count)
{
	struct lot lot = lot_of(prepared, view, candidates, count);

	(void) instance;
	return lot.sum == 0 ? -1 : (ssize_t) lot_draw(&lot, request->random);
}

static double weighted_random_share(const void *instance, const struct usher_view *view,
		const uint32_t *candidates, size_t count, size_t position)
{
	(void) instance;
	return lot_share(view, candidates, count, position);
}

USHER_PLUGIN(.name = "weighted_random", .summary = "Any one, as likely as its weight says",
		.selector = &(const struct usher_selector){
				.size = sizeof(struct usher_selector),
				.prepare = weighted_random_prepare,
				.release = free,
				.pick = weighted_random_pick,
				.share = weighted_random_share,
				.flags = USHER_SELECTOR_SUBSETS,
		});
