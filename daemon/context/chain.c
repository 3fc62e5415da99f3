#include "chain.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ownership.h"

DEFINE_CLEANUP(struct chain, chain_unref);

static int refuse_second(const struct service_config *service, size_t i, struct usher_error *reterr)
{
	const struct plugin_use *use = &service->stages[i].use;

	for (size_t k = 0; k < i; k++) {
		const struct plugin_use *earlier = &service->stages[k].use;

		if (strcmp(earlier->plugin, use->plugin) != 0)
			continue;
		if (!use->place)
			return usher_error_set(reterr, -EINVAL,
					"stage %s is twice in the chain: remove one", use->plugin);
		return usher_node_error(reterr, use->place, -EINVAL,
				"stage %s is twice in the chain, first in line %u: remove one",
				use->plugin, earlier->place ? usher_node_line(earlier->place) : 0);
	}
	return 0;
}

static int add_stages(struct chain *c, struct plugins *plugins,
		const struct service_config *service, struct usher_error *reterr)
{
	for (size_t i = 0; i < service->stage_count; i++) {
		struct chain_stage *stage = &c->stages[i];
		int r;

		r = refuse_second(service, i, reterr);
		if (r < 0)
			return r;
		r = plugin_instance_new(plugins, &service->stages[i].use, FACET_STAGE,
				&stage->instance, reterr);
		if (r < 0)
			return r;
		stage->on_empty = service->stages[i].on_empty;
		c->stage_count++;
	}
	return 0;
}

static size_t count_shared(const struct chain *c)
{
	size_t shared = 0;

	while (shared < c->stage_count &&
			!c->stages[shared].instance->plugin->stage->looks_at_request)
		shared++;
	return shared;
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
		return -ENOMEM;
	c->refs = 1;
	c->stages = calloc(service->stage_count ? service->stage_count : 1, sizeof(*c->stages));
	if (!c->stages)
		return -ENOMEM;

	r = add_stages(c, plugins, service, reterr);
	if (r < 0)
		return r;
	r = plugin_instance_new(plugins, &service->select, FACET_SELECTOR, &c->selector, reterr);
	if (r < 0)
		return r;
	c->shared_count = count_shared(c);
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
		(void) plugin_instance_unref(c->stages[i].instance);
	(void) plugin_instance_unref(c->selector);
	free(c->stages);
	free(c);
	return NULL;
}

const char *chain_stage_name(const struct chain *c, size_t i)
{
	assert(i < c->stage_count);
	return c->stages[i].instance->plugin->name;
}

bool chain_config_equal(const struct service_config *a, const struct service_config *b)
{
	if (a->stage_count != b->stage_count || !plugin_use_equal(&a->select, &b->select))
		return false;
	for (size_t i = 0; i < a->stage_count; i++)
		if (a->stages[i].on_empty != b->stages[i].on_empty ||
				!plugin_use_equal(&a->stages[i].use, &b->stages[i].use))
			return false;
	return true;
}

/* One stage; false when it leaves none and is strict. */
static bool run_stage(
		const struct chain_stage *stage, struct chain_work *work, struct chain_step *step)
{
	const struct usher_stage *facet = stage->instance->plugin->stage;
	size_t in = work->count, out;

	/* The stage may write over what it drops, and pass wants all of it back. */
	memcpy(work->scratch, work->candidates, in * sizeof(*work->candidates));
	out = facet->filter(stage->instance->data, work->view,
			facet->looks_at_request ? work->request : NULL, work->candidates, in);
	assert(out <= in);
	*step = (struct chain_step){ .in = in, .out = out };
	if (out > 0) {
		work->count = out;
		return true;
	}

	step->emptied = true;
	step->ruled = stage->on_empty;
	if (stage->on_empty == EMPTY_FAIL) {
		work->count = 0;
		return false;
	}
	memcpy(work->candidates, work->scratch, in * sizeof(*work->candidates));
	step->out = in;
	return true;
}

size_t chain_run(const struct chain *c, size_t first, size_t last, struct chain_work *work,
		size_t *ret_failed_stage, struct chain_step *steps)
{
	assert(first <= last && last <= c->stage_count);

	if (steps)
		memset(steps, 0, (last - first) * sizeof(*steps));
	for (size_t i = first; i < last && work->count > 0; i++) {
		struct chain_step step;

		if (!run_stage(&c->stages[i], work, &step) && ret_failed_stage)
			*ret_failed_stage = i;
		if (steps)
			steps[i - first] = step;
	}
	return work->count;
}
