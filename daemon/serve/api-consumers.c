/* What consumers say of themselves, and who they are. */

#include <errno.h>
#include <microhttpd.h>
#include <string.h>

#include "api.h"
#include "clock.h"
#include "inside.h"
#include "peer.h"
#include "problem.h"

struct ack_body {
	const char *service;
	uint64_t revision;
};

enum {
	ACK_SERVICE,
	ACK_REVISION
};

static const struct field ack_fields[] = {
	[ACK_SERVICE] = { "service", FIELD_TEXT, offsetof(struct ack_body, service) },
	[ACK_REVISION] = { "revision", FIELD_COUNT, offsetof(struct ack_body, revision) },
	{},
};

static int respond_missing(struct request *q, const char *name)
{
	return respond_problem(q, PROBLEM_BAD_REQUEST, "%s: is missing", name);
}

static int respond_too_many_interests(struct request *q, struct consumer *consumer)
{
	return respond_problem(q, PROBLEM_TOO_MANY, "%s uses more than %d services",
			consumer_name(consumer), CONSUMER_INTERESTS_MAX);
}

int api_ack(struct request *q)
{
	struct ack_body body = {};
	struct consumer *consumer;
	struct context *context;
	const struct snapshot *snapshot;
	fields_given given;
	int r;

	if (!request_no_query(q) || !request_body(q, ack_fields, &body, &given))
		return 0;
	if (!field_given(given, ACK_SERVICE))
		return respond_missing(q, "service");
	if (!field_given(given, ACK_REVISION))
		return respond_missing(q, "revision");
	q->service = body.service;
	context = directory_find(q->server->directory, body.service);
	if (!context)
		return respond_problem(q, PROBLEM_UNKNOWN_SERVICE,
				"%s is not declared, and nobody has asked for it yet",
				body.service);
	snapshot = context_snapshot(context);
	if (body.revision > (snapshot ? snapshot->revision : 0))
		return respond_problem(q, PROBLEM_BAD_REQUEST,
				"revision: %llu of %s has not been published yet",
				(unsigned long long) body.revision, body.service);
	consumer = peer_consumer(q->peer, request_header(q, CONSUMER_HEADER));
	if (!consumer)
		return -ENOMEM;
	r = consumer_ack(consumer, body.service, body.revision);
	if (r == -E2BIG)
		return respond_too_many_interests(q, consumer);
	return r < 0 ? r : respond_nothing(q, MHD_HTTP_NO_CONTENT);
}

struct in_flight_body {
	uint64_t count, ttl_usec;
};

enum {
	IN_FLIGHT_COUNT,
	IN_FLIGHT_TTL
};

static const struct field in_flight_fields[] = {
	[IN_FLIGHT_COUNT] = { "count", FIELD_COUNT, offsetof(struct in_flight_body, count) },
	[IN_FLIGHT_TTL] = { "ttl", FIELD_DURATION, offsetof(struct in_flight_body, ttl_usec) },
	{},
};

/* Whether anybody can want a report about the endpoint. One that has left the registry counts while
 * it is drained, and for whoever has reported on it before. */
static bool endpoint_matters(struct request *q, const struct context *context, const char *id)
{
	const struct snapshot *snapshot = context_snapshot(context);
	const char *service = context_service(context);
	uint64_t count, revision;

	if (snapshot && usher_endpoints_find(snapshot->all, id) >= 0)
		return true;
	if (directory_find_override(q->server->directory, service, id))
		return true;
	return in_flight_last(q->server->in_flight, &q->peer->in_flight, service, id, &count,
			       &revision) == 0;
}

/* The running drain that has removed the endpoint, or NULL. */
static const struct drain_record *removal_of(
		struct rollout *rollout, const char *service, const char *id)
{
	for (size_t i = 0; i < rollout_count(rollout); i++) {
		const struct drain_record *record = rollout_at(rollout, i);

		if (record->kind == ROLLOUT_DRAIN && record->finished_wall_usec == 0 &&
				record->removal_revision > 0 && strcmp(record->endpoint, id) == 0 &&
				strcmp(record->service, service) == 0)
			return record;
	}
	return NULL;
}

/* More requests are open than at a report that was itself made after the removal: so one of them
 * was sent by a choice that is older. */
static void look_for_stale_pick(struct request *q, const struct in_flight_claim *claim)
{
	struct server *s = q->server;
	const struct drain_record *removal;
	uint64_t count, revision;

	if (in_flight_last(s->in_flight, &q->peer->in_flight, claim->service, claim->endpoint,
			    &count, &revision) < 0 ||
			claim->count <= count)
		return;
	removal = removal_of(s->rollout, claim->service, claim->endpoint);
	if (removal && revision >= removal->removal_revision)
		rollout_note_stale_pick(
				s->rollout, claim->service, claim->endpoint, clock_wall_usec());
}

int api_in_flight(struct request *q)
{
	struct in_flight_body body = { .ttl_usec = IN_FLIGHT_TTL_DEFAULT };
	struct in_flight_claim claim;
	struct context *context;
	fields_given given;
	int r;

	if (!request_no_query(q) || !request_body(q, in_flight_fields, &body, &given))
		return 0;
	if (!field_given(given, IN_FLIGHT_COUNT))
		return respond_missing(q, "count");
	if (body.ttl_usec == 0 || body.ttl_usec > IN_FLIGHT_TTL_MAX)
		return respond_problem(q, PROBLEM_BAD_REQUEST, "ttl: is not in 1ms..1h");
	context = request_known_context(q);
	if (!context)
		return 0;
	if (!endpoint_matters(q, context, q->params[1]))
		return respond_problem(q, PROBLEM_UNKNOWN_ENDPOINT, "%s has no endpoint %s",
				context_service(context), q->params[1]);
	claim = (struct in_flight_claim){ .service = context_service(context),
		.endpoint = q->params[1],
		.count = body.count,
		.ttl_usec = body.ttl_usec,
		.revision = directory_revision(q->server->directory) };
	look_for_stale_pick(q, &claim);
	r = in_flight_report(q->server->in_flight, &q->peer->in_flight, &claim, q->now_usec);
	if (r == -E2BIG)
		return respond_problem(q, PROBLEM_TOO_MANY,
				"this connection has reported on %d endpoints, which is the limit",
				IN_FLIGHT_REPORTS_MAX);
	return r < 0 ? r : respond_nothing(q, MHD_HTTP_NO_CONTENT);
}

static uint64_t current_revision(void *userdata, const char *service)
{
	struct server *s = userdata;
	struct context *context = directory_find(s->directory, service);
	const struct snapshot *snapshot = context ? context_snapshot(context) : NULL;

	return snapshot ? snapshot->revision : 0;
}

int api_consumers(struct request *q)
{
	struct text text = {};

	if (!request_no_query(q))
		return 0;
	consumers_render(q->server->consumers, q->now_usec, current_revision, q->server, &text);
	return respond_json(q, MHD_HTTP_OK, &text);
}
