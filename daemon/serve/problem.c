#include "problem.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdarg.h>
#include <string.h>

#include "inside.h"
#include "render.h"

#define PROBLEM_TYPE "application/problem+json"
#define DETAIL_MAX   1024

static const struct {
	const char *code;
	const char *title;
	unsigned status;
} problems[] = {
	[PROBLEM_BAD_REQUEST] = { "bad_request", "The request is malformed", 400 },
	[PROBLEM_FORBIDDEN] = { "forbidden", "Not permitted here", 403 },
	[PROBLEM_NOT_FOUND] = { "not_found", "No such path", 404 },
	[PROBLEM_UNKNOWN_SERVICE] = { "unknown_service", "Unknown service", 404 },
	[PROBLEM_UNKNOWN_ENDPOINT] = { "unknown_endpoint", "Unknown endpoint", 404 },
	[PROBLEM_UNKNOWN_DRAIN] = { "unknown_drain", "Unknown drain", 404 },
	[PROBLEM_UNKNOWN_REGISTRATION] = { "unknown_registration", "Unknown registration", 404 },
	[PROBLEM_METHOD_NOT_ALLOWED] = { "method_not_allowed", "Method not allowed", 405 },
	[PROBLEM_REFUSED] = { "refused", "Refused by a guard", 409 },
	[PROBLEM_CONFLICT] = { "conflict", "Finished already", 409 },
	[PROBLEM_CONFIGURED] = { "configured", "The configuration's, not the API's", 409 },
	[PROBLEM_TOO_LARGE] = { "too_large", "The body is too large", 413 },
	[PROBLEM_INVALID_CONFIG] = { "invalid_config", "The configuration is refused", 422 },
	[PROBLEM_TOO_MANY] = { "too_many", "A limit is reached", 429 },
	[PROBLEM_INTERNAL] = { "internal", "usherd could not answer", 500 },
	[PROBLEM_SOURCE_UNKNOWN] = { "source_unknown", "No source has answered yet", 503 },
	[PROBLEM_SOURCE_FAILED] = { "source_failed", "The source fails and has never answered",
			503 },
	[PROBLEM_STALE] = { "stale", "The answer is too old", 503 },
	[PROBLEM_EMPTY] = { "empty", "The service has no endpoints", 503 },
	[PROBLEM_ALL_UNHEALTHY] = { "all_unhealthy", "Every endpoint is unhealthy", 503 },
	[PROBLEM_FILTERED] = { "filtered", "No endpoint is left", 503 },
	[PROBLEM_STORE_FAILED] = { "store_failed", "The disk does not take the record", 503 },
};

static struct MHD_Response *problem_new(
		const struct request *q, enum problem problem, const char *detail)
{
	struct text text = {};

	text_add_format(&text,
			"{\"type\": \"about:blank\", \"title\": \"%s\", \"status\": %u, \"code\": \"%s\", \"detail\": ",
			problems[problem].title, problems[problem].status, problems[problem].code);
	render_unclean(&text, detail);
	if (q->service) {
		text_add_string(&text, ", \"service\": ");
		render_unclean(&text, q->service);
	}
	if (q->stage) {
		text_add_string(&text, ", \"stage\": ");
		text_add_json(&text, q->stage);
	}
	if (q->has_freshness) {
		text_add_string(&text, ", \"freshness\": ");
		render_freshness(&text, &q->freshness);
	}
	text_add_string(&text, "}\n");
	return response_new(&text, PROBLEM_TYPE);
}

static int respond_and_drop(struct request *q, enum problem problem, struct MHD_Response *response)
{
	if (!response)
		return -ENOMEM;
	if (problems[problem].status == 429 || problem == PROBLEM_SOURCE_UNKNOWN)
		(void) MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
	(void) respond_with(q, problems[problem].status, response);
	MHD_destroy_response(response);
	return 0;
}

int respond_problem(struct request *q, enum problem problem, const char *format, ...)
{
	char detail[DETAIL_MAX];
	va_list args;

	va_start(args, format);
	(void) vsnprintf(detail, sizeof(detail), format, args);
	va_end(args);
	return respond_and_drop(q, problem, problem_new(q, problem, detail));
}

int respond_not_allowed(struct request *q, unsigned allowed)
{
	char detail[64 + 32], names[32] = "";
	struct MHD_Response *response;

	for (unsigned i = 0; i < METHOD_MAX; i++) {
		if (!(allowed & (1u << i)))
			continue;
		(void) snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s",
				names[0] ? ", " : "",
				i == METHOD_GET ? "GET, HEAD" : method_to_string(i));
	}
	(void) snprintf(detail, sizeof(detail), "this path takes %s", names);
	response = problem_new(q, PROBLEM_METHOD_NOT_ALLOWED, detail);
	if (response)
		(void) MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, names);
	return respond_and_drop(q, PROBLEM_METHOD_NOT_ALLOWED, response);
}

/* The error of the feed that has one, so that the reader need not look elsewhere. */
static const char *feed_error(const struct context *context)
{
	for (size_t i = 0; i < context_feed_count(context); i++)
		if (context_feed(context, i)->error)
			return context_feed(context, i)->error;
	return "no reason was given";
}

int respond_pick_problem(struct request *q, struct context *context, const struct pick *pick)
{
	const char *service = context_service(context);

	q->freshness = pick->freshness;
	q->has_freshness = true;
	switch (pick->result) {
	case PICK_OK:
		break;
	case PICK_SOURCE_UNKNOWN:
		return respond_problem(q, PROBLEM_SOURCE_UNKNOWN,
				"no source of %s has answered yet; try again in a moment", service);
	case PICK_SOURCE_FAILED:
		return respond_problem(q, PROBLEM_SOURCE_FAILED,
				"no source of %s has ever answered, and the last attempt failed: %s",
				service, feed_error(context));
	case PICK_STALE:
		return respond_problem(q, PROBLEM_STALE,
				"what is known of %s is older than its max_age, and on_stale is fail",
				service);
	case PICK_EMPTY:
		return respond_problem(q, PROBLEM_EMPTY,
				"%s has no endpoints, and its source is sure of that", service);
	case PICK_ALL_UNHEALTHY:
		return respond_problem(q, PROBLEM_ALL_UNHEALTHY,
				"every endpoint of %s is unhealthy", service);
	case PICK_FILTERED:
		q->stage = pick->stage;
		return respond_problem(q, PROBLEM_FILTERED,
				"%s left none of the endpoints of %s; ask explain why", pick->stage,
				service);
	}
	return -EINVAL;
}
