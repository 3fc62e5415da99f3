/* A chain at work. No allocation, no lock, no system call. */

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "chain.h"
#include "condition.h"

/* Whether what was kept is some of what came in, in the same order. */
static bool is_part(const uint32_t *kept, size_t count, const uint32_t *came, size_t came_count)
{
	size_t next = 0;

	if (count > came_count)
		return false;
	if (count == came_count)
		return memcmp(kept, came, count * sizeof(*kept)) == 0;
	for (size_t i = 0; i < count; i++) {
		while (next < came_count && came[next] != kept[i])
			next++;
		if (next++ >= came_count)
			return false;
	}
	return true;
}

static bool any_weighs(const struct usher_view *view, const uint32_t *candidates, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (view->weights[candidates[i]] > 0)
			return true;
	return false;
}

/* Weight 0 receives no new traffic: who keeps only such although others came in, keeps nobody. */
static bool keeps_weight(const struct chain_work *work, size_t kept)
{
	return any_weighs(work->view, work->candidates, kept) ||
			!any_weighs(work->view, work->scratch, work->count);
}

/* What a rule's run is told. */
static struct usher_pass pass_for(const struct chain_rule *rule, const struct chain_work *work)
{
	struct usher_pass pass = { .size = sizeof(pass),
		.view = work->view,
		.request = rule->reads_request ? work->request : NULL,
		.weights = work->weights };

	if (work->marks && rule->marks != CHAIN_NO_MARKS)
		pass.marks = work->marks +
				rule->marks * usher_endpoints_count(work->view->endpoints);
	return pass;
}

static size_t run_rule(const struct usher_stage *facet, const struct chain_rule *rule,
		struct usher_pass *pass, const struct chain_work *work)
{
	const void *data = rule->instance->data;

	if (facet->run)
		return facet->run(data, pass, work->candidates, work->count);
	return facet->filter(data, pass->view, pass->request, work->candidates, work->count);
}

static void be_sooner(uint64_t *again_usec, uint64_t usec)
{
	if (usec != 0 && (*again_usec == 0 || usec < *again_usec))
		*again_usec = usec;
}

static void count_ruling(struct chain_counts *counts, enum empty_policy ruled)
{
	if (!counts)
		return;
	switch (ruled) {
	case EMPTY_PASS:
		counts->passed++;
		break;
	case EMPTY_FAIL:
		counts->failed++;
		break;
	case EMPTY_NEXT:
		counts->next++;
		break;
	case EMPTY_UNSAID:
		break;
	}
}

static void fail_for_fault(
		struct chain_work *work, struct chain_counts *counts, struct chain_step *step)
{
	step->fault = work->fault = true;
	step->out = work->count = 0;
	if (counts)
		counts->faults++;
}

/* What came in is all there again. */
static void restore(struct chain_work *work)
{
	memcpy(work->candidates, work->scratch, work->count * sizeof(*work->candidates));
}

/* One stage; false when it fails. */
static bool run_stage(const struct chain_stage *stage, struct chain_work *work,
		struct chain_counts *counts, struct chain_step *step)
{
	const struct usher_stage *facet = stage->plugin->stage;

	*step = (struct chain_step){
		.in = work->count, .out = work->count, .kept = work->count, .rule = CHAIN_NO_RULE
	};
	/* The stage may write over what it drops, and on_empty wants all of it back. */
	memcpy(work->scratch, work->candidates, work->count * sizeof(*work->candidates));
	for (size_t i = 0; i < stage->rule_count; i++) {
		const struct chain_rule *rule = &stage->rules[i];
		struct usher_pass pass = pass_for(rule, work);

		if (!conditions_hold(rule->when, rule->when_count, work->request))
			continue;
		step->rule = i;
		step->kept = run_rule(facet, rule, &pass, work);
		if (!is_part(work->candidates, step->kept, work->scratch, work->count)) {
			fail_for_fault(work, counts, step);
			return false;
		}
		be_sooner(&work->again_usec, pass.again_usec);
		step->weightless = step->kept > 0 && !keeps_weight(work, step->kept);
		if (step->kept > 0 && !step->weightless) {
			step->panic = pass.panic;
			work->panic |= pass.panic;
			step->out = work->count = step->kept;
			return true;
		}

		step->emptied = true;
		step->final = pass.final;
		step->ruled = pass.final ? EMPTY_FAIL : rule->on_empty;
		count_ruling(counts, step->ruled);
		if (step->ruled == EMPTY_FAIL) {
			step->out = work->count = 0;
			return false;
		}
		restore(work);
		if (step->ruled == EMPTY_PASS)
			return true;
	}
	return true;
}

size_t chain_run(const struct chain *c, size_t first, size_t last, struct chain_work *work,
		size_t *ret_failed_stage, struct chain_step *steps)
{
	assert(first <= last && last <= c->stage_count);

	if (steps)
		memset(steps, 0, (last - first) * sizeof(*steps));
	for (size_t i = first; i < last && work->count > 0; i++) {
		struct chain_counts *counts = work->counts ? &work->counts[i] : NULL;
		struct chain_step step;

		if (!run_stage(&c->stages[i], work, counts, &step) && ret_failed_stage)
			*ret_failed_stage = i;
		if (steps)
			steps[i - first] = step;
	}
	return work->count;
}

/* ---- in words ---- */

void chain_tell(const struct chain *c, size_t stage, const struct chain_step *step,
		const struct chain_work *work, const uint32_t *candidates, char *ret, size_t size)
{
	const struct usher_stage *facet = c->stages[stage].plugin->stage;
	const struct chain_rule *rule;
	struct usher_pass pass;

	ret[0] = '\0';
	if (step->fault) {
		(void) snprintf(ret, size,
				"the plug-in is at fault: the %zu candidates that it answers with are "
				"not part of the %zu that it got",
				step->kept, step->in);
		return;
	}
	if (step->rule == CHAIN_NO_RULE) {
		(void) snprintf(ret, size, "no rule applies to this request");
		return;
	}
	if (step->emptied && step->ruled == EMPTY_NEXT && (step->kept == 0 || step->weightless)) {
		(void) snprintf(ret, size, "no further rule applies to this request");
		return;
	}
	if (step->weightless) {
		(void) snprintf(ret, size, "keeps %zu of weight 0, which receive no new traffic",
				step->kept);
		return;
	}
	if (step->final)
		(void) snprintf(ret, size, "none it is, whatever on_empty says");
	if (!facet->tell)
		return;
	rule = &c->stages[stage].rules[step->rule];
	pass = pass_for(rule, work);
	pass.panic = step->panic;
	pass.final = step->final;
	facet->tell(rule->instance->data, &pass, candidates, step->in, step->kept, ret, size);
	ret[size - 1] = '\0';
}

void chain_explain(const struct chain_stage *stage, size_t rule, const struct usher_view *view,
		const struct usher_request *request, uint32_t candidate, char *ret, size_t size)
{
	const struct usher_stage *facet = stage->plugin->stage;
	const struct chain_rule *used = &stage->rules[rule];

	ret[0] = '\0';
	if (facet->explain)
		facet->explain(used->instance->data, view, used->reads_request ? request : NULL,
				candidate, ret, size);
	else
		(void) snprintf(ret, size, "left out by %s", stage->plugin->name);
	ret[size - 1] = '\0';
}
