/* The configured sources, and what they are told. */

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "directory-private.h"
#include "log.h"
#include "ownership.h"

struct origin *origin_free(struct origin *o)
{
	if (!o)
		return NULL;
	assert(!o->source);
	(void) plugin_instance_unref(o->instance);
	free(o);
	return NULL;
}

struct origin *directory_find_origin(const struct directory *d, const char *name)
{
	for (size_t i = 0; i < d->origin_count; i++)
		if (strcmp(d->origins[i]->config->name, name) == 0)
			return d->origins[i];
	return NULL;
}

/* ---- what sources say ---- */

static struct feed_state *addressed_feed(struct directory *d, const struct source *source,
		const char *service, struct context **ret_context)
{
	size_t i;

	if (!directory_search(d, service, &i))
		return NULL;
	*ret_context = d->contexts[i];
	return context_feed_of(d->contexts[i], source);
}

static void on_offered(void *userdata, struct source *source, const char *service,
		struct observation *observation)
{
	struct context *c;
	struct feed_state *f = addressed_feed(userdata, source, service, &c);

	if (f)
		feed_offered(c, f, observation, clock_boot_usec());
	else
		(void) observation_unref(observation);
}

static void on_confirmed(
		void *userdata, struct source *source, const char *service, uint64_t observed_usec)
{
	struct context *c;
	struct feed_state *f = addressed_feed(userdata, source, service, &c);

	if (f)
		feed_confirmed(c, f, observed_usec, clock_boot_usec());
}

static void on_failed(void *userdata, struct source *source, const char *service, int code,
		const char *reason)
{
	struct context *c;
	struct feed_state *f = addressed_feed(userdata, source, service, &c);

	if (f)
		feed_failed(c, f, code, reason, clock_boot_usec());
}

static void on_drain(void *userdata, struct source *source, const struct source_drain *drain)
{
	directory_tell_drain(userdata, source, drain);
}

static const struct source_events source_events = {
	.offered = on_offered,
	.confirmed = on_confirmed,
	.failed = on_failed,
	.drain = on_drain,
};

/* ---- what is known of a source ---- */

static void count_services(
		const struct directory *d, const struct source *source, struct source_view *ret)
{
	for (size_t i = 0; i < d->count; i++) {
		const struct context *c = d->contexts[i];

		for (size_t k = 0; k < c->feed_count; k++)
			if (c->feeds[k].feed.source == source)
				ret->services[c->feeds[k].feed.state]++;
	}
}

void directory_view_source(
		const struct directory *d, const struct source *source, struct source_view *ret)
{
	*ret = (struct source_view){};
	source_get_status(source, &ret->status);
	count_services(d, source, ret);
	if (ret->status.state == SOURCE_LIVE && ret->services[SOURCE_LIVE] == 0 &&
			ret->services[SOURCE_STALE] > 0)
		ret->status.state = SOURCE_STALE;
}

/* ---- start and stop ---- */

void origin_start(struct directory *d, struct origin *o, uint64_t now_usec)
{
	int r;

	r = source_start(o->config->name, o->instance, d->inbox, &source_events, d, &o->source);
	if (r < 0) {
		log_error(FIELDS(.value[LOG_SOURCE] = o->config->name),
				"Cannot start source %s: %s; trying again every second",
				o->config->name, usher_error_text(NULL, r));
		o->source = NULL;
		directory_wake_at(d, now_usec + CONTEXT_RETRY_USEC);
		return;
	}
	o->wants_changed = true;
}

void directory_let_go(struct directory *d, struct source *source, uint64_t now_usec)
{
	struct leaving_source *leaving;

	if (!source)
		return;
	source_ask_to_stop(source);
	leaving = reallocarray(d->leaving, d->leaving_count + 1, sizeof(*leaving));
	if (!leaving) {
		(void) source_stop(source, now_usec + SOURCE_STOP_USEC);
		return;
	}
	d->leaving = leaving;
	d->leaving[d->leaving_count++] = (struct leaving_source){ .source = source,
		.until_usec = now_usec + SOURCE_STOP_USEC };
	directory_wake_at(d, now_usec + SOURCE_STOP_USEC);
}

void directory_stop_sources(struct directory *d)
{
	uint64_t until_usec = clock_boot_usec() + SOURCE_STOP_USEC;

	for (size_t i = 0; i < d->origin_count; i++)
		if (d->origins[i]->source)
			source_ask_to_stop(d->origins[i]->source);
	for (size_t i = 0; i < d->origin_count; i++)
		d->origins[i]->source = source_stop(d->origins[i]->source, until_usec);
	for (size_t i = 0; i < d->leaving_count; i++)
		(void) source_stop(d->leaving[i].source, until_usec);
	free(d->leaving);
	d->leaving = NULL;
	d->leaving_count = 0;
}

/* ---- what is wanted ---- */

void context_connect(struct context *c)
{
	for (size_t i = 0; i < c->feed_count; i++) {
		struct feed_state *f = &c->feeds[i];

		f->origin = directory_find_origin(c->directory, f->feed.config->source);
		assert(f->origin);
		f->feed.source = f->origin->source;
	}
}

void context_wants_changed(struct context *c)
{
	for (size_t i = 0; i < c->feed_count; i++)
		c->feeds[i].origin->wants_changed = true;
	directory_at_end_of_turn(c->directory);
}

static size_t collect_wanted(
		const struct directory *d, const struct origin *o, struct usher_wanted *wanted)
{
	size_t count = 0;

	for (size_t i = 0; i < d->count; i++) {
		struct context *c = d->contexts[i];

		for (size_t k = 0; k < c->feed_count; k++) {
			const struct feed_config *config = c->feeds[k].feed.config;

			if (c->feeds[k].origin != o)
				continue;
			wanted[count++] = (struct usher_wanted){ .service = c->service,
				.name = config->name ? config->name : c->service,
				.port = config->port };
		}
	}
	return count;
}

void directory_tell_wants(struct directory *d)
{
	autofree struct usher_wanted *wanted = NULL;

	for (size_t i = 0; i < d->origin_count; i++) {
		struct origin *o = d->origins[i];
		int r = -ENOMEM;

		if (!o->wants_changed || !o->source)
			continue;
		/* A service names each source once, so this is room enough for each of them. */
		if (!wanted)
			wanted = calloc(d->count + 1, sizeof(*wanted));
		if (wanted)
			r = source_want(o->source, wanted, collect_wanted(d, o, wanted));
		o->wants_changed = r < 0;
		if (r >= 0)
			continue;
		log_error(FIELDS(.value[LOG_SOURCE] = o->config->name),
				"Cannot tell source %s what is wanted: %s; trying again",
				o->config->name, usher_error_text(NULL, r));
		directory_wake_at(d, clock_boot_usec() + CONTEXT_RETRY_USEC);
	}
}

/* ---- the clock ---- */

static void start_again(struct directory *d, struct origin *o, uint64_t now_usec)
{
	origin_start(d, o, now_usec);
	if (!o->source)
		return;
	for (size_t i = 0; i < d->count; i++)
		context_connect(d->contexts[i]);
}

static void stop_leaving(struct directory *d, uint64_t now_usec)
{
	size_t kept = 0;

	for (size_t i = 0; i < d->leaving_count; i++) {
		if (d->leaving[i].until_usec <= now_usec)
			(void) source_stop(d->leaving[i].source, now_usec);
		else
			d->leaving[kept++] = d->leaving[i];
	}
	d->leaving_count = kept;
}

void origins_on_deadline(struct directory *d, uint64_t now_usec)
{
	stop_leaving(d, now_usec);
	for (size_t i = 0; i < d->origin_count; i++) {
		struct origin *o = d->origins[i];

		if (o->report.due_usec != 0 && o->report.due_usec <= now_usec)
			report_write(o);
		if (!o->source)
			start_again(d, o, now_usec);
	}
	directory_tell_wants(d);
}

uint64_t origins_deadline(const struct directory *d)
{
	uint64_t next = USEC_FOREVER;

	for (size_t i = 0; i < d->origin_count; i++) {
		const struct origin *o = d->origins[i];

		if (o->report.due_usec != 0 && o->report.due_usec < next)
			next = o->report.due_usec;
	}
	for (size_t i = 0; i < d->leaving_count; i++)
		if (d->leaving[i].until_usec < next)
			next = d->leaving[i].until_usec;
	return next;
}
