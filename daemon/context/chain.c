#include "chain.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "chain-order.h"
#include "ownership.h"

DEFINE_CLEANUP(struct chain, chain_unref);

static bool reads_request(const struct plugin_instance *instance)
{
	const struct usher_stage *facet = instance->plugin->stage;

	return facet->needs_request ? facet->needs_request(instance->data)
				    : facet->looks_at_request;
}

static enum empty_policy policy_of(
		const struct rule_config *config, const struct usher_stage *facet)
{
	if (config->on_empty != EMPTY_UNSAID)
		return config->on_empty;
	return facet->flags & USHER_STAGE_STRICT ? EMPTY_FAIL : EMPTY_PASS;
}

static int rule_init(struct chain_rule *rule, struct plugins *plugins,
		const struct rule_config *config, struct usher_error *reterr)
{
	int r;

	r = plugin_instance_new(plugins, &config->use, FACET_STAGE, &rule->instance, reterr);
	if (r < 0)
		return r;
	rule->on_empty = policy_of(config, rule->instance->plugin->stage);
	rule->reads_request = reads_request(rule->instance);
	rule->marks = CHAIN_NO_MARKS;
	if (config->when_count == 0)
		return 0;
	rule->when = calloc(config->when_count, sizeof(*rule->when));
	if (!rule->when)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	memcpy(rule->when, config->when, config->when_count * sizeof(*rule->when));
	rule->when_count = config->when_count;
	return 0;
}

static int stage_init(struct chain_stage *stage, struct plugins *plugins,
		const struct stage_config *config, struct usher_error *reterr)
{
	int r;

	assert(config->rule_count > 0);
	stage->rules = calloc(config->rule_count, sizeof(*stage->rules));
	if (!stage->rules)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	for (size_t i = 0; i < config->rule_count; i++) {
		stage->rule_count = i + 1;
		r = rule_init(&stage->rules[i], plugins, &config->rules[i], reterr);
		if (r < 0)
			return r;
	}
	stage->plugin = stage->rules[0].instance->plugin;
	return 0;
}

static void stage_done(struct chain_stage *stage)
{
	for (size_t i = 0; i < stage->rule_count; i++) {
		(void) plugin_instance_unref(stage->rules[i].instance);
		free(stage->rules[i].when);
	}
	free(stage->rules);
}

bool chain_stage_looks_at_request(const struct chain_stage *stage)
{
	for (size_t i = 0; i < stage->rule_count; i++)
		if (stage->rules[i].reads_request || stage->rules[i].when_count > 0)
			return true;
	return false;
}

/* The shared part runs once for each publication, as its marks would. */
static void give_marks(struct chain *c, struct chain_stage *stage)
{
	for (size_t i = 0; i < stage->rule_count; i++)
		if (stage->rules[i].instance->plugin->stage->mark)
			stage->rules[i].marks = c->mark_count++;
}

static int add_stages(struct chain *c, struct plugins *plugins,
		const struct service_config *service, struct usher_error *reterr)
{
	int r;

	for (size_t i = 0; i < service->stage_count; i++) {
		c->stage_count = i + 1;
		r = stage_init(&c->stages[i], plugins, &service->stages[i], reterr);
		if (r < 0)
			return r;
		assert(c->stages[i].plugin);
		c->flags |= c->stages[i].plugin->stage->flags;
		if (c->shared_count == i && !chain_stage_looks_at_request(&c->stages[i]))
			c->shared_count++;
		else
			give_marks(c, &c->stages[i]);
	}
	return 0;
}

int chain_new(struct plugins *plugins, const struct service_config *service, struct chain **ret,
		struct usher_error *reterr)
{
	cleanup(chain_unrefp) struct chain *c = NULL;
	int r;

	assert(service);
	assert(ret);

	c = calloc(1, sizeof(*c));
	if (!c)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	c->refs = 1;
	c->stages = calloc(service->stage_count ? service->stage_count : 1, sizeof(*c->stages));
	if (!c->stages)
		return usher_error_set(reterr, -ENOMEM, "out of memory");

	r = add_stages(c, plugins, service, reterr);
	if (r < 0)
		return r;
	r = plugin_instance_new(plugins, &service->select, FACET_SELECTOR, &c->selector, reterr);
	if (r < 0)
		return r;
	r = chain_check_order(c, service, reterr);
	if (r < 0)
		return r;
	*ret = take(c);
	return 0;
}

struct chain *chain_ref(struct chain *c)
{
	assert(c && c->refs > 0);
	c->refs++;
	return c;
}

struct chain *chain_unref(struct chain *c)
{
	if (!c || --c->refs > 0)
		return NULL;
	for (size_t i = 0; c->stages && i < c->stage_count; i++)
		stage_done(&c->stages[i]);
	(void) plugin_instance_unref(c->selector);
	free(c->stages);
	free(c);
	return NULL;
}

const char *chain_stage_name(const struct chain *c, size_t i)
{
	assert(i < c->stage_count);
	return c->stages[i].plugin->name;
}

const struct usher_selector *chain_selector(const struct chain *c)
{
	return c->selector->plugin->selector;
}

static void mark_for(const struct chain_rule *rule, const struct usher_view *view, uint64_t *marks)
{
	const struct usher_stage *facet = rule->instance->plugin->stage;
	size_t count = usher_endpoints_count(view->endpoints);

	for (uint32_t i = 0; i < count; i++)
		marks[i] = facet->mark(rule->instance->data, view, i);
}

int chain_mark(const struct chain *c, const struct usher_view *view, uint64_t **ret)
{
	size_t count = usher_endpoints_count(view->endpoints);
	uint64_t *marks = NULL;

	if (c->mark_count > 0 && count > 0) {
		marks = calloc(c->mark_count, count * sizeof(*marks));
		if (!marks)
			return -ENOMEM;
	}
	for (size_t i = c->shared_count; marks && i < c->stage_count; i++)
		for (size_t k = 0; k < c->stages[i].rule_count; k++)
			if (c->stages[i].rules[k].marks != CHAIN_NO_MARKS)
				mark_for(&c->stages[i].rules[k], view,
						marks + c->stages[i].rules[k].marks * count);
	*ret = marks;
	return 0;
}

bool chain_config_equal(const struct service_config *a, const struct service_config *b)
{
	if (a->stage_count != b->stage_count || !plugin_use_equal(&a->select, &b->select))
		return false;
	/* What the order of stages is checked for. */
	if (service_observes_health(a) != service_observes_health(b))
		return false;
	for (size_t i = 0; i < a->stage_count; i++)
		if (!stage_config_equal(&a->stages[i], &b->stages[i]))
			return false;
	return true;
}
