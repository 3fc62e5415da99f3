/* GET /metrics: Prometheus' text format. The number of series is bounded by the number of services,
 * and that by METRICS_SERVICES_MAX; nothing has an endpoint or a consumer as a label. */

#include "metrics.h"

#include <microhttpd.h>

#include "api.h"
#include "clock.h"
#include "inside.h"
#include "render.h"

#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

void metric_head(struct text *text, const char *name, const char *type, const char *help)
{
	text_add_format(text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void metric_labelled(struct text *text, const char *name, const char *label, const char *value)
{
	text_add_format(text, "%s{%s=", name, label);
	text_add_json(text, value);
	text_add_string(text, "} ");
}

void metric_value(struct text *text, uint64_t value)
{
	text_add_unsigned(text, value);
	text_add(text, "\n", 1);
}

static void add_gauge(struct text *text, const char *name, const char *help, uint64_t value)
{
	metric_head(text, name, "gauge", help);
	text_add_format(text, "%s ", name);
	metric_value(text, value);
}

#define SOURCE_STATES (SOURCE_DENIED + 1)

static void add_states(struct text *text, const char *name, const uint64_t counts[SOURCE_STATES])
{
	for (unsigned i = 0; i < SOURCE_STATES; i++) {
		metric_labelled(text, name, "state", source_state_to_string((enum source_state) i));
		metric_value(text, counts[i]);
	}
}

static void add_contexts(struct text *text, const struct server *s, uint64_t now_usec)
{
	uint64_t counts[SOURCE_STATES] = {};

	for (size_t i = 0; i < directory_count(s->directory); i++) {
		struct freshness freshness;

		context_freshness(directory_at(s->directory, i), now_usec, &freshness);
		counts[freshness.state]++;
	}
	metric_head(text, "usher_contexts", "gauge",
			"Services with a context, by the state of their source.");
	add_states(text, "usher_contexts", counts);
}

/* One series a source that has ever said something. */
static void add_source_ages(struct text *text, const struct server *s, const char *name,
		const char *help, bool of_changes, uint64_t now_usec)
{
	metric_head(text, name, "gauge", help);
	for (size_t i = 0; i < directory_source_count(s->directory); i++) {
		const struct source *source = directory_source_at(s->directory, i);
		struct source_status status;
		uint64_t then;

		source_get_status(source, &status);
		then = of_changes ? status.last_change_usec : status.last_contact_usec;
		if (then == 0)
			continue;
		metric_labelled(text, name, "source", source_name(source));
		text_add_format(text, "%.15g\n",
				(double) (now_usec - then) / (double) USEC_PER_SEC);
	}
}

static void add_sources(struct text *text, const struct server *s, uint64_t now_usec)
{
	uint64_t counts[SOURCE_STATES] = {};

	for (size_t i = 0; i < directory_source_count(s->directory); i++) {
		struct source_view view;

		directory_view_source(s->directory, directory_source_at(s->directory, i), &view);
		counts[view.status.state]++;
	}
	metric_head(text, "usher_sources", "gauge", "Sources, by state.");
	add_states(text, "usher_sources", counts);
	add_source_ages(text, s, "usher_source_contact_age_seconds",
			"Since a source has said or proven anything.", false, now_usec);
	add_source_ages(text, s, "usher_source_change_age_seconds",
			"Since a source has said anything else than before.", true, now_usec);
}

/* One series a service, of whatever a function says of it. */
static void add_per_service(struct text *text, const struct server *s, const char *name,
		const char *help,
		bool (*say)(const struct context *context, uint64_t now_usec, double *ret),
		uint64_t now_usec)
{
	size_t count = directory_count(s->directory);

	metric_head(text, name, "gauge", help);
	for (size_t i = 0; i < count && i < METRICS_SERVICES_MAX; i++) {
		const struct context *context = directory_at(s->directory, i);
		double value;

		if (!say(context, now_usec, &value))
			continue;
		metric_labelled(text, name, "service", context_service(context));
		text_add_format(text, "%.15g\n", value);
	}
}

static bool say_age(const struct context *context, uint64_t now_usec, double *ret)
{
	struct freshness freshness;

	context_freshness(context, now_usec, &freshness);
	*ret = (double) freshness.age_usec / (double) USEC_PER_SEC;
	return freshness.age_usec != USEC_FOREVER;
}

static bool say_chosen(const struct context *context, uint64_t now_usec, double *ret)
{
	const struct snapshot *snapshot = context_snapshot(context);

	(void) now_usec;
	*ret = snapshot ? (double) snapshot->chosen_count : 0;
	return snapshot;
}

static bool say_total(const struct context *context, uint64_t now_usec, double *ret)
{
	const struct snapshot *snapshot = context_snapshot(context);

	(void) now_usec;
	*ret = snapshot ? (double) snapshot->count : 0;
	return snapshot;
}

static bool say_held(const struct context *context, uint64_t now_usec, double *ret)
{
	(void) now_usec;
	*ret = 0;
	for (size_t i = 0; i < context_feed_count(context); i++) {
		const struct feed *feed = context_feed(context, i);

		*ret += feed->held ? (double) feed->held_removed : 0;
	}
	return true;
}

static void add_picks(struct text *text, const struct server *s)
{
	metric_head(text, "usher_picks_total", "counter", "Picks over the API, by result.");
	for (unsigned i = 0; i < ELEMENTS(s->picks); i++) {
		metric_labelled(text, "usher_picks_total", "result",
				pick_result_to_string((enum pick_result) i));
		metric_value(text, s->picks[i]);
	}
}

static void add_reports(struct text *text, const struct server *s)
{
	metric_head(text, "usher_reports_total", "counter",
			"Calls that consumers have reported, by how they went.");
	for (unsigned i = 0; i < USHER_OUTCOMES; i++) {
		metric_labelled(text, "usher_reports_total", "outcome",
				usher_outcome_to_string((enum usher_outcome) i));
		metric_value(text, s->reports.calls[i]);
	}
	metric_head(text, "usher_reports_unknown_total", "counter",
			"Of those, calls to endpoints that usherd does not know (any more).");
	text_add_string(text, "usher_reports_unknown_total ");
	metric_value(text, s->reports.unknown);
}

static void add_requests(struct text *text, const struct server *s)
{
	static const char *const classes[] = { "0xx", "1xx", "2xx", "3xx", "4xx", "5xx" };

	metric_head(text, "usher_api_requests_total", "counter",
			"Calls of the API, by class of status.");
	for (unsigned i = 2; i < ELEMENTS(s->requests); i++) {
		metric_labelled(text, "usher_api_requests_total", "status", classes[i]);
		metric_value(text, s->requests[i]);
	}
}

static void add_drains(struct text *text, const struct server *s)
{
	uint64_t counts[DRAIN_FAILED + 1] = {};

	for (size_t i = 0; i < rollout_count(s->rollout); i++)
		counts[rollout_at(s->rollout, i)->state]++;
	metric_head(text, "usher_drains", "gauge", "Drains and restores on record, by state.");
	for (unsigned i = 0; i < ELEMENTS(counts); i++) {
		metric_labelled(text, "usher_drains", "state",
				drain_state_to_string((enum drain_state) i));
		metric_value(text, counts[i]);
	}
}

static void add_registrations(struct text *text, const struct server *s)
{
	const struct registrations *r = s->registrations;
	uint64_t counts[REGISTRATION_STATES] = {};

	for (size_t i = 0; r && i < registrations_count(r); i++) {
		struct registration_view v = {};

		registrations_get(r, i, &v);
		counts[v.state] += !v.is_nothing;
	}
	metric_head(text, "usher_registrations", "gauge",
			"Instances of this node that registries are told about, by state.");
	for (unsigned i = 0; i < ELEMENTS(counts); i++) {
		metric_labelled(text, "usher_registrations", "state",
				registration_state_to_string((enum registration_state) i));
		metric_value(text, counts[i]);
	}
}

static void add_registry_call(struct text *text, const char *source, const char *call,
		const char *result, uint64_t value)
{
	text_add_string(text, "usher_registry_calls_total{source=");
	text_add_json(text, source);
	text_add_format(text, ",call=\"%s\",result=\"%s\"} ", call, result);
	metric_value(text, value);
}

static void add_registry_calls(struct text *text, const struct server *s)
{
	static const struct {
		enum source_registration call;
		const char *name;
	} calls[] = { { SOURCE_ADD, "add" }, { SOURCE_RENEW, "renew" },
		{ SOURCE_REMOVE, "remove" } };
	const struct registrations *r = s->registrations;

	metric_head(text, "usher_registry_calls_total", "counter",
			"What registries were told about registrations, by how it went.");
	for (size_t i = 0; r && i < registrations_registry_count(r); i++) {
		struct registry_calls v = {};

		registrations_registry(r, i, &v);
		for (size_t k = 0; k < ELEMENTS(calls); k++) {
			add_registry_call(
					text, v.source, calls[k].name, "ok", v.done[calls[k].call]);
			add_registry_call(text, v.source, calls[k].name, "failed",
					v.failed[calls[k].call]);
		}
	}
}

static void add_consumers(struct text *text, const struct server *s)
{
	metric_head(text, "usher_consumers", "gauge", "Connected processes, by door.");
	for (unsigned i = 0; i < DOOR_MAX; i++) {
		metric_labelled(text, "usher_consumers", "door",
				server_door_to_string((enum server_door) i));
		metric_value(text, consumers_count(s->consumers, (enum server_door) i));
	}
	add_gauge(text, "usher_streams", "Open watches of services and drains.", s->streams.count);
}

int api_metrics(struct request *q)
{
	const struct server *s = q->server;
	struct text text = {};

	if (!request_no_query(q))
		return 0;
	metric_head(&text, "usher_build_info", "gauge", "The running version.");
	text_add_string(&text, "usher_build_info{version=\"" USHER_VERSION "\"} 1\n");
	add_gauge(&text, "usher_revision", "The highest revision published.",
			directory_revision(s->directory));
	add_contexts(&text, s, q->now_usec);
	add_sources(&text, s, q->now_usec);
	add_per_service(&text, s, "usher_service_age_seconds",
			"Upper bound of the age of what is known.", say_age, q->now_usec);
	add_per_service(&text, s, "usher_service_endpoints", "Endpoints that the sources know.",
			say_total, q->now_usec);
	add_per_service(&text, s, "usher_service_chosen", "Endpoints that a pick may return.",
			say_chosen, q->now_usec);
	add_per_service(&text, s, "usher_service_held",
			"Endpoints that their source lacks and the removal guard keeps.", say_held,
			q->now_usec);
	metrics_health(&text, s);
	metrics_prober(&text, s);
	metrics_stages(&text, s);
	add_picks(&text, s);
	add_reports(&text, s);
	add_requests(&text, s);
	add_drains(&text, s);
	add_registrations(&text, s);
	add_registry_calls(&text, s);
	add_consumers(&text, s);
	return respond_text(q, MHD_HTTP_OK, METRICS_TYPE, &text);
}
