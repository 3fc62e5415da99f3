/* Keeps the endpoints of one zone: the node's own, or the one that is named.
 *
 * An endpoint without a zone is in none. Where neither the option nor the node names a zone nothing
 * matches, and on_empty rules: pass uses all, fail uses none, so strict stays strict.
 *
 * With spill_over the zone is given no more than it can bear, after Envoy's zone aware routing
 * (https://www.envoyproxy.io/docs/envoy/latest/intro/arch_overview/upstream/load_balancing/zone_aware):
 * a zone that has at least its share of the capacity keeps all of its traffic, and one that has
 * less keeps as much as it can bear. Where Envoy knows each zone's part of the callers, usher is
 * told this zone's share, for it sees one node only; and capacity is weight, not a count, so that
 * what ramps up counts as far as it can bear. */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <usher/plugin.h>

#define ZONES_MAX                256 /* that are told apart */
#define OVERPROVISIONING_DEFAULT 1.4
#define SEED                     UINT64_C(0x7a6f6e65) /* "zone" */
#define MARK_INSIDE              UINT64_C(1)

struct zone {
	const char *prefer;                  /* option */
	const struct usher_node *spill_over; /* option */
	double share;                        /* 0: one by the number of the service's zones */
	double overprovisioning;
};

/* What the candidates of the zone can bear of its traffic. */
struct capacity {
	uint64_t local, total; /* weights of candidates */
	size_t local_count;
	double share; /* of the traffic that comes from this zone */
	double borne; /* of that, how much stays: 0..1 */
};

static const char *wanted_zone(const struct zone *z, const struct usher_view *view)
{
	return z->prefer ? z->prefer : view->zone;
}

/* A zone of no name is none, but for one who asks for it: then it is what the metadata say. */
static bool is_in(const struct usher_view *view, uint32_t i, const char *wanted)
{
	const char *zone = usher_endpoints_zone(view->endpoints, i);

	if (!zone && !*wanted)
		zone = usher_endpoints_metadata(view->endpoints, i, USHER_ZONE_LABEL);
	return zone && strcasecmp(zone, wanted) == 0;
}

/* FNV-1a over the lower case (http://www.isthe.com/chongo/tech/comp/fnv/): enough to tell zones
 * apart. Even, and not 0. */
static uint64_t hash_of_zone(const char *zone)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; *zone; zone++) {
		unsigned char c = (unsigned char) *zone;

		hash = (hash ^ (c >= 'A' && c <= 'Z' ? c + 32u : c)) * UINT64_C(0x100000001b3);
	}
	hash &= ~MARK_INSIDE;
	return hash ? hash : MARK_INSIDE << 1;
}

/* The hash of its zone, 0 for none; and whether it is in the one that is wanted. */
static uint64_t zone_mark(const void *instance, const struct usher_view *view, uint32_t endpoint)
{
	const char *wanted = wanted_zone(instance, view);
	const char *zone = usher_endpoints_zone(view->endpoints, endpoint);
	uint64_t mark = zone ? hash_of_zone(zone) : 0;

	return wanted && is_in(view, endpoint, wanted) ? mark | MARK_INSIDE : mark;
}

static uint64_t mark_of(const struct zone *z, const struct usher_pass *pass, uint32_t i)
{
	return pass->marks ? pass->marks[i] : zone_mark(z, pass->view, i);
}

static size_t keep(const struct zone *z, const struct usher_pass *pass, bool inside,
		uint32_t *candidates, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		bool is_inside = mark_of(z, pass, candidates[i]) & MARK_INSIDE;

		/* Without a branch, for zones come in no order. */
		candidates[kept] = candidates[i];
		kept += is_inside == inside;
	}
	return kept;
}

/* ---- spilling over ---- */

/* Whether this hash is seen for the first time; 0 is a free place. */
static bool note_hash(uint64_t *seen, size_t noted, uint64_t hash)
{
	size_t i = hash % ZONES_MAX;

	if (noted == ZONES_MAX - 1)
		return false;
	while (seen[i] && seen[i] != hash)
		i = (i + 1) % ZONES_MAX;
	if (seen[i] == hash)
		return false;
	seen[i] = hash;
	return true;
}

/* Of all endpoints, not only of the candidates: a zone that is down has not gone. Those without a
 * zone are in one more. */
static size_t count_zones(const struct zone *z, const struct usher_pass *pass)
{
	size_t count = usher_endpoints_count(pass->view->endpoints), zones = 0;
	uint64_t seen[ZONES_MAX] = { 0 };
	bool without = false;

	zones += note_hash(seen, zones, hash_of_zone(wanted_zone(z, pass->view)));
	for (uint32_t i = 0; i < count; i++) {
		uint64_t hash = mark_of(z, pass, i) & ~MARK_INSIDE;

		if (hash)
			zones += note_hash(seen, zones, hash);
		else
			without = true;
	}
	return zones + without;
}

static void measure(const struct zone *z, const struct usher_pass *pass, const uint32_t *candidates,
		size_t count, struct capacity *ret)
{
	struct capacity c = { .share = z->share };
	double part;

	for (size_t i = 0; i < count; i++) {
		uint32_t weight = pass->view->weights[candidates[i]];
		bool inside = mark_of(z, pass, candidates[i]) & MARK_INSIDE;

		c.total += weight;
		c.local += inside ? weight : 0;
		c.local_count += inside;
	}
	if (c.share <= 0)
		c.share = 1.0 / (double) count_zones(z, pass);
	part = c.total > 0 ? (double) c.local / (double) c.total : 0;
	c.borne = part * z->overprovisioning / c.share;
	/* Where nobody else could take it, all of it stays. */
	if (c.borne > 1 || c.local == c.total)
		c.borne = 1;
	*ret = c;
}

static bool stays(const struct usher_pass *pass, const struct capacity *c)
{
	uint64_t seed;

	if (c->borne >= 1 || !pass->request)
		return true;
	seed = usher_hash_text(pass->view->service, SEED);
	return usher_request_draw(pass->request, true, seed) < c->borne;
}

/* ---- the stage ---- */

static size_t zone_run(
		const void *instance, struct usher_pass *pass, uint32_t *candidates, size_t count)
{
	const struct zone *z = instance;
	const char *wanted = wanted_zone(z, pass->view);
	struct capacity c;

	if (!wanted)
		return 0;
	if (!z->spill_over)
		return keep(z, pass, true, candidates, count);
	measure(z, pass, candidates, count, &c);
	if (c.local_count == 0)
		return 0;
	return keep(z, pass, stays(pass, &c), candidates, count);
}

static void zone_explain(const void *instance, const struct usher_view *view,
		const struct usher_request *request, uint32_t candidate, char *ret_text,
		size_t size)
{
	const char *wanted = wanted_zone(instance, view);
	const char *zone = usher_endpoints_zone(view->endpoints, candidate);

	(void) request;
	if (!wanted)
		(void) snprintf(ret_text, size,
				"the zone of this node is not known: set node.zone, or prefer");
	else if (is_in(view, candidate, wanted))
		(void) snprintf(ret_text, size,
				"zone %s is short of capacity, and this request goes elsewhere",
				wanted);
	else if (!zone)
		(void) snprintf(ret_text, size, "has no zone, %s is preferred", wanted);
	else
		(void) snprintf(ret_text, size, "zone %s is not %s", zone, wanted);
}

/* The zone gives up, or gives away. */
static void zone_tell(const void *instance, const struct usher_pass *pass,
		const uint32_t *candidates, size_t count, size_t kept, char *ret_text, size_t size)
{
	const struct zone *z = instance;
	const char *wanted = wanted_zone(z, pass->view);
	struct capacity c;

	if (!wanted) {
		(void) snprintf(ret_text, size,
				"the zone of this node is not known: set node.zone, or prefer");
		return;
	}
	if (kept == 0) {
		(void) snprintf(ret_text, size, "nobody is in zone %s", wanted);
		return;
	}
	if (!z->spill_over)
		return;
	measure(z, pass, candidates, count, &c);
	if (c.borne < 1)
		(void) snprintf(ret_text, size,
				"zone %s has %.3g%% of the capacity for %.3g%% of the traffic: "
				"%.3g%% of its requests go elsewhere, and this one %s",
				wanted, 100.0 * (double) c.local / (double) c.total, 100 * c.share,
				100 * (1 - c.borne), stays(pass, &c) ? "stays" : "does, too");
}

static bool zone_needs_request(const void *instance)
{
	const struct zone *z = instance;

	return z->spill_over;
}

/* ---- options ---- */

static int read_factor(const struct usher_node *map, const char *key, int64_t min, int64_t max,
		double *ret, struct usher_error *reterr)
{
	const struct usher_node *n = usher_node_get(map, key);
	const char *text = n ? usher_node_text(n) : NULL;
	int r = n ? usher_node_percent(n, min, max, ret, NULL) : 0;

	if (r < 0)
		return usher_error_set(reterr, r,
				"spill_over.%s: \"%.64s\" is no share in %d%%..%d%%; write a "
				"percentage, such as %d%%",
				key, text ? text : usher_node_kind_name(n), (int) min, (int) max,
				(int) (min + max) / 2);
	return 0;
}

static int zone_init(void *instance, struct usher_error *reterr)
{
	static const char *const keys[] = { "share", "overprovisioning", NULL };
	struct zone *z = instance;
	int r;

	z->overprovisioning = OVERPROVISIONING_DEFAULT;
	if (!z->spill_over)
		return 0;
	if (usher_node_kind(z->spill_over) != USHER_NODE_MAP)
		return usher_error_set(reterr, -EINVAL,
				"spill_over is a map, such as {share: 40%%}, or {} where all zones "
				"have the same share; not %s",
				usher_node_kind_name(z->spill_over));
	for (size_t i = 0; i < usher_node_count(z->spill_over); i++) {
		const char *key = usher_node_key(z->spill_over, i);

		if (strcmp(key, keys[0]) != 0 && strcmp(key, keys[1]) != 0)
			return usher_error_set(reterr, -EINVAL,
					"spill_over: unknown key \"%.64s\"; known are share and "
					"overprovisioning",
					key);
	}
	r = read_factor(z->spill_over, keys[0], 1, 100, &z->share, reterr);
	if (r < 0)
		return r;
	return read_factor(z->spill_over, keys[1], 100, 1000, &z->overprovisioning, reterr);
}

static const struct usher_option zone_options[] = {
	{ .name = "prefer",
			.type = USHER_OPTION_STRING,
			.offset = offsetof(struct zone, prefer),
			.help = "The zone to keep, in any case of letters; the node's own when not "
				"given." },
	{ .name = "spill_over",
			.type = USHER_OPTION_NODE,
			.offset = offsetof(struct zone, spill_over),
			.help = "Send elsewhere what the zone cannot bear: {share: this zone's "
				"share of the traffic (one by the number of zones), "
				"overprovisioning: 140%}. Without it, all stays." },
	{},
};

USHER_PLUGIN(.name = "zone", .summary = "Those of one zone, as far as it can bear",
		.instance_size = sizeof(struct zone), .options = zone_options, .init = zone_init,
		.stage = &(const struct usher_stage){
				.size = sizeof(struct usher_stage),
				.explain = zone_explain,
				.needs_request = zone_needs_request,
				.run = zone_run,
				.tell = zone_tell,
				.mark = zone_mark,
		});
