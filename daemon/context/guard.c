#include "guard.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "address-index.h"
#include "endpoints-walk.h"
#include "merge.h"
#include "ownership.h"

static void endpoints_unrefp(struct usher_endpoints **e)
{
	(void) usher_endpoints_unref(*e);
}

/* Endpoints of a set. */
struct chosen {
	uint32_t *indexes;
	size_t count;
};

static void chosen_done(struct chosen *c)
{
	free(c->indexes);
}

/* Those whose id the offer lacks. Most offers lack none. */
static int find_missing(const struct usher_endpoints *in_force, const struct usher_endpoints *offer,
		struct chosen *ret)
{
	struct endpoints_walk walk = { .set = offer };
	size_t count = usher_endpoints_count(in_force);

	for (size_t i = 0; i < count; i++) {
		if (endpoints_walk_to(&walk, usher_endpoints_id(in_force, i)) >= 0)
			continue;
		if (!ret->indexes)
			ret->indexes = calloc(count, sizeof(*ret->indexes));
		if (!ret->indexes)
			return -ENOMEM;
		ret->indexes[ret->count++] = (uint32_t) i;
	}
	return 0;
}

static bool is_expected(const struct usher_endpoints *in_force, size_t i, guard_expected expected,
		void *userdata)
{
	struct usher_endpoint e = USHER_ENDPOINT_INIT;

	usher_endpoints_get(in_force, i, &e);
	return expected(userdata, e.id, e.uid);
}

static void drop_expected(struct chosen *c, const struct usher_endpoints *in_force,
		guard_expected expected, void *userdata)
{
	size_t kept = 0;

	for (size_t k = 0; k < c->count; k++)
		if (!is_expected(in_force, c->indexes[k], expected, userdata))
			c->indexes[kept++] = c->indexes[k];
	c->count = kept;
}

/* Those whose address and port the offer has under another id. The few that are missing are
 * indexed, not all of the offer. */
static int drop_renamed(struct chosen *c, const struct usher_endpoints *in_force,
		const struct usher_endpoints *offer)
{
	cleanup(address_index_done) struct address_index addresses = {};
	autofree uint32_t *first = calloc(c->count, sizeof(*first)); /* of those at one address */
	autofree bool *renamed = calloc(c->count, sizeof(*renamed));
	size_t kept = 0;

	if (!first || !renamed || address_index_init(&addresses, c->count) < 0)
		return -ENOMEM;
	for (size_t k = 0; k < c->count; k++) {
		struct usher_endpoint e = USHER_ENDPOINT_INIT;
		ssize_t other;

		usher_endpoints_get(in_force, c->indexes[k], &e);
		other = address_index_put(&addresses, e.address, e.port, (uint32_t) k);
		first[k] = other < 0 ? (uint32_t) k : (uint32_t) other;
	}
	for (size_t i = 0; i < usher_endpoints_count(offer); i++) {
		struct usher_endpoint e = USHER_ENDPOINT_INIT;
		ssize_t k;

		usher_endpoints_get(offer, i, &e);
		k = address_index_find(&addresses, e.address, e.port);
		if (k >= 0)
			renamed[k] = true;
	}
	for (size_t k = 0; k < c->count; k++)
		if (!renamed[first[k]])
			c->indexes[kept++] = c->indexes[k];
	c->count = kept;
	return 0;
}

/* What the offer would remove though nobody expects it. */
static int find_removed(const struct usher_endpoints *in_force, const struct usher_endpoints *offer,
		guard_expected expected, void *userdata, struct chosen *ret)
{
	int r = find_missing(in_force, offer, ret);

	if (r < 0)
		return r;
	if (expected)
		drop_expected(ret, in_force, expected, userdata);
	return ret->count > 0 ? drop_renamed(ret, in_force, offer) : 0;
}

int guard_compare(const struct usher_endpoints *in_force, const struct usher_endpoints *offer,
		guard_expected expected, void *userdata, struct removal *ret)
{
	cleanup(chosen_done) struct chosen removed = {};
	size_t known = usher_endpoints_count(in_force);
	int r;

	assert(in_force && offer);

	r = find_removed(in_force, offer, expected, userdata, &removed);
	if (r < 0)
		return r;
	for (size_t i = 0; removed.count > 0 && expected && i < usher_endpoints_count(in_force);
			i++)
		known -= is_expected(in_force, i, expected, userdata);
	*ret = (struct removal){ .removed = removed.count, .known = known };
	return 0;
}

bool guard_holds(const struct removal *removal, enum usher_verdict verdict, double share)
{
	if (removal->removed == 0 || share >= 1)
		return false;
	return verdict == USHER_SUSPECT ||
			(double) removal->removed > share * (double) removal->known;
}

static int copy_all(struct usher_endpoints *to, const struct usher_endpoints *from)
{
	for (size_t i = 0; i < usher_endpoints_count(from); i++) {
		int r = merge_copy_endpoint(to, from, i);

		if (r < 0)
			return r;
	}
	return 0;
}

int guard_retain(const struct usher_endpoints *in_force, const struct usher_endpoints *offer,
		guard_expected expected, void *userdata, struct usher_endpoints **ret)
{
	cleanup(endpoints_unrefp) struct usher_endpoints *set = usher_endpoints_new();
	cleanup(chosen_done) struct chosen removed = {};
	int r;

	if (!set)
		return -ENOMEM;
	r = find_removed(in_force, offer, expected, userdata, &removed);
	if (r >= 0)
		r = copy_all(set, offer);
	for (size_t k = 0; r >= 0 && k < removed.count; k++)
		r = merge_copy_endpoint(set, in_force, removed.indexes[k]);
	if (r < 0)
		return r;
	usher_endpoints_seal(set);
	*ret = take(set);
	return 0;
}
