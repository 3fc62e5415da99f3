/* What a drain of a service and its checks may cost, and what all checks together do. */

#include <microhttpd.h>

#include "api.h"
#include "budget.h"
#include "clock.h"
#include "inside.h"
#include "problem.h"
#include "render-cost.h"
#include "render-health.h"
#include "render.h"

struct budget_query {
	uint64_t rate, endpoints;
};

static const struct field budget_fields[] = {
	{ "rate", FIELD_COUNT, offsetof(struct budget_query, rate) },
	{ "endpoints", FIELD_COUNT, offsetof(struct budget_query, endpoints) },
	{},
};

/* "kind", "interval_ms" and the cost, without the braces. */
static void render_checks(
		struct text *text, const struct context *context, const struct check_cost *cost)
{
	const struct health_config *health = &context_config(context)->health;

	text_add_format(text, "\"kind\": \"%s\", \"interval_ms\": %llu, ",
			check_kind_to_string(health->check.kind),
			(unsigned long long) (health->interval_usec / USEC_PER_MSEC));
	render_check_cost(text, cost);
}

static bool has_checks(const struct context *context)
{
	return context_config(context)->health.check.kind != CHECK_NONE;
}

int api_budget(struct request *q)
{
	struct budget_query query = {};
	struct context *context;
	struct check_cost cost;
	struct budget budget;
	struct text text = {};
	fields_given given;

	if (!request_query(q, budget_fields, &query, &given))
		return 0;
	if (query.endpoints > USHER_ENDPOINTS_MAX)
		return respond_problem(q, PROBLEM_BAD_REQUEST, "query: endpoints: is not in 0..%d",
				USHER_ENDPOINTS_MAX);
	context = request_known_context(q);
	if (!context)
		return 0;
	budget_of(&context_config(context)->drain, context_snapshot(context), query.rate, &budget);
	text_add_string(&text, "{\"service\": ");
	text_add_json(&text, context_service(context));
	budget_render(&budget, &text);
	text_add_string(&text, ", \"checks\": ");
	if (has_checks(context)) {
		check_cost_of(context, query.endpoints, &cost);
		text_add(&text, "{", 1);
		render_checks(&text, context, &cost);
		text_add(&text, "}", 1);
	} else {
		text_add_string(&text, "null");
	}
	text_add_string(&text, "}\n");
	return respond_json(q, MHD_HTTP_OK, &text);
}

int api_budgets(struct request *q)
{
	const struct directory *directory = q->server->directory;
	struct check_cost sum = {};
	struct text text = {};
	const char *comma = "";

	if (!request_no_query(q))
		return 0;
	text_add_string(&text, "{\"services\": [");
	for (size_t i = 0; i < directory_count(directory); i++) {
		const struct context *context = directory_at(directory, i);
		struct check_cost cost;

		if (!has_checks(context))
			continue;
		check_cost_of(context, 0, &cost);
		check_cost_add(&sum, &cost);
		render_comma(&text, &comma);
		text_add_string(&text, "{\"service\": ");
		text_add_json(&text, context_service(context));
		text_add_string(&text, ", ");
		render_checks(&text, context, &cost);
		text_add(&text, "}", 1);
	}
	text_add_string(&text, "], \"total\": {");
	render_check_cost(&text, &sum);
	text_add_string(&text, "}, \"prober\": ");
	render_prober(&text, directory);
	text_add_string(&text, "}\n");
	return respond_json(q, MHD_HTTP_OK, &text);
}
