/* Registrations: what of this node registries are told about. */

#include <errno.h>
#include <microhttpd.h>
#include <string.h>

#include "api.h"
#include "clock.h"
#include "health.h"
#include "inside.h"
#include "peer.h"
#include "problem.h"
#include "registration-config.h"
#include "registration-wait.h"
#include "render-health.h"
#include "render.h"

/* ---- out ---- */

/* How long ago, or null for never. */
static void render_ago(struct text *text, const char *name, uint64_t then_usec, uint64_t now_usec)
{
	text_add_format(text, ", \"%s\": ", name);
	render_age(text,
			then_usec == 0                         ? USEC_FOREVER
					: now_usec > then_usec ? now_usec - then_usec
							       : 0);
}

static void render_until(struct text *text, const char *name, uint64_t then_usec, uint64_t now_usec)
{
	text_add_format(text, ", \"%s\": ", name);
	render_age(text,
			then_usec == USEC_FOREVER              ? USEC_FOREVER
					: then_usec > now_usec ? then_usec - now_usec
							       : 0);
}

static void render_text(struct text *text, const char *name, const char *value)
{
	text_add_format(text, ", \"%s\": ", name);
	render_unclean(text, value);
}

static void render_instance(struct text *text, const struct usher_endpoints *set)
{
	struct usher_endpoint e;
	const char *comma = "";

	text_add_string(text, ", \"endpoint\": ");
	if (!set) {
		text_add_string(text, "null");
		return;
	}
	usher_endpoints_get(set, 0, &e);
	text_add_string(text, "{\"address\": ");
	text_add_json(text, e.address);
	text_add_format(text, ", \"port\": %u, \"secure\": ", e.port);
	render_bool(text, e.secure);
	render_text(text, "zone", e.zone);
	text_add_format(text, ", \"weight\": %u, \"ready\": ", e.weight);
	render_bool(text, e.ready);
	text_add_string(text, ", \"metadata\": {");
	for (size_t i = 0; i < e.metadata_count; i++) {
		struct usher_label label = usher_endpoints_metadata_at(set, 0, i);

		render_comma(text, &comma);
		text_add_json(text, label.name);
		text_add_string(text, ": ");
		text_add_json(text, label.value);
	}
	text_add_string(text, "}}");
}

static void render_place(struct text *text, const struct registry_view *v, uint64_t now_usec)
{
	text_add_string(text, "{\"source\": ");
	text_add_json(text, v->source);
	render_text(text, "name", v->name);
	render_text(text, "port", v->port);
	text_add_format(text, ", \"state\": \"%s\"", registration_state_to_string(v->state));
	render_ago(text, "since_ms", v->since_usec, now_usec);
	render_ago(text, "told_ms", v->told_usec, now_usec);
	render_ago(text, "renewed_ms", v->renewed_usec, now_usec);
	render_until(text, "next_ms", v->next_usec, now_usec);
	render_ago(text, "waiting_ms", v->called_usec, now_usec);
	text_add_format(text, ", \"failures\": %u", v->failures);
	render_text(text, "error", v->error);
	text_add(text, "}", 1);
}

static const char *why_waiting(const struct registration_view *v, struct health_detail *detail)
{
	if (v->why || v->state != REGISTRATION_WAITING || !v->health)
		return v->why;
	health_detail(v->health, 0, detail);
	return detail->failure ? detail->failure->text : "its first check has not come back yet";
}

static void render_registration(
		struct text *text, const struct registrations *r, size_t i, uint64_t now_usec)
{
	struct registration_view v = {};
	struct health_detail detail;
	const char *comma = "";

	registrations_get(r, i, &v);
	text_add_string(text, "{\"service\": ");
	text_add_json(text, v.service);
	render_text(text, "id", v.id);
	text_add_format(text, ", \"state\": \"%s\"", registration_state_to_string(v.state));
	render_ago(text, "since_ms", v.since_usec, now_usec);
	render_text(text, "why", why_waiting(&v, &detail));
	text_add_format(text, ", \"origin\": \"%s\"", v.is_configured ? "configuration" : "api");
	render_text(text, "requested_by", v.requested_by);
	render_instance(text, v.endpoint);
	text_add_string(text, ", \"health\": ");
	if (v.health)
		render_health_of(text, v.health, 0, now_usec);
	else
		text_add_string(text, "null");
	render_text(text, "on_unhealthy",
			v.what ? unhealthy_policy_to_string(v.what->on_unhealthy) : NULL);
	render_text(text, "on_stop", v.what ? stop_policy_to_string(v.what->on_stop) : NULL);
	text_add_string(text, ", \"registries\": [");
	for (size_t k = 0; k < v.place_count; k++) {
		struct registry_view place = {};

		registrations_get_place(r, i, k, &place);
		render_comma(text, &comma);
		render_place(text, &place, now_usec);
	}
	text_add_string(text, "]}");
}

static int respond_unknown(struct request *q)
{
	return respond_problem(q, PROBLEM_UNKNOWN_REGISTRATION, "%s of %s is not registered",
			q->params[1], q->params[0]);
}

int respond_registration(struct request *q, unsigned status)
{
	const struct registrations *r = q->server->registrations;
	ssize_t i = r ? registrations_find(r, q->params[0], q->params[1]) : -ENOENT;
	struct text text = {};

	if (i < 0)
		return respond_unknown(q);
	render_registration(&text, r, (size_t) i, q->now_usec);
	text_add(&text, "\n", 1);
	return respond_json(q, status, &text);
}

/* ---- the calls ---- */

struct list_query {
	const char *service;
};

static const struct field list_fields[] = {
	{ "service", FIELD_TEXT, offsetof(struct list_query, service) },
	{},
};

int api_registrations(struct request *q)
{
	const struct registrations *r = q->server->registrations;
	struct list_query query = {};
	struct text text = {};
	const char *comma = "";
	fields_given given;

	if (!request_query(q, list_fields, &query, &given))
		return 0;
	text_add_string(&text, "{\"registrations\": [");
	for (size_t i = 0; r && i < registrations_count(r); i++) {
		struct registration_view v = {};

		registrations_get(r, i, &v);
		if (v.is_nothing)
			continue;
		if (query.service && strcmp(query.service, v.service) != 0)
			continue;
		render_comma(&text, &comma);
		render_registration(&text, r, i, q->now_usec);
	}
	text_add_string(&text, "]}\n");
	return respond_json(q, MHD_HTTP_OK, &text);
}

int api_registration(struct request *q)
{
	return request_no_query(q) ? respond_registration(q, MHD_HTTP_OK) : 0;
}

static int respond_refusal(struct request *q, int r, const struct usher_error *error)
{
	enum problem problem = PROBLEM_INTERNAL;

	switch (-r) {
	case ENOENT:
		problem = PROBLEM_UNKNOWN_REGISTRATION;
		break;
	case EPERM:
		problem = PROBLEM_CONFIGURED;
		break;
	case EBUSY:
		problem = PROBLEM_CONFLICT;
		break;
	case EUSERS:
		problem = PROBLEM_TOO_MANY;
		break;
	case E2BIG:
	case EBADMSG:
	case EINVAL:
	case ERANGE:
	case EEXIST:
	case EACCES:
		problem = PROBLEM_BAD_REQUEST;
		break;
	default:
		break;
	}
	return respond_problem(q, problem, "%s", usher_error_text(error, r));
}

int api_register(struct request *q)
{
	struct registrations_change change = {};
	struct usher_error error = {};
	char who[PEER_TEXT_MAX];
	int r;

	if (!request_no_query(q))
		return 0;
	q->service = q->params[0];
	if (memchr(q->body.data ? q->body.data : "", '\0', q->body.length))
		return respond_problem(q, PROBLEM_BAD_REQUEST, "body: has a NUL");
	r = registrations_put(q->server->registrations, q->params[0], q->params[1],
			q->body.length > 0 ? q->body.data : "{}", peer_describe(q->peer, who),
			&change, &error);
	if (r < 0)
		return respond_refusal(q, r, &error);
	return registration_wait(q, &change, change.is_new ? MHD_HTTP_CREATED : MHD_HTTP_OK);
}

int api_deregister(struct request *q)
{
	static const struct field none[] = { {} };
	struct registrations_change change = {};
	struct usher_error error = {};
	fields_given given;
	int r;

	if (!request_no_query(q) || !request_body(q, none, NULL, &given))
		return 0;
	q->service = q->params[0];
	r = registrations_remove(
			q->server->registrations, q->params[0], q->params[1], &change, &error);
	if (r < 0)
		return respond_refusal(q, r, &error);
	return registration_wait(q, &change, MHD_HTTP_OK);
}
