/* Gives the requests to the best tier of endpoints, and what that cannot bear to the next.
 *
 * How much a tier bears is as in Envoy's priority levels
 * (https://www.envoyproxy.io/docs/envoy/latest/intro/arch_overview/upstream/load_balancing/priority):
 * a tier's health is its usable share times the overprovisioning factor, at most 100 %; each tier
 * in turn gets that much of the requests, until all are given away; and where all tiers together
 * have less than 100 %, each gets its part of what there is. Envoy's panic is apart from this: it
 * is the stage health that decides on it.
 *
 * A tier's usable share is the candidates that have come here of the endpoints that nobody has
 * taken out on purpose, so this stage stands behind those that drop what is broken and before those
 * that choose for other reasons. */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <usher/plugin.h>

#define TIERS_MAX 64                           /* the one of all others included */
#define SEED      UINT64_C(0x7072696f72697479) /* "priority" */
#define NEARLY    (1 - 1e-9)                   /* 5/7 * 1.4 is 1, whatever a double makes of it */

enum by {
	BY_LABEL,
	BY_ZONE,
	BY_SOURCE
};

struct priority {
	int by;                   /* option, enum by */
	const char *label;        /* option */
	const char *const *order; /* option */
	double overprovisioning;  /* option */
	size_t order_count;
};

struct tier {
	size_t usable, all;
	double share; /* of the requests */
};

struct tiers {
	struct tier tiers[TIERS_MAX];
	size_t count;
};

/* ---- who is where ---- */

static size_t tier_of_text(const struct priority *p, const char *text,
		int (*compare)(const char *, const char *))
{
	for (size_t i = 0; text && i < p->order_count; i++)
		if (compare(text, p->order[i]) == 0)
			return i;
	return p->order_count;
}

static size_t tier_of(const struct priority *p, const struct usher_view *view, uint32_t i)
{
	const char *zone;

	switch ((enum by) p->by) {
	case BY_LABEL:
		return tier_of_text(
				p, usher_endpoints_metadata(view->endpoints, i, p->label), strcmp);
	case BY_ZONE:
		zone = usher_endpoints_zone(view->endpoints, i);
		if (p->order)
			return tier_of_text(p, zone, strcasecmp);
		return zone && view->zone && strcasecmp(zone, view->zone) == 0 ? 0 : 1;
	case BY_SOURCE:
		if (!view->ranks)
			return 0;
		return view->ranks[i] < TIERS_MAX ? view->ranks[i] : TIERS_MAX - 1;
	}
	return 0;
}

static uint64_t priority_mark(
		const void *instance, const struct usher_view *view, uint32_t endpoint)
{
	return tier_of(instance, view, endpoint);
}

static size_t mark_of(const struct priority *p, const struct usher_pass *pass, uint32_t i)
{
	return pass->marks ? pass->marks[i] : tier_of(p, pass->view, i);
}

static void write_tier(const struct priority *p, const struct usher_view *view, size_t tier,
		char *ret, size_t size)
{
	const char *name = "others";

	if (tier < p->order_count)
		name = p->order[tier];
	else if (p->by == BY_ZONE && !p->order && tier == 0 && view->zone)
		name = view->zone;
	if (p->by == BY_SOURCE)
		(void) snprintf(ret, size, "source %zu", tier + 1);
	else
		(void) snprintf(ret, size, "%.64s", name);
}

/* ---- who gets how much ---- */

static bool is_taken_out(const struct usher_view *view, uint32_t i)
{
	return view->weights[i] == 0 ||
			(view->admin_states && view->admin_states[i] != USHER_ADMIN_READY);
}

static void count_tiers(const struct priority *p, const struct usher_pass *pass,
		const uint32_t *candidates, size_t count, struct tiers *ret)
{
	size_t all = usher_endpoints_count(pass->view->endpoints), next = 0;

	*ret = (struct tiers){};
	for (uint32_t i = 0; i < all; i++) {
		/* candidates are in the order of the endpoints */
		bool usable = next < count && candidates[next] == i;
		size_t tier;

		next += usable;
		if (is_taken_out(pass->view, i))
			continue;
		tier = mark_of(p, pass, i);
		ret->tiers[tier].all++;
		ret->tiers[tier].usable += usable;
		if (tier >= ret->count)
			ret->count = tier + 1;
	}
}

static double health_of(const struct priority *p, const struct tier *tier)
{
	double health;

	if (tier->all == 0)
		return 0;
	health = p->overprovisioning * (double) tier->usable / (double) tier->all;
	return health > NEARLY ? 1 : health;
}

static void share_out(const struct priority *p, const struct usher_pass *pass,
		const uint32_t *candidates, size_t count, struct tiers *ret)
{
	double sum = 0, left = 1;

	count_tiers(p, pass, candidates, count, ret);
	for (size_t i = 0; i < ret->count; i++)
		sum += health_of(p, &ret->tiers[i]);
	for (size_t i = 0; i < ret->count; i++) {
		struct tier *tier = &ret->tiers[i];
		double health = health_of(p, tier);

		if (sum > 0 && sum < NEARLY)
			tier->share = health / sum;
		else
			tier->share = health < left ? health : left;
		left -= tier->share;
	}
}

/* The tier that the request goes to, or the count: no tier can bear anything. */
static size_t tier_for(const struct tiers *t, const struct usher_view *view,
		const struct usher_request *request)
{
	double draw = 0, sum = 0;
	size_t last = t->count;

	if (request)
		draw = usher_request_draw(request, true, usher_hash_text(view->service, SEED));
	for (size_t i = 0; i < t->count; i++) {
		if (t->tiers[i].share <= 0)
			continue;
		sum += t->tiers[i].share;
		last = i;
		if (draw < sum)
			break;
	}
	return last;
}

/* ---- the stage ---- */

static size_t priority_run(
		const void *instance, struct usher_pass *pass, uint32_t *candidates, size_t count)
{
	const struct priority *p = instance;
	struct tiers t;
	size_t tier, kept = 0;

	share_out(p, pass, candidates, count, &t);
	tier = tier_for(&t, pass->view, pass->request);
	if (tier == t.count) /* all that is left has weight 0: the selector says so */
		return count;
	for (size_t i = 0; i < count; i++) {
		bool in = mark_of(p, pass, candidates[i]) == tier;

		/* Without a branch, for tiers come in no order. */
		candidates[kept] = candidates[i];
		kept += in;
	}
	return kept;
}

static void priority_explain(const void *instance, const struct usher_view *view,
		const struct usher_request *request, uint32_t candidate, char *ret_text,
		size_t size)
{
	const struct priority *p = instance;
	char tier[80];

	(void) request;
	write_tier(p, view, tier_of(p, view, candidate), tier, sizeof(tier));
	(void) snprintf(ret_text, size, "tier %s, and this request goes to another", tier);
}

/* "tier gold: 2 of 5 usable, gets 56%; tier silver: ...; this request goes to gold". Nothing where
 * the first tier bears all. */
static void priority_tell(const void *instance, const struct usher_pass *pass,
		const uint32_t *candidates, size_t count, size_t kept, char *ret_text, size_t size)
{
	const struct priority *p = instance;
	struct tiers t;
	size_t length = 0, tier;
	char name[80];

	(void) kept;
	share_out(p, pass, candidates, count, &t);
	tier = tier_for(&t, pass->view, pass->request);
	if (tier == t.count || t.tiers[0].share > NEARLY)
		return;
	for (size_t i = 0; i < t.count && length < size; i++) {
		if (t.tiers[i].all == 0)
			continue;
		write_tier(p, pass->view, i, name, sizeof(name));
		length += (size_t) snprintf(ret_text + length, size - length,
				"%s %zu of %zu usable: %.3g%%; ", name, t.tiers[i].usable,
				t.tiers[i].all, 100 * t.tiers[i].share);
	}
	write_tier(p, pass->view, tier, name, sizeof(name));
	if (length < size)
		(void) snprintf(ret_text + length, size - length, "this request goes to %s", name);
}

static int priority_init(void *instance, struct usher_error *reterr)
{
	struct priority *p = instance;

	while (p->order && p->order[p->order_count])
		p->order_count++;
	if (p->order_count >= TIERS_MAX)
		return usher_error_set(reterr, -E2BIG,
				"order has %zu tiers; at most %d are possible", p->order_count,
				TIERS_MAX - 1);
	if (p->order && p->order_count == 0)
		return usher_error_set(
				reterr, -EINVAL, "order is empty: name the tiers, the best first");
	if (p->by == BY_SOURCE && p->order)
		return usher_error_set(reterr, -EINVAL,
				"by: source takes the order of the service's sources; leave order "
				"out");
	if (p->by == BY_LABEL && (!p->label || !p->order))
		return usher_error_set(reterr, -EINVAL,
				"tiers by label need label and order, such as {label: tier, order: "
				"[gold, silver]}; or write by: zone or by: source");
	if (p->by != BY_LABEL && p->label)
		return usher_error_set(reterr, -EINVAL,
				"label is for tiers by label: leave out either label or by");
	return 0;
}

static const char *const by_choices[] = {
	[BY_LABEL] = "label",
	[BY_ZONE] = "zone",
	[BY_SOURCE] = "source",
	NULL,
};

static const struct usher_option priority_options[] = {
	{ .name = "by",
			.type = USHER_OPTION_CHOICE,
			.offset = offsetof(struct priority, by),
			.help = "What makes the tiers: a metadata label, the zone (without order: "
				"the node's own, then the others), or the source that an endpoint "
				"comes from, in the order of the service's sources.",
			.default_text = "label",
			.choices = by_choices },
	{ .name = "label",
			.type = USHER_OPTION_STRING,
			.offset = offsetof(struct priority, label),
			.help = "The metadata whose value names the tier." },
	{ .name = "order",
			.type = USHER_OPTION_STRINGS,
			.offset = offsetof(struct priority, order),
			.help = "The tiers, the best first. What is in none of them is in one more, "
				"the last." },
	{ .name = "overprovisioning",
			.type = USHER_OPTION_SHARE,
			.offset = offsetof(struct priority, overprovisioning),
			.help = "How much more than its part a usable endpoint can bear: at 140% a "
				"tier is whole as long as 71.5% of it are usable.",
			.default_text = "140%",
			.min = 100,
			.max = 1000 },
	{},
};

USHER_PLUGIN(.name = "priority", .summary = "The best tier first, as far as it can bear",
		.instance_size = sizeof(struct priority), .options = priority_options,
		.init = priority_init,
		.stage = &(const struct usher_stage){
				.size = sizeof(struct usher_stage),
				.looks_at_request = true,
				.explain = priority_explain,
				.flags = USHER_STAGE_WHOLE,
				.run = priority_run,
				.tell = priority_tell,
				.mark = priority_mark,
		});
