/* Metrics of chains: how often a stage left nobody, and what ruled then. */

#include "inside.h"
#include "metrics.h"

static void add_series(struct text *text, const char *name, const struct context *context, size_t i,
		const char *ruled, uint64_t value)
{
	text_add_format(text, "%s{service=", name);
	text_add_json(text, context_service(context));
	text_add_string(text, ",stage=");
	text_add_json(text, chain_stage_name(context_chain(context), i));
	if (ruled)
		text_add_format(text, ",ruled=\"%s\"", ruled);
	text_add_string(text, "} ");
	metric_value(text, value);
}

/* Whether one of the stage's rules may say so, or has. */
static bool may_rule(const struct chain_stage *stage, enum empty_policy policy, uint64_t count)
{
	for (size_t i = 0; i < stage->rule_count; i++)
		if (stage->rules[i].on_empty == policy)
			return true;
	return count > 0;
}

static void add_emptied(struct text *text, const char *name, const struct context *context)
{
	const struct chain *chain = context_chain(context);

	for (size_t i = 0; i < chain->stage_count; i++) {
		struct chain_counts counts;

		context_stage_counts(context, i, &counts);
		if (may_rule(&chain->stages[i], EMPTY_PASS, counts.passed))
			add_series(text, name, context, i, "pass", counts.passed);
		if (may_rule(&chain->stages[i], EMPTY_FAIL, counts.failed))
			add_series(text, name, context, i, "fail", counts.failed);
		if (may_rule(&chain->stages[i], EMPTY_NEXT, counts.next))
			add_series(text, name, context, i, "next", counts.next);
	}
}

static void add_faults(struct text *text, const char *name, const struct context *context)
{
	const struct chain *chain = context_chain(context);

	for (size_t i = 0; i < chain->stage_count; i++) {
		struct chain_counts counts;

		context_stage_counts(context, i, &counts);
		add_series(text, name, context, i, NULL, counts.faults);
	}
}

void metrics_stages(struct text *text, const struct server *s)
{
	static const char emptied[] = "usher_stage_empty_total",
			  faults[] = "usher_stage_faults_total";
	size_t count = directory_count(s->directory);

	if (count > METRICS_SERVICES_MAX)
		count = METRICS_SERVICES_MAX;
	metric_head(text, emptied, "counter",
			"Times that a stage left nobody, by what its on_empty ruled: at publications for what all requests share, else at picks.");
	for (size_t i = 0; i < count; i++)
		add_emptied(text, emptied, directory_at(s->directory, i));
	metric_head(text, faults, "counter", "Times that a stage's plug-in answered nonsense.");
	for (size_t i = 0; i < count; i++)
		add_faults(text, faults, directory_at(s->directory, i));
}
