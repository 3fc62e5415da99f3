#include "report.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "directory-private.h"
#include "log.h"

static const struct report_words {
	int priority;
	const char *begin, *middle, *end; /* for many: begin N services middle SOURCE [why] end */
} words[REPORT_KINDS] = {
	[REPORT_FAILING] = { LOG_WARNING, "Cannot read the endpoints of", "from",
			"; keeping those they have" },
	[REPORT_RECOVERED] = { LOG_INFO, "Can read again the endpoints of", "from", "" },
	[REPORT_HELD] = { LOG_ERR, "Holding back the removal of most endpoints of", "in", "" },
	[REPORT_RELEASED] = { LOG_INFO, "The hold is over, removing the endpoints of", "that left",
			"" },
	[REPORT_RETURNED] = { LOG_INFO, "No removal is held back any more for", "in", "" },
	[REPORT_STALE] = { LOG_WARNING, "Older than their max_age are the endpoints of", "from",
			"" },
	[REPORT_FRESH] = { LOG_INFO, "Current again are the endpoints of", "from", "" },
};

/* The first gives its details; all are counted. */
__attribute__((format(printf, 6, 7))) static void gather(struct origin *o, enum report_kind kind,
		const struct context *c, const char *why, uint64_t now_usec, const char *format,
		...)
{
	struct report_part *part = &o->report.parts[kind];
	va_list args;

	if (part->count++ > 0)
		return;
	(void) snprintf(part->service, sizeof(part->service), "%s", c->service);
	(void) snprintf(part->why, sizeof(part->why), "%s", why ? why : "");
	va_start(args, format);
	(void) vsnprintf(part->detail, sizeof(part->detail), format, args);
	va_end(args);
	if (o->report.due_usec == 0)
		o->report.due_usec = now_usec + REPORT_DELAY_USEC;
	directory_wake_at(c->directory, o->report.due_usec);
}

#define AGE_TEXT_MAX 48

static const char *age_text(uint64_t age_usec, char *ret)
{
	if (age_usec == USEC_FOREVER)
		(void) snprintf(ret, AGE_TEXT_MAX, "of unknown age");
	else
		(void) snprintf(ret, AGE_TEXT_MAX, "%" PRIu64 " s old", age_usec / USEC_PER_SEC);
	return ret;
}

void report_failing(struct origin *o, const struct context *c, const struct feed *feed,
		uint64_t now_usec)
{
	const char *why = feed->error ? feed->error : "out of memory";
	char age[AGE_TEXT_MAX];

	if (!feed->observation)
		gather(o, REPORT_FAILING, c, why, now_usec,
				"Cannot read the endpoints of %s from %s: %s; it has none yet",
				c->service, o->config->name, why);
	else
		gather(o, REPORT_FAILING, c, why, now_usec,
				"Cannot read the endpoints of %s from %s: %s; keeping the %zu it has, %s",
				c->service, o->config->name, why,
				usher_endpoints_count(feed->observation->endpoints),
				age_text(feed_age(feed, now_usec), age));
}

void report_recovered(
		struct origin *o, const struct context *c, uint64_t after_usec, uint64_t now_usec)
{
	gather(o, REPORT_RECOVERED, c, NULL, now_usec,
			"Can read the endpoints of %s from %s again, after %" PRIu64 " s",
			c->service, o->config->name, after_usec / USEC_PER_SEC);
}

void report_held(struct origin *o, const struct context *c, const struct feed *feed,
		uint64_t now_usec)
{
	char hold[USHER_DURATION_TEXT_MAX];

	gather(o, REPORT_HELD, c, NULL, now_usec,
			"%s suddenly lacks %zu of the %zu endpoints of %s%s; keeping them for %s, unless "
			"they return (removal_guard)",
			o->config->name, feed->held_removed, feed->held_of, c->service,
			feed->held->verdict == USHER_SUSPECT ? " and doubts it itself" : "",
			usher_duration_format(c->config->guard_hold_usec, hold));
}

void report_released(struct origin *o, const struct context *c, const struct feed *feed,
		uint64_t now_usec)
{
	gather(o, REPORT_RELEASED, c, NULL, now_usec,
			"%s still lacks %zu of the %zu endpoints of %s after %" PRIu64
			" s; removing them",
			o->config->name, feed->held_removed, feed->held_of, c->service,
			(now_usec - feed->held_since_usec) / USEC_PER_SEC);
}

void report_returned(struct origin *o, const struct context *c, size_t count, uint64_t now_usec)
{
	gather(o, REPORT_RETURNED, c, NULL, now_usec,
			"%s shows %zu endpoints of %s again; no removal is held back any more",
			o->config->name, count, c->service);
}

void report_stale(struct origin *o, const struct context *c, const struct freshness *freshness,
		uint64_t now_usec)
{
	char max_age[USHER_DURATION_TEXT_MAX], age[AGE_TEXT_MAX];

	gather(o, REPORT_STALE, c, NULL, now_usec,
			"The endpoints of %s from %s are %s, and max_age is %s; %s", c->service,
			o->config->name, age_text(freshness->age_usec, age),
			usher_duration_format(freshness->max_age_usec, max_age),
			c->config->on_stale == STALE_FAIL ? "refusing picks (on_stale: fail)"
							  : "serving them, marked as stale");
}

void report_fresh(struct origin *o, const struct context *c, const struct freshness *freshness,
		uint64_t now_usec)
{
	char age[AGE_TEXT_MAX];

	gather(o, REPORT_FRESH, c, NULL, now_usec,
			"The endpoints of %s from %s are current again, %s", c->service,
			o->config->name, age_text(freshness->age_usec, age));
}

static void write_part(const struct origin *o, enum report_kind kind)
{
	const struct report_part *part = &o->report.parts[kind];
	const struct report_words *w = &words[kind];

	if (part->count == 1) {
		log_write(w->priority,
				FIELDS(.value[LOG_SERVICE] = part->service,
						.value[LOG_SOURCE] = o->config->name),
				"%s", part->detail);
		return;
	}
	log_write(w->priority, FIELDS(.value[LOG_SOURCE] = o->config->name),
			"%s %u services (%s and others) %s %s%s%s%s", w->begin, part->count,
			part->service, w->middle, o->config->name, part->why[0] ? ": " : "",
			part->why, w->end);
}

void report_write(struct origin *o)
{
	for (int kind = 0; kind < REPORT_KINDS; kind++)
		if (o->report.parts[kind].count > 0)
			write_part(o, (enum report_kind) kind);
	for (int kind = 0; kind < REPORT_KINDS; kind++)
		o->report.parts[kind].count = 0;
	o->report.due_usec = 0;
}
