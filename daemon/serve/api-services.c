/* What is known of services: the list, and one in full. */

#include <microhttpd.h>
#include <string.h>

#include "api.h"
#include "clock.h"
#include "inside.h"
#include "problem.h"
#include "render-chain.h"
#include "render-health.h"
#include "render.h"

#define KNOWN_MAX 100000 /* names that sources see and nobody declared */

struct age_query {
	uint64_t max_age_usec;
};

static const struct field age_fields[] = {
	{ "max_age", FIELD_DURATION, offsetof(struct age_query, max_age_usec) },
	{},
};

/* {"removed", "of", "endpoints", "since_ms", "until_ms"}, or null. */
static void render_held(struct text *text, const struct feed *feed, uint64_t now_usec)
{
	if (!feed || !feed->held) {
		text_add_string(text, "null");
		return;
	}
	text_add_format(text,
			"{\"removed\": %zu, \"of\": %zu, \"endpoints\": %zu, \"since_ms\": %llu, \"until_ms\": %llu}",
			feed->held_removed, feed->held_of,
			usher_endpoints_count(feed->held->endpoints),
			(unsigned long long) ((now_usec - feed->held_since_usec) / USEC_PER_MSEC),
			(unsigned long long) (feed->held_until_usec > now_usec
							? (feed->held_until_usec - now_usec) /
									USEC_PER_MSEC
							: 0));
}

static const struct feed *first_held(const struct context *context)
{
	for (size_t i = 0; i < context_feed_count(context); i++)
		if (context_feed(context, i)->held)
			return context_feed(context, i);
	return NULL;
}

/* Without the braces. */
static void render_summary(struct text *text, const struct context *context, uint64_t now_usec)
{
	const struct snapshot *s = context_snapshot(context);
	struct freshness freshness;

	context_freshness(context, now_usec, &freshness);
	text_add_string(text, "\"service\": ");
	text_add_json(text, context_service(context));
	text_add_string(text, ", \"eager\": ");
	render_bool(text, context_is_eager(context));
	text_add_string(text, ", \"revision\": ");
	text_add_unsigned(text, s ? s->revision : 0);
	render_panic(text, s && s->panic);
	text_add_string(text, ", \"freshness\": ");
	render_freshness(text, &freshness);
	text_add_format(text,
			", \"endpoints\": {\"total\": %zu, \"listed\": %zu, \"chosen\": %zu, \"draining\": %zu}, \"conflicts\": %zu, \"weight_invalid\": %zu, \"held\": ",
			s ? s->count : 0, s ? s->listed_count : 0, s ? s->chosen_count : 0,
			s ? s->draining_count : 0, s ? s->conflict_count : 0,
			s ? s->weight_invalid_count : 0);
	render_held(text, first_held(context), now_usec);
	text_add_string(text, ", \"health\": ");
	render_health_counts(text, s);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *) a, *(const char *const *) b);
}

/* Whether a source before the n-th sees the name, too. */
static bool seen_before(struct directory *directory, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++) {
		struct source_status status = {};

		source_get_status(directory_source_at(directory, i), &status);
		if (status.known &&
				bsearch(&name, status.known, status.known_count,
						sizeof(*status.known), compare_names))
			return true;
	}
	return false;
}

/* Names that some source sees and no context has. */
static void render_known(struct text *text, struct directory *directory)
{
	const char *comma = "";
	size_t count = 0;

	for (size_t i = 0; i < directory_source_count(directory); i++) {
		struct source_status status = {};

		source_get_status(directory_source_at(directory, i), &status);
		for (size_t k = 0; status.known && k < status.known_count; k++) {
			const char *name = status.known[k];

			if (count == KNOWN_MAX || directory_find(directory, name) ||
					seen_before(directory, i, name))
				continue;
			render_comma(text, &comma);
			text_add_json(text, name);
			count++;
		}
	}
}

int api_services(struct request *q)
{
	struct directory *directory = q->server->directory;
	struct text text = {};
	const char *comma = "";

	if (!request_no_query(q))
		return 0;
	text_add_string(&text, "{\"revision\": ");
	text_add_unsigned(&text, directory_revision(directory));
	text_add_string(&text, ", \"services\": [");
	for (size_t i = 0; i < directory_count(directory); i++) {
		render_comma(&text, &comma);
		text_add(&text, "{", 1);
		render_summary(&text, directory_at(directory, i), q->now_usec);
		text_add(&text, "}", 1);
	}
	text_add_string(&text, "], \"known\": [");
	render_known(&text, directory);
	text_add_string(&text, "]}\n");
	return respond_json(q, MHD_HTTP_OK, &text);
}

static void render_feed(struct text *text, const struct feed *feed, uint64_t now_usec)
{
	const struct observation *o = feed->observation;

	text_add_string(text, "{\"source\": ");
	text_add_json(text, feed->config->source);
	text_add_string(text, ", \"name\": ");
	text_add_json(text, feed->config->name);
	text_add_string(text, ", \"port\": ");
	text_add_json(text, feed->config->port);
	text_add_string(text, ", \"state\": \"");
	text_add_string(text, source_state_to_string(feed->state));
	text_add_string(text, "\", \"age_ms\": ");
	/* A restored observation may be older than this boot: then the subtraction wraps rightly.
	 */
	render_age(text, feed_age(feed, now_usec));
	text_add_string(text, ", \"revision\": ");
	render_unclean(text, o ? o->revision : NULL);
	text_add_format(text, ", \"endpoints\": %zu, \"restored\": ",
			o ? usher_endpoints_count(o->endpoints) : 0);
	render_bool(text, feed->restored);
	text_add_string(text, ", \"held\": ");
	render_held(text, feed, now_usec);
	text_add_string(text, ", \"error\": ");
	render_unclean(text, feed->error);
	text_add(text, "}", 1);
}

static const char *policy_word(enum budget_policy policy)
{
	switch (policy) {
	case BUDGET_CONTINUE:
		return "continue";
	case BUDGET_HOLD:
		return "hold";
	case BUDGET_FAIL:
		return "fail";
	}
	return "?";
}

static void render_drain_policy(struct text *text, const struct drain_config *d)
{
	text_add_format(text,
			"{\"order\": \"%s\", \"propagation\": {\"registry_ms\": %llu, \"consumer_refresh_ms\": %llu, \"consumer_cache_ms\": %llu, \"margin_ms\": %llu, \"on_timeout\": \"%s\"}, ",
			d->order == DRAIN_REFUSE_FIRST ? "refuse_first" : "serve_stale",
			(unsigned long long) (d->registry_usec / USEC_PER_MSEC),
			(unsigned long long) (d->consumer_refresh_usec / USEC_PER_MSEC),
			(unsigned long long) (d->consumer_cache_usec / USEC_PER_MSEC),
			(unsigned long long) (d->margin_usec / USEC_PER_MSEC),
			policy_word(d->on_propagation_timeout));
	text_add_format(text,
			"\"in_flight\": {\"timeout_ms\": %llu, \"quiet_ms\": %llu, \"on_timeout\": \"%s\"}, \"deadline_ms\": %llu, \"min_ready\": %u}",
			(unsigned long long) (d->in_flight_timeout_usec / USEC_PER_MSEC),
			(unsigned long long) (d->quiet_usec / USEC_PER_MSEC),
			policy_word(d->on_in_flight_timeout),
			(unsigned long long) (d->deadline_usec / USEC_PER_MSEC), d->min_ready);
}

static void render_policy(struct text *text, const struct service_config *c)
{
	text_add_format(text,
			"{\"merge\": \"%s\", \"max_age_ms\": %llu, \"on_stale\": \"%s\", \"removal_guard\": {\"share\": ",
			merge_policy_to_string(c->merge),
			(unsigned long long) (c->max_age_usec / USEC_PER_MSEC),
			c->on_stale == STALE_FAIL ? "fail" : "serve");
	render_share(text, c->guard_share);
	text_add_format(text, ", \"hold_ms\": %llu}, \"startup_timeout_ms\": %llu, \"drain\": ",
			(unsigned long long) (c->guard_hold_usec / USEC_PER_MSEC),
			(unsigned long long) (c->startup_timeout_usec / USEC_PER_MSEC));
	render_drain_policy(text, &c->drain);
	text_add_string(text, ", \"health\": ");
	render_health_policy(text, &c->health);
	text_add(text, "}", 1);
}

int api_service(struct request *q)
{
	struct age_query query = {};
	struct context *context;
	struct text text = {};
	const char *comma = "";
	fields_given given;

	if (!request_query(q, age_fields, &query, &given))
		return 0;
	context = request_known_context(q);
	if (!context)
		return 0;
	if (query.max_age_usec > 0 && !request_is_fresh(q, context, query.max_age_usec))
		return 0;
	text_add(&text, "{", 1);
	render_summary(&text, context, q->now_usec);
	text_add_string(&text, ", \"policy\": ");
	render_policy(&text, context_config(context));
	text_add_string(&text, ", \"feeds\": [");
	for (size_t i = 0; i < context_feed_count(context); i++) {
		render_comma(&text, &comma);
		render_feed(&text, context_feed(context, i), q->now_usec);
	}
	text_add_string(&text, "]");
	text_add_string(&text, ", \"chain\": ");
	render_chain(&text, context);
	text_add_string(&text, ", \"select\": ");
	text_add_json(&text, context_chain(context)->selector->plugin->name);
	text_add_string(&text, "}\n");
	return respond_json(q, MHD_HTTP_OK, &text);
}
