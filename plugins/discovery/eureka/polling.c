#include "polling.h"

#include <errno.h>
#include <string.h>

#include "names.h"
#include "own-json.h"
#include "reader.h"
#include "retry.h"
#include "schedule.h"
#include "services.h"

#define USEC_PER_SEC UINT64_C(1000000)
/* For the whole list, and without a byte. */
#define ANSWER_TIMEOUT_USEC (120 * USEC_PER_SEC)
#define IDLE_TIMEOUT_USEC   (10 * USEC_PER_SEC)
/* Between two looks: the list of all, 70 MB for 100,000 instances, may be unpacked faster than it
 * is read. */
#define UNREAD_MAX_BYTES USHER_HTTP_HELD_MAX
/* For people and completion. */
#define NAMES_USEC (30 * USEC_PER_SEC)

enum ask {
	ASK_ALL,
	ASK_CHANGES,
};

struct poll {
	const struct eureka *eureka;
	struct usher_source *source;
	struct usher_http *http;
	struct services services;
	struct registry registry;
	struct schedule schedule;

	enum ask asked;
	uint64_t request; /* under way; 0: none */
	struct reader reader;

	size_t malformed; /* that were told of in the log */

	char *server;           /* whose list of all it is; NULL: there is none yet */
	bool has_failed;        /* since the last answer */
	uint64_t answered_usec; /* when it was asked for what it answered last */
	uint64_t listed_usec;   /* the same, for the list of all; 0: it has been told of */
	uint64_t young_until_usec, names_due_usec;
	bool no_changes;  /* the server does not say what has changed */
	bool was_overdue; /* that leases are over was told of in the log */
	bool other_hash;  /* that the hash is another one was told of in the log */
};

/* ---- asking ---- */

static int ask(struct poll *p, uint64_t now)
{
	struct usher_http_request request = { .size = sizeof(request),
		.flags = USHER_HTTP_STREAM,
		.timeout_usec = ANSWER_TIMEOUT_USEC,
		.idle_usec = IDLE_TIMEOUT_USEC,
		.max_bytes = UNREAD_MAX_BYTES };

	p->asked = !p->server || schedule_all_is_due(&p->schedule, p->answered_usec, now)
			? ASK_ALL
			: ASK_CHANGES;
	if (p->no_changes)
		p->asked = ASK_ALL;
	request.path = p->asked == ASK_ALL ? "/apps/" : "/apps/delta";
	reader_done(&p->reader);
	reader_init(&p->reader);
	return usher_http_start(p->http, &request, &p->request);
}

/* ---- what is wrong ---- */

static void remember(char **at, const char *text)
{
	char *copy = text ? strdup(text) : NULL;

	free(*at);
	*at = copy;
}

static void fail(struct poll *p, const struct usher_http_event *event, int code,
		const struct usher_error *why)
{
	usher_source_fail(p->source, NULL, code, why);
	if (event)
		usher_http_leave(p->http, event->server);
	p->has_failed = true;
	schedule_failed(&p->schedule, retry_now_usec());
}

static bool has_credentials(const struct eureka *e)
{
	return e->http.user || e->http.token || e->http.token_file || e->http.certificate;
}

/* A status that is no success, with what Eureka means by it. */
static int status_error(const struct poll *p, const struct usher_http_event *event,
		struct usher_error *reterr)
{
	struct usher_error why = { 0 };
	int r = usher_http_status_error(event, &why);

	if (r == 0)
		return 0;
	if (event->status == 404)
		return usher_error_set(reterr, r,
				"%s; does the URL end as the server's own: with /eureka (Spring Cloud) "
				"or /eureka/v2 (Netflix)?",
				why.text);
	if (event->status == 403 && !has_credentials(p->eureka))
		return usher_error_set(reterr, -EAGAIN,
				"%s; it has been started a moment ago and waits for its peers (for up to "
				"5 minutes), or it wants to know who asks: give `user` and "
				"`password_file`",
				why.text);
	if (event->status == 403)
		return usher_error_set(reterr, r,
				"%s; the user may not read, or the server has been started a moment ago "
				"and waits for its peers (for up to 5 minutes)",
				why.text);
	if (event->status == 401 && !has_credentials(p->eureka))
		return usher_error_set(reterr, r, "%s; give `user` and `password_file`", why.text);
	return usher_error_set(reterr, r, "%s", why.text);
}

/* ---- what an answer says ---- */

static struct services_news news(const struct poll *p, uint64_t asked_usec, const char *revision)
{
	return (struct services_news){
		.eureka = p->eureka,
		.registry = &p->registry,
		.source = p->source,
		.server = p->server,
		.revision = revision,
		/* The answer may have lain in the server's cache for so long. */
		.observed_usec = asked_usec > p->eureka->cache_usec
				? asked_usec - p->eureka->cache_usec
				: 1,
		.young = retry_now_usec() < p->young_until_usec,
	};
}

static void tell_of_overdue(struct poll *p)
{
	bool overdue = p->registry.overdue > 0;

	if (overdue && !p->was_overdue)
		usher_log(USHER_LOG_WARNING,
				"%s keeps %zu of %zu instances whose leases are over long since: it "
				"preserves itself, and does not take out who is gone; they are marked "
				"%slease=overdue, and only health checks can tell",
				p->server, p->registry.overdue, p->registry.count,
				INSTANCE_LABEL_PREFIX);
	else if (!overdue && p->was_overdue)
		usher_log(USHER_LOG_INFO, "%s lists no instance any more whose lease is over",
				p->server);
	p->was_overdue = overdue;
}

static void tell(struct poll *p, uint64_t asked_usec, const char *revision)
{
	struct services_news n = news(p, asked_usec, revision);
	uint64_t now = retry_now_usec();

	services_tell(&p->services, &n);
	if (p->names_due_usec <= now) {
		names_tell(&p->registry, p->source);
		p->names_due_usec = now + NAMES_USEC;
	}
	registry_settle(&p->registry);
	tell_of_overdue(p);
	p->answered_usec = asked_usec;
	p->listed_usec = 0;
}

/* A server that has known nobody for longer than a moment may have been started just now. */
static void judge_age(struct poll *p, uint64_t now)
{
	uint64_t span = registry_span_usec(&p->registry);

	if (span < p->eureka->settle_usec)
		p->young_until_usec = now + p->eureka->settle_usec - span;
}

static int take_all(struct poll *p, const struct usher_http_event *event, uint64_t now)
{
	bool first = !p->server || strcmp(p->server, event->server) != 0 || p->has_failed;
	struct instance **items = take(p->reader.items);
	int r;

	/* Since when somebody is missing who was listed in the answer before. */
	r = registry_replace(&p->registry, items, p->reader.count,
			p->answered_usec > p->eureka->cache_usec
					? p->answered_usec - p->eureka->cache_usec
					: 1,
			now);
	if (r < 0)
		return r;
	if (!p->server || strcmp(p->server, event->server) != 0) {
		p->no_changes = false;
		remember(&p->server, event->server);
		if (!p->server)
			return -ENOMEM;
	}
	if (first || p->registry.missing > 0)
		judge_age(p, now);
	p->listed_usec = event->started_usec;
	schedule_listed(&p->schedule, now);
	return 0;
}

/* The server counts other instances than we do. The list of all may put that right; where it has
 * just been read it does not, for a server counts a moment earlier or later than it lists. */
static void tell_of_hash(struct poll *p, const char *ours)
{
	if (!p->other_hash)
		usher_log(USHER_LOG_INFO,
				"%s counts \"%s\" where its list has \"%s\"; asking for all again, less "
				"and less often (%u times in a row so far)",
				p->server, p->reader.hash, ours, p->schedule.mismatches);
	p->other_hash = true;
}

static int take_changes(struct poll *p, const struct usher_http_event *event, uint64_t now)
{
	char ours[REGISTRY_HASH_MAX];
	bool same;
	int r = registry_apply(&p->registry, take(p->reader.items), p->reader.count);

	if (r < 0)
		return r;
	r = registry_drop_missing(&p->registry,
			now > p->eureka->settle_usec ? now - p->eureka->settle_usec : 0);
	if (r < 0)
		return r;
	registry_hash(&p->registry, ours);
	same = p->reader.has_hash && strcmp(p->reader.hash, ours) == 0;
	if (same) {
		p->other_hash = false;
		schedule_same(&p->schedule, now);
	} else if (schedule_differs(&p->schedule, p->listed_usec != 0, now)) {
		return 0; /* nothing is told before the list of all */
	} else {
		tell_of_hash(p, ours);
	}
	tell(p, p->listed_usec ? p->listed_usec : event->started_usec, p->reader.hash);
	return 0;
}

static int take_list(struct poll *p, const struct usher_http_event *event, uint64_t now)
{
	int r = take_all(p, event, now);

	if (r < 0)
		return r;
	if (!p->no_changes) {
		schedule_at_once(&p->schedule, now); /* for what has changed since */
		return 0;
	}
	r = registry_drop_missing(&p->registry,
			now > p->eureka->settle_usec ? now - p->eureka->settle_usec : 0);
	if (r < 0)
		return r;
	schedule_same(&p->schedule, now);
	tell(p, event->started_usec, p->reader.hash);
	return 0;
}

/* Of the list of all: an answer about changes lists another lot each time. */
static void tell_of_malformed(struct poll *p)
{
	size_t count = p->reader.malformed;

	if (p->asked != ASK_ALL)
		return;
	if (count != p->malformed && count > 0)
		usher_log(USHER_LOG_WARNING,
				"%zu instances in the registry have no app or id, or more than %zu "
				"bytes; leaving them out",
				count, READER_VALUE_MAX);
	p->malformed = count;
}

/* An answer that was read whole. */
static int take_answer(
		struct poll *p, const struct usher_http_event *event, struct usher_error *reterr)
{
	uint64_t now = retry_now_usec();
	int r = reader_finish(&p->reader, reterr);

	if (r < 0)
		return r;
	tell_of_malformed(p);
	if (p->asked == ASK_ALL) {
		r = take_list(p, event, now);
	} else if (strcmp(p->server, event->server) != 0) {
		/* What has changed at one server says nothing about the list of another. */
		remember(&p->server, NULL);
		schedule_at_once(&p->schedule, now);
	} else {
		r = take_changes(p, event, now);
	}
	if (r < 0)
		return usher_error_set(reterr, r, "out of memory");
	p->has_failed = false;
	return 0;
}

/* Netflix's servers can be told not to say what has changed. */
static void take_no_changes(struct poll *p)
{
	usher_log(USHER_LOG_INFO,
			"%s does not say what has changed (/apps/delta is refused); asking for all "
			"each time",
			p->server);
	p->no_changes = true;
	schedule_at_once(&p->schedule, retry_now_usec());
}

/* ---- events ---- */

static bool tells_no_changes(const struct poll *p, const struct usher_http_event *event)
{
	return p->asked == ASK_CHANGES && p->server && strcmp(p->server, event->server) == 0 &&
			(event->status == 403 || event->status == 404);
}

/* The answer is over, or is not worth its end. */
static void finish(struct poll *p, const struct usher_http_event *event, int r,
		const struct usher_error *why)
{
	p->request = 0;
	if (r == 0 || event->error != 0 || !tells_no_changes(p, event)) {
		if (r < 0)
			fail(p, event, r, why);
		return;
	}
	take_no_changes(p);
}

/* Who says what cannot be read may go on with it for ever. */
static void on_data(struct poll *p, const struct usher_http_event *event)
{
	uint64_t request = p->request;
	struct usher_error why = { 0 };
	int r = status_error(p, event, &why);

	if (r == 0)
		r = reader_feed(&p->reader, event->data, event->data_size, &why);
	if (r == 0)
		return;
	finish(p, event, r, &why);
	usher_http_cancel(p->http, request);
}

static void on_end(struct poll *p, const struct usher_http_event *event)
{
	struct usher_error why = event->why;
	int r = event->error;

	if (r == 0)
		r = status_error(p, event, &why);
	p->request = 0;
	if (r == 0)
		r = take_answer(p, event, &why);
	finish(p, event, r, &why);
}

static void take_events(struct poll *p)
{
	struct usher_http_event event = USHER_HTTP_EVENT_INIT;

	while (usher_http_next(p->http, &event)) {
		switch (event.kind) {
		case USHER_HTTP_BEGIN:
			break;
		case USHER_HTTP_DATA:
			on_data(p, &event);
			break;
		case USHER_HTTP_END:
			on_end(p, &event);
			break;
		}
	}
}

/* ---- the loop ---- */

static int take_wanted(struct poll *p)
{
	struct services_news n = news(p, p->answered_usec, NULL);
	int r = services_take(&p->services, p->source);

	if (r == 0 && p->answered_usec != 0 && p->server && p->listed_usec == 0 && !p->has_failed)
		services_tell_new(&p->services, &n);
	return r;
}

/* Until the order to stop: 0, or what stands in the way of going on. */
static int poll_all(struct poll *p)
{
	struct usher_wait wait = { .size = sizeof(wait) };

	for (;;) {
		uint64_t now = retry_now_usec(), due = p->schedule.due_usec;
		int r = take_wanted(p);

		if (r == 0 && p->request == 0 && due <= now)
			r = ask(p, now);
		if (r < 0)
			return r;
		wait.timeout_usec = p->request != 0 ? 0 : due > now ? due - now : 1;
		r = usher_source_wait(p->source, &wait);
		if (r <= 0)
			return r;
		take_events(p);
	}
}

static void poll_done(struct poll *p)
{
	(void) usher_http_free(p->http);
	reader_done(&p->reader);
	services_done(&p->services);
	registry_done(&p->registry);
	free(p->server);
}

int polling_run(const struct eureka *eureka, struct usher_source *source)
{
	struct poll p = { .eureka = eureka, .source = source };
	struct usher_error why = { 0 };
	int r = eureka_open(p.eureka, source, &p.http, &why);

	if (r < 0) {
		usher_source_fail(source, NULL, r, &why);
		return r;
	}
	schedule_init(&p.schedule, p.eureka->interval_usec, p.eureka->resync_usec, retry_seed());
	registry_init(&p.registry, (enum instance_by) p.eureka->by);
	r = poll_all(&p);
	poll_done(&p);
	return r;
}
