#pragma once

/* What is told of each wanted service: all its slices, put together.
 *
 * An endpoint that moves from one slice to another is in none for some milliseconds, since the
 * slices are written one after the other. So what disappears is told a moment later than what
 * appears. */

#include "kubernetes.h"

struct answer {
	char *service;      /* as usher names it */
	char *space, *name; /* as the cluster does */
	char *port;         /* NULL: the first */
	struct feed *feed;  /* NULL: the name is none that the cluster could have */
	struct usher_endpoints *told;
	bool is_due;          /* something may have changed */
	bool is_failed;       /* what was told last is a failure of its own */
	bool was_there;       /* it had slices */
	bool pods_are_due;    /* the Pods, or its endpoints, may have changed */
	uint64_t pods_said;   /* sum of what was said about its endpoints' Pods */
	size_t left_out;      /* slices and endpoints that were told of in the log */
	uint64_t settle_usec; /* when what has disappeared is told; 0: nothing has */
};

/* Take over what the source wants now. Returns 0, -ENOMEM. */
int answers_take_wanted(struct watcher *w);
/* Something may have changed: for one service of the feed, or NULL for all. */
void answers_mark(struct watcher *w, const struct feed *f, const char *space, const char *service);
/* Tell what is due. Returns when the next is, 0: nothing more. */
uint64_t answers_tell(struct watcher *w, uint64_t now_usec);
void answers_fail(struct watcher *w, const struct feed *f, int code, const struct usher_error *why);
void answers_confirm(struct watcher *w, const struct feed *f, uint64_t observed_usec);
void answers_done(struct watcher *w);
