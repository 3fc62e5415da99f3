#pragma once

/* What the parts of a feed share: the feed itself (feed.c), its list, its watch, and its proof. */

#include "feed.h"

#define FEED_PATH_MAX 32768             /* bytes */
#define FEED_LAG_USEC UINT64_C(1000000) /* of a watch behind its server, at most */

/* ---- feed.c ---- */

void feed_stop_watch(struct watcher *w, struct feed *f);
void feed_stop_list(struct watcher *w, struct feed *f);
/* Whatever is under way is of no use any more. */
void feed_list_again(struct watcher *w, struct feed *f);
/* For people: "the EndpointSlices of shop". ret has FEED_TITLE_MAX bytes. */
#define FEED_TITLE_MAX 320
const char *feed_title(const struct feed *f, char *ret);

/* path has FEED_PATH_MAX bytes. False: no room. */
bool feed_write_path(const struct feed *f, char *path);
bool feed_append_query(char *path, const char *name, const char *value); /* NAME=VALUE, escaped */
bool feed_append_selector(const struct feed *f, char *path);
/* Start a request, or fail. has_path: whether there was room for it. */
void feed_begin(struct watcher *w, struct feed *f, struct usher_http_request *request,
		bool has_path, uint64_t *ret_id);

void feed_fail(struct watcher *w, struct feed *f, int code, const struct usher_error *why);
/* List and watch not before that time and a back-off. */
void feed_put_off(struct watcher *w, struct feed *f, uint64_t at_least_usec);
/* An answer that brings nothing: told, but for "too many", which says nothing about the data. */
void feed_fail_event(struct watcher *w, struct feed *f, const struct usher_http_event *event);

/* ---- the list ---- */

void feed_ask_page(struct watcher *w, struct feed *f);
void feed_on_page(struct watcher *w, struct feed *f, const struct usher_http_event *event);
/* The version went backwards, to this one. */
void feed_change_history(struct feed *f, const struct version *now);

/* ---- the watch ---- */

/* Whether a connection can be spared for one more. */
bool feed_may_watch(const struct watcher *w);
void feed_open_watch(struct watcher *w, struct feed *f, uint64_t now_usec);
void feed_on_watch(struct watcher *w, struct feed *f, const struct usher_http_event *event);

/* ---- the proof ---- */

void feed_ask_proof(struct watcher *w, struct feed *f);
void feed_on_proof(struct watcher *w, struct feed *f, const struct usher_http_event *event);
void feed_confirm(struct watcher *w, struct feed *f, uint64_t observed_usec);
/* Whether what a proof knew of, and the watch has not told, was none of ours. */
void feed_judge_silence(struct watcher *w, struct feed *f, uint64_t now_usec);
