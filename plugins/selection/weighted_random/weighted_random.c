/* Each pick is independent, and an endpoint is as likely as its weight says: twice the weight,
 * twice the picks.
 *
 * A pick takes as long among ten thousand as among three (alias-table.h). Where a stage has looked
 * at the request the weights of what it left are gone through, as the stage has gone through them.
 */

#include <usher/plugin.h>

#include "../alias-table.h"

static ssize_t weighted_random_pick(const void *instance, const void *prepared,
		const struct usher_view *view, const struct usher_request *request,
		const uint32_t *candidates, size_t count)
{
	struct lot lot = lot_of(prepared, view, candidates, count);

	(void) instance;
	return lot.sum == 0 ? -1 : (ssize_t) lot_draw(&lot, request->random);
}

USHER_PLUGIN(.name = "weighted_random", .summary = "Any one, as likely as its weight says",
		.selector = &(const struct usher_selector){
				.size = sizeof(struct usher_selector),
				.prepare = lot_prepare,
				.release = free,
				.pick = weighted_random_pick,
				.share = lot_share,
				.flags = USHER_SELECTOR_SUBSETS,
		});
