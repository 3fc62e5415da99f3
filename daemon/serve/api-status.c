/* How the daemon itself is: status, health, readiness, reload, and a page for people. */

#include <errno.h>
#include <microhttpd.h>
#include <string.h>

#include "api.h"
#include "clock.h"
#include "inside.h"
#include "problem.h"
#include "render-cost.h"
#include "render.h"

#define TEXT_TYPE   "text/plain; charset=utf-8"
#define HTML_TYPE   "text/html; charset=utf-8"
#define MISSING_MAX 100 /* names of services without an answer, in status */

struct context_counts {
	size_t total, live, missing;
};

static struct context_counts count_contexts(const struct server *s, uint64_t now_usec)
{
	struct context_counts counts = { .total = directory_count(s->directory) };

	for (size_t i = 0; i < counts.total; i++) {
		const struct context *context = directory_at(s->directory, i);
		struct freshness freshness;

		context_freshness(context, now_usec, &freshness);
		counts.live += freshness.state == SOURCE_LIVE;
		counts.missing += !context_has_answer(context);
	}
	return counts;
}

static size_t count_live_sources(const struct server *s)
{
	size_t live = 0;

	for (size_t i = 0; i < directory_source_count(s->directory); i++) {
		struct source_view view;

		directory_view_source(s->directory, directory_source_at(s->directory, i), &view);
		live += view.status.state == SOURCE_LIVE;
	}
	return live;
}

static void render_contexts(struct text *text, const struct server *s, uint64_t now_usec)
{
	struct context_counts counts = count_contexts(s, now_usec);
	const char *comma = "";
	size_t named = 0;

	text_add_format(text, ", \"contexts\": {\"total\": %zu, \"live\": %zu, \"missing\": [",
			counts.total, counts.live);
	for (size_t i = 0; i < counts.total && named < MISSING_MAX; i++) {
		const struct context *context = directory_at(s->directory, i);

		if (context_has_answer(context))
			continue;
		render_comma(text, &comma);
		text_add_json(text, context_service(context));
		named++;
	}
	text_add_string(text, "]}");
}

static void render_registrations(struct text *text, const struct server *s)
{
	const struct registrations *r = s->registrations;
	size_t total = 0, registered = 0, failing = 0;

	for (size_t i = 0; r && i < registrations_count(r); i++) {
		struct registration_view v = {};

		registrations_get(r, i, &v);
		total += v.state != REGISTRATION_REMOVED;
		registered += v.state == REGISTRATION_REGISTERED;
		failing += v.state == REGISTRATION_FAILING;
	}
	text_add_format(text,
			", \"registrations\": {\"total\": %zu, \"registered\": %zu, \"failing\": %zu}",
			total, registered, failing);
}

static void render_config(struct text *text, const struct server *s)
{
	const struct config *config = directory_config(s->directory);
	const struct server_above *above = s->above;

	text_add_string(text, ", \"config\": {\"path\": ");
	render_unclean(text, config ? config->path : NULL);
	text_add_string(text, ", \"loaded_at\": ");
	render_wall_time(text,
			above && above->loaded_wall_usec
					? above->loaded_wall_usec(s->above_userdata)
					: 0);
	text_add_string(text, ", \"error\": ");
	render_unclean(text,
			above && above->reload_error ? above->reload_error(s->above_userdata)
						     : NULL);
	text_add(text, "}", 1);
}

int api_status(struct request *q)
{
	struct server *s = q->server;
	const struct config *config = directory_config(s->directory);
	struct text text = {};

	if (!request_no_query(q))
		return 0;
	text_add_string(&text, "{\"version\": \"" USHER_VERSION "\", \"node\": {\"name\": ");
	text_add_json(&text, config ? config->node_name : NULL);
	text_add_string(&text, ", \"zone\": ");
	text_add_json(&text, config ? config->node_zone : NULL);
	text_add_format(&text,
			"}, \"pid\": %d, \"state\": \"%s\", \"uptime_ms\": %llu, \"revision\": ",
			(int) getpid(), server_state(s),
			(unsigned long long) ((q->now_usec - s->started_usec) / USEC_PER_MSEC));
	text_add_unsigned(&text, directory_revision(s->directory));
	render_contexts(&text, s, q->now_usec);
	text_add_format(&text, ", \"drains\": {\"running\": %zu}", rollout_running(s->rollout));
	render_registrations(&text, s);
	render_config(&text, s);
	text_add_string(&text, ", \"store\": {\"error\": ");
	render_unclean(&text,
			s->above && s->above->store_error ? s->above->store_error(s->above_userdata)
							  : NULL);
	text_add_format(&text, "}, \"sources\": {\"total\": %zu, \"live\": %zu}, \"prober\": ",
			directory_source_count(s->directory), count_live_sources(s));
	render_prober(&text, s->directory);
	text_add_string(&text, "}\n");
	return respond_json(q, MHD_HTTP_OK, &text);
}

int api_healthz(struct request *q)
{
	struct text text = {};

	if (!request_no_query(q))
		return 0;
	text_add_string(&text, "alive\n");
	return respond_text(q, MHD_HTTP_OK, TEXT_TYPE, &text);
}

static bool is_ready(const struct server *s)
{
	const char *state = server_state(s);

	return strcmp(state, "ready") == 0 || strcmp(state, "reloading") == 0;
}

int api_readyz(struct request *q)
{
	struct server *s = q->server;
	struct text text = {};

	if (!request_no_query(q))
		return 0;
	if (is_ready(s)) {
		text_add_string(&text, "ready\n");
		return respond_text(q, MHD_HTTP_OK, TEXT_TYPE, &text);
	}
	text_add_format(&text, "%s: %zu of %zu services have no answer yet\n", server_state(s),
			count_contexts(s, q->now_usec).missing, directory_count(s->directory));
	return respond_text(q, MHD_HTTP_SERVICE_UNAVAILABLE, TEXT_TYPE, &text);
}

static void add_html(struct text *text, const char *string)
{
	for (; string && *string; string++) {
		if (*string == '<')
			text_add_string(text, "&lt;");
		else if (*string == '&')
			text_add_string(text, "&amp;");
		else
			text_add(text, string, 1);
	}
}

static void add_row(struct text *text, const struct context *context, uint64_t now_usec)
{
	const struct snapshot *s = context_snapshot(context);
	struct freshness freshness;

	context_freshness(context, now_usec, &freshness);
	text_add_string(text, "<tr><td>");
	add_html(text, context_service(context));
	text_add_format(text, "<td>%s<td>", source_state_to_string(freshness.state));
	if (freshness.age_usec != USEC_FOREVER)
		text_add_format(text, "%.1f s",
				(double) freshness.age_usec / (double) USEC_PER_SEC);
	text_add_format(text, "<td>%llu<td>%zu<td>%zu<td>%zu\n",
			(unsigned long long) (s ? s->revision : 0), s ? s->count : 0,
			s ? s->chosen_count : 0, s ? s->draining_count : 0);
}

#define PAGE_ROWS_MAX 1000

int api_page(struct request *q)
{
	struct server *s = q->server;
	const struct config *config = directory_config(s->directory);
	size_t count = directory_count(s->directory);
	struct text text = {};

	if (!request_no_query(q))
		return 0;
	text_add_string(&text,
			"<!DOCTYPE html>\n<html lang=en><meta charset=utf-8><title>usherd</title>\n"
			"<style>body{font:14px sans-serif;margin:2em}td,th{text-align:left;"
			"padding:.2em 1em .2em 0}</style>\n<h1>usherd ");
	add_html(&text, config ? config->node_name : NULL);
	text_add_format(&text,
			"</h1>\n<p>" USHER_VERSION
			", %s, revision %llu, %zu services, %zu drains running. "
			"<a href=/metrics>metrics</a></p>\n"
			"<table><tr><th>service<th>state<th>age<th>revision<th>endpoints<th>chosen<th>draining\n",
			server_state(s), (unsigned long long) directory_revision(s->directory),
			count, rollout_running(s->rollout));
	for (size_t i = 0; i < count && i < PAGE_ROWS_MAX; i++)
		add_row(&text, directory_at(s->directory, i), q->now_usec);
	text_add_string(&text, "</table>\n");
	return respond_text(q, MHD_HTTP_OK, HTML_TYPE, &text);
}
