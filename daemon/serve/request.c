#include "request.h"

#include <assert.h>
#include <errno.h>
#include <microhttpd.h>
#include <string.h>

#include "api.h"
#include "clock.h"
#include "first-answer.h"
#include "inside.h"
#include "peer.h"
#include "problem.h"

#define BODY_KEPT_MAX 4096 /* bytes of buffer that a connection keeps between requests */

void request_reset(struct request *q)
{
	struct peer *peer = (struct peer *) ((char *) q - offsetof(struct peer, request));
	struct text path = q->path, body = q->body;

	path.length = body.length = 0;
	path.failed = body.failed = false;
	if (body.capacity > BODY_KEPT_MAX)
		text_done(&body);
	*q = (struct request){ .server = peer->server, .peer = peer, .path = path, .body = body };
	reading_answered_by_next_request(&peer->list);
}

void request_done(struct request *q)
{
	text_done(&q->path);
	text_done(&q->body);
}

const char *request_header(struct request *q, const char *name)
{
	return MHD_lookup_connection_value(q->peer->connection, MHD_HEADER_KIND, name);
}

const char *request_consumer(struct request *q)
{
	struct consumer *consumer = peer_consumer(q->peer, request_header(q, CONSUMER_HEADER));

	return consumer ? consumer_name(consumer) : NULL;
}

struct MHD_Response *response_new(struct text *text, const char *content_type)
{
	size_t length = text->length;
	char *data = text_take(text);
	struct MHD_Response *response;

	if (!data)
		return NULL;
	response = MHD_create_response_from_buffer(length, data, MHD_RESPMEM_MUST_FREE);
	if (!response) {
		free(data);
		return NULL;
	}
	if (MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type) ==
			MHD_NO) {
		MHD_destroy_response(response);
		return NULL;
	}
	return response;
}

int respond_with(struct request *q, unsigned status, struct MHD_Response *response)
{
	q->answered = true;
	q->status = status;
	q->queued = MHD_queue_response(q->peer->connection, status, response) == MHD_YES;
	return 0;
}

int respond_text(struct request *q, unsigned status, const char *content_type, struct text *text)
{
	struct MHD_Response *response = response_new(text, content_type);

	text_done(text);
	if (!response)
		return -ENOMEM;
	(void) respond_with(q, status, response);
	MHD_destroy_response(response);
	return 0;
}

int respond_json(struct request *q, unsigned status, struct text *text)
{
	return respond_text(q, status, JSON_TYPE, text);
}

int respond_nothing(struct request *q, unsigned status)
{
	struct MHD_Response *response;

	response = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
	if (!response)
		return -ENOMEM;
	(void) respond_with(q, status, response);
	MHD_destroy_response(response);
	return 0;
}

struct query_walk {
	const struct field *fields;
	void *ret;
	fields_given given;
	struct usher_error error;
	int r;
};

static enum MHD_Result query_on_value(
		void *userdata, enum MHD_ValueKind kind, const char *name, const char *value)
{
	struct query_walk *walk = userdata;
	const struct field *field;

	(void) kind;
	walk->r = field_find(walk->fields, name, &walk->given, &field, &walk->error);
	if (walk->r < 0)
		return MHD_NO;
	/* "?watch" alone turns a flag on, as people expect. */
	if (!value)
		value = field->type == FIELD_FLAG ? "true" : "";
	walk->r = field_set_text(field, value, walk->ret, &walk->error);
	return walk->r < 0 ? MHD_NO : MHD_YES;
}

bool request_query(
		struct request *q, const struct field *fields, void *ret, fields_given *ret_given)
{
	struct query_walk walk = { .fields = fields, .ret = ret };

	(void) MHD_get_connection_values(
			q->peer->connection, MHD_GET_ARGUMENT_KIND, query_on_value, &walk);
	if (walk.r < 0) {
		(void) respond_problem(q, PROBLEM_BAD_REQUEST, "query: %s",
				usher_error_text(&walk.error, walk.r));
		return false;
	}
	*ret_given = walk.given;
	return true;
}

bool request_no_query(struct request *q)
{
	static const struct field none[] = { {} };
	fields_given given;

	return request_query(q, none, NULL, &given);
}

bool request_body(struct request *q, const struct field *fields, void *ret, fields_given *ret_given)
{
	struct usher_error error = {};
	int r;

	r = fields_from_json(fields, q->body.data, q->body.length, ret, ret_given, &error);
	if (r >= 0)
		return true;
	(void) respond_problem(q, PROBLEM_BAD_REQUEST, "%s", usher_error_text(&error, r));
	return false;
}

struct context *request_known_context(struct request *q)
{
	struct context *context = directory_find(q->server->directory, q->params[0]);

	q->service = q->params[0];
	if (!context)
		(void) respond_problem(q, PROBLEM_UNKNOWN_SERVICE,
				"%s is not declared, and nobody has asked for it yet",
				q->params[0]);
	return context;
}

static struct context *make_context(struct request *q)
{
	struct usher_error error = {};
	struct context *context;
	int r;

	r = directory_get(q->server->directory, q->params[0], &context, &error);
	if (r >= 0)
		return context;
	(void) respond_problem(q,
			r == -ENOENT                   ? PROBLEM_UNKNOWN_SERVICE
					: r == -E2BIG  ? PROBLEM_TOO_MANY
					: r == -EINVAL ? PROBLEM_BAD_REQUEST
						       : PROBLEM_INTERNAL,
			"%s", usher_error_text(&error, r));
	return NULL;
}

struct context *request_context_at_once(struct request *q)
{
	struct context *context = directory_find(q->server->directory, q->params[0]);

	q->service = q->params[0];
	return context ? context : make_context(q);
}

struct context *request_context(struct request *q)
{
	struct context *context = directory_find(q->server->directory, q->params[0]);
	bool created = !context;

	q->service = q->params[0];
	if (created)
		context = make_context(q);
	if (!context || context_snapshot(context))
		return context;
	return first_answer_wait(q, context, created) ? NULL : context;
}

bool request_is_fresh(struct request *q, struct context *context, uint64_t max_age_usec)
{
	const struct freshness *f = &q->freshness;

	context_freshness(context, q->now_usec, &q->freshness);
	q->has_freshness = true;
	if (max_age_usec > 0 && f->age_usec != USEC_FOREVER && f->age_usec > max_age_usec) {
		(void) respond_problem(q, PROBLEM_STALE,
				"what is known of %s is %llu ms old, and the caller accepts %llu ms",
				context_service(context),
				(unsigned long long) (f->age_usec / USEC_PER_MSEC),
				(unsigned long long) (max_age_usec / USEC_PER_MSEC));
		return false;
	}
	if (context_config(context)->on_stale == STALE_FAIL && f->age_usec != USEC_FOREVER &&
			f->age_usec > f->max_age_usec) {
		(void) respond_problem(q, PROBLEM_STALE,
				"what is known of %s is %llu ms old, its max_age is %llu ms, and on_stale is fail",
				context_service(context),
				(unsigned long long) (f->age_usec / USEC_PER_MSEC),
				(unsigned long long) (f->max_age_usec / USEC_PER_MSEC));
		return false;
	}
	return true;
}

static bool refuse_outside(struct request *q, const struct route *route)
{
	const struct door *consumer = q->server->doors[DOOR_CONSUMER];
	const char *path = route->changes ? server_admin_path(q->server)
			: consumer        ? consumer->path
					  : "of the consumers";

	(void) respond_problem(q, PROBLEM_FORBIDDEN,
			"this port has only /, /metrics, /healthz and /readyz; use the socket %s",
			path);
	return false;
}

static bool may_enter(struct request *q, const struct route *route)
{
	if (q->peer->door->which == DOOR_HTTP && !route->open)
		return refuse_outside(q, route);
	if (!route->changes || q->peer->may_change)
		return true;
	if (q->peer->door->which == DOOR_ADMIN)
		(void) respond_problem(q, PROBLEM_FORBIDDEN,
				"uid %u may not change anything: it takes root, usherd's own user, or whoever may write to %s",
				(unsigned) q->peer->uid, server_admin_path(q->server));
	else
		(void) respond_problem(q, PROBLEM_FORBIDDEN,
				"%s %s changes something, which needs the admin socket %s",
				method_to_string(route->method), route->pattern,
				server_admin_path(q->server));
	return false;
}

static int refuse_early(struct request *q)
{
	if (q->peer->over_limit)
		return respond_problem(q, PROBLEM_TOO_MANY,
				"too many connections to this socket; keep fewer open");
	if (q->too_large)
		return respond_problem(q, PROBLEM_TOO_LARGE, "the body is over %d bytes",
				REQUEST_BODY_MAX);
	if (q->path.failed || q->body.failed)
		return -ENOMEM;
	if (q->malformed)
		return respond_problem(q, PROBLEM_BAD_REQUEST,
				"the path or the query has a malformed %%-escape, or a NUL");
	return 0;
}

static int dispatch(struct request *q)
{
	struct route_match match;
	size_t count;
	const struct route *routes = api_routes(&count);
	int r;

	r = refuse_early(q);
	if (r < 0 || q->answered)
		return r;
	r = router_find(routes, count, q->method, q->path.data ? q->path.data : strdupa(""),
			&match);
	if (r == -EOPNOTSUPP)
		return respond_not_allowed(q, match.allowed);
	if (r == -EINVAL)
		return respond_problem(
				q, PROBLEM_BAD_REQUEST, "the path has a malformed %%-escape");
	if (r < 0)
		return respond_problem(q, PROBLEM_NOT_FOUND,
				"there is no such path; the API is described in usher.openapi.yaml");
	q->route = match.route;
	memcpy(q->params, match.params, sizeof(q->params));
	if (!may_enter(q, match.route))
		return 0;
	if (!q->peer->consumer && !peer_consumer(q->peer, request_header(q, CONSUMER_HEADER)))
		return -ENOMEM;
	return match.route->handle(q);
}

void request_suspend(struct request *q, int (*then)(struct request *q),
		void (*forget)(void *waiting), void *waiting)
{
	q->suspended = q->deferred = true;
	q->then = then;
	q->forget = forget;
	q->waiting = waiting;
	MHD_suspend_connection(q->peer->connection);
}

void request_resume(struct request *q)
{
	assert(q->suspended);
	q->suspended = false;
	MHD_resume_connection(q->peer->connection);
	http_run_soon(&q->peer->door->http);
}

void request_abandon(struct request *q)
{
	if (!q->deferred)
		return;
	q->deferred = false;
	q->forget(q->waiting);
}

void request_dispatch(struct request *q)
{
	int r;

	q->now_usec = clock_boot_usec();
	if (q->deferred) {
		q->deferred = false;
		r = q->then(q);
	} else {
		r = dispatch(q);
	}
	if (r >= 0 && (q->answered || q->deferred))
		return;
	if (!q->answered)
		(void) respond_problem(
				q, PROBLEM_INTERNAL, "%s", strerrordesc_np(r < 0 ? -r : EPROTO));
	log_error(NULL, "Cannot answer %s: %s", q->route ? q->route->pattern : "a request",
			strerrordesc_np(r < 0 ? -r : EPROTO));
}
