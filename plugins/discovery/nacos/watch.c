#include "watch.h"

#include <errno.h>
#include <limits.h>

#include "answer.h"
#include "own-json.h"
#include "retry.h"

#define USEC_PER_SEC      UINT64_C(1000000)
#define TIMEOUT_USEC      (30 * USEC_PER_SEC)
#define IDLE_USEC         (5 * USEC_PER_SEC)
#define BUDGET_EACH_USEC  (USEC_PER_SEC / 4)
#define BUDGET_BURST_USEC (2 * BUDGET_EACH_USEC)
#define POLL_USEC         (10 * USEC_PER_SEC) /* where nobody says how often */
#define POLL_MIN_USEC     USEC_PER_SEC
#define POLL_MAX_USEC     (300 * USEC_PER_SEC)
/* What is doubted is looked at so often, for whoever is missing comes back soon. */
#define DOUBT_POLL_USEC (2 * USEC_PER_SEC)

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
	(void) usher_endpoints_unref(w->last);
	(void) usher_endpoints_unref(w->trusted);
	free(w->service);
	free(w->name);
	free(w->port);
	free(w->server);
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

static char *join(const char *const *words)
{
	size_t size = 1;
	char *text, *end;

	for (size_t i = 0; words[i]; i++)
		size += strlen(words[i]) + 1;
	text = calloc(1, size);
	end = text;
	for (size_t i = 0; text && words[i]; i++)
		end = stpcpy(stpcpy(end, i ? "," : ""), words[i]);
	return text;
}

int watch_ask(struct watch *w, struct access *a, const struct push *push)
{
	struct usher_http_request request = {
		.timeout_usec = TIMEOUT_USEC,
		.idle_usec = IDLE_USEC,
		.tag = w,
	};
	cleanup(form_done) struct form path = { 0 };
	autofree char *clusters = NULL;

	w->asked_api = a->api;
	w->asked_serial = a->serial;
	access_path(a, &path, "instance/list", "client/ns/instance/list");
	access_add_service(a, &path, w->name);
	if (a->nacos->clusters) {
		clusters = join(a->nacos->clusters);
		if (!clusters)
			return -ENOMEM;
	}
	if (a->api == NACOS_API_1)
		form_add(&path, "clusters", clusters);
	else /* None at all would be the cluster DEFAULT; a comma alone is each. */
		form_add(&path, "clusterName", clusters ? clusters : ",");
	form_add(&path, "healthyOnly", "false");
	if (a->api == NACOS_API_1 && push->fd >= 0) {
		char port[16];

		(void) snprintf(port, sizeof(port), "%u", (unsigned) push->port);
		form_add(&path, "clientIP", push->address);
		form_add(&path, "udpPort", port);
	}
	return access_start(a, &request, &path, NULL, &w->request);
}

/* Three at once, then four a second, however many packets come. */
void watch_hint(struct watch *w, uint64_t now_usec)
{
	uint64_t from = w->budget_usec > now_usec ? w->budget_usec : now_usec;
	uint64_t due_usec =
			from > now_usec + BUDGET_BURST_USEC ? from - BUDGET_BURST_USEC : now_usec;

	if (w->request != 0) {
		w->pushed = true;
		return;
	}
	if (w->failures > 0 || w->due_usec <= due_usec)
		return;
	w->due_usec = due_usec;
	w->budget_usec = from + BUDGET_EACH_USEC;
}

bool watch_is_named(const struct watch *w, const struct nacos *n, const char *name)
{
	size_t group = strlen(n->group);

	if (strcmp(w->name, name) == 0)
		return true;
	return strncmp(name, n->group, group) == 0 && strncmp(name + group, "@@", 2) == 0 &&
			strcmp(name + group + 2, w->name) == 0;
}

/* ---- judging ---- */

static size_t count_ready(const struct usher_endpoints *set)
{
	size_t count = 0;

	for (size_t i = 0; i < usher_endpoints_count(set); i++) {
		struct usher_endpoint e = USHER_ENDPOINT_INIT;

		usher_endpoints_get(set, i, &e);
		count += e.ready && e.weight > 0 && e.admin_state == USHER_ADMIN_READY;
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

static uint64_t later(uint64_t since_usec, uint64_t hold_usec, uint64_t than_usec)
{
	uint64_t end = since_usec == 0 ? 0 : since_usec + hold_usec;

	return end > than_usec ? end : than_usec;
}

/* Until when it is doubted: it is less in a way that a restart also makes it. 0: it is not. */
static uint64_t doubted_until(struct watch *w, const struct nacos *n,
		const struct usher_endpoints *set, uint64_t now)
{
	uint64_t until;

	if (!w->trusted || count_ready(w->trusted) == 0 || count_ready(set) > 0)
		w->none_usec = 0;
	else if (w->none_usec == 0)
		w->none_usec = now;
	until = later(w->none_usec, n->hold_usec, later(w->disturbed_usec, n->hold_usec, 0));
	return w->trusted && until > now && is_less(w->trusted, set) ? until : 0;
}

/* ---- what comes of it ---- */

void watch_fail(struct watch *w, struct usher_source *source, int code,
		const struct usher_error *why, uint64_t now_usec, uint64_t *random)
{
	usher_source_fail(source, w->service, code, why);
	if (w->failures < UINT_MAX)
		w->failures++;
	w->due_usec = now_usec + retry_delay_usec(random, w->failures);
}

/* Four fifths to the whole of the interval, so that a thousand daemons do not ask at once. */
static uint64_t spread(uint64_t interval_usec, uint64_t *random)
{
	return interval_usec - retry_random(random) % (interval_usec / 5);
}

static uint64_t interval_usec(const struct nacos *n, const struct answer *a)
{
	uint64_t usec = a->cache_usec ? a->cache_usec : POLL_USEC;

	if (n->poll_usec)
		return n->poll_usec;
	if (usec < POLL_MIN_USEC)
		return POLL_MIN_USEC;
	return usec < POLL_MAX_USEC ? usec : POLL_MAX_USEC;
}

static void keep(struct usher_endpoints **kept, struct usher_endpoints *set)
{
	(void) usher_endpoints_unref(*kept);
	*kept = usher_endpoints_ref(set);
}

static void offer(struct watch *w, struct usher_source *source, const struct answer *a,
		enum usher_verdict verdict, const struct usher_http_event *event)
{
	usher_endpoints_seal(a->set);
	if (verdict == USHER_FRESH)
		keep(&w->trusted, a->set);
	keep(&w->last, a->set);
	(void) usher_source_offer(source, w->service, usher_endpoints_ref(a->set), verdict, NULL,
			event->started_usec);
}

static void tell_of_skipped(struct watch *w, const struct answer *a)
{
	if (a->skipped != w->skipped && a->skipped > 0)
		usher_log(USHER_LOG_WARNING, "%zu of %zu instances of %s cannot be used: %s",
				a->skipped, a->instances, w->name, a->first_skip.text);
	w->skipped = a->skipped;
}

static int parse(const struct watch *w, const struct nacos *n, const struct usher_http_event *event,
		const struct usher_endpoints *trusted, struct answer *ret,
		struct usher_error *reterr)
{
	const struct answer_options options = {
		.port = w->port,
		.cluster_is_zone = n->cluster_is_zone,
		.before = w->last,
		.trusted = trusted,
	};

	return answer_parse(event->data, event->data_size, &options, ret, reterr);
}

/* Another server may be behind the one before. */
static int note_server(struct watch *w, const struct usher_http_event *event, uint64_t now)
{
	char *copy;

	if (w->server && strcmp(w->server, event->server) == 0)
		return 0;
	copy = strdup(event->server);
	if (!copy)
		return -ENOMEM;
	if (w->server)
		w->disturbed_usec = now;
	free(w->server);
	w->server = copy;
	return 0;
}

/* Less than before, and perhaps by mistake: looked at by another server where there is one, then
 * told as what it is. */
static int take_doubted(struct watch *w, struct access *a, struct usher_source *source,
		const struct usher_http_event *event, uint64_t now, uint64_t until,
		struct usher_error *reterr)
{
	cleanup(answer_done) struct answer less = { 0 };
	uint64_t next = now + DOUBT_POLL_USEC;
	int r;

	if (!w->asked_again) {
		w->asked_again = true;
		usher_http_leave(a->http, event->server);
		w->due_usec = now;
		return 0;
	}
	r = parse(w, a->nacos, event, w->trusted, &less, reterr);
	if (r < 0)
		return r;
	offer(w, source, &less, USHER_SUSPECT, event);
	w->due_usec = until < next ? until : next;
	return 0;
}

static int take_answer(struct watch *w, struct access *a, struct usher_source *source,
		const struct usher_http_event *event, uint64_t now, uint64_t *random,
		struct usher_error *reterr)
{
	cleanup(answer_done) struct answer answer = { 0 };
	uint64_t until;
	int r = parse(w, a->nacos, event, NULL, &answer, reterr);

	if (r < 0)
		return r;
	tell_of_skipped(w, &answer);
	if (answer.instances > 0 && usher_endpoints_count(answer.set) == 0)
		return usher_error_set(reterr, answer.first_skip.code,
				"none of the %zu instances of %s can be used: %s", answer.instances,
				w->name, answer.first_skip.text);
	if (note_server(w, event, now) < 0)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	w->failures = 0;
	w->lacks_api = false;
	usher_endpoints_seal(answer.set);
	until = doubted_until(w, a->nacos, answer.set, now);
	if (until != 0)
		return take_doubted(w, a, source, event, now, until, reterr);
	w->asked_again = false;
	offer(w, source, &answer, USHER_FRESH, event);
	w->due_usec = now + spread(interval_usec(a->nacos, &answer), random);
	return 0;
}

static int no_api(const struct usher_http_event *event, const struct access *a,
		struct usher_error *reterr)
{
	return usher_error_set(reterr, -EPROTO,
			"%s has none of the paths %s/v1/ns and %s/v3/client/ns: is this a server of "
			"Nacos, and is `context_path` right?",
			event->server, a->nacos->context_path, a->nacos->context_path);
}

/* What is set right by asking again: 1. 0: it is an answer. */
static int take_status(struct watch *w, struct access *a, const struct usher_http_event *event,
		uint64_t now, struct usher_error *reterr)
{
	bool denied = event->error == 0 && (event->status == 401 || event->status == 403);

	if (access_is_no_path(event)) {
		bool again = !w->lacks_api && access_lacks_api(a, w->asked_api);

		w->lacks_api = again;
		w->due_usec = now;
		if (again)
			return 1;
		usher_http_leave(a->http, event->server);
		return no_api(event, a, reterr);
	}
	if (denied && access_was_denied(a, w->asked_serial, now)) {
		w->due_usec = now;
		return 1;
	}
	if (event->error != 0 || event->status >= 500) {
		w->disturbed_usec = now;
		if (event->error == 0)
			usher_http_leave(a->http, event->server);
	}
	if (event->error != 0) {
		*reterr = event->why;
		return event->error;
	}
	return usher_http_status_error(event, reterr);
}

void watch_take(struct watch *w, struct access *a, struct usher_source *source,
		const struct usher_http_event *event, uint64_t now_usec, uint64_t *random)
{
	struct usher_error why = { 0 };
	int r;

	w->request = 0;
	r = take_status(w, a, event, now_usec, &why);
	if (r == 0)
		r = take_answer(w, a, source, event, now_usec, random, &why);
	if (r < 0)
		watch_fail(w, source, r, &why, now_usec, random);
	if (w->pushed)
		watch_hint(w, now_usec);
	w->pushed = false;
}
