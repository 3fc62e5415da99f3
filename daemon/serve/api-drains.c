/* Drains and restores: start, list, follow, cancel. */

#include <errno.h>
#include <microhttpd.h>
#include <string.h>

#include "api.h"
#include "drain-wait.h"
#include "drain-watch.h"
#include "inside.h"
#include "peer.h"
#include "problem.h"
#include "render.h"

struct start_body {
	const char *service, *endpoint, *reason, *order;
	uint64_t timeout_usec;
};

static const struct field start_fields[] = {
	{ "service", FIELD_TEXT, offsetof(struct start_body, service) },
	{ "endpoint", FIELD_TEXT, offsetof(struct start_body, endpoint) },
	{ "reason", FIELD_TEXT, offsetof(struct start_body, reason) },
	{ "timeout", FIELD_DURATION, offsetof(struct start_body, timeout_usec) },
	{ "order", FIELD_TEXT, offsetof(struct start_body, order) },
	{},
};

/* Which of the two names it is that the rollout does not know. */
static enum problem unknown_name(struct request *q, const char *service)
{
	return directory_find(q->server->directory, service) ? PROBLEM_UNKNOWN_ENDPOINT
							     : PROBLEM_UNKNOWN_SERVICE;
}

static int respond_refusal(
		struct request *q, int r, const char *service, const struct usher_error *error)
{
	enum problem problem = PROBLEM_INTERNAL;

	switch (-r) {
	case ENOENT:
		problem = unknown_name(q, service);
		break;
	case EPERM:
		problem = PROBLEM_REFUSED;
		break;
	case EALREADY:
		problem = PROBLEM_CONFLICT;
		break;
	case EIO:
		problem = PROBLEM_STORE_FAILED;
		break;
	case E2BIG:
		problem = PROBLEM_TOO_MANY;
		break;
	case EINVAL:
		problem = PROBLEM_BAD_REQUEST;
		break;
	default:
		break;
	}
	return respond_problem(q, problem, "%s", usher_error_text(error, r));
}

static bool parse_order(struct request *q, const char *order, struct drain_request *ret)
{
	if (!order)
		return true;
	ret->order_given = true;
	if (strcmp(order, "serve_stale") == 0) {
		ret->order = DRAIN_SERVE_STALE;
	} else if (strcmp(order, "refuse_first") == 0) {
		ret->order = DRAIN_REFUSE_FIRST;
	} else {
		(void) respond_problem(q, PROBLEM_BAD_REQUEST,
				"order: %s is neither serve_stale nor refuse_first", order);
		return false;
	}
	return true;
}

typedef int (*start_function)(struct rollout *r, const struct drain_request *request,
		const struct drain_record **ret, struct usher_error *reterr);

static int start(struct request *q, start_function function)
{
	struct drain_request wanted = {};
	const struct drain_record *record = NULL;
	struct usher_error error = {};
	struct start_body body = {};
	char who[PEER_TEXT_MAX];
	fields_given given;
	int r;

	if (!request_no_query(q) || !request_body(q, start_fields, &body, &given))
		return 0;
	if (!body.service || !body.endpoint)
		return respond_problem(q, PROBLEM_BAD_REQUEST, "%s: is missing",
				body.service ? "endpoint" : "service");
	if (!parse_order(q, body.order, &wanted))
		return 0;
	q->service = body.service;
	wanted.service = body.service;
	wanted.endpoint = body.endpoint;
	wanted.reason = body.reason;
	wanted.timeout_usec = body.timeout_usec;
	wanted.requested_by = peer_describe(q->peer, who);
	r = function(q->server->rollout, &wanted, &record, &error);
	if (r < 0)
		return respond_refusal(q, r, body.service, &error);
	return drain_wait(q, record, r > 0 ? MHD_HTTP_OK : MHD_HTTP_CREATED);
}

int api_drain_start(struct request *q)
{
	return start(q, rollout_drain);
}

int api_restore_start(struct request *q)
{
	return start(q, rollout_restore);
}

static int respond_unknown(struct request *q)
{
	return respond_problem(
			q, PROBLEM_UNKNOWN_DRAIN, "there is no drain or restore %s", q->params[0]);
}

int api_drain_cancel(struct request *q)
{
	const struct drain_record *record = NULL;
	struct usher_error error = {};
	static const struct field none[] = { {} };
	fields_given given;
	int r;

	if (!request_no_query(q) || !request_body(q, none, NULL, &given))
		return 0;
	r = rollout_cancel(q->server->rollout, q->params[0], &record, &error);
	if (r == -ENOENT)
		return respond_unknown(q);
	if (r < 0)
		return respond_refusal(q, r, "", &error);
	return drain_wait(q, record, MHD_HTTP_ACCEPTED);
}

struct list_query {
	const char *service, *endpoint;
};

static const struct field list_fields[] = {
	{ "service", FIELD_TEXT, offsetof(struct list_query, service) },
	{ "endpoint", FIELD_TEXT, offsetof(struct list_query, endpoint) },
	{},
};

int api_drains(struct request *q)
{
	struct rollout *rollout = q->server->rollout;
	struct list_query query = {};
	struct text text = {};
	const char *comma = "";
	fields_given given;

	if (!request_query(q, list_fields, &query, &given))
		return 0;
	text_add_string(&text, "{\"drains\": [");
	for (size_t i = 0; i < rollout_count(rollout); i++) {
		const struct drain_record *record = rollout_at(rollout, i);

		if ((query.service && strcmp(record->service, query.service) != 0) ||
				(query.endpoint && strcmp(record->endpoint, query.endpoint) != 0))
			continue;
		render_comma(&text, &comma);
		render_drain(&text, record);
	}
	text_add_string(&text, "]}\n");
	return respond_json(q, MHD_HTTP_OK, &text);
}

struct one_query {
	bool watch;
};

static const struct field one_fields[] = {
	{ "watch", FIELD_FLAG, offsetof(struct one_query, watch) },
	{},
};

int api_drain(struct request *q)
{
	const struct drain_record *record;
	struct one_query query = {};
	fields_given given;

	if (!request_query(q, one_fields, &query, &given))
		return 0;
	record = rollout_find(q->server->rollout, q->params[0]);
	if (!record)
		return respond_unknown(q);
	if (query.watch && !q->head)
		return drain_watch_start(q, record);
	return respond_drain(q, MHD_HTTP_OK, record);
}
