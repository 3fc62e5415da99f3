#pragma once

/* Chains at random, with what they say told a second time in the plainest way: which endpoints each
 * stage lets through. Where a stage draws, hashes or weighs shares, the model only says who may
 * pass it; from there on the exact set is not known. */

#include <strings.h>
#include <usher/endpoint.h>

#include "test.h"

#define ELEMENTS_OF(a) (sizeof(a) / sizeof((a)[0]))

/* ---- chance ---- */

static uint64_t chance_state;

static uint64_t chance(void) /* splitmix64 */
{
	uint64_t z = (chance_state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static size_t below(size_t n)
{
	return (size_t) (chance() % n);
}

static bool one_in(size_t n)
{
	return below(n) == 0;
}

#define any_of(table) ((table)[below(ELEMENTS_OF(table))])

/* ---- endpoints and requests ---- */

#define MODEL_ENDPOINTS_MAX 24

static const char *const endpoint_versions[] = { NULL, "1.0", "v1.2.5", "2.0.0-rc.1", "2.0",
	"latest" };

struct model_endpoint {
	char id[8];
	bool present;
	const char *zone, *weight, *hint, *tier, *track;
	size_t version; /* of endpoint_versions */
	size_t source;
	bool ready, serving, terminating;
	enum usher_admin_state admin;
	enum usher_health health;
	/* what a rollout decided */
	bool overridden, withdrawn;
	enum usher_admin_state override_admin;
	double share;
};

/* What is asked for, and which of endpoint_versions that is. */
static const struct {
	const char *text;
	bool fits[6];
} asked_versions[] = {
	{ "1.0", { false, true, false, false, false, false } },
	{ "^1.0", { false, true, true, false, false, false } },
	{ "2.0", { false, false, false, false, true, false } },
	{ "v1", { false, true, false, false, false, false } },
	{ ">=2.0.0-0", { false, false, false, true, true, false } },
	{ "1.x || 2.x", { false, true, true, false, true, false } }, { "3.x", { false } },
	{ "nonsense", { false } }, { "", { false } }, /* only as a header */
};

#define NO_VERSION    ELEMENTS_OF(asked_versions)
#define EMPTY_VERSION (ELEMENTS_OF(asked_versions) - 1)

#define MODEL_EXCLUDE_MAX 4

/* As the stages should see it: wherever it stands in the request. */
struct model_request {
	const char *hint;
	size_t version;            /* of asked_versions, or NO_VERSION */
	const char *sticky, *ring; /* the cookie that is looked at unless the option says "ring" */
	const char *key, *consumer, *beta;
	const char *last;
	const char *exclude[MODEL_EXCLUDE_MAX];
	size_t exclude_count;
	bool hint_in_header, version_in_header, sticky_in_cookie;
};

/* ---- stages ---- */

enum model_kind {
	MODEL_READY,
	MODEL_HEALTH,
	MODEL_SUBSET,
	MODEL_SLOW_START,
	MODEL_ZONE,
	MODEL_LABEL,
	MODEL_PRIORITY,
	MODEL_VERSION,
	MODEL_HINT,
	MODEL_CANARY,
	MODEL_STICKY,
	MODEL_SAME_INSTANCE,
	MODEL_EXCLUDE,
	MODEL_KINDS
};

#define MODEL_OPTIONS_MAX 7

static const struct {
	const char *name;
	const char *options[MODEL_OPTIONS_MAX]; /* what stands between the braces */
	bool strict, looks_at_request;
} model_kinds[MODEL_KINDS] = {
	[MODEL_READY] = { "ready",
			{ "terminating: avoid", "terminating: fallback", "terminating: include" } },
	[MODEL_HEALTH] = { "health",
			{ "", "unknown: avoid", "degraded: include", "degraded: avoid",
					"enough: 0%", "unknown: avoid, degraded: include" },
			.strict = true },
	[MODEL_SUBSET] = { "subset", { "size: 1", "size: 3", "size: 20" } },
	[MODEL_SLOW_START] = { "slow_start",
			{ "window: 30s", "window: 30s, aggression: 2.0, min: 1%" } },
	[MODEL_ZONE] = { "zone",
			{ "prefer: east", "prefer: west", "prefer: nowhere", "", "spill_over: {}",
					"spill_over: {share: 90%}" } },
	[MODEL_LABEL] = { "label",
			{ "match: tier=gold", "match: 'tier in (gold, silver)'", "match: '!tier'",
					"match: tier!=gold" } },
	[MODEL_PRIORITY] = { "priority",
			{ "label: tier, order: [gold, silver]", "by: zone, order: [east, west]",
					"by: source" },
			.looks_at_request = true },
	[MODEL_VERSION] = { "version",
			{ "", "default: '1.0'", "default: '^1.0'", "default: '2.0'" },
			.strict = true, .looks_at_request = true },
	[MODEL_HINT] = { "hint", { "", "value: stable" }, .looks_at_request = true },
	[MODEL_CANARY] = { "canary",
			{ "match: track=canary, share: 0%", "match: track=canary, share: 30%",
					"match: track=canary, share: 30%, by: key",
					"match: track=canary, share: 30%, by: random",
					"match: track=canary, share: 100%" },
			.looks_at_request = true },
	[MODEL_STICKY] = { "sticky", { "", "cookie: ring" }, .looks_at_request = true },
	[MODEL_SAME_INSTANCE] = { "same_instance", { "" }, .looks_at_request = true },
	[MODEL_EXCLUDE] = { "exclude", { "" }, .strict = true, .looks_at_request = true },
};

/* What `when` says; NULL: the rule has none. */
static const char *const model_conditions[] = { NULL, "hint: present", "version: absent",
	"sticky: present", "key: absent", "consumer: alpha", "header.X-Beta: present",
	"header.X-Beta: 'yes', key: present" };

enum model_policy {
	MODEL_UNSAID,
	MODEL_PASS,
	MODEL_FAIL,
	MODEL_NEXT
};

#define MODEL_RULES_MAX 3

struct model_rule {
	size_t option;    /* of its kind */
	size_t condition; /* of model_conditions */
	enum model_policy on_empty;
};

struct model_stage {
	enum model_kind kind;
	struct model_rule rules[MODEL_RULES_MAX];
	size_t rule_count;
};

struct model_chain {
	struct model_stage stages[MODEL_KINDS];
	size_t count;
	bool panics; /* on_all_down */
};

/* What the model knows of one request: who may be left. */
struct model_result {
	bool in[MODEL_ENDPOINTS_MAX];
	bool exact; /* they are who is left, and no others */
};

static bool condition_holds(size_t condition, const struct model_request *q)
{
	switch (condition) {
	case 0:
		return true;
	case 1:
		return q->hint && !q->hint_in_header;
	case 2:
		return q->version == NO_VERSION || q->version_in_header;
	case 3:
		return q->sticky && !q->sticky_in_cookie;
	case 4:
		return !q->key;
	case 5:
		return q->consumer && strcmp(q->consumer, "alpha") == 0;
	case 6:
		return q->beta;
	default:
		return q->beta && strcmp(q->beta, "yes") == 0 && q->key;
	}
}

static enum model_policy policy_of(const struct model_stage *stage, const struct model_rule *rule)
{
	if (rule->on_empty != MODEL_UNSAID)
		return rule->on_empty;
	return model_kinds[stage->kind].strict ? MODEL_FAIL : MODEL_PASS;
}

static bool stage_looks_at_request(const struct model_stage *stage)
{
	for (size_t i = 0; i < stage->rule_count; i++)
		if (stage->rules[i].condition != 0 ||
				(stage->kind == MODEL_ZONE && stage->rules[i].option >= 4))
			return true;
	return model_kinds[stage->kind].looks_at_request;
}

static bool text_is(const char *text, const char *other)
{
	return text && strcmp(text, other) == 0;
}

static bool label_holds(size_t option, const char *tier)
{
	switch (option) {
	case 0:
		return text_is(tier, "gold");
	case 1:
		return text_is(tier, "gold") || text_is(tier, "silver");
	case 2:
		return !tier;
	default:
		return !text_is(tier, "gold");
	}
}

static bool zone_holds(size_t option, const char *zone)
{
	static const char *const wanted[] = { "east", "west", "nowhere", "east" };

	return option >= 4 || (zone && strcasecmp(zone, wanted[option]) == 0);
}

static bool version_holds(size_t option, const struct model_request *q, size_t version)
{
	static const size_t defaults[] = { NO_VERSION, 0, 1, 2 };
	size_t asked = q->version == NO_VERSION ? defaults[option] : q->version;

	return asked != NO_VERSION && asked_versions[asked].fits[version];
}

static bool hint_holds(size_t option, const struct model_request *q, const char *hint)
{
	const char *asked = q->hint ? q->hint : option == 1 ? "stable" : NULL;

	return !asked || text_is(hint, asked);
}

static bool sticky_holds(size_t option, const struct model_request *q, const char *id)
{
	const char *asked = q->sticky_in_cookie || !q->sticky ? option == 1 ? q->ring : q->sticky
							      : q->sticky;

	return !asked || strcmp(id, asked) == 0;
}

static bool not_excluded(const struct model_request *q, const char *id)
{
	for (size_t i = 0; i < q->exclude_count; i++)
		if (strcmp(q->exclude[i], id) == 0)
			return false;
	return true;
}

static bool health_holds(size_t option, enum usher_health health)
{
	bool unknown = option != 1 && option != 5, degraded = option != 3;

	return health == USHER_HEALTH_UP || (unknown && health == USHER_HEALTH_UNKNOWN) ||
			(degraded && health == USHER_HEALTH_DEGRADED);
}

static bool takes_requests(const struct model_endpoint *e)
{
	return e->ready && !e->terminating;
}

static bool still_serves(const struct model_endpoint *e)
{
	return e->terminating && (e->ready || e->serving);
}

/* A request that is for the others, whatever is drawn. */
static bool never_canary(size_t option, const struct model_request *q)
{
	return option == 0 || (option == 2 && !q->key);
}

/* Whether the stage could let this one through at all, whoever else is there. */
static bool may_pass(enum model_kind kind, size_t option, const struct model_endpoint *e,
		const struct model_request *q)
{
	switch (kind) {
	case MODEL_READY:
		return takes_requests(e) || (option > 0 && still_serves(e));
	case MODEL_HEALTH:
		return health_holds(option, e->health);
	case MODEL_ZONE:
		return zone_holds(option, e->zone);
	case MODEL_LABEL:
		return label_holds(option, e->tier);
	case MODEL_VERSION:
		return version_holds(option, q, e->version);
	case MODEL_HINT:
		return hint_holds(option, q, e->hint);
	case MODEL_STICKY:
		return sticky_holds(option, q, e->id);
	case MODEL_SAME_INSTANCE:
		return !q->last || strcmp(q->last, e->id) == 0;
	case MODEL_EXCLUDE:
		return not_excluded(q, e->id);
	case MODEL_CANARY:
		if (never_canary(option, q))
			return !text_is(e->track, "canary");
		return option != 4 || text_is(e->track, "canary");
	case MODEL_SUBSET:
	case MODEL_SLOW_START:
	case MODEL_PRIORITY:
	case MODEL_KINDS:
		break;
	}
	return true;
}

/* Whether may_pass() says it all. `ready` does but for its fallback, which is told apart. */
static bool is_exact(const struct model_chain *chain, enum model_kind kind, size_t option,
		const struct model_endpoint *endpoints, const bool *in)
{
	switch (kind) {
	case MODEL_HEALTH:
		for (size_t i = 0; i < MODEL_ENDPOINTS_MAX; i++)
			if (in[i] &&
					((chain->panics &&
							 endpoints[i].health != USHER_HEALTH_UP) ||
							endpoints[i].health ==
									USHER_HEALTH_DEGRADED))
				return false;
		return true;
	case MODEL_ZONE:
		return option < 4;
	case MODEL_SUBSET:
	case MODEL_PRIORITY:
	case MODEL_CANARY:
		return false;
	case MODEL_READY:
	case MODEL_SLOW_START:
	case MODEL_LABEL:
	case MODEL_VERSION:
	case MODEL_HINT:
	case MODEL_STICKY:
	case MODEL_SAME_INSTANCE:
	case MODEL_EXCLUDE:
	case MODEL_KINDS:
		break;
	}
	return true;
}

static size_t count_in(const bool *in)
{
	size_t count = 0;

	for (size_t i = 0; i < MODEL_ENDPOINTS_MAX; i++)
		count += in[i];
	return count;
}

static bool weighs(const struct model_endpoint *e)
{
	return strcmp(e->weight, "0") != 0 && !(e->overridden && e->share == 0);
}

static bool any_weighs(const struct model_endpoint *endpoints, const bool *in)
{
	for (size_t i = 0; i < MODEL_ENDPOINTS_MAX; i++)
		if (in[i] && weighs(&endpoints[i]))
			return true;
	return false;
}

/* None is left if none is left that has weight, where one that came in had. */
static void keep(enum model_kind kind, size_t option, const struct model_endpoint *endpoints,
		const struct model_request *q, bool *in)
{
	bool regular = false, weight = any_weighs(endpoints, in);

	for (size_t i = 0; i < MODEL_ENDPOINTS_MAX; i++)
		regular = regular || (in[i] && takes_requests(&endpoints[i]));
	for (size_t i = 0; i < MODEL_ENDPOINTS_MAX; i++) {
		in[i] = in[i] && may_pass(kind, option, &endpoints[i], q);
		if (kind == MODEL_READY && option == 1 && regular)
			in[i] = in[i] && takes_requests(&endpoints[i]);
	}
	if (weight && !any_weighs(endpoints, in))
		memset(in, 0, MODEL_ENDPOINTS_MAX * sizeof(*in));
}

/* One stage; an empty result is final. */
static void model_run_stage(const struct model_chain *chain, const struct model_stage *stage,
		const struct model_endpoint *endpoints, const struct model_request *q,
		struct model_result *r)
{
	for (size_t i = 0; i < stage->rule_count; i++) {
		const struct model_rule *rule = &stage->rules[i];
		bool in[MODEL_ENDPOINTS_MAX];

		if (!condition_holds(rule->condition, q))
			continue;
		if (!is_exact(chain, stage->kind, rule->option, endpoints, r->in)) {
			r->exact = false;
			return;
		}
		memcpy(in, r->in, sizeof(in));
		keep(stage->kind, rule->option, endpoints, q, in);
		if (count_in(in) > 0 || policy_of(stage, rule) == MODEL_FAIL)
			memcpy(r->in, in, sizeof(in));
		if (count_in(in) > 0 || policy_of(stage, rule) != MODEL_NEXT)
			return;
	}
}

/* Whether the stage may have let this one through. In panic, health may have; and what is not for
 * canaries never falls onto one, whatever on_empty says. */
static bool stage_allows(const struct model_stage *stage, const struct model_endpoint *e,
		const struct model_request *q, bool panic)
{
	if (stage->kind == MODEL_HEALTH && panic)
		return true;
	for (size_t i = 0; i < stage->rule_count; i++) {
		const struct model_rule *rule = &stage->rules[i];

		if (!condition_holds(rule->condition, q))
			continue;
		if (may_pass(stage->kind, rule->option, e, q))
			return true;
		if (stage->kind == MODEL_CANARY && never_canary(rule->option, q))
			return false;
		if (policy_of(stage, rule) != MODEL_NEXT)
			return policy_of(stage, rule) == MODEL_PASS;
	}
	return true; /* no rule applied, or none was left */
}

/* ---- at random ---- */

static size_t option_count(enum model_kind kind)
{
	size_t count = 0;

	while (count < MODEL_OPTIONS_MAX && model_kinds[kind].options[count])
		count++;
	return count;
}

static void random_stage(struct model_stage *stage, enum model_kind kind)
{
	*stage = (struct model_stage){ .kind = kind, .rule_count = one_in(4) ? 1 + below(3) : 1 };
	for (size_t i = 0; i < stage->rule_count; i++) {
		bool last = i + 1 == stage->rule_count;
		bool conditional = stage->rule_count > 1 ? !last || one_in(3) : one_in(12);

		stage->rules[i] = (struct model_rule){ .option = below(option_count(kind)),
			.condition = conditional ? 1 + below(ELEMENTS_OF(model_conditions) - 1) : 0,
			.on_empty = (enum model_policy) below(last ? 3 : 4) };
	}
}

/* Mostly in the order of the kinds, for most others are refused. */
static void random_chain(struct model_chain *chain)
{
	bool in_order = !one_in(5);
	size_t likely = 2 + below(5); /* one in so many is there */

	*chain = (struct model_chain){ .panics = one_in(3) };
	for (size_t kind = 0; kind < MODEL_KINDS; kind++)
		if (one_in(likely))
			random_stage(&chain->stages[chain->count++], (enum model_kind) kind);
	for (size_t i = chain->count; !in_order && i > 1; i--) {
		size_t other = below(i);
		struct model_stage swapped = chain->stages[other];

		chain->stages[other] = chain->stages[i - 1];
		chain->stages[i - 1] = swapped;
	}
}

/* ---- as YAML ---- */

struct yaml_text {
	char text[8192];
	size_t length;
};

__attribute__((format(printf, 2, 3))) static void yaml_add(
		struct yaml_text *y, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	y->length += (size_t) vsnprintf(
			y->text + y->length, sizeof(y->text) - y->length, format, args);
	va_end(args);
	assert_true(y->length < sizeof(y->text));
}

static void rule_to_yaml(
		struct yaml_text *y, const struct model_stage *stage, const struct model_rule *rule)
{
	static const char *const policies[] = { NULL, "pass", "fail", "next" };
	const char *comma = "";

	yaml_add(y, "{%s", model_kinds[stage->kind].options[rule->option]);
	if (model_kinds[stage->kind].options[rule->option][0])
		comma = ", ";
	if (rule->condition != 0) {
		yaml_add(y, "%swhen: {%s}", comma, model_conditions[rule->condition]);
		comma = ", ";
	}
	if (rule->on_empty != MODEL_UNSAID)
		yaml_add(y, "%son_empty: %s", comma, policies[rule->on_empty]);
	yaml_add(y, "}");
}

static void chain_to_yaml(struct yaml_text *y, const struct model_chain *chain)
{
	yaml_add(y, "    chain:%s\n", chain->count == 0 ? " []" : "");
	for (size_t i = 0; i < chain->count; i++) {
		const struct model_stage *stage = &chain->stages[i];

		yaml_add(y, "      - %s:%s", model_kinds[stage->kind].name,
				stage->rule_count == 1 ? " " : "\n");
		for (size_t k = 0; k < stage->rule_count; k++) {
			yaml_add(y, "%s", stage->rule_count == 1 ? "" : "          - ");
			rule_to_yaml(y, stage, &stage->rules[k]);
			yaml_add(y, "\n");
		}
	}
}
