/* GET /v1/services/{s}/explain: a pick, told stage by stage. */

#include <assert.h>
#include <errno.h>
#include <microhttpd.h>
#include <string.h>

#include "api.h"
#include "inside.h"
#include "problem.h"
#include "render-health.h"
#include "render.h"

struct explain_query {
	const char *hint, *version, *sticky, *key;
	struct field_texts exclude, headers; /* headers: NAME:VALUE */
	uint64_t max_age_usec;
};

static const struct field query_fields[] = {
	{ "hint", FIELD_TEXT, offsetof(struct explain_query, hint) },
	{ "version", FIELD_TEXT, offsetof(struct explain_query, version) },
	{ "sticky", FIELD_TEXT, offsetof(struct explain_query, sticky) },
	{ "key", FIELD_TEXT, offsetof(struct explain_query, key) },
	{ "exclude", FIELD_TEXTS, offsetof(struct explain_query, exclude) },
	{ "header", FIELD_TEXTS, offsetof(struct explain_query, headers) },
	{ "max_age", FIELD_DURATION, offsetof(struct explain_query, max_age_usec) },
	{},
};

struct telling {
	const struct context *context;
	const struct explanation *explanation;
	uint64_t now_usec;
};

/* Whether who left there left for its health. */
static bool reads_health(const struct context *context, const char *name)
{
	const struct chain *chain = context_chain(context);

	for (size_t i = 0; i < chain->stage_count; i++)
		if (strcmp(chain_stage_name(chain, i), name) == 0)
			return chain->stages[i].plugin->stage->flags & USHER_STAGE_HEALTH;
	return false;
}

static void render_left(struct text *text, const struct telling *t, const struct explain_stage *s)
{
	const struct snapshot *snapshot = t->explanation->pick.snapshot;
	bool for_health = reads_health(t->context, s->name);
	const char *comma = "";

	assert(s->left_count == 0 || snapshot);
	for (size_t i = 0; i < s->left_count; i++) {
		const struct explain_left *left = &s->left[i];

		render_comma(text, &comma);
		text_add_string(text, "{\"id\": ");
		text_add_json(text, usher_endpoints_id(snapshot->all, left->endpoint));
		text_add_string(text, ", \"reason\": ");
		render_unclean(text, left->reason);
		if (for_health)
			render_health_detail(
					text, t->context, snapshot, left->endpoint, t->now_usec);
		text_add(text, "}", 1);
	}
}

static void render_stage(struct text *text, const struct telling *t, size_t i)
{
	const struct explain_stage *stage = &t->explanation->stages[i];

	text_add_string(text, "{\"stage\": ");
	text_add_json(text, stage->name);
	text_add_string(text, ", \"shared\": ");
	render_bool(text, stage->shared);
	text_add_format(text, ", \"in\": %zu, \"out\": %zu, \"on_empty\": ", stage->step.in,
			stage->step.out);
	if (stage->step.emptied)
		text_add_format(text, "\"%s\"", empty_policy_to_string(stage->step.ruled));
	else
		text_add_string(text, "null");
	text_add_format(text, ", \"rules\": %zu, \"rule\": ", stage->rule_count);
	if (stage->rule_count > 0 && stage->step.rule != CHAIN_NO_RULE)
		text_add_unsigned(text, stage->step.rule);
	else
		text_add_string(text, "null");
	text_add_string(text, ", \"told\": ");
	if (stage->told[0])
		render_unclean(text, stage->told);
	else
		text_add_string(text, "null");
	if (stage->step.panic)
		text_add_string(text, ", \"panic\": true");
	if (stage->step.fault)
		text_add_string(text, ", \"fault\": true");
	text_add_string(text, ", \"left\": [");
	render_left(text, t, stage);
	text_add_string(text, "]}");
}

static void render_choice(struct text *text, const struct explanation *e)
{
	const struct pick *pick = &e->pick;

	assert(pick->result != PICK_OK || pick->snapshot);
	text_add_string(text, "], \"selector\": ");
	text_add_json(text, e->selector);
	text_add_format(text, ", \"candidates\": %zu, \"choice\": ", e->candidate_count);
	if (pick->result == PICK_OK)
		text_add_json(text, usher_endpoints_id(pick->snapshot->all, pick->endpoint));
	else
		text_add_string(text, "null");
	text_add_format(text,
			", \"share\": %.6g, \"code\": ", pick->result == PICK_OK ? e->share : 0.0);
	text_add_json(text, pick->result == PICK_OK ? NULL : pick_result_to_string(pick->result));
	if (pick->result == PICK_FILTERED) {
		text_add_string(text, ", \"stage\": ");
		text_add_json(text, pick->stage);
	}
	if (pick->panic)
		text_add_string(text, ", \"panic\": true");
	if (e->selector_fault)
		text_add_string(text, ", \"selector_fault\": true");
	text_add_string(text, "}\n");
}

static int respond_explanation(
		struct request *q, struct context *context, struct usher_request *request)
{
	struct explanation explanation = {};
	const struct telling telling = {
		.context = context, .explanation = &explanation, .now_usec = q->now_usec
	};
	struct text text = {};
	const char *comma = "";
	int r;

	r = context_explain(context, request, q->now_usec, &explanation);
	if (r < 0)
		return r;
	text_add_string(&text, "{\"service\": ");
	text_add_json(&text, context_service(context));
	text_add_string(&text, ", \"revision\": ");
	text_add_unsigned(
			&text, explanation.pick.snapshot ? explanation.pick.snapshot->revision : 0);
	text_add_string(&text, ", \"freshness\": ");
	render_freshness(&text, &explanation.pick.freshness);
	text_add_string(&text, ", \"stages\": [");
	for (size_t i = 0; i < explanation.stage_count; i++) {
		render_comma(&text, &comma);
		render_stage(&text, &telling, i);
	}
	render_choice(&text, &explanation);
	explanation_done(&explanation);
	return respond_json(q, MHD_HTTP_OK, &text);
}

int api_explain(struct request *q)
{
	struct explain_query query = {};
	struct usher_request request = { .size = sizeof(request) };
	struct usher_error error = {};
	autofree char *room = NULL;
	struct field_pairs headers;
	struct context *context;
	fields_given given;
	int r;

	if (!request_query(q, query_fields, &query, &given))
		return 0;
	r = field_pairs_from_texts("header", &query.headers, &headers, &room, &error);
	if (r < 0)
		return respond_problem(q, r == -ENOMEM ? PROBLEM_INTERNAL : PROBLEM_BAD_REQUEST,
				"query: %s", usher_error_text(&error, r));
	context = request_context(q);
	if (!context)
		return 0;
	if (query.max_age_usec > 0 && !request_is_fresh(q, context, query.max_age_usec))
		return 0;
	request.hint = query.hint;
	request.version = query.version;
	request.sticky = query.sticky;
	request.key = query.key;
	request.exclude = query.exclude.items;
	request.exclude_count = query.exclude.count;
	request.now_usec = q->now_usec;
	request.consumer = request_consumer(q);
	request.headers = headers.items;
	request.header_count = headers.count;
	return request.consumer ? respond_explanation(q, context, &request) : -ENOMEM;
}
