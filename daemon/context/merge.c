#include "merge.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
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
	const struct merge_rules *rules;
	struct usher_endpoints *const *feeds;
	size_t feed_count;
	unsigned decided; /* bits of enum merge_field: by some source */
	struct member *members;
	size_t count;
	uint32_t *shown; /* of each member by each feed: its index there, or NOT_SHOWN; NULL while
			    nothing is decided */
	struct address_index addresses; /* to members */
};

#define NOT_SHOWN UINT32_MAX

void merged_done(struct merged *m)
{
	(void) usher_endpoints_unref(m->endpoints);
	free(m->sources);
	free(m->conflict);
	free(m->origins);
	*m = (struct merged){ .only = MERGE_NONE };
}

/* The i-th endpoint with its metadata in labels, which have room for USHER_METADATA_MAX. */
static void read_whole(const struct usher_endpoints *from, size_t i, struct usher_label *labels,
		struct usher_endpoint *ret)
{
	*ret = (struct usher_endpoint) USHER_ENDPOINT_INIT;
	usher_endpoints_get(from, i, ret);
	assert(ret->metadata_count <= USHER_METADATA_MAX);
	for (size_t k = 0; k < ret->metadata_count; k++)
		labels[k] = usher_endpoints_metadata_at(from, i, k);
	ret->metadata = labels;
}

int merge_copy_endpoint(struct usher_endpoints *to, const struct usher_endpoints *from, size_t i)
{
	struct usher_label labels[USHER_METADATA_MAX];
	struct usher_endpoint e;

	read_whole(from, i, labels, &e);
	return usher_endpoints_add(to, &e, NULL);
}

/* ---- one for all ---- */

static int merge_one(struct usher_endpoints *const *feeds, size_t only, struct merged *ret)
{
	*ret = (struct merged){ .only = only };
	if (only != MERGE_NONE)
		ret->endpoints = usher_endpoints_ref(feeds[only]);
	return 0;
}

static int merge_first(struct usher_endpoints *const *feeds, size_t count, struct merged *ret)
{
	size_t only = MERGE_NONE;

	for (size_t i = 0; i < count; i++) {
		bool empty = !feeds[i] || usher_endpoints_count(feeds[i]) == 0;

		if (feeds[i] && (only == MERGE_NONE || !empty))
			only = i;
		if (!empty)
			break;
	}
	return merge_one(feeds, only, ret);
}

/* How much is to be said for a racer, the more the better. */
static int merit(const struct racer *racer)
{
	return !racer->answered ? 0 : 1 + racer->live + 2 * !racer->empty;
}

size_t merge_race(const struct racer *racers, size_t count, size_t leader)
{
	size_t best = leader < count && racers[leader].answered ? leader : MERGE_NONE;

	for (size_t i = 0; i < count; i++) {
		const struct racer *racer = &racers[i];
		int more = merit(racer) - (best == MERGE_NONE ? 0 : merit(&racers[best]));

		if (more > 0 ||
				(more == 0 && best != MERGE_NONE && best != leader &&
						racer->age_usec < racers[best].age_usec))
			best = i;
	}
	return best;
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

/* The member at an address, or NULL. */
static struct member *find_at(struct merging *m, const struct usher_endpoint *endpoint)
{
	ssize_t k = address_index_find(&m->addresses, endpoint->address, endpoint->port);

	return k < 0 ? NULL : &m->members[k];
}

static uint32_t *shown_by(const struct merging *m, const struct member *member, size_t feed)
{
	return &m->shown[(size_t) (member - m->members) * m->feed_count + feed];
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* A name of the metadata that says what is decided apart from it. */
static bool is_decided_label(const char *name, unsigned decided)
{
	return ((decided & (1u << MERGE_WEIGHT)) && strcmp(name, USHER_WEIGHT_LABEL) == 0) ||
			((decided & (1u << MERGE_ZONE)) && strcmp(name, USHER_ZONE_LABEL) == 0);
}

static bool same_metadata(
		const struct usher_endpoint *a, const struct usher_endpoint *b, unsigned decided)
{
	size_t i = 0, k = 0;

	for (;; i++, k++) {
		while (i < a->metadata_count && is_decided_label(a->metadata[i].name, decided))
			i++;
		while (k < b->metadata_count && is_decided_label(b->metadata[k].name, decided))
			k++;
		if (i == a->metadata_count || k == b->metadata_count)
			return i == a->metadata_count && k == b->metadata_count;
		if (strcmp(a->metadata[i].name, b->metadata[k].name) != 0 ||
				strcmp(a->metadata[i].value, b->metadata[k].value) != 0)
			return false;
	}
}

/* Whether two say the same of what nobody decides. */
static bool agree(const struct usher_endpoint *a, const struct usher_endpoint *b, unsigned decided)
{
	if (!same_text(a->uid, b->uid) || strcmp(a->address, b->address) != 0 || a->port != b->port)
		return false;
	if (!(decided & (1u << MERGE_SECURE)) && a->secure != b->secure)
		return false;
	if (!(decided & (1u << MERGE_ZONE)) && !same_text(a->zone, b->zone))
		return false;
	if (!(decided & (1u << MERGE_WEIGHT)) &&
			(a->weight != b->weight || a->weight_invalid != b->weight_invalid))
		return false;
	if (!(decided & (1u << MERGE_CONDITIONS)) &&
			(a->ready != b->ready || a->serving != b->serving ||
					a->terminating != b->terminating))
		return false;
	if (!(decided & (1u << MERGE_ADMIN_STATE)) && a->admin_state != b->admin_state)
		return false;
	return (decided & (1u << MERGE_METADATA)) || same_metadata(a, b, decided);
}

/* Whether the i-th of one feed and the k-th of another are one in all that nobody decides. */
static bool same_endpoint(const struct merging *m, size_t feed, size_t i, size_t other, size_t k)
{
	struct usher_label labels[USHER_METADATA_MAX], other_labels[USHER_METADATA_MAX];
	struct usher_endpoint a, b;

	if (usher_endpoints_same(m->feeds[feed], i, m->feeds[other], k))
		return true;
	if (!m->decided)
		return false;
	read_whole(m->feeds[feed], i, labels, &a);
	read_whole(m->feeds[other], k, other_labels, &b);
	return agree(&a, &b, m->decided);
}

static void note_shown(const struct merging *m, const struct member *member, size_t feed, size_t i)
{
	if (m->shown && *shown_by(m, member, feed) == NOT_SHOWN)
		*shown_by(m, member, feed) = (uint32_t) i;
}

/* An earlier feed names the id, too. */
static void join_earlier(struct merging *m, size_t feed, size_t i, size_t earlier_feed, size_t k)
{
	struct usher_endpoint earlier = USHER_ENDPOINT_INIT;
	struct member *member;

	usher_endpoints_get(m->feeds[earlier_feed], k, &earlier);
	member = find_at(m, &earlier);
	if (!member)
		return;
	note_shown(m, member, feed, i);
	if (!same_endpoint(m, earlier_feed, k, feed, i))
		member->conflict = 1;
}

static void join_new(struct merging *m, size_t feed, size_t i, const struct usher_endpoint *e)
{
	struct member *member;

	assert(m->members);
	member = &m->members[m->count];
	(void) address_index_put(&m->addresses, e->address, e->port, (uint32_t) m->count);
	*member = (struct member){ .id = e->id, .index = (uint32_t) i, .feed = (uint8_t) feed };
	for (size_t k = 0; m->shown && k < m->feed_count; k++)
		*shown_by(m, member, k) = k == feed ? (uint32_t) i : NOT_SHOWN;
	m->count++;
}

static void join(struct merging *m, size_t feed, size_t i)
{
	struct usher_endpoint endpoint = USHER_ENDPOINT_INIT;
	size_t earlier_feed, earlier_index = 0;
	struct member *neighbour;

	usher_endpoints_get(m->feeds[feed], i, &endpoint);
	earlier_feed = find_earlier(m, feed, endpoint.id, &earlier_index);
	if (earlier_feed != MERGE_NONE) {
		join_earlier(m, feed, i, earlier_feed, earlier_index);
		return;
	}
	/* an address that another feed has under another name; one feed may name it twice */
	neighbour = find_at(m, &endpoint);
	if (neighbour && neighbour->feed != feed) {
		note_shown(m, neighbour, feed, i);
		neighbour->conflict = 1;
		return;
	}
	join_new(m, feed, i, &endpoint);
}

/* ---- fields that a source decides ---- */

/* The feed whose word on the field counts, of those that show the member: the first that decides
 * it, else that of the member. A source that knows no zone has nothing to say about it. */
static size_t decider(const struct merging *m, const struct member *member, enum merge_field field)
{
	for (size_t feed = 0; feed < m->feed_count; feed++) {
		uint32_t i = *shown_by(m, member, feed);

		if (i == NOT_SHOWN || !(m->rules->decides[feed] & (1u << field)))
			continue;
		if (field != MERGE_ZONE || usher_endpoints_zone(m->feeds[feed], i))
			return feed;
	}
	return member->feed;
}

static void take_field(struct usher_endpoint *to, const struct usher_endpoint *from,
		enum merge_field field)
{
	switch (field) {
	case MERGE_SECURE:
		to->secure = from->secure;
		break;
	case MERGE_ZONE:
		to->zone = from->zone;
		break;
	case MERGE_WEIGHT:
		to->weight = from->weight;
		to->weight_invalid = from->weight_invalid;
		break;
	case MERGE_CONDITIONS:
		to->ready = from->ready;
		to->serving = from->serving;
		to->terminating = from->terminating;
		break;
	case MERGE_ADMIN_STATE:
		to->admin_state = from->admin_state;
		break;
	case MERGE_METADATA: /* by whoever has the labels */
	case MERGE_FIELDS:
		break;
	}
}

/* The metadata may say another weight, which a set would go by: there the decided one is said. */
static void say_weight(
		const struct usher_endpoint *e, struct usher_label *labels, char *text, size_t size)
{
	(void) snprintf(text, size, "%u", e->weight);
	for (size_t k = 0; k < e->metadata_count; k++)
		if (strcmp(labels[k].name, USHER_WEIGHT_LABEL) == 0)
			labels[k].value = text;
}

static int add_decided(const struct merging *m, const struct member *member, uint8_t *origins,
		struct usher_endpoints *to)
{
	struct usher_label labels[USHER_METADATA_MAX];
	struct usher_endpoint e, metadata;
	char weight[16];

	for (int field = 0; field < MERGE_FIELDS; field++)
		origins[field] = (uint8_t) decider(m, member, (enum merge_field) field);
	e = (struct usher_endpoint) USHER_ENDPOINT_INIT;
	usher_endpoints_get(m->feeds[member->feed], member->index, &e);
	for (int field = 0; field < MERGE_FIELDS; field++) {
		size_t feed = origins[field];
		struct usher_endpoint from = USHER_ENDPOINT_INIT;

		usher_endpoints_get(m->feeds[feed], *shown_by(m, member, feed), &from);
		take_field(&e, &from, (enum merge_field) field);
	}
	read_whole(m->feeds[origins[MERGE_METADATA]], *shown_by(m, member, origins[MERGE_METADATA]),
			labels, &metadata);
	e.metadata = labels;
	e.metadata_count = metadata.metadata_count;
	if (origins[MERGE_WEIGHT] != origins[MERGE_METADATA])
		say_weight(&e, labels, weight, sizeof(weight));
	return usher_endpoints_add(to, &e, NULL);
}

/* ---- the set ---- */

static int compare_members(const void *a, const void *b)
{
	return strcmp((*(const struct member *const *) a)->id,
			(*(const struct member *const *) b)->id);
}

/* The members in the order of their ids, to be freed; NULL when out of memory. */
static const struct member **in_order(const struct merging *m)
{
	const struct member **order = calloc(m->count + 1, sizeof(const struct member *));

	if (!order)
		return NULL;
	for (size_t i = 0; i < m->count; i++)
		order[i] = &m->members[i];
	qsort(order, m->count, sizeof(const struct member *), compare_members);
	return order;
}

static int allocate(const struct merging *m, struct merged *ret)
{
	size_t room = m->count ? m->count : 1;

	ret->endpoints = usher_endpoints_new();
	ret->sources = calloc(room, sizeof(*ret->sources));
	ret->conflict = calloc(room, sizeof(*ret->conflict));
	if (m->decided)
		ret->origins = calloc(room, sizeof(*ret->origins));
	return ret->endpoints && ret->sources && ret->conflict && (ret->origins || !m->decided)
			? 0
			: -ENOMEM;
}

static int add_members(
		const struct merging *m, const struct member *const *order, struct merged *ret)
{
	bool any_conflict = false;
	int r;

	r = allocate(m, ret);
	for (size_t i = 0; r >= 0 && i < m->count; i++) {
		const struct member *member = order[i];

		if (m->decided)
			r = add_decided(m, member, ret->origins[i], ret->endpoints);
		else
			r = merge_copy_endpoint(
					ret->endpoints, m->feeds[member->feed], member->index);
		ret->sources[i] = member->feed;
		ret->conflict[i] = member->conflict;
		any_conflict = any_conflict || member->conflict;
	}
	if (r < 0)
		return r;
	usher_endpoints_seal(ret->endpoints); /* which keeps the order of the ids */
	if (!any_conflict) {
		free(ret->conflict);
		ret->conflict = NULL;
	}
	return 0;
}

static int merge_members(struct merging *m, size_t total, struct merged *ret)
{
	autofree const struct member **order = NULL;
	struct merged merged = { .only = MERGE_NONE };
	int r;

	if (total > USHER_ENDPOINTS_MAX * (size_t) CONFIG_FEEDS_MAX)
		return -E2BIG;
	m->members = calloc(total, sizeof(*m->members));
	if (m->decided)
		m->shown = calloc(total * m->feed_count, sizeof(*m->shown));
	if (!m->members || (m->decided && !m->shown))
		return -ENOMEM;
	r = address_index_init(&m->addresses, total);
	if (r < 0)
		return r;

	for (size_t feed = 0; feed < m->feed_count; feed++)
		for (size_t i = 0; m->feeds[feed] && i < usher_endpoints_count(m->feeds[feed]); i++)
			join(m, feed, i);
	order = in_order(m);
	r = order ? add_members(m, order, &merged) : -ENOMEM;
	if (r < 0) {
		merged_done(&merged);
		return r;
	}
	*ret = merged;
	return 0;
}

static int merge_union(const struct merge_rules *rules, struct usher_endpoints *const *feeds,
		size_t count, struct merged *ret)
{
	struct merging m = { .rules = rules, .feeds = feeds, .feed_count = count };
	size_t total = 0, filled = 0;
	int r;

	for (size_t i = 0; i < count; i++) {
		size_t endpoints = feeds[i] ? usher_endpoints_count(feeds[i]) : 0;

		total += endpoints;
		filled += endpoints > 0;
		m.decided |= rules->decides[i];
	}
	/* With one that has something to say there is nothing to copy. */
	if (filled <= 1)
		return merge_first(feeds, count, ret);

	r = merge_members(&m, total, ret);
	free(m.members);
	free(m.shown);
	address_index_done(&m.addresses);
	return r;
}

int merge(const struct merge_rules *rules, struct usher_endpoints *const *feeds, size_t count,
		struct merged *ret)
{
	assert(count <= CONFIG_FEEDS_MAX);

	switch (rules->policy) {
	case MERGE_FIRST:
		return merge_first(feeds, count, ret);
	case MERGE_UNION:
		return merge_union(rules, feeds, count, ret);
	case MERGE_RACE:
		return merge_one(feeds, rules->leader, ret);
	}
	return -EINVAL;
}
