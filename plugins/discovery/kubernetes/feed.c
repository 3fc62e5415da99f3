#include "feed.h"

#include <errno.h>
#include <string.h>

#include "feed-private.h"
#include "own.h"
#include "path.h"
#include "reading.h"
#include "retry.h"

#define EVENT_MAX_BYTES   ((size_t) 16 << 20)
#define RETRY_AFTER_MAX_S 60

struct feed *feed_new(const struct kind *kind, const char *space)
{
	struct feed *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->kind = f->shelf.kind = f->incoming.kind = kind;
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

void feed_stop_watch(struct watcher *w, struct feed *f)
{
	cancel(w, &f->watch_id);
	json_stream_reset(&f->stream);
	f->has_begun = false;
	f->ahead = f->ahead_since_usec = f->ahead_due_usec = 0;
}

void feed_stop_list(struct watcher *w, struct feed *f)
{
	cancel(w, &f->page_id);
	shelf_clear(&f->incoming);
	f->next[0] = '\0';
}

static void stop_all(struct watcher *w, struct feed *f)
{
	feed_stop_watch(w, f);
	feed_stop_list(w, f);
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

void feed_list_again(struct watcher *w, struct feed *f)
{
	stop_all(w, f);
	f->needs_list = true;
}

void feed_select(struct watcher *w, struct feed *f, char *selector)
{
	free(f->selector);
	f->selector = selector;
	feed_list_again(w, f);
	f->retry_usec = 0;
}

void feed_reconnect(struct watcher *w, struct feed *f)
{
	f->page_id = f->watch_id = f->proof_id = 0; /* gone with the connection */
	feed_list_again(w, f);
	f->retry_usec = 0;
	f->failures = 0;
}

/* ---- asking ---- */

static bool append(char *path, const char *text)
{
	return path_append(path, FEED_PATH_MAX, text);
}

/* NAME=VALUE, escaped. */
bool feed_append_query(char *path, const char *name, const char *value)
{
	return append(path, strchr(path, '?') ? "&" : "?") && append(path, name) &&
			append(path, "=") && usher_http_escape(path, FEED_PATH_MAX, value);
}

bool feed_write_path(const struct feed *f, char *path)
{
	path[0] = '\0';
	if (!append(path, f->kind->api))
		return false;
	if (f->space &&
			!(append(path, "namespaces/") &&
					usher_http_escape(path, FEED_PATH_MAX, f->space) &&
					append(path, "/")))
		return false;
	return append(path, f->kind->resource);
}

bool feed_append_selector(const struct feed *f, char *path)
{
	return !f->selector || feed_append_query(path, f->kind->selector, f->selector);
}

const char *feed_title(const struct feed *f, char *ret)
{
	(void) snprintf(ret, FEED_TITLE_MAX, "the %s of %s", f->kind->name,
			f->space ? f->space : "all namespaces");
	return ret;
}

void feed_fail(struct watcher *w, struct feed *f, int code, const struct usher_error *why)
{
	f->is_failing = true;
	f->kind->failed(w, f, code, why);
}

void feed_begin(struct watcher *w, struct feed *f, struct usher_http_request *request,
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
	feed_fail(w, f, r, &why);
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
			feed_ask_page(w, f);
		return;
	}
	feed_judge_silence(w, f, now_usec);
	f->is_polled = false;
	if (!f->watch_id && !f->needs_proof && may_retry) {
		f->is_polled = !feed_may_watch(w);
		if (!f->is_polled)
			feed_open_watch(w, f, now_usec);
	}
	if (f->proof_id)
		return;
	if (f->needs_proof ? !may_retry : now_usec < f->proof_usec)
		return;
	if (f->is_polled)
		feed_list_again(w, f);
	else
		feed_ask_proof(w, f);
	if (f->needs_list)
		feed_ask_page(w, f);
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

void feed_put_off(struct watcher *w, struct feed *f, uint64_t at_least_usec)
{
	f->retry_usec = retry_now_usec() + at_least_usec +
			retry_delay_usec(&w->random, ++f->failures);
}

/* What it takes, behind what the server says. */
static void name_rights(const struct feed *f, struct usher_error *why)
{
	size_t length = strlen(why->text);

	(void) snprintf(why->text + length, sizeof(why->text) - length,
			"; allow list and watch of %s in %s", f->kind->resource,
			f->space ? f->space : "all namespaces");
}

/* An answer that brings nothing: told, but for "too many", which says nothing about the data. */
void feed_fail_event(struct watcher *w, struct feed *f, const struct usher_http_event *event)
{
	struct usher_error why = event->why;
	int r = event->error ? event->error : reading_failure(event, &why);

	if (event->status >= 500)
		usher_http_leave(w->http, event->server);
	if (event->status == 403)
		name_rights(f, &why);
	feed_put_off(w, f, event->error ? 0 : asked_to_wait(w, event));
	if (event->status != 429 || !f->is_listed)
		feed_fail(w, f, r, &why);
}

void feed_on_event(struct watcher *w, struct feed *f, const struct usher_http_event *event)
{
	if (event->id == f->page_id)
		feed_on_page(w, f, event);
	else if (event->id == f->proof_id)
		feed_on_proof(w, f, event);
	else if (event->id == f->watch_id)
		feed_on_watch(w, f, event);
}
