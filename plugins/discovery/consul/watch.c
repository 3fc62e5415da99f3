#include "watch.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <strings.h>

#include "answer.h"
#include "own-json.h"
#include "query.h"
#include "retry.h"

#define USEC_PER_MSEC UINT64_C(1000)
#define USEC_PER_SEC  UINT64_C(1000000)
/* A server that has no leader yet holds a request for 7 s before it gives up. */
#define PLAIN_TIMEOUT_USEC  (10 * USEC_PER_SEC)
#define BLOCKING_SLACK_USEC (5 * USEC_PER_SEC)
#define WAIT_MIN_USEC       (100 * USEC_PER_MSEC)
/* However much changes, a service is asked for four times a second, and three times at once. */
#define BUDGET_EACH_USEC  (250 * USEC_PER_MSEC)
#define BUDGET_BURST_USEC (2 * BUDGET_EACH_USEC)

struct watch *watch_new(const struct usher_wanted *wanted)
{
	struct watch *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->service = strdup(wanted->service);
	w->name = strdup(wanted->name);
	w->port = wanted->port ? strdup(wanted->port) : NULL;
	if (!w->service || !w->name || (wanted->port && !w->port))
		return watch_free(w);
	return w;
}

struct watch *watch_free(struct watch *w)
{
	if (!w)
		return NULL;
	(void) usher_endpoints_unref(w->trusted);
	free(w->service);
	free(w->name);
	free(w->port);
	free(w);
	return NULL;
}

bool watch_is_for(const struct watch *w, const struct usher_wanted *wanted)
{
	if (strcmp(w->service, wanted->service) != 0 || strcmp(w->name, wanted->name) != 0)
		return false;
	return w->port && wanted->port ? strcmp(w->port, wanted->port) == 0
				       : w->port == wanted->port;
}

/* ---- asking ---- */

static const char *consistency_of(const struct watch *w, const struct consul *c)
{
	static const char *const words[] = {
		[CONSISTENCY_STALE] = "stale",
		[CONSISTENCY_DEFAULT] = NULL,
		[CONSISTENCY_CONSISTENT] = "consistent",
	};

	return w->asked == WATCH_PROOF || w->asked == WATCH_CANARY ? "consistent"
								   : words[c->consistency];
}

/* No longer than the doubt, and Consul adds a sixteenth: so that who is still missing then is told
 * of by us, and not by the time of the removal guard. */
static uint64_t wait_usec(const struct watch *w, const struct consul *c, uint64_t now)
{
	uint64_t left;

	if (w->doubted_until_usec == 0)
		return c->wait_usec;
	left = w->doubted_until_usec > now ? (w->doubted_until_usec - now) / 16 * 15 : 0;
	if (left < WAIT_MIN_USEC)
		return WAIT_MIN_USEC;
	return left < c->wait_usec ? left : c->wait_usec;
}

static void write_query(
		const struct watch *w, const struct consul *c, struct query *q, uint64_t now)
{
	const char *consistency = consistency_of(w, c);
	char number[32];

	query_start(q, "/v1/health/service/", w->asked == WATCH_CANARY ? c->canary : w->name);
	query_add_if(q, "dc", c->datacenter);
	if (w->asked != WATCH_CANARY) {
		query_add_if(q, "ns", c->namespace_name);
		query_add_if(q, "partition", c->partition);
		for (size_t i = 0; c->tags && c->tags[i]; i++)
			query_add(q, "tag", c->tags[i]);
	}
	if (consistency)
		query_add(q, consistency, NULL);
	if (w->asked == WATCH_BLOCKING) {
		(void) snprintf(number, sizeof(number), "%" PRIu64, w->index);
		query_add(q, "index", number);
		(void) snprintf(number, sizeof(number), "%" PRIu64 "ms",
				wait_usec(w, c, now) / USEC_PER_MSEC);
		query_add(q, "wait", number);
	}
}

static void spend(struct watch *w, uint64_t now)
{
	uint64_t from = w->budget_usec > now ? w->budget_usec : now;

	w->budget_usec = from + BUDGET_EACH_USEC;
}

int watch_ask(struct watch *w, const struct consul *c, struct usher_http *http, bool may_block,
		uint64_t now_usec)
{
	struct usher_http_request request = { .size = sizeof(request), .tag = w };
	struct query q;

	w->asked = w->next;
	if (w->asked == WATCH_BLOCKING && (!may_block || w->index == 0))
		w->asked = WATCH_PLAIN;
	write_query(w, c, &q, now_usec);
	if (q.full)
		return -E2BIG;
	request.path = q.text;
	request.timeout_usec = w->asked == WATCH_BLOCKING
			? c->wait_usec / 16 * 17 + BLOCKING_SLACK_USEC
			: PLAIN_TIMEOUT_USEC;
	spend(w, now_usec);
	return usher_http_start(http, &request, &w->request);
}

/* ---- judging ---- */

/* What the headers say. */
struct proof {
	uint64_t index; /* 0: none */
	uint64_t behind_usec;
	bool has_leader; /* the header is there at all */
	bool leader, filtered, streaming;
};

static bool is_true(const char *text)
{
	return text && strcasecmp(text, "true") == 0;
}

static uint64_t number_of(const char *text, uint64_t otherwise)
{
	unsigned long long value;
	char *end;

	if (!text || text[0] < '0' || text[0] > '9')
		return otherwise;
	errno = 0;
	value = strtoull(text, &end, 10);
	return errno == 0 && *end == '\0' ? value : otherwise;
}

static struct proof read_proof(struct usher_http *http, const struct usher_http_event *event)
{
	const char *leader = usher_http_header(http, event, "X-Consul-KnownLeader");
	struct proof p = { .has_leader = leader, .leader = is_true(leader) };
	const char *backend;
	uint64_t behind_msec;

	p.filtered = is_true(usher_http_header(http, event, "X-Consul-Results-Filtered-By-ACLs"));
	p.index = number_of(usher_http_header(http, event, "X-Consul-Index"), 0);
	behind_msec = number_of(usher_http_header(http, event, "X-Consul-LastContact"), UINT64_MAX);
	p.behind_usec = behind_msec > UINT64_MAX / USEC_PER_MSEC ? UINT64_MAX
								 : behind_msec * USEC_PER_MSEC;
	backend = usher_http_header(http, event, "X-Consul-Query-Backend");
	p.streaming = backend && strcmp(backend, "streaming") == 0;
	return p;
}

static bool is_proven(const struct watch *w, const struct consul *c, const struct proof *p)
{
	if (!p->leader)
		return false;
	if (w->asked == WATCH_PROOF || w->asked == WATCH_CANARY)
		return true;
	return !p->streaming && p->behind_usec <= c->max_stale_usec;
}

static void not_proven(const struct proof *p, struct usher_error *reterr)
{
	if (!p->has_leader)
		(void) usher_error_set(reterr, -EBADMSG,
				"the answer has no header X-Consul-KnownLeader, so nobody knows how "
				"old it is; is this an agent of Consul, and does a proxy drop headers?");
	else
		(void) usher_error_set(reterr, -EAGAIN,
				"the servers of Consul have no leader, so nobody knows how old the "
				"answer is");
}

static size_t count_ready(const struct usher_endpoints *set)
{
	size_t count = 0;

	for (size_t i = 0; i < usher_endpoints_count(set); i++) {
		struct usher_endpoint e = USHER_ENDPOINT_INIT;

		usher_endpoints_get(set, i, &e);
		count += e.ready;
	}
	return count;
}

/* Whether something is gone, or not ready any more. */
static bool is_less(const struct usher_endpoints *before, const struct usher_endpoints *now)
{
	for (size_t i = 0; i < usher_endpoints_count(before); i++) {
		struct usher_endpoint old = USHER_ENDPOINT_INIT, e = USHER_ENDPOINT_INIT;
		ssize_t at;

		usher_endpoints_get(before, i, &old);
		at = usher_endpoints_find(now, old.id);
		if (at < 0)
			return true;
		usher_endpoints_get(now, (size_t) at, &e);
		if (old.ready && !e.ready)
			return true;
	}
	return false;
}

static uint64_t end_of(uint64_t since_usec, const struct consul *c)
{
	return since_usec == 0 ? 0 : since_usec + c->hold_usec;
}

/* Whether it is less in a way that a restart also makes it. */
static bool is_doubted(struct watch *w, const struct consul *c, const struct usher_endpoints *set,
		uint64_t now)
{
	bool all_down = w->trusted && usher_endpoints_count(set) > 0 && count_ready(set) == 0 &&
			count_ready(w->trusted) > 0;
	uint64_t until;

	if (!all_down)
		w->all_down_usec = 0;
	else if (w->all_down_usec == 0)
		w->all_down_usec = now;
	until = end_of(w->disturbed_usec, c);
	if (end_of(w->all_down_usec, c) > until)
		until = end_of(w->all_down_usec, c);
	w->doubted_until_usec = w->trusted && until > now && is_less(w->trusted, set) ? until : 0;
	return w->doubted_until_usec != 0;
}

/* ---- what comes of it ---- */

static void not_before(struct watch *w, uint64_t usec)
{
	w->due_usec = usec;
	if (w->budget_usec > BUDGET_BURST_USEC && w->budget_usec - BUDGET_BURST_USEC > usec)
		w->due_usec = w->budget_usec - BUDGET_BURST_USEC;
}

/* After any failure the index is dropped: who answers next may have another history. */
static void fail(struct watch *w, struct usher_source *source, int code,
		const struct usher_error *why, uint64_t now, uint64_t *random)
{
	usher_source_fail(source, w->service, code, why);
	if (w->failures < UINT_MAX)
		w->failures++;
	w->index = 0;
	w->next = WATCH_PLAIN;
	w->empty_usec = 0;
	not_before(w, now + retry_delay_usec(random, w->failures));
}

static void ask_next(struct watch *w, enum watch_ask next, uint64_t now)
{
	w->next = next;
	not_before(w, now);
}

/* Wait for a change, or look again after a while where no connection can be spared for that. */
static void go_on(struct watch *w, const struct consul *c, const struct proof *p, uint64_t now)
{
	w->index = p->index;
	if (p->index > w->seen_index || w->asked == WATCH_PROOF)
		w->seen_index = p->index;
	w->failures = 0;
	w->empty_usec = 0;
	ask_next(w, WATCH_BLOCKING, p->index == 0 ? now + c->poll_usec : now);
}

static void offer(struct watch *w, struct usher_source *source, const struct answer *a,
		enum usher_verdict verdict, uint64_t index, uint64_t observed)
{
	char revision[32];

	(void) snprintf(revision, sizeof(revision), "%" PRIu64, index);
	if (verdict == USHER_FRESH) {
		(void) usher_endpoints_unref(w->trusted);
		w->trusted = usher_endpoints_ref(a->set);
	}
	(void) usher_source_offer(source, w->service, usher_endpoints_ref(a->set), verdict,
			index ? revision : NULL, observed);
}

static void tell_of_skipped(struct watch *w, const struct answer *a)
{
	if (a->skipped != w->skipped && a->skipped > 0)
		usher_log(USHER_LOG_WARNING, "%zu of %zu instances of %s cannot be used: %s",
				a->skipped, a->instances, w->name, a->first_skip.text);
	w->skipped = a->skipped;
}

static int parse(const struct watch *w, const struct consul *c,
		const struct usher_http_event *event, const struct usher_endpoints *trusted,
		struct answer *ret, struct usher_error *reterr)
{
	const struct answer_options options = {
		.tagged_address = c->tagged_address,
		.port = w->port,
		.trusted = trusted,
	};

	return answer_parse(event->data, event->data_size, &options, ret, reterr);
}

/* None at all that can be used, though there are some. */
static int none_usable(const struct watch *w, const struct answer *a, struct usher_error *reterr)
{
	return usher_error_set(reterr, a->first_skip.code,
			"none of the %zu instances of %s can be used: %s", a->instances, w->name,
			a->first_skip.text);
}

/* An answer as it is taken. */
struct taking {
	const struct consul *consul;
	struct usher_source *source;
	const struct usher_http_event *event;
	struct proof proof;
	uint64_t now_usec;
};

/* A set that is neither empty nor unproven. */
static int take_some(struct watch *w, const struct taking *t, struct answer *a,
		struct usher_error *reterr)
{
	cleanup(answer_done) struct answer less = { 0 };
	uint64_t observed = t->event->started_usec -
			(t->proof.behind_usec < t->event->started_usec ? t->proof.behind_usec : 0);
	int r;

	if (!is_doubted(w, t->consul, a->set, t->now_usec)) {
		offer(w, t->source, a, USHER_FRESH, t->proof.index, observed);
	} else if (w->asked != WATCH_PROOF) {
		ask_next(w, WATCH_PROOF, t->now_usec);
		return 0;
	} else {
		r = parse(w, t->consul, t->event, w->trusted, &less, reterr);
		if (r < 0)
			return r;
		offer(w, t->source, &less, USHER_SUSPECT, t->proof.index, observed);
	}
	go_on(w, t->consul, &t->proof, t->now_usec);
	return 0;
}

/* Empty: believed of a majority, and of a registry that shows what is always there. */
static int take_none(struct watch *w, const struct taking *t, struct answer *a,
		struct usher_error *reterr)
{
	if (w->asked != WATCH_PROOF) {
		ask_next(w, WATCH_PROOF, t->now_usec);
		return 0;
	}
	w->empty_usec = t->event->started_usec;
	w->index = t->proof.index;
	if (t->consul->canary[0]) {
		ask_next(w, WATCH_CANARY, t->now_usec);
		return 0;
	}
	return take_some(w, t, a, reterr);
}

static int take_canary(struct watch *w, const struct taking *t, struct answer *a,
		struct usher_error *reterr)
{
	const struct proof p = { .index = w->index };
	cleanup(answer_done) struct answer none = { .set = usher_endpoints_new() };
	bool doubted;

	if (a->instances == 0)
		return usher_error_set(reterr, -EACCES,
				"%s seems to be empty, but the service %s is not to be seen either: the "
				"token must have service:read and node:read, for both services (or set "
				"`canary` to a service that is always there)",
				w->name, t->consul->canary);
	if (!none.set)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	doubted = is_doubted(w, t->consul, none.set, t->now_usec);
	offer(w, t->source, &none, doubted ? USHER_SUSPECT : USHER_FRESH, p.index, w->empty_usec);
	w->asked = WATCH_PROOF; /* whose index it is */
	go_on(w, t->consul, &p, t->now_usec);
	return 0;
}

static int take_answer(struct watch *w, const struct consul *c, struct usher_http *http,
		struct usher_source *source, const struct usher_http_event *event, uint64_t now,
		struct usher_error *reterr)
{
	struct taking t = { c, source, event, read_proof(http, event), now };
	cleanup(answer_done) struct answer a = { 0 };
	int r;

	if (t.proof.filtered)
		return usher_error_set(reterr, -EACCES,
				"%s: what the token may not see was left out of the answer; it must "
				"have service:read and node:read",
				event->server);
	if (!is_proven(w, c, &t.proof) && w->asked != WATCH_PROOF && t.proof.has_leader) {
		ask_next(w, WATCH_PROOF, now);
		return 0;
	}
	if (!is_proven(w, c, &t.proof)) {
		not_proven(&t.proof, reterr);
		return reterr->code;
	}
	r = parse(w, c, event, NULL, &a, reterr);
	if (r < 0)
		return r;
	if (w->asked == WATCH_CANARY)
		return take_canary(w, &t, &a, reterr);
	tell_of_skipped(w, &a);
	if (a.instances > 0 && usher_endpoints_count(a.set) == 0)
		return none_usable(w, &a, reterr);
	if (t.proof.index < w->seen_index) {
		/* One who is behind, unless a majority says so: then it is another history. */
		if (w->asked != WATCH_PROOF) {
			ask_next(w, WATCH_PROOF, now);
			return 0;
		}
		w->disturbed_usec = now;
	}
	if (w->asked == WATCH_PROOF)
		t.proof.behind_usec = 0;
	return a.instances == 0 ? take_none(w, &t, &a, reterr) : take_some(w, &t, &a, reterr);
}

void watch_take(struct watch *w, const struct consul *c, struct usher_http *http,
		struct usher_source *source, const struct usher_http_event *event,
		uint64_t now_usec, uint64_t *random)
{
	struct usher_error why = event->why;
	int r = event->error;

	w->request = 0;
	if (r == 0)
		r = usher_http_status_error(event, &why);
	if (event->error != 0 || event->status >= 500) {
		w->disturbed_usec = now_usec;
		if (event->error == 0)
			usher_http_leave(http, event->server);
	}
	if (r == 0)
		r = take_answer(w, c, http, source, event, now_usec, &why);
	if (r < 0)
		fail(w, source, r, &why, now_usec, random);
}
