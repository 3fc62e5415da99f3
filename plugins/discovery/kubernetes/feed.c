#include "feed.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "answers.h"
#include "own.h"
#include "retry.h"

#define PAGE_SLICES        500
#define PATH_MAX_BYTES     32768
#define LIST_TIMEOUT_USEC  UINT64_C(30000000)
#define PROOF_TIMEOUT_USEC UINT64_C(5000000)
#define WATCH_LEAST_S      300
#define WATCH_SPREAD_S     300
#define WATCH_GRACE_USEC   UINT64_C(30000000)
#define WATCH_SHORT_USEC   UINT64_C(1000000) /* shorter than this it was of no use */
#define EVENT_MAX_BYTES    ((size_t) 16 << 20)
#define LAG_USEC           UINT64_C(1000000) /* of a watch behind its server, at most */
#define SERVER_ERRORS_MAX  3
#define RETRY_AFTER_MAX_S  60

struct feed *feed_new(const char *space)
{
	struct feed *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->stream.max_bytes = EVENT_MAX_BYTES;
	f->needs_list = true;
	if (space && !(f->space = strdup(space))) {
		free(f);
		return NULL;
	}
	return f;
}

static void cancel(struct watcher *w, uint64_t *id)
{
	if (*id && w->http)
		usher_http_cancel(w->http, *id);
	*id = 0;
}

static void stop_watch(struct watcher *w, struct feed *f)
{
	cancel(w, &f->watch_id);
	json_stream_reset(&f->stream);
	f->has_begun = false;
	f->ahead = f->ahead_since_usec = f->ahead_due_usec = 0;
}

static void stop_list(struct watcher *w, struct feed *f)
{
	cancel(w, &f->page_id);
	shelf_clear(&f->incoming);
	f->next[0] = '\0';
}

static void stop_all(struct watcher *w, struct feed *f)
{
	stop_watch(w, f);
	stop_list(w, f);
	cancel(w, &f->proof_id);
}

struct feed *feed_free(struct watcher *w, struct feed *f)
{
	if (!f)
		return NULL;
	stop_all(w, f);
	shelf_clear(&f->shelf);
	json_stream_done(&f->stream);
	free(f->space);
	free(f->selector);
	free(f);
	return NULL;
}

bool feed_is_current(const struct feed *f)
{
	return f->is_listed && !f->needs_list;
}

static void list_again(struct watcher *w, struct feed *f)
{
	stop_all(w, f);
	f->needs_list = true;
}

void feed_select(struct watcher *w, struct feed *f, char *selector)
{
	free(f->selector);
	f->selector = selector;
	list_again(w, f);
	f->retry_usec = 0;
}

void feed_reconnect(struct watcher *w, struct feed *f)
{
	f->page_id = f->watch_id = f->proof_id = 0; /* gone with the connection */
	list_again(w, f);
	f->retry_usec = 0;
	f->failures = 0;
}

/* ---- asking ---- */

static bool append(char *path, const char *text)
{
	size_t length = strlen(path);

	return (size_t) snprintf(path + length, PATH_MAX_BYTES - length, "%s", text) <
			PATH_MAX_BYTES - length;
}

/* NAME=VALUE, escaped. */
static bool append_query(char *path, const char *name, const char *value)
{
	return append(path, strchr(path, '?') ? "&" : "?") && append(path, name) &&
			append(path, "=") && usher_http_escape(path, PATH_MAX_BYTES, value);
}

static bool write_path(const struct feed *f, char *path)
{
	path[0] = '\0';
	if (!append(path, "/apis/discovery.k8s.io/v1/"))
		return false;
	if (f->space &&
			!(append(path, "namespaces/") &&
					usher_http_escape(path, PATH_MAX_BYTES, f->space) &&
					append(path, "/")))
		return false;
	return append(path, "endpointslices");
}

static void fail(struct watcher *w, struct feed *f, int code, const struct usher_error *why)
{
	f->is_failing = true;
	answers_fail(w, f, code, why);
}

static void begin(struct watcher *w, struct feed *f, struct usher_http_request *request,
		bool has_path, uint64_t *ret_id)
{
	struct usher_error why = { 0 };
	int r = has_path ? 0 : -E2BIG;

	request->size = sizeof(*request);
	request->tag = f;
	if (r == 0)
		r = usher_http_start(w->http, request, ret_id);
	if (r == 0)
		return;
	(void) usher_error_set(&why, r, "the request cannot be made: %s", strerrordesc_np(-r));
	f->retry_usec = f->proof_usec =
			retry_now_usec() + retry_delay_usec(&w->random, ++f->failures);
	fail(w, f, r, &why);
}

static void ask_page(struct watcher *w, struct feed *f)
{
	char path[PATH_MAX_BYTES], limit[16];
	struct usher_http_request request = { .path = path, .timeout_usec = LIST_TIMEOUT_USEC };
	bool fits = write_path(f, path);

	(void) snprintf(limit, sizeof(limit), "%d", PAGE_SLICES);
	if (fits && !f->is_unpaged)
		fits = append_query(path, "limit", limit);
	if (fits && f->selector)
		fits = append_query(path, "labelSelector", f->selector);
	if (fits && f->next[0])
		fits = append_query(path, "continue", f->next);
	begin(w, f, &request, fits, &f->page_id);
}

static void open_watch(struct watcher *w, struct feed *f, uint64_t now_usec)
{
	uint64_t seconds = WATCH_LEAST_S + retry_random(&w->random) % WATCH_SPREAD_S;
	char path[PATH_MAX_BYTES], timeout[24];
	struct usher_http_request request = { .path = path,
		.flags = USHER_HTTP_STREAM,
		.timeout_usec = seconds * 1000000 + WATCH_GRACE_USEC };
	bool fits = write_path(f, path);

	(void) snprintf(timeout, sizeof(timeout), "%u", (unsigned) seconds);
	fits = fits && append_query(path, "watch", "1") &&
			append_query(path, "allowWatchBookmarks", "true") &&
			append_query(path, "resourceVersion", f->version.text) &&
			append_query(path, "timeoutSeconds", timeout);
	if (fits && f->selector)
		fits = append_query(path, "labelSelector", f->selector);
	f->watch_usec = now_usec;
	begin(w, f, &request, fits, &f->watch_id);
}

static void ask_proof(struct watcher *w, struct feed *f)
{
	char path[PATH_MAX_BYTES];
	struct usher_http_request request = { .path = path, .timeout_usec = PROOF_TIMEOUT_USEC };
	bool fits = write_path(f, path) && append_query(path, "limit", "1");

	f->proof_floor = f->version.number;
	begin(w, f, &request, fits, &f->proof_id);
}

static void confirm(struct watcher *w, struct feed *f, uint64_t observed_usec)
{
	bool is_news = f->is_failing || f->is_suspect;

	f->is_failing = f->is_suspect = false;
	f->ahead = f->ahead_since_usec = f->ahead_due_usec = 0;
	if (observed_usec > f->proven_usec)
		f->proven_usec = observed_usec;
	answers_confirm(w, f, observed_usec);
	if (is_news)
		answers_mark(w, f, NULL, NULL);
}

/* What a proof knew of was no slice of ours, as far as a watch can tell that is open and has had
 * its time. */
static void judge_silence(struct watcher *w, struct feed *f, uint64_t now_usec)
{
	uint64_t asked = f->ahead_asked_usec, since = f->ahead_since_usec, ahead = f->ahead;

	if (f->ahead_due_usec == 0 || now_usec < f->ahead_due_usec)
		return;
	f->ahead_due_usec = 0;
	if (!f->has_begun)
		return;
	if (now_usec - since >= w->options->silence_usec) {
		usher_log(USHER_LOG_DEBUG,
				"The watch of %s says nothing, and should have come to "
				"version %" PRIu64 "; opening it anew",
				f->space ? f->space : "all namespaces", ahead);
		stop_watch(w, f);
		return;
	}
	confirm(w, f, asked);
	f->ahead = ahead;
	f->ahead_since_usec = since;
	f->ahead_asked_usec = asked;
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
	if (a == 0 || b == 0)
		return a ? a : b;
	return a < b ? a : b;
}

static void start_due(struct watcher *w, struct feed *f, uint64_t now_usec)
{
	bool may_retry = now_usec >= f->retry_usec;

	if (f->needs_list) {
		if (!f->page_id && may_retry)
			ask_page(w, f);
		return;
	}
	judge_silence(w, f, now_usec);
	if (!f->watch_id && !f->needs_proof && may_retry)
		open_watch(w, f, now_usec);
	if (f->proof_id)
		return;
	if (f->needs_proof ? may_retry : now_usec >= f->proof_usec)
		ask_proof(w, f);
}

uint64_t feed_start(struct watcher *w, struct feed *f, uint64_t now_usec)
{
	uint64_t due = f->ahead_due_usec;

	start_due(w, f, now_usec);
	if (f->needs_list)
		return f->page_id ? 0 : f->retry_usec;
	if (!f->watch_id)
		due = sooner(due, f->retry_usec > now_usec ? f->retry_usec : 0);
	if (!f->proof_id && !f->needs_proof)
		due = sooner(due, f->proof_usec);
	return due;
}

/* ---- what went wrong ---- */

static uint64_t asked_to_wait(struct watcher *w, const struct usher_http_event *event)
{
	const char *text = usher_http_header(w->http, event, "Retry-After");
	unsigned long seconds = text ? strtoul(text, NULL, 10) : 0;

	return (seconds > RETRY_AFTER_MAX_S ? RETRY_AFTER_MAX_S : seconds) * UINT64_C(1000000);
}

static void put_off(struct watcher *w, struct feed *f, uint64_t at_least_usec)
{
	f->retry_usec = retry_now_usec() + at_least_usec +
			retry_delay_usec(&w->random, ++f->failures);
}

/* An answer that brings nothing: told, but for "too many", which says nothing about the data. */
static void fail_event(struct watcher *w, struct feed *f, const struct usher_http_event *event)
{
	struct usher_error why = event->why;
	int r = event->error ? event->error : usher_http_status_error(event, &why);

	if (r == -ETIMEDOUT)
		usher_http_change_server(w->http);
	put_off(w, f, event->error ? 0 : asked_to_wait(w, event));
	if (event->status != 429 || !f->is_listed)
		fail(w, f, r, &why);
}

/* The version that the watch is to go on from is no more. */
static void resync(struct watcher *w, struct feed *f)
{
	list_again(w, f);
	f->retry_usec = f->resyncs++ == 0
			? 0
			: retry_now_usec() + retry_delay_usec(&w->random, f->resyncs - 1);
}

/* ---- the list ---- */

static void change_history(struct feed *f, const struct version *now)
{
	usher_log(USHER_LOG_WARNING,
			"The version of the EndpointSlices of %s went from %s back to %s, as it does when "
			"the cluster's store is restored; listing them again, and doubting what is gone",
			f->space ? f->space : "all namespaces", f->version.text, now->text);
	f->is_suspect = true;
}

static void put_in_force(struct watcher *w, struct feed *f, const struct version *version)
{
	if (f->is_listed && version->number < f->version.number && !f->is_suspect)
		change_history(f, version);
	shelf_clear(&f->shelf);
	f->shelf = f->incoming;
	f->incoming = (struct shelf){ 0 };
	f->version = *version;
	f->proven_usec = f->asked_usec;
	f->proof_usec = retry_now_usec() + w->options->prove_usec;
	f->retry_usec = 0;
	f->failures = f->server_errors = 0;
	f->is_listed = true;
	f->needs_list = f->needs_proof = f->is_unpaged = f->is_failing = false;
	w->known_has_changed = true;
	answers_mark(w, f, NULL, NULL);
}

static int take_page(struct feed *f, struct reading_page *page, struct usher_error *reterr)
{
	for (size_t i = 0; i < page->count; i++) {
		int r = shelf_add(&f->incoming, page->slices[i]);

		if (r < 0)
			return usher_error_set(reterr, r,
					r == -E2BIG ? "there are more than 200000 EndpointSlices"
						    : "out of memory");
		page->slices[i] = NULL;
	}
	return 0;
}

static void fail_list(struct watcher *w, struct feed *f, int code, const struct usher_error *why)
{
	stop_list(w, f);
	put_off(w, f, 0);
	fail(w, f, code, why);
}

static void on_page(struct watcher *w, struct feed *f, const struct usher_http_event *event)
{
	cleanup(reading_page_done) struct reading_page page = { 0 };
	struct usher_error why = { 0 };
	int r;

	f->page_id = 0;
	if (event->error == 0 && event->status == 410 && f->next[0]) {
		stop_list(w, f); /* the pages took longer than the store keeps their version */
		f->is_unpaged = true;
		put_off(w, f, 0);
		return;
	}
	if (event->error || event->status != 200) {
		stop_list(w, f);
		fail_event(w, f, event);
		return;
	}
	if (!f->next[0])
		f->asked_usec = event->started_usec;
	r = reading_page(event->data, event->data_size, &page, &why);
	if (r == 0)
		r = take_page(f, &page, &why);
	if (r < 0) {
		fail_list(w, f, r, &why);
		return;
	}
	memcpy(f->next, page.next, sizeof(f->next));
	if (f->next[0])
		ask_page(w, f);
	else
		put_in_force(w, f, &page.version);
}

/* ---- the proof ---- */

static void fail_proof(struct watcher *w, struct feed *f, const struct usher_http_event *event)
{
	fail_event(w, f, event);
	f->proof_usec = f->retry_usec;
	if (event->error == 0)
		return; /* it answers: the watch may well go on */
	stop_watch(w, f);
	f->needs_proof = true;
}

/* One at a time: what a proof waits for is not put off by the next. */
static void wait_for_watch(struct feed *f, uint64_t version, uint64_t asked_usec, uint64_t now_usec)
{
	if (f->ahead_due_usec)
		return;
	f->ahead = version;
	f->ahead_asked_usec = asked_usec;
	f->ahead_due_usec = now_usec + LAG_USEC;
	if (f->ahead_since_usec == 0)
		f->ahead_since_usec = now_usec;
}

static void on_proof(struct watcher *w, struct feed *f, const struct usher_http_event *event)
{
	cleanup(reading_page_done) struct reading_page page = { 0 };
	struct usher_error why = { 0 };
	uint64_t now = retry_now_usec();
	int r;

	f->proof_id = 0;
	if (event->error || event->status != 200) {
		fail_proof(w, f, event);
		return;
	}
	f->proof_usec = now + w->options->prove_usec;
	r = reading_page(event->data, event->data_size, &page, &why);
	if (r < 0) {
		put_off(w, f, 0);
		fail(w, f, r, &why);
		return;
	}
	f->failures = 0;
	f->needs_proof = false;
	if (page.version.number < f->proof_floor) {
		change_history(f, &page.version);
		list_again(w, f);
	} else if (page.version.number <= f->version.number) {
		confirm(w, f, event->started_usec);
	} else {
		wait_for_watch(f, page.version.number, event->started_usec, now);
	}
}

/* ---- the watch ---- */

static void mark_service(struct watcher *w, struct feed *f, const struct slice *s)
{
	if (s && s->service)
		answers_mark(w, f, s->space, s->service);
}

static int put_slice(struct watcher *w, struct feed *f, struct slice *slice)
{
	struct slice *old = NULL;
	int r = shelf_put(&f->shelf, slice, &old);

	if (r < 0) {
		(void) slice_free(slice);
		return r;
	}
	mark_service(w, f, slice);
	mark_service(w, f, old);
	w->known_has_changed |= !old;
	(void) slice_free(old);
	return 0;
}

static void remove_slice(struct watcher *w, struct feed *f, struct slice *like)
{
	struct slice *old = shelf_take(&f->shelf, like);

	mark_service(w, f, old);
	w->known_has_changed |= old != NULL;
	(void) slice_free(old);
	(void) slice_free(like);
}

/* What the server says in place of an event. Returns whether the watch goes on. */
static void on_error(struct watcher *w, struct feed *f, const struct reading_event *event)
{
	struct usher_error why = { 0 };

	if (event->status == 410) {
		resync(w, f);
		return;
	}
	(void) usher_error_set(
			&why, -EIO, "the watch ended with %d: %s", event->status, event->message);
	if (++f->server_errors > SERVER_ERRORS_MAX)
		list_again(w, f);
	else
		stop_watch(w, f);
	put_off(w, f, 0);
	fail(w, f, -EIO, &why);
}

static void advance(struct watcher *w, struct feed *f, const struct version *version)
{
	f->server_errors = f->resyncs = 0;
	if (!version->text[0] || version->number < f->version.number)
		return;
	f->version = *version;
	if (f->ahead)
		f->ahead_since_usec = retry_now_usec(); /* it is no silent one */
	if (f->ahead && version->number >= f->ahead)
		confirm(w, f, f->ahead_asked_usec);
}

static int apply(struct watcher *w, struct feed *f, struct reading_event *event)
{
	int r = 0;

	switch (event->kind) {
	case READING_PUT:
		r = put_slice(w, f, event->slice);
		break;
	case READING_REMOVE:
		remove_slice(w, f, event->slice);
		break;
	case READING_BOOKMARK:
		break;
	case READING_ERROR:
		on_error(w, f, event);
		return 0;
	}
	if (r == 0)
		advance(w, f, &event->version);
	return r;
}

static int read_events(struct watcher *w, struct feed *f, const struct usher_http_event *event,
		struct usher_error *reterr)
{
	int r = json_stream_add(&f->stream, event->data, event->data_size);

	/* An error event ends the watch. */
	while (r >= 0 && f->watch_id) {
		struct reading_event read = { 0 };
		const char *text = NULL;
		size_t size = 0;

		r = json_stream_next(&f->stream, &text, &size);
		if (r == 0)
			return 0;
		if (r > 0)
			r = reading_event(text, size, &read, reterr);
		if (r == 0)
			r = apply(w, f, &read);
	}
	if (r < 0 && !reterr->text[0])
		(void) usher_error_set(
				reterr, r, "the watch cannot be followed: %s", strerrordesc_np(-r));
	return r;
}

static void on_watch_data(struct watcher *w, struct feed *f, const struct usher_http_event *event)
{
	struct usher_error why = { 0 };
	int r = read_events(w, f, event, &why);

	if (r >= 0)
		return;
	list_again(w, f);
	put_off(w, f, 0);
	fail(w, f, r, &why);
}

static void on_watch_begin(struct watcher *w, struct feed *f, const struct usher_http_event *event)
{
	if (event->status == 200) {
		f->has_begun = true;
		if (f->ahead)
			f->ahead_due_usec = retry_now_usec() + LAG_USEC;
		return;
	}
	if (event->status == 410) {
		resync(w, f);
		return;
	}
	fail_event(w, f, event);
	stop_watch(w, f);
	if (event->status == 404 || event->status == 400)
		list_again(w, f);
}

/* A watch ends by design after a while, and the next one goes on where it was. */
static void on_watch_end(struct watcher *w, struct feed *f, const struct usher_http_event *event)
{
	uint64_t now = retry_now_usec();
	bool is_short = now - f->watch_usec < WATCH_SHORT_USEC;

	f->watch_id = 0;
	if (event->error || json_stream_is_amid(&f->stream)) {
		f->needs_proof = true;
		put_off(w, f, 0);
	} else if (is_short) {
		put_off(w, f, 0);
	} else {
		f->retry_usec = 0;
	}
	stop_watch(w, f);
}

void feed_on_event(struct watcher *w, struct feed *f, const struct usher_http_event *event)
{
	if (event->id == f->page_id) {
		on_page(w, f, event);
	} else if (event->id == f->proof_id) {
		on_proof(w, f, event);
	} else if (event->id == f->watch_id) {
		if (event->kind == USHER_HTTP_BEGIN)
			on_watch_begin(w, f, event);
		else if (event->kind == USHER_HTTP_DATA)
			on_watch_data(w, f, event);
		else
			on_watch_end(w, f, event);
	}
}
