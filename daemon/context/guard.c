#include "guard.h"

#include <assert.h>
#include <errno.h>

#include "address-index.h"
#include "merge.h"
#include "ownership.h"

static void endpoints_unrefp(struct usher_endpoints **e)
{
	(void) usher_endpoints_unref(*e);
}

static int index_addresses(struct address_index *index, const struct usher_endpoints *set)
{
	size_t count = usher_endpoints_count(set);
	int r;

	r = address_index_init(index, count);
	if (r < 0)
		return r;
	for (size_t i = 0; i < count; i++) {
		struct usher_endpoint e = USHER_ENDPOINT_INIT;

		usher_endpoints_get(set, i, &e);
		(void) address_index_put(index, e.address, e.port, (uint32_t) i);
	}
	return 0;
}

/* Most offers remove nothing: then there is no need for an index of addresses. */
static bool keeps_every_id(
		const struct usher_endpoints *in_force, const struct usher_endpoints *offer)
{
	for (size_t i = 0; i < usher_endpoints_count(in_force); i++)
		if (usher_endpoints_find(offer, usher_endpoints_id(in_force, i)) < 0)
			return false;
	return true;
}

static bool is_in(const struct usher_endpoints *offer, const struct address_index *addresses,
		const struct usher_endpoint *e)
{
	return usher_endpoints_find(offer, e->id) >= 0 ||
			address_index_find(addresses, e->address, e->port) >= 0;
}

int guard_compare(const struct usher_endpoints *in_force, const struct usher_endpoints *offer,
		guard_expected expected, void *userdata, struct removal *ret)
{
	cleanup(address_index_done) struct address_index addresses = {};
	struct removal removal = {};
	int r;

	assert(in_force && offer);

	if (keeps_every_id(in_force, offer)) {
		*ret = (struct removal){ .known = usher_endpoints_count(in_force) };
		return 0;
	}
	r = index_addresses(&addresses, offer);
	if (r < 0)
		return r;
	for (size_t i = 0; i < usher_endpoints_count(in_force); i++) {
		struct usher_endpoint e = USHER_ENDPOINT_INIT;

		usher_endpoints_get(in_force, i, &e);
		if (expected && expected(userdata, e.id, e.uid))
			continue;
		removal.known++;
		removal.removed += !is_in(offer, &addresses, &e);
	}
	*ret = removal;
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
	cleanup(address_index_done) struct address_index addresses = {};
	int r;

	if (!set)
		return -ENOMEM;
	r = index_addresses(&addresses, offer);
	if (r < 0)
		return r;
	r = copy_all(set, offer);
	for (size_t i = 0; r >= 0 && i < usher_endpoints_count(in_force); i++) {
		struct usher_endpoint e = USHER_ENDPOINT_INIT;

		usher_endpoints_get(in_force, i, &e);
		if (is_in(offer, &addresses, &e) || (expected && expected(userdata, e.id, e.uid)))
			continue;
		r = merge_copy_endpoint(set, in_force, i);
	}
	if (r < 0)
		return r;
	usher_endpoints_seal(set);
	*ret = take(set);
	return 0;
}
