/* POST /v1/services/{s}/pick: the call that every request of every consumer may make. */

#include <errno.h>
#include <microhttpd.h>

#include "api.h"
#include "clock.h"
#include "inside.h"
#include "peer.h"
#include "problem.h"
#include "render-health.h"
#include "render.h"

struct pick_body {
	const char *hint, *version, *sticky, *key;
	struct field_texts exclude;
	struct field_pairs headers;
};

static const struct field body_fields[] = {
	{ "hint", FIELD_TEXT, offsetof(struct pick_body, hint) },
	{ "version", FIELD_TEXT, offsetof(struct pick_body, version) },
	{ "sticky", FIELD_TEXT, offsetof(struct pick_body, sticky) },
	{ "key", FIELD_TEXT, offsetof(struct pick_body, key) },
	{ "exclude", FIELD_TEXTS, offsetof(struct pick_body, exclude) },
	{ "headers", FIELD_PAIRS, offsetof(struct pick_body, headers) },
	{},
};

struct pick_query {
	uint64_t max_age_usec;
};

static const struct field query_fields[] = {
	{ "max_age", FIELD_DURATION, offsetof(struct pick_query, max_age_usec) },
	{},
};

static struct MHD_Response *render_pick(
		struct context *context, const struct pick *pick, const struct blob *freshness)
{
	struct text text = {};

	text_add_string(&text, "{\"service\": ");
	text_add_json(&text, context_service(context));
	text_add_string(&text, ", \"revision\": ");
	text_add_unsigned(&text, pick->snapshot->revision);
	render_panic(&text, pick->panic);
	text_add_string(&text, ", \"freshness\": ");
	text_add(&text, freshness->data, freshness->length);
	text_add_string(&text, ", \"endpoint\": ");
	render_endpoint(&text, context, pick->snapshot, pick->endpoint);
	text_add_string(&text, "}\n");
	return response_new(&text, JSON_TYPE);
}

static int answer_pick(struct request *q, struct context *context, const struct pick *pick)
{
	struct server *s = q->server;
	struct MHD_Response *response;
	struct answer_key key;
	struct topic *topic;
	struct blob *told;

	topic = topics_get(&s->topics, context);
	if (!topic)
		return -ENOMEM;
	told = topic_freshness(&s->topics, topic, &pick->freshness, q->now_usec);
	if (!told)
		return -ENOMEM;
	key = (struct answer_key){ .snapshot_serial = pick->snapshot->serial,
		.told_serial = topic->told_serial,
		.endpoint = pick->endpoint,
		.panic = pick->panic };
	response = answers_find(&s->answers, &key);
	if (!response) {
		response = render_pick(context, pick, told);
		if (!response)
			return -ENOMEM;
		answers_put(&s->answers, &key, response);
	}
	return respond_with(q, MHD_HTTP_OK, response);
}

static int pick(struct request *q, struct context *context, const struct pick_body *body)
{
	struct usher_request request = {
		.size = sizeof(request),
		.hint = body->hint,
		.version = body->version,
		.sticky = body->sticky,
		.key = body->key,
		.exclude = body->exclude.items,
		.exclude_count = body->exclude.count,
		.now_usec = q->now_usec,
		.consumer = request_consumer(q),
		.headers = body->headers.items,
		.header_count = body->headers.count,
	};
	struct pick choice = {};

	if (!request.consumer)
		return -ENOMEM;
	context_pick(context, &request, q->now_usec, &choice);
	q->server->picks[choice.result]++;
	if (choice.result != PICK_OK)
		return respond_pick_problem(q, context, &choice);
	return answer_pick(q, context, &choice);
}

int api_pick(struct request *q)
{
	struct pick_query query = {};
	struct context *context;
	struct pick_body body;
	fields_given given;

	if (!request_query(q, query_fields, &query, &given))
		return 0;
	/* Before the body, which can be read once only. */
	context = request_context(q);
	if (!context)
		return 0;
	/* The lists are long, and cleared only where they begin. */
	body.hint = body.version = body.sticky = body.key = NULL;
	body.exclude.count = body.headers.count = 0;
	if (!request_body(q, body_fields, &body, &given))
		return 0;
	if (query.max_age_usec > 0 && !request_is_fresh(q, context, query.max_age_usec))
		return 0;
	return pick(q, context, &body);
}
