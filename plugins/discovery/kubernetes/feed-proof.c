/* A feed's proof: a consistent list of one needs the server and its store, and shows a version. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <usher/plugin.h>

#include "feed-private.h"
#include "own.h"
#include "reading.h"
#include "retry.h"

#define PROOF_TIMEOUT_USEC UINT64_C(5000000)

void feed_ask_proof(struct watcher *w, struct feed *f)
{
	char path[FEED_PATH_MAX];
	struct usher_http_request request = { .path = path, .timeout_usec = PROOF_TIMEOUT_USEC };
	bool fits = feed_write_path(f, path) && feed_append_query(path, "limit", "1");

	f->proof_floor = f->version.number;
	feed_begin(w, f, &request, fits, &f->proof_id);
}

void feed_confirm(struct watcher *w, struct feed *f, uint64_t observed_usec)
{
	bool is_news = f->is_failing || f->is_suspect;

	f->is_failing = f->is_suspect = false;
	f->ahead = f->ahead_since_usec = f->ahead_due_usec = 0;
	if (observed_usec > f->proven_usec)
		f->proven_usec = observed_usec;
	f->kind->proven(w, f, observed_usec);
	if (is_news)
		f->kind->listed(w, f);
}

/* What a proof knew of was no slice of ours, as far as a watch can tell that is open and has had
 * its time. */
void feed_judge_silence(struct watcher *w, struct feed *f, uint64_t now_usec)
{
	char title[FEED_TITLE_MAX];
	uint64_t asked = f->ahead_asked_usec, since = f->ahead_since_usec, ahead = f->ahead;

	if (f->ahead_due_usec == 0 || now_usec < f->ahead_due_usec)
		return;
	f->ahead_due_usec = 0;
	if (!f->has_begun)
		return;
	if (now_usec - since >= w->options->silence_usec) {
		usher_log(USHER_LOG_DEBUG,
				"The watch of %s says nothing, and should have come to version "
				"%" PRIu64 "; opening it anew",
				feed_title(f, title), ahead);
		feed_stop_watch(w, f);
		return;
	}
	feed_confirm(w, f, asked);
	f->ahead = ahead;
	f->ahead_since_usec = since;
	f->ahead_asked_usec = asked;
}

static void fail_proof(struct watcher *w, struct feed *f, const struct usher_http_event *event)
{
	feed_fail_event(w, f, event);
	f->proof_usec = f->retry_usec;
	if (event->error == 0)
		return; /* it answers: the watch may well go on */
	feed_stop_watch(w, f);
	f->needs_proof = true;
}

/* One at a time: what a proof waits for is not put off by the next. */
static void wait_for_watch(struct feed *f, uint64_t version, uint64_t asked_usec, uint64_t now_usec)
{
	if (f->ahead_due_usec)
		return;
	f->ahead = version;
	f->ahead_asked_usec = asked_usec;
	f->ahead_due_usec = now_usec + FEED_LAG_USEC;
	if (f->ahead_since_usec == 0)
		f->ahead_since_usec = now_usec;
}

void feed_on_proof(struct watcher *w, struct feed *f, const struct usher_http_event *event)
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
	r = reading_page(f->kind, event->data, event->data_size, &page, &why);
	if (r < 0) {
		feed_put_off(w, f, 0);
		feed_fail(w, f, r, &why);
		return;
	}
	f->failures = 0;
	f->needs_proof = false;
	if (page.version.number < f->proof_floor) {
		feed_change_history(f, &page.version);
		feed_list_again(w, f);
	} else if (page.version.number <= f->version.number) {
		feed_confirm(w, f, event->started_usec);
	} else {
		wait_for_watch(f, page.version.number, event->started_usec, now);
	}
}
