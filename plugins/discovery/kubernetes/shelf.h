#pragma once

/* All objects of a feed, as they are now. Kept by uid: what left a selector comes as deleted with
 * its old labels, and one of the same name may follow it at once. */

#include "kind.h"

#define SHELF_OBJECTS_MAX 200000

struct shelf {
	const struct kind *kind;
	void **all;
	size_t count, space;
};

/* Take an object, in the place of the one with its uid. ret_old: that one, to be freed by the
 * caller; NULL: there was none. Errors: E2BIG, ENOMEM; the object stays the caller's. */
int shelf_put(struct shelf *s, void *object, void **ret_old);
/* The same for one that cannot be there yet. */
int shelf_add(struct shelf *s, void *object);
/* The object with the uid of like, taken out; NULL: there is none. */
void *shelf_take(struct shelf *s, const void *like);
void shelf_clear(struct shelf *s);
