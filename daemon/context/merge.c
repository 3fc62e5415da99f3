#include "merge.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "address-index.h"
#include "ownership.h"

/* An endpoint that made it into the union. */
struct member {
	const char *id; /* borrowed from its feed */
	uint32_t index; /* in its feed */
	uint8_t feed;
	uint8_t conflict;
};

struct merging {
	struct usher_endpoints *const *feeds;
	size_t feed_count;
	struct member *members;
	size_t count;
	struct address_index addresses; /* to members */
};

void merged_done(struct merged *m)
{
	(void) usher_endpoints_unref(m->endpoints);
	free(m->sources);
	free(m->conflict);
	*m = (struct merged){ .only = MERGE_NONE };
}

int merge_copy_endpoint(struct usher_endpoints *to, const struct usher_endpoints *from, size_t i)
{
	struct usher_label labels[USHER_METADATA_MAX];
	struct usher_endpoint e = USHER_ENDPOINT_INIT;

	usher_endpoints_get(from, i, &e);
	assert(e.metadata_count <= USHER_METADATA_MAX);
	for (size_t k = 0; k < e.metadata_count; k++)
		labels[k] = usher_endpoints_metadata_at(from, i, k);
	e.metadata = labels;
	return usher_endpoints_add(to, &e, NULL);
}

/* ---- first ---- */

static int merge_first(struct usher_endpoints *const *feeds, size_t count, struct merged *ret)
{
	struct merged m = { .only = MERGE_NONE };

	for (size_t i = 0; i < count; i++) {
		if (!feeds[i])
			continue;
		if (m.endpoints && usher_endpoints_count(feeds[i]) == 0)
			continue;
		m = (struct merged){ .endpoints = feeds[i], .only = i };
		if (usher_endpoints_count(feeds[i]) > 0)
			break;
	}
	if (m.endpoints)
		m.endpoints = usher_endpoints_ref(m.endpoints);
	*ret = m;
	return 0;
}

/* ---- union ---- */

/* The first earlier feed that names the id, or MERGE_NONE. */
static size_t find_earlier(const struct merging *m, size_t feed, const char *id, size_t *ret_index)
{
	for (size_t i = 0; i < feed; i++) {
		ssize_t k = m->feeds[i] ? usher_endpoints_find(m->feeds[i], id) : -ENOENT;

		if (k < 0)
			continue;
		*ret_index = (size_t) k;
		return i;
	}
	return MERGE_NONE;
}

/* The member at an address, when it is another feed's. */
static struct member *find_neighbour(
		struct merging *m, size_t feed, const struct usher_endpoint *endpoint)
{
	ssize_t k = address_index_find(&m->addresses, endpoint->address, endpoint->port);

	if (k < 0 || m->members[k].feed == feed)
		return NULL;
	return &m->members[k];
}

static void mark_conflict(struct merging *m, const char *address, uint16_t port)
{
	ssize_t k = address_index_find(&m->addresses, address, port);

	if (k >= 0)
		m->members[k].conflict = 1;
}

static void join(struct merging *m, size_t feed, size_t i)
{
	struct usher_endpoint endpoint = USHER_ENDPOINT_INIT, earlier = USHER_ENDPOINT_INIT;
	struct member *neighbour;
	size_t earlier_feed, earlier_index;

	usher_endpoints_get(m->feeds[feed], i, &endpoint);
	earlier_feed = find_earlier(m, feed, endpoint.id, &earlier_index);
	if (earlier_feed != MERGE_NONE) {
		if (usher_endpoints_same(m->feeds[earlier_feed], earlier_index, m->feeds[feed], i))
			return;
		usher_endpoints_get(m->feeds[earlier_feed], earlier_index, &earlier);
		mark_conflict(m, earlier.address, earlier.port);
		return;
	}
	neighbour = find_neighbour(m, feed, &endpoint);
	if (neighbour) {
		neighbour->conflict = 1;
		return;
	}
	(void) address_index_put(
			&m->addresses, endpoint.address, endpoint.port, (uint32_t) m->count);
	m->members[m->count++] = (struct member){
		.id = endpoint.id, .index = (uint32_t) i, .feed = (uint8_t) feed
	};
}

static int compare_members(const void *a, const void *b)
{
	return strcmp(((const struct member *) a)->id, ((const struct member *) b)->id);
}

static int add_members(const struct merging *m, struct merged *ret)
{
	bool any_conflict = false;

	ret->endpoints = usher_endpoints_new();
	ret->sources = calloc(m->count ? m->count : 1, sizeof(*ret->sources));
	ret->conflict = calloc(m->count ? m->count : 1, sizeof(*ret->conflict));
	if (!ret->endpoints || !ret->sources || !ret->conflict)
		return -ENOMEM;
	for (size_t i = 0; i < m->count; i++) {
		const struct member *member = &m->members[i];
		int r;

		r = merge_copy_endpoint(ret->endpoints, m->feeds[member->feed], member->index);
		if (r < 0)
			return r;
	}
	usher_endpoints_seal(ret->endpoints);

	for (size_t i = 0; i < m->count; i++) {
		ssize_t k = usher_endpoints_find(ret->endpoints, m->members[i].id);

		assert(k >= 0);
		ret->sources[k] = m->members[i].feed;
		ret->conflict[k] = m->members[i].conflict;
		any_conflict = any_conflict || m->members[i].conflict;
	}
	if (!any_conflict) {
		free(ret->conflict);
		ret->conflict = NULL;
	}
	return 0;
}

static int merge_members(struct merging *m, size_t total, struct merged *ret)
{
	struct merged merged = { .only = MERGE_NONE };
	int r;

	if (total > USHER_ENDPOINTS_MAX * (size_t) CONFIG_FEEDS_MAX)
		return -E2BIG;
	m->members = calloc(total, sizeof(*m->members));
	if (!m->members)
		return -ENOMEM;
	r = address_index_init(&m->addresses, total);
	if (r < 0)
		return r;

	for (size_t feed = 0; feed < m->feed_count; feed++)
		for (size_t i = 0; m->feeds[feed] && i < usher_endpoints_count(m->feeds[feed]); i++)
			join(m, feed, i);
	qsort(m->members, m->count, sizeof(*m->members), compare_members);
	r = add_members(m, &merged);
	if (r < 0) {
		merged_done(&merged);
		return r;
	}
	*ret = merged;
	return 0;
}

static int merge_union(struct usher_endpoints *const *feeds, size_t count, struct merged *ret)
{
	struct merging m = { .feeds = feeds, .feed_count = count };
	size_t total = 0, filled = 0;
	int r;

	for (size_t i = 0; i < count; i++) {
		size_t endpoints = feeds[i] ? usher_endpoints_count(feeds[i]) : 0;

		total += endpoints;
		filled += endpoints > 0;
	}
	/* With one that has something to say there is nothing to copy. */
	if (filled <= 1)
		return merge_first(feeds, count, ret);

	r = merge_members(&m, total, ret);
	free(m.members);
	address_index_done(&m.addresses);
	return r;
}

int merge(enum merge_policy policy, struct usher_endpoints *const *feeds, size_t count,
		struct merged *ret)
{
	assert(count <= CONFIG_FEEDS_MAX);

	switch (policy) {
	case MERGE_FIRST:
		return merge_first(feeds, count, ret);
	case MERGE_UNION:
		return merge_union(feeds, count, ret);
	}
	return -EINVAL;
}
