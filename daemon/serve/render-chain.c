#include "render-chain.h"

#include "render.h"

/* "header.X-Beta": as it is typed. */
static void render_condition_name(struct text *text, const struct condition *condition)
{
	static const char *const names[] = {
		[CONDITION_HINT] = "hint",
		[CONDITION_VERSION] = "version",
		[CONDITION_STICKY] = "sticky",
		[CONDITION_KEY] = "key",
		[CONDITION_CONSUMER] = "consumer",
		[CONDITION_HEADER] = "header.",
	};
	struct text name = {};

	text_add_string(&name, names[condition->field]);
	if (condition->field == CONDITION_HEADER)
		text_add_string(&name, condition->header);
	text_add_json(text, name.data);
	text->failed |= name.failed;
	text_done(&name);
}

static void render_condition(struct text *text, const struct condition *condition)
{
	render_condition_name(text, condition);
	text_add_string(text, ": ");
	switch (condition->kind) {
	case CONDITION_PRESENT:
		text_add_string(text, "\"present\"");
		return;
	case CONDITION_ABSENT:
		text_add_string(text, "\"absent\"");
		return;
	case CONDITION_EQUALS:
		text_add_json(text, condition->text);
		return;
	}
}

static void render_rule(struct text *text, const struct chain_rule *rule)
{
	const char *comma = "";

	text_add_format(text, "{\"on_empty\": \"%s\", \"when\": ",
			empty_policy_to_string(rule->on_empty));
	text_add_string(text, rule->when_count ? "{" : "null");
	for (size_t i = 0; i < rule->when_count; i++) {
		render_comma(text, &comma);
		render_condition(text, &rule->when[i]);
	}
	text_add_string(text, rule->when_count ? "}}" : "}");
}

static void render_counts(struct text *text, const struct chain_counts *counts)
{
	text_add_format(text,
			", \"emptied\": {\"pass\": %llu, \"fail\": %llu, \"next\": %llu}, \"faults\": %llu}",
			(unsigned long long) counts->passed, (unsigned long long) counts->failed,
			(unsigned long long) counts->next, (unsigned long long) counts->faults);
}

static void render_stage(struct text *text, const struct context *context, size_t i)
{
	const struct chain *chain = context_chain(context);
	const struct chain_stage *stage = &chain->stages[i];
	struct chain_counts counts;
	const char *comma = "";

	text_add_string(text, "{\"stage\": ");
	text_add_json(text, stage->plugin->name);
	/* One rule stands for the stage; of several the last is what remains. */
	text_add_format(text, ", \"shared\": %s, \"on_empty\": \"%s\", \"rules\": [",
			i < chain->shared_count ? "true" : "false",
			empty_policy_to_string(stage->rules[stage->rule_count - 1].on_empty));
	for (size_t k = 0; k < stage->rule_count; k++) {
		render_comma(text, &comma);
		render_rule(text, &stage->rules[k]);
	}
	text_add(text, "]", 1);
	context_stage_counts(context, i, &counts);
	render_counts(text, &counts);
}

void render_chain(struct text *text, const struct context *context)
{
	const char *comma = "";

	text_add(text, "[", 1);
	for (size_t i = 0; i < context_chain(context)->stage_count; i++) {
		render_comma(text, &comma);
		render_stage(text, context, i);
	}
	text_add(text, "]", 1);
}
