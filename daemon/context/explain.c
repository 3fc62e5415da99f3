/* The same as a pick, told stage by stage. */

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context-private.h"
#include "directory-private.h"
#include "ownership.h"

/* More reasons than this tell nobody anything; the counts still do. */
#define LEFT_MAX 1000

struct explaining {
	const struct context *context;
	const struct snapshot *snapshot;
	struct usher_view view;
	const struct usher_request *request;
	struct chain_work work;
	uint32_t *before, *weights;
	struct explanation *explanation;
};

void explanation_done(struct explanation *e)
{
	for (size_t i = 0; i < e->stage_count; i++)
		free(e->stages[i].left);
	free(e->stages);
	*e = (struct explanation){};
}

/* ---- reasons ---- */

static void explain_admin(const struct snapshot *s, uint32_t endpoint, char *ret, size_t size)
{
	const struct snapshot_entry *entry = &s->entries[endpoint];
	const char *text = "";

	switch ((enum usher_admin_state) entry->admin_state) {
	case USHER_ADMIN_READY:
		text = "ready";
		break;
	case USHER_ADMIN_DRAINING:
		text = "draining";
		break;
	case USHER_ADMIN_MAINTENANCE:
		text = "in maintenance";
		break;
	}
	(void) snprintf(ret, size, "%s", entry->withdrawn ? "withdrawn by a drain" : text);
}

void context_explain_left_out(struct context *c, uint32_t endpoint, char *ret, size_t size)
{
	const struct snapshot *s = c->snapshot;
	const struct snapshot_entry *entry;
	struct usher_view view;

	assert(s && endpoint < s->count);
	entry = &s->entries[endpoint];
	context_view(c, s, &c->tally, s->computed_usec, &view);
	if (entry->chosen)
		(void) snprintf(ret, size, "chosen");
	else if (entry->stage < c->chain->shared_count && entry->rule == SNAPSHOT_NO_RULE)
		(void) snprintf(ret, size, "%s answered nonsense, and so lets nobody through",
				chain_stage_name(c->chain, entry->stage));
	else if (entry->stage < c->chain->shared_count)
		chain_explain(&c->chain->stages[entry->stage], entry->rule, &view, NULL, endpoint,
				ret, size);
	else
		explain_admin(s, endpoint, ret, size);
}

/* ---- stages ---- */

/* The reason of one that left stage `stage` of the chain, or one of the host's own. */
#define STAGE_ADMIN   SIZE_MAX
#define STAGE_EXCLUDE (SIZE_MAX - 1)

static void explain_one(const struct explaining *x, size_t stage, const struct chain_step *step,
		uint32_t endpoint, struct explain_left *ret)
{
	ret->endpoint = endpoint;
	if (stage == STAGE_ADMIN)
		explain_admin(x->snapshot, endpoint, ret->reason, sizeof(ret->reason));
	else if (stage == STAGE_EXCLUDE)
		(void) snprintf(ret->reason, sizeof(ret->reason), "excluded by the request");
	else if (step->weightless && x->view.weights[endpoint] == 0)
		(void) snprintf(ret->reason, sizeof(ret->reason),
				"weight 0, so it receives no new traffic");
	else if (step->rule < x->context->chain->stages[stage].rule_count)
		chain_explain(&x->context->chain->stages[stage], step->rule, &x->view,
				x->work.request, endpoint, ret->reason, sizeof(ret->reason));
}

/* x->before had `before` of them, x->work.candidates has what is left. */
static int add_stage(struct explaining *x, size_t stage, const char *name, size_t before,
		const struct chain_step *step)
{
	struct explain_stage *told = &x->explanation->stages[x->explanation->stage_count];
	size_t next = 0, gone = before - x->work.count;

	*told = (struct explain_stage){ .name = name,
		.shared = stage == STAGE_ADMIN || stage < x->context->chain->shared_count,
		.step = *step };
	if (stage != STAGE_ADMIN && stage != STAGE_EXCLUDE) {
		told->rule_count = x->context->chain->stages[stage].rule_count;
		chain_tell(x->context->chain, stage, step, &x->work, x->before, told->told,
				sizeof(told->told));
	}
	/* Of what leaves for a fault there is nothing to say. */
	if (step->fault)
		gone = 0;
	if (gone > LEFT_MAX)
		gone = LEFT_MAX;
	told->left = calloc(gone ? gone : 1, sizeof(*told->left));
	if (!told->left)
		return -ENOMEM;
	x->explanation->stage_count++;
	for (size_t i = 0; i < before && told->left_count < gone; i++) {
		if (next < x->work.count && x->work.candidates[next] == x->before[i])
			next++;
		else
			explain_one(x, stage, step, x->before[i], &told->left[told->left_count++]);
	}
	return 0;
}

static int explain_admin_stage(struct explaining *x)
{
	const struct snapshot *s = x->snapshot;
	struct chain_step step = { .in = s->count };

	for (uint32_t i = 0; i < s->count; i++) {
		x->before[i] = i;
		if (!s->entries[i].withdrawn && s->entries[i].admin_state == USHER_ADMIN_READY)
			x->work.candidates[x->work.count++] = i;
	}
	step.out = x->work.count;
	if (x->work.count == 0)
		x->explanation->pick.stage = "drain";
	return add_stage(x, STAGE_ADMIN, "admin", s->count, &step);
}

static int explain_exclusions(struct explaining *x)
{
	size_t before = x->work.count;
	struct chain_step step = { .in = before };

	if (!context_drops_excluded(x->context, x->request) || before == 0)
		return 0;
	memcpy(x->before, x->work.candidates, before * sizeof(*x->before));
	x->work.count = request_drop_excluded(x->request, x->snapshot, x->work.candidates, before);
	step.out = x->work.count;
	if (x->work.count == 0)
		x->explanation->pick.stage = "exclude";
	return add_stage(x, STAGE_EXCLUDE, "exclude", before, &step);
}

static int explain_chain(struct explaining *x, size_t first, size_t last)
{
	const struct chain *chain = x->context->chain;
	struct pick *pick = &x->explanation->pick;

	for (size_t i = first; i < last && x->work.count > 0; i++) {
		size_t before = x->work.count, failed = SIZE_MAX;
		struct chain_step step;
		int r;

		memcpy(x->before, x->work.candidates, before * sizeof(*x->before));
		(void) chain_run(chain, i, i + 1, &x->work, &failed, &step);
		if (failed != SIZE_MAX) {
			pick->stage = chain_stage_name(chain, i);
			pick->result = context_stage_result(chain, i, step.fault);
		}
		pick->panic |= step.panic;
		r = add_stage(x, i, chain_stage_name(chain, i), before, &step);
		if (r < 0)
			return r;
	}
	return 0;
}

/* As it ran at publication: with the weights and the time of then. What came of it then is what
 * picks go by. */
static int explain_shared(struct explaining *x)
{
	const struct snapshot *s = x->snapshot;
	int r;

	for (size_t i = 0; i < s->count; i++)
		x->weights[i] = s->entries[i].ramped;
	x->view.weights = x->work.weights = x->weights;
	x->view.now_usec = s->computed_usec;
	r = explain_chain(x, 0, x->context->chain->shared_count);
	x->work.count = s->chosen_count;
	memcpy(x->work.candidates, s->chosen, s->chosen_count * sizeof(*s->chosen));
	return r;
}

static int explain_for_request(struct explaining *x)
{
	const struct chain *chain = x->context->chain;
	int r;

	x->view.weights = x->snapshot->weights;
	x->view.now_usec = x->request->now_usec;
	x->work.weights = NULL;
	x->work.request = x->request;
	x->work.marks = x->context->marks;
	r = explain_exclusions(x);
	return r < 0 ? r : explain_chain(x, chain->shared_count, chain->stage_count);
}

static void explain_choice(struct explaining *x)
{
	const struct plugin_instance *instance = x->context->chain->selector;
	const struct usher_selector *selector = instance->plugin->selector;
	struct explanation *e = x->explanation;
	const void *prepared = context_prepared_for(x->context, x->request);
	ssize_t position;

	e->candidate_count = x->work.count;
	if (x->work.count == 0)
		return;
	position = selector->pick(instance->data, prepared, &x->view, x->request,
			x->work.candidates, x->work.count);
	if (position < 0 || (size_t) position >= x->work.count) {
		e->selector_fault = position != -1;
		e->pick.stage = instance->plugin->name;
		return;
	}
	e->pick.result = PICK_OK;
	e->pick.stage = NULL;
	e->pick.endpoint = x->work.candidates[position];
	if (selector->share)
		e->share = selector->share(instance->data, &x->view, x->work.candidates,
				x->work.count, (size_t) position);
}

static int explain_all(struct explaining *x)
{
	const struct chain *chain = x->context->chain;
	size_t count = x->snapshot->count;
	int r;

	x->explanation->stages = calloc(chain->stage_count + 2, sizeof(*x->explanation->stages));
	x->work.candidates = calloc(4 * count + 1, sizeof(*x->work.candidates));
	if (!x->explanation->stages || !x->work.candidates)
		return -ENOMEM;
	x->work.view = &x->view;
	x->before = x->work.candidates + count;
	x->work.scratch = x->work.candidates + 2 * count;
	x->weights = x->work.candidates + 3 * count;

	r = explain_admin_stage(x);
	if (r >= 0)
		r = explain_shared(x);
	if (r >= 0)
		r = explain_for_request(x);
	if (r >= 0)
		explain_choice(x);
	return r;
}

int context_explain(struct context *c, struct usher_request *request, uint64_t now_usec,
		struct explanation *ret)
{
	struct explanation e = { .selector = c->chain->selector->plugin->name };
	struct explaining x = {
		.context = c, .snapshot = c->snapshot, .request = request, .explanation = &e
	};
	enum pick_result refusal;
	int r = 0;

	c->used_usec = now_usec;
	context_fill_request(c, request, now_usec);
	e.pick.snapshot = c->snapshot;
	context_freshness(c, now_usec, &e.pick.freshness);
	refusal = context_refusal(c, &e.pick.freshness);
	e.pick.result = refusal == PICK_OK ? PICK_FILTERED : refusal;
	if (c->snapshot && c->snapshot->count > 0) {
		tally_update(&c->tally, now_usec);
		context_view(c, c->snapshot, &c->tally, now_usec, &x.view);
		r = explain_all(&x);
		free(x.work.candidates);
	}
	if (r < 0) {
		explanation_done(&e);
		return r;
	}
	/* What a stale directory would give is told, but it is not given. */
	if (refusal != PICK_OK)
		e.pick.result = refusal;
	*ret = e;
	return 0;
}
