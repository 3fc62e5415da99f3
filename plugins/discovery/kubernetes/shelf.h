#pragma once

/* All slices of a feed, as they are now. Kept by uid: a slice that left a selector comes as deleted
 * with its old labels, and one of the same name may follow it at once. */

#include "slices.h"

#define SHELF_SLICES_MAX 200000

struct shelf {
	struct slice **all;
	size_t count, space;
};

/* Take a slice, in the place of the one with its uid. ret_old: that one, to be freed by the caller;
 * NULL: there was none. Errors: E2BIG, ENOMEM; the slice stays the caller's. */
int shelf_put(struct shelf *s, struct slice *slice, struct slice **ret_old);
/* The same for one that cannot be there yet. */
int shelf_add(struct shelf *s, struct slice *slice);
/* The slice with the uid of like, taken out; NULL: there is none. */
struct slice *shelf_take(struct shelf *s, const struct slice *like);
/* The slices of a service: ret is the caller's to free. ENOMEM. */
int shelf_find(const struct shelf *s, const char *space, const char *service,
		const struct slice ***ret, size_t *ret_count);
void shelf_clear(struct shelf *s);
