#pragma once

/* The objects of one kind in one namespace, or in all: listed once, then watched.
 *
 *   list   in pages, always a consistent read, never resourceVersion=0: that may be of any age
 *   watch  from the list's version on, with bookmarks; ends by design now and then, and goes on
 *   proof  a consistent list of one, for silence is no proof: a watch stays open and silent with
 * the server's store gone, with the server stopped, and with a version that is yet to come
 *
 * Where no connection can be spared for another watch, the list is asked for again as often as a
 * proof would be.
 *
 * A version that is too old (410, as a status or as an event) leads to another list; meanwhile what
 * was known stays. A version that went backwards means another history, such as a restored store:
 * listed again, and told as suspect until it has proved itself. */

#include "json-stream.h"
#include "kubernetes.h"
#include "reading.h"
#include "shelf.h"

#define FEEDS_MAX 256

struct feed {
	const struct kind *kind;
	char *space;    /* NULL: all */
	char *selector; /* in force; NULL: none */
	struct shelf shelf, incoming;
	struct version version; /* up to which the shelf has come */
	char next[READING_CONTINUE_MAX];
	struct json_stream stream;

	uint64_t page_id, watch_id, proof_id; /* requests under way; 0: none */
	uint64_t asked_usec;                  /* the list's first page */
	uint64_t proven_usec;                 /* up to when the shelf is known to be right */
	uint64_t retry_usec;                  /* not before: list and watch */
	uint64_t proof_usec;                  /* the next proof */
	uint64_t watch_usec;                  /* when the watch was opened */
	uint64_t proof_floor;                 /* the version when the proof was asked for */

	/* A proof knew of a version that the watch has not told yet: of others' changes, or of ours
	 * that got lost. */
	uint64_t ahead, ahead_asked_usec, ahead_since_usec, ahead_due_usec;

	unsigned failures, resyncs, server_errors; /* in turn */
	bool is_listed, needs_list;
	bool needs_proof; /* before the watch goes on: the last one broke off */
	bool has_begun;   /* the watch */
	bool is_polled;   /* no connection can be spared to watch */
	bool is_unpaged;  /* the pages got too old, so all is asked for at once */
	bool is_suspect;  /* of another history */
	bool is_failing;  /* has been told as failed */
};

/* space: NULL for all. NULL: out of memory. */
struct feed *feed_new(const struct kind *kind, const char *space);
struct feed *feed_free(struct watcher *w, struct feed *f);
/* Other objects are in question from now on; takes the text. */
void feed_select(struct watcher *w, struct feed *f, char *selector);
/* Start what is due. Returns when the next is. */
uint64_t feed_start(struct watcher *w, struct feed *f, uint64_t now_usec);
void feed_on_event(struct watcher *w, struct feed *f, const struct usher_http_event *event);
/* The connection is another one: whatever was under way is gone. */
void feed_reconnect(struct watcher *w, struct feed *f);
/* Whether the shelf is complete for what is in question. */
bool feed_is_current(const struct feed *f);
