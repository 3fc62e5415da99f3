/* Chains as people type them: stages, their rules, and when a rule applies. */

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "config-forms.h"
#include "config-tables.h"
#include "ownership.h"
#include "place.h"
#include "table-values.h"

/* ---- on_empty ---- */

static const char *const empty_words[] = {
	[EMPTY_PASS] = "pass", [EMPTY_FAIL] = "fail", [EMPTY_NEXT] = "next", NULL
};

const char *empty_policy_to_string(enum empty_policy policy)
{
	return policy == EMPTY_UNSAID ? "" : empty_words[policy];
}

static int read_on_empty(struct rule_config *rule, struct usher_error *reterr)
{
	static const struct {
		const char *word;
		enum empty_policy policy;
	} aliases[] = { { "all", EMPTY_PASS }, { "none", EMPTY_FAIL } };
	static const struct config_row row = { CONFIG_ON_EMPTY, ROW_CHOICE,
		offsetof(struct rule_config, on_empty), .choices = empty_words };
	const struct usher_node *n = usher_node_get(rule->use.options, CONFIG_ON_EMPTY);

	if (!n)
		return 0;
	for (size_t i = 0; usher_node_kind(n) == USHER_NODE_SCALAR && i < ELEMENTS(aliases); i++)
		if (strcmp(usher_node_text(n), aliases[i].word) == 0) {
			rule->on_empty = aliases[i].policy;
			return 0;
		}
	return config_row_read(&row, n, rule, reterr);
}

/* ---- when ---- */

#define HEADER "header."

static const char *const condition_words[] = {
	[CONDITION_HINT] = "hint",
	[CONDITION_VERSION] = "version",
	[CONDITION_STICKY] = "sticky",
	[CONDITION_KEY] = "key",
	[CONDITION_CONSUMER] = "consumer",
	[CONDITION_HEADER] = "header.NAME",
	NULL,
};

static int read_field(const struct usher_node *map, size_t i, struct condition *ret,
		struct usher_error *reterr)
{
	const char *key = usher_node_key(map, i);

	if (strncmp(key, HEADER, strlen(HEADER)) == 0 && key[strlen(HEADER)]) {
		ret->field = CONDITION_HEADER;
		ret->header = key + strlen(HEADER);
		return 0;
	}
	for (int k = 0; k < CONDITION_HEADER; k++)
		if (strcmp(key, condition_words[k]) == 0) {
			ret->field = (enum condition_field) k;
			return 0;
		}
	return place_unknown_key(reterr, map, i, condition_words);
}

static int read_condition(const struct usher_node *map, size_t i, struct condition *ret,
		struct usher_error *reterr)
{
	const struct usher_node *n = usher_node_at(map, i);
	int r;

	r = read_field(map, i, ret, reterr);
	if (r < 0)
		return r;
	if (usher_node_kind(n) != USHER_NODE_SCALAR || !usher_node_text(n)[0])
		return place_error(reterr, n, -EINVAL,
				"must be `present`, `absent`, or the text that it must be");
	if (strcmp(usher_node_text(n), "present") == 0) {
		ret->kind = CONDITION_PRESENT;
	} else if (strcmp(usher_node_text(n), "absent") == 0) {
		ret->kind = CONDITION_ABSENT;
	} else {
		ret->kind = CONDITION_EQUALS;
		ret->text = usher_node_text(n);
	}
	return 0;
}

static int read_when(struct rule_config *rule, struct usher_error *reterr)
{
	const struct usher_node *n = usher_node_get(rule->use.options, CONFIG_WHEN);
	size_t count;
	int r;

	if (!n)
		return 0;
	if (usher_node_kind(n) != USHER_NODE_MAP)
		return place_error(reterr, n, -EINVAL,
				"must be a map of conditions as {header.NAME: present}, not %s",
				usher_node_kind_name(n));
	count = usher_node_count(n);
	if (count == 0 || count > CONFIG_WHEN_MAX)
		return place_error(reterr, n, -EINVAL,
				"has %zu conditions; 1 to %d are possible, and a rule without `when` always applies",
				count, CONFIG_WHEN_MAX);
	rule->when = calloc(count, sizeof(*rule->when));
	if (!rule->when)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	rule->when_count = count;
	for (size_t i = 0; i < count; i++) {
		r = read_condition(n, i, &rule->when[i], reterr);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- rules ---- */

/* place: where the stage is named; n: its options, or NULL. */
static int read_rule(const struct usher_node *place, const char *name, const struct usher_node *n,
		struct rule_config *rule, struct usher_error *reterr)
{
	int r;

	rule->on_empty = EMPTY_UNSAID;
	r = config_set_plugin(place, name, &rule->use, reterr);
	if (r >= 0 && n)
		r = config_read_options(n, &rule->use, reterr);
	if (r < 0 || !rule->use.options)
		return r;
	r = read_on_empty(rule, reterr);
	return r < 0 ? r : read_when(rule, reterr);
}

/* Every rule must be reached by some request, and the last has no next one. */
static int check_rules(const struct stage_config *stage, struct usher_error *reterr)
{
	for (size_t i = 0; i < stage->rule_count; i++) {
		const struct rule_config *rule = &stage->rules[i];
		bool is_last = i + 1 == stage->rule_count;

		if (is_last && rule->on_empty == EMPTY_NEXT)
			return place_error(reterr,
					usher_node_get(rule->use.options, CONFIG_ON_EMPTY), -EINVAL,
					"there is no next rule; write pass or fail, or add a rule");
		if (!is_last && rule->when_count == 0 && rule->on_empty != EMPTY_NEXT)
			return place_error(reterr, stage->rules[i + 1].use.options, -EINVAL,
					"is never reached, for the rule before it always applies; give that a `when` or on_empty: next, or remove this one");
	}
	return 0;
}

static int read_rules(const struct usher_node *place, const char *name, const struct usher_node *n,
		struct stage_config *stage, struct usher_error *reterr)
{
	bool is_list = n && usher_node_kind(n) == USHER_NODE_LIST;
	size_t count = is_list ? usher_node_count(n) : 1;
	int r;

	if (count == 0)
		return place_error(reterr, n, -EINVAL,
				"is an empty list of rules; write {} for a stage without options");
	if (count > CONFIG_RULES_MAX)
		return place_error(reterr, n, -E2BIG, "has %zu rules; at most %d are possible",
				count, CONFIG_RULES_MAX);
	stage->rules = calloc(count, sizeof(*stage->rules));
	if (!stage->rules)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	for (size_t i = 0; i < count; i++) {
		const struct usher_node *item = is_list ? usher_node_at(n, i) : n;

		stage->rule_count = i + 1;
		if (is_list && usher_node_kind(item) != USHER_NODE_MAP)
			return place_error(reterr, item, -EINVAL,
					"must be the options of a rule, {...}, not %s",
					usher_node_kind_name(item));
		r = read_rule(place, name, item, &stage->rules[i], reterr);
		if (r < 0)
			return r;
	}
	return check_rules(stage, reterr);
}

/* NAME, {NAME: OPTIONS} or {NAME: [RULES]}. */
static int read_stage(
		const struct usher_node *n, struct stage_config *stage, struct usher_error *reterr)
{
	int r;

	r = config_check_use(n, "a stage", reterr);
	if (r < 0)
		return r;
	if (usher_node_kind(n) == USHER_NODE_SCALAR)
		return read_rules(n, usher_node_text(n), NULL, stage, reterr);
	return read_rules(usher_node_key_node(n, 0), usher_node_key(n, 0), usher_node_at(n, 0),
			stage, reterr);
}

/* ---- the chain ---- */

static int chain_read(const struct usher_node *n, void *field, struct usher_error *reterr)
{
	struct service_config *service = field;
	void *items = NULL;
	int r;

	r = config_start_list(n, CONFIG_STAGES_MAX, sizeof(*service->stages), &items, reterr);
	if (r < 0)
		return r;
	assert(items);
	service->stages = items;
	for (size_t i = 0; i < usher_node_count(n); i++) {
		service->stage_count = i + 1;
		r = read_stage(usher_node_at(n, i), &service->stages[i], reterr);
		if (r < 0)
			return r;
	}
	return 0;
}

static void stage_done(struct stage_config *stage)
{
	for (size_t i = 0; i < stage->rule_count; i++) {
		free(stage->rules[i].use.plugin);
		free(stage->rules[i].when);
	}
	free(stage->rules);
}

static void chain_done(void *field)
{
	struct service_config *service = field;

	for (size_t i = 0; i < service->stage_count; i++)
		stage_done(&service->stages[i]);
	free(service->stages);
}

const struct config_form config_form_chain = { chain_read, chain_done, "chain" };

/* ---- comparing ---- */

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool condition_equal(const struct condition *a, const struct condition *b)
{
	return a->field == b->field && a->kind == b->kind && same_text(a->text, b->text) &&
			(a->field != CONDITION_HEADER || strcasecmp(a->header, b->header) == 0);
}

static bool rule_equal(const struct rule_config *a, const struct rule_config *b)
{
	if (a->on_empty != b->on_empty || a->when_count != b->when_count ||
			!plugin_use_equal(&a->use, &b->use))
		return false;
	for (size_t i = 0; i < a->when_count; i++)
		if (!condition_equal(&a->when[i], &b->when[i]))
			return false;
	return true;
}

bool stage_config_equal(const struct stage_config *a, const struct stage_config *b)
{
	if (a->rule_count != b->rule_count)
		return false;
	for (size_t i = 0; i < a->rule_count; i++)
		if (!rule_equal(&a->rules[i], &b->rules[i]))
			return false;
	return true;
}
