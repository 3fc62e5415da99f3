/* A feed's list: in pages, and put in force when it is whole. */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <usher/plugin.h>

#include "feed-private.h"
#include "own.h"
#include "reading.h"
#include "retry.h"

#define PAGE_OBJECTS      500
#define LIST_TIMEOUT_USEC UINT64_C(30000000)

void feed_ask_page(struct watcher *w, struct feed *f)
{
	char path[FEED_PATH_MAX], limit[16];
	struct usher_http_request request = { .path = path, .timeout_usec = LIST_TIMEOUT_USEC };
	bool fits = feed_write_path(f, path);

	(void) snprintf(limit, sizeof(limit), "%d", PAGE_OBJECTS);
	if (fits && !f->is_unpaged)
		fits = feed_append_query(path, "limit", limit);
	fits = fits && feed_append_selector(f, path);
	if (fits && f->next[0])
		fits = feed_append_query(path, "continue", f->next);
	feed_begin(w, f, &request, fits, &f->page_id);
}

void feed_change_history(struct feed *f, const struct version *now)
{
	char title[FEED_TITLE_MAX];

	usher_log(USHER_LOG_WARNING,
			"The version of %s went from %s back to %s, as it does when the cluster's store "
			"is restored; listing them again, and doubting what is gone",
			feed_title(f, title), f->version.text, now->text);
	f->is_suspect = true;
}

static void put_in_force(struct watcher *w, struct feed *f, const struct version *version)
{
	if (f->is_listed && version->number < f->version.number && !f->is_suspect)
		feed_change_history(f, version);
	shelf_clear(&f->shelf);
	f->shelf = f->incoming;
	f->incoming = (struct shelf){ .kind = f->kind };
	f->version = *version;
	f->proven_usec = f->asked_usec;
	f->proof_usec = retry_now_usec() + w->options->prove_usec;
	f->retry_usec = 0;
	f->failures = f->server_errors = 0;
	f->is_listed = true;
	f->needs_list = f->needs_proof = f->is_unpaged = f->is_failing = false;
	f->kind->listed(w, f);
}

static int take_page(struct feed *f, struct reading_page *page, struct usher_error *reterr)
{
	for (size_t i = 0; i < page->count; i++) {
		int r = shelf_add(&f->incoming, page->objects[i]);

		if (r < 0)
			return r == -E2BIG ? usher_error_set(reterr, r, "there are more than %d %s",
							     SHELF_OBJECTS_MAX, f->kind->name)
					   : usher_error_set(reterr, r, "out of memory");
		page->objects[i] = NULL;
	}
	return 0;
}

static void fail_list(struct watcher *w, struct feed *f, int code, const struct usher_error *why)
{
	feed_stop_list(w, f);
	feed_put_off(w, f, 0);
	feed_fail(w, f, code, why);
}

void feed_on_page(struct watcher *w, struct feed *f, const struct usher_http_event *event)
{
	cleanup(reading_page_done) struct reading_page page = { 0 };
	struct usher_error why = { 0 };
	int r;

	f->page_id = 0;
	if (event->error == 0 && event->status == 410 && f->next[0]) {
		feed_stop_list(w, f); /* the pages took longer than the store keeps their version */
		f->is_unpaged = true;
		feed_put_off(w, f, 0);
		return;
	}
	if (event->error || event->status != 200) {
		feed_stop_list(w, f);
		feed_fail_event(w, f, event);
		return;
	}
	if (!f->next[0])
		f->asked_usec = event->started_usec;
	r = reading_page(f->kind, event->data, event->data_size, &page, &why);
	if (r == 0)
		r = take_page(f, &page, &why);
	if (r < 0) {
		fail_list(w, f, r, &why);
		return;
	}
	memcpy(f->next, page.next, sizeof(f->next));
	if (f->next[0])
		feed_ask_page(w, f);
	else
		put_in_force(w, f, &page.version);
}
