#pragma once

/* The removal guard: a sudden mass removal is more often a fault of the registry than the truth, so
 * it is held back for a while. Pure. Sets are sealed.
 *
 * Only the removal is held back: what an offer adds or changes is in force at once, so that a
 * deployment that replaces everything is not kept from its new endpoints. */

#include <stdbool.h>
#include <stddef.h>
#include <usher/plugin.h>

struct removal {
	size_t removed; /* how many of the known ones the offer lacks */
	size_t known;
};

/* Whether the removal of an endpoint is what somebody wants, as a running drain does: it counts
 * neither as known nor as removed. */
typedef bool (*guard_expected)(void *userdata, const char *id, const char *uid);

/* Compare an offer with what is in force. An endpoint whose address and port the offer has under
 * another id is not removed, only renamed. Errors: ENOMEM. */
int guard_compare(const struct usher_endpoints *in_force, const struct usher_endpoints *offer,
		guard_expected expected, void *userdata, struct removal *ret);

/* Whether to hold it back. share 1 never does. */
bool guard_holds(const struct removal *removal, enum usher_verdict verdict, double share);

/* The offer, and the endpoints of in_force that it would remove, but for the expected ones. A new
 * sealed set. Errors: ENOMEM, E2BIG. */
int guard_retain(const struct usher_endpoints *in_force, const struct usher_endpoints *offer,
		guard_expected expected, void *userdata, struct usher_endpoints **ret);
