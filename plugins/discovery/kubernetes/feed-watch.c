/* A feed's watch: from the list's version on, until it ends by design, breaks off, or is too old.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <usher/plugin.h>

#include "feed-private.h"
#include "own.h"
#include "reading.h"
#include "retry.h"

#define WATCH_LEAST_S     300
#define WATCH_SPREAD_S    300
#define WATCH_GRACE_USEC  UINT64_C(30000000)
#define WATCH_SHORT_USEC  UINT64_C(1000000) /* shorter than this it was of no use */
#define SERVER_ERRORS_MAX 3

/* Lists and proofs would wait for as long as watches last, were all connections taken by these. */
bool feed_may_watch(const struct watcher *w)
{
	int64_t most = w->access->http.connections * 3 / 4, open = w->pods && w->pods->watch_id;

	for (size_t i = 0; i < w->feed_count; i++)
		open += w->feeds[i]->watch_id != 0;
	return open < most;
}

void feed_open_watch(struct watcher *w, struct feed *f, uint64_t now_usec)
{
	uint64_t seconds = WATCH_LEAST_S + retry_random(&w->random) % WATCH_SPREAD_S;
	char path[FEED_PATH_MAX], timeout[24];
	struct usher_http_request request = { .path = path,
		.flags = USHER_HTTP_STREAM,
		.timeout_usec = seconds * 1000000 + WATCH_GRACE_USEC };
	bool fits = feed_write_path(f, path);

	(void) snprintf(timeout, sizeof(timeout), "%u", (unsigned) seconds);
	fits = fits && feed_append_query(path, "watch", "1") &&
			feed_append_query(path, "allowWatchBookmarks", "true") &&
			feed_append_query(path, "resourceVersion", f->version.text) &&
			feed_append_query(path, "timeoutSeconds", timeout);
	fits = fits && feed_append_selector(f, path);
	f->watch_usec = now_usec;
	feed_begin(w, f, &request, fits, &f->watch_id);
}

/* The version that the watch is to go on from is no more. */
static void resync(struct watcher *w, struct feed *f)
{
	char title[FEED_TITLE_MAX];

	usher_log(USHER_LOG_DEBUG, "Version %s of %s is too old to go on from; listing them again",
			f->version.text, feed_title(f, title));
	feed_list_again(w, f);
	f->retry_usec = f->resyncs++ == 0
			? 0
			: retry_now_usec() + retry_delay_usec(&w->random, f->resyncs - 1);
}

static int put_object(struct watcher *w, struct feed *f, void *object)
{
	void *old = NULL;
	int r = shelf_put(&f->shelf, object, &old);

	if (r < 0) {
		f->kind->free(object);
		return r;
	}
	f->kind->changed(w, f, object, !old);
	if (old)
		f->kind->changed(w, f, old, false);
	f->kind->free(old);
	return 0;
}

static void remove_object(struct watcher *w, struct feed *f, void *like)
{
	void *old = shelf_take(&f->shelf, like);

	if (old)
		f->kind->changed(w, f, old, true);
	f->kind->free(old);
	f->kind->free(like);
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
		feed_list_again(w, f);
	else
		feed_stop_watch(w, f);
	feed_put_off(w, f, 0);
	feed_fail(w, f, -EIO, &why);
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
		feed_confirm(w, f, f->ahead_asked_usec);
}

static int apply(struct watcher *w, struct feed *f, struct reading_event *event)
{
	int r = 0;

	switch (event->kind) {
	case READING_PUT:
		r = put_object(w, f, event->object);
		break;
	case READING_REMOVE:
		remove_object(w, f, event->object);
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
			r = reading_event(f->kind, text, size, &read, reterr);
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
	feed_list_again(w, f);
	feed_put_off(w, f, 0);
	feed_fail(w, f, r, &why);
}

static void on_watch_begin(struct watcher *w, struct feed *f, const struct usher_http_event *event)
{
	if (event->status == 200) {
		f->has_begun = true;
		if (f->ahead)
			f->ahead_due_usec = retry_now_usec() + FEED_LAG_USEC;
		return;
	}
	if (event->status == 410) {
		resync(w, f);
		return;
	}
	feed_fail_event(w, f, event);
	feed_stop_watch(w, f);
	if (event->status == 404 || event->status == 400)
		feed_list_again(w, f);
}

/* A watch ends by design after a while, and the next one goes on where it was. */
static void on_watch_end(struct watcher *w, struct feed *f, const struct usher_http_event *event)
{
	uint64_t now = retry_now_usec();
	bool is_short = now - f->watch_usec < WATCH_SHORT_USEC;

	f->watch_id = 0;
	if (event->error || json_stream_is_amid(&f->stream)) {
		f->needs_proof = true;
		feed_put_off(w, f, 0);
	} else if (is_short) {
		feed_put_off(w, f, 0);
	} else {
		f->retry_usec = 0;
	}
	feed_stop_watch(w, f);
}

void feed_on_watch(struct watcher *w, struct feed *f, const struct usher_http_event *event)
{
	if (event->kind == USHER_HTTP_BEGIN)
		on_watch_begin(w, f, event);
	else if (event->kind == USHER_HTTP_DATA)
		on_watch_data(w, f, event);
	else
		on_watch_end(w, f, event);
}
