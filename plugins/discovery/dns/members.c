#include "members.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "own.h"

#define ROTATES_FOR 10 /* times hold: how long what was seen to rotate counts as rotating */

static int by_place(const struct member *a, const struct member *b)
{
	int order = strcmp(a->address, b->address);

	return order ? order : (a->port > b->port) - (a->port < b->port);
}

static int order_by_place(const void *left, const void *right)
{
	return by_place(left, right);
}

static int order_by_place_and_rank(const void *left, const void *right)
{
	const struct member *a = left, *b = right;
	int order = by_place(a, b);

	if (order == 0)
		order = (a->priority > b->priority) - (a->priority < b->priority);
	return order ? order : strcmp(a->target, b->target);
}

size_t members_unite(struct member *answer, size_t count)
{
	size_t kept = 0;

	if (count == 0)
		return 0;
	qsort(answer, count, sizeof(*answer), order_by_place_and_rank);
	for (size_t i = 0; i < count; i++) {
		struct member *before = kept ? &answer[kept - 1] : NULL;

		if (!before || by_place(before, &answer[i]) != 0)
			answer[kept++] = answer[i];
		else if (before->priority == answer[i].priority)
			before->weight += answer[i].weight;
	}
	return kept;
}

static struct member *find(const struct members *m, size_t sorted, const struct member *like)
{
	if (sorted == 0)
		return NULL;
	return bsearch(like, m->all, sorted, sizeof(*m->all), order_by_place);
}

static int make_room(struct members *m, size_t more)
{
	struct member *grown;

	if (m->count + more <= m->space)
		return 0;
	if (m->count + more > USHER_ENDPOINTS_MAX)
		return -E2BIG;
	grown = reallocarray(m->all, m->count + more, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	m->all = grown;
	m->space = m->count + more;
	return 0;
}

static void forget_old(struct members *m, const struct members_rule *rule, uint64_t now_usec)
{
	size_t kept = 0;

	for (size_t i = 0; i < m->count; i++)
		if (m->all[i].is_present || now_usec - m->all[i].seen_usec < rule->hold_usec)
			m->all[kept++] = m->all[i];
	m->count = kept;
}

static void update(struct member *to, const struct member *from)
{
	to->priority = from->priority;
	to->weight = from->weight;
	(void) snprintf(to->target, sizeof(to->target), "%s", from->target);
}

/* What one answer changes. */
struct change {
	bool brings;  /* somebody who was not in the answer before */
	bool returns; /* of those, one who had left as others came */
	bool lacks;   /* somebody who was in the answer before */
};

/* Mark who is in the answer; returns what has changed. */
static struct change enter(
		struct members *m, const struct member *answer, size_t count, uint64_t now_usec)
{
	struct change change = { false, false, false };
	size_t sorted = m->count;

	for (size_t i = 0; i < count; i++) {
		struct member *known = find(m, sorted, &answer[i]);

		if (!known) {
			known = &m->all[m->count++];
			*known = answer[i];
			known->is_present = false;
			known->left_as_others_came = false;
		}
		update(known, &answer[i]);
		change.brings = change.brings || !known->is_present;
		change.returns = change.returns || known->left_as_others_came;
		known->is_present = true;
		known->left_as_others_came = false;
		known->keep_until_usec = 0;
		known->seen_usec = now_usec;
	}
	for (size_t i = 0; i < sorted; i++)
		if (m->all[i].is_present && m->all[i].seen_usec != now_usec)
			change.lacks = true;
	return change;
}

bool members_rotate(const struct members *m, const struct members_rule *rule, uint64_t now_usec)
{
	switch (rule->rotates) {
	case DNS_ROTATES_AUTO:
		return now_usec < m->rotates_until_usec;
	case DNS_ROTATES_YES:
		return true;
	case DNS_ROTATES_NO:
		return false;
	}
	return false;
}

static void leave(struct members *m, const struct members_rule *rule, struct change change,
		bool first, uint64_t now_usec)
{
	bool learning = rule->rotates == DNS_ROTATES_AUTO &&
			now_usec - m->first_usec < rule->hold_usec;
	bool rotate = members_rotate(m, rule, now_usec);

	for (size_t i = 0; i < m->count && !first; i++) {
		struct member *member = &m->all[i];

		if (member->seen_usec == now_usec)
			continue;
		if (member->is_present)
			member->left_as_others_came = change.brings;
		if (rotate || (learning && member->is_present && change.brings))
			member->keep_until_usec = member->seen_usec + rule->hold_usec;
		member->is_present = false;
	}
}

int members_take(struct members *m, const struct member *answer, size_t count,
		const struct members_rule *rule, uint64_t now_usec)
{
	struct change change;
	bool first = m->first_usec == 0;
	int r;

	forget_old(m, rule, now_usec);
	r = make_room(m, count);
	if (r < 0)
		return r;
	if (first)
		m->first_usec = now_usec;
	change = enter(m, answer, count, now_usec);
	if (change.returns && change.lacks)
		m->rotates_until_usec = now_usec + ROTATES_FOR * rule->hold_usec;
	leave(m, rule, change, first, now_usec);
	m->answered = count;
	if (m->count > 0)
		qsort(m->all, m->count, sizeof(*m->all), order_by_place);
	return 0;
}

bool member_is_listed(const struct member *m, uint64_t now_usec)
{
	return m->is_present || now_usec < m->keep_until_usec;
}

void members_done(struct members *m)
{
	free(m->all);
	*m = (struct members){ 0 };
}

/* ---- as endpoints ---- */

/* The priorities that there are, in order. */
struct tiers {
	uint16_t *priorities;
	size_t count;
};

static int order_by_number(const void *left, const void *right)
{
	const uint16_t *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

static int find_tiers(const struct members *m, uint64_t now_usec, struct tiers *ret)
{
	size_t count = 0, kept = 0;

	ret->priorities = calloc(m->count + 1, sizeof(*ret->priorities));
	if (!ret->priorities)
		return -ENOMEM;
	for (size_t i = 0; i < m->count; i++)
		if (member_is_listed(&m->all[i], now_usec))
			ret->priorities[count++] = m->all[i].priority;
	qsort(ret->priorities, count, sizeof(*ret->priorities), order_by_number);
	for (size_t i = 0; i < count; i++)
		if (kept == 0 || ret->priorities[kept - 1] != ret->priorities[i])
			ret->priorities[kept++] = ret->priorities[i];
	ret->count = kept;
	return 0;
}

/* 1 is the best. */
static size_t tier_of(const struct tiers *t, uint16_t priority)
{
	const uint16_t *at = bsearch(&priority, t->priorities, t->count, sizeof(*t->priorities),
			order_by_number);

	return at ? (size_t) (at - t->priorities) + 1 : 0;
}

/* A weight of 0 is a small chance in SRV, and none in usher; among others of 0 it is an equal one.
 * With 1 in its place both are what RFC 2782 computes. */
static uint32_t weight_of(const struct member *m)
{
	if (m->weight == 0)
		return 1;
	return m->weight < USHER_WEIGHT_MAX ? m->weight : USHER_WEIGHT_MAX;
}

static int add(struct usher_endpoints *set, const struct member *m, const struct tiers *tiers,
		bool secure, struct usher_error *reterr)
{
	struct usher_endpoint e = USHER_ENDPOINT_INIT;
	char priority[8], tier[24];
	struct usher_label labels[] = {
		{ "dns.priority", priority },
		{ "dns.target", m->target },
		{ "dns.tier", tier },
	};

	e.address = m->address;
	e.port = m->port;
	e.weight = weight_of(m);
	e.secure = secure;
	if (tiers->count > 0) {
		(void) snprintf(priority, sizeof(priority), "%u", m->priority);
		(void) snprintf(tier, sizeof(tier), "%zu", tier_of(tiers, m->priority));
		/* An address that goes to another target is another incarnation. */
		e.uid = m->target;
		e.metadata = labels;
		e.metadata_count = ELEMENTS(labels);
	}
	return usher_endpoints_add(set, &e, reterr);
}

int members_to_endpoints(const struct members *m, bool is_srv, bool secure, uint64_t now_usec,
		struct usher_endpoints **ret, struct usher_error *reterr)
{
	cleanup(own_unref_endpoints) struct usher_endpoints *set = usher_endpoints_new();
	struct tiers tiers = { 0 };
	int r = set ? 0 : -ENOMEM;

	if (r == 0 && is_srv)
		r = find_tiers(m, now_usec, &tiers);
	if (r < 0)
		r = usher_error_set(reterr, r, "out of memory");
	for (size_t i = 0; i < m->count && r == 0; i++)
		if (member_is_listed(&m->all[i], now_usec))
			r = add(set, &m->all[i], &tiers, secure, reterr);
	free(tiers.priorities);
	if (r < 0)
		return r;
	*ret = take(set);
	return 0;
}
