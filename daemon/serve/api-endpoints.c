/* GET /v1/services/{s}/endpoints: the list, the list with what is left out, and the watch. */

#include <errno.h>
#include <microhttpd.h>

#include "api.h"
#include "clock.h"
#include "inside.h"
#include "peer.h"
#include "problem.h"
#include "render-health.h"
#include "render.h"
#include "watch.h"

struct endpoints_query {
	bool all, watch;
	uint64_t revision, max_age_usec;
};

enum {
	QUERY_ALL,
	QUERY_WATCH,
	QUERY_REVISION,
	QUERY_MAX_AGE
};

static const struct field query_fields[] = {
	[QUERY_ALL] = { "all", FIELD_FLAG, offsetof(struct endpoints_query, all) },
	[QUERY_WATCH] = { "watch", FIELD_FLAG, offsetof(struct endpoints_query, watch) },
	[QUERY_REVISION] = { "revision", FIELD_COUNT, offsetof(struct endpoints_query, revision) },
	[QUERY_MAX_AGE] = { "max_age", FIELD_DURATION,
			offsetof(struct endpoints_query, max_age_usec) },
	{},
};

/* A service that nobody has answered for yet is unknown, never empty. */
static int respond_no_answer(struct request *q, struct context *context)
{
	struct pick pick = { .result = PICK_SOURCE_UNKNOWN, .freshness = q->freshness };

	if (q->freshness.state == SOURCE_FAILED || q->freshness.state == SOURCE_DENIED)
		pick.result = PICK_SOURCE_FAILED;
	return respond_pick_problem(q, context, &pick);
}

static int respond_all(struct request *q, struct context *context, const struct snapshot *snapshot)
{
	const char *service = context_service(context), *comma = "";
	struct text text = {};

	text_add_string(&text, "{\"service\": ");
	text_add_json(&text, service);
	text_add_string(&text, ", \"revision\": ");
	text_add_unsigned(&text, snapshot->revision);
	render_panic(&text, snapshot->panic);
	render_why_none(&text, context);
	text_add_string(&text, ", \"freshness\": ");
	render_freshness(&text, &q->freshness);
	text_add_string(&text, ", \"endpoints\": [");
	for (uint32_t i = 0; i < snapshot->count; i++) {
		const char *id = usher_endpoints_id(snapshot->all, i);

		render_comma(&text, &comma);
		render_endpoint_judged(&text, context, snapshot, i,
				directory_find_override(q->server->directory, service, id),
				q->now_usec);
	}
	text_add_string(&text, "]}\n");
	return respond_json(q, MHD_HTTP_OK, &text);
}

static int respond_list(struct request *q, struct context *context, const struct snapshot *snapshot)
{
	struct server *s = q->server;
	struct MHD_Response *response;
	struct consumer *consumer;
	struct topic *topic;
	int r;

	topic = topics_get(&s->topics, context);
	consumer = peer_consumer(q->peer, request_header(q, CONSUMER_HEADER));
	if (!topic || !consumer)
		return -ENOMEM;
	response = topic_response(&s->topics, topic, &q->freshness, q->now_usec);
	if (!response)
		return -ENOMEM;
	if (!q->head) {
		r = reading_sent_list(&q->peer->list, consumer, context_service(context),
				q->peer->fd, snapshot->revision);
		if (r == -E2BIG)
			return respond_problem(q, PROBLEM_TOO_MANY, "%s uses more than %d services",
					consumer_name(consumer), CONSUMER_INTERESTS_MAX);
		if (r < 0)
			return r;
		q->listed = true;
	}
	return respond_with(q, MHD_HTTP_OK, response);
}

static int respond_head_of_watch(struct request *q)
{
	struct text nothing = {};

	return respond_text(q, MHD_HTTP_OK, NDJSON_TYPE, &nothing);
}

int api_endpoints(struct request *q)
{
	struct endpoints_query query = {};
	struct context *context;
	struct snapshot *snapshot;
	fields_given given;

	if (!request_query(q, query_fields, &query, &given))
		return 0;
	if (query.watch && query.all)
		return respond_problem(q, PROBLEM_BAD_REQUEST,
				"query: all and watch do not go together; a watch has what consumers see");
	if (!query.watch && field_given(given, QUERY_REVISION))
		return respond_problem(q, PROBLEM_BAD_REQUEST,
				"query: revision goes with watch=true only");
	/* A watch says by itself that nothing is known yet. */
	context = query.watch ? request_context_at_once(q) : request_context(q);
	if (!context)
		return 0;
	if (query.watch && q->server->quiescing)
		return respond_problem(q, PROBLEM_INTERNAL, "usherd is stopping");
	if (query.watch && q->head)
		return respond_head_of_watch(q);
	if (query.watch) {
		/* A watch tells the age with every line, so only the caller's own limit refuses. */
		if (query.max_age_usec > 0 && !request_is_fresh(q, context, query.max_age_usec))
			return 0;
		return watch_start(q, context, query.revision);
	}
	/* Who asks for all is looking for a fault, and is not kept from it by the policy. */
	if (query.all && query.max_age_usec == 0) {
		context_freshness(context, q->now_usec, &q->freshness);
		q->has_freshness = true;
	} else if (!request_is_fresh(q, context, query.max_age_usec)) {
		return 0;
	}
	snapshot = context_snapshot(context);
	if (!snapshot)
		return respond_no_answer(q, context);
	return query.all ? respond_all(q, context, snapshot) : respond_list(q, context, snapshot);
}
