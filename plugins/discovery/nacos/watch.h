#pragma once

/* The watch of one service: when it is asked for next, and what an answer means.
 *
 * Nacos says an empty list of a service that it does not know, of one that has no instances, and
 * after a restart until they have registered again. So what is less than before is doubted for a
 * while where the server or its connection has just changed, and where nobody is left. */

#include "access.h"
#include "push.h"

struct watch {
	char *service, *name, *port; /* as wanted; port may be NULL */
	bool wanted;
	uint64_t request;             /* under way; 0: none */
	uint64_t due_usec;            /* not to be asked before */
	unsigned failures;            /* in a row */
	enum nacos_api asked_api;     /* over which it was asked for last */
	unsigned asked_serial;        /* with which token */
	uint64_t budget_usec;         /* of the bucket that limits how often a push makes it ask */
	bool pushed;                  /* while it was being asked for */
	bool lacks_api;               /* the server did not have the one before */
	bool asked_again;             /* what is doubted was looked at twice */
	char *server;                 /* who answered last; NULL: nobody yet */
	uint64_t disturbed_usec;      /* when it last looked as after a restart; 0: never */
	uint64_t none_usec;           /* since when none is ready where some were; 0: not */
	size_t skipped;               /* that were told of in the log */
	struct usher_endpoints *last; /* that was offered */
	struct usher_endpoints *trusted; /* the last that was not doubted */
};

/* NULL: no memory. */
struct watch *watch_new(const struct usher_wanted *wanted);
struct watch *watch_free(struct watch *w);
bool watch_is_for(const struct watch *w, const struct usher_wanted *wanted);

/* push: where to be told of changes; its fd is -1: nowhere. */
int watch_ask(struct watch *w, struct access *a, const struct push *push);
/* Word has come that it has changed: ask for it soon. */
void watch_hint(struct watch *w, uint64_t now_usec);
/* Whether that is its name, as the registry writes it. */
bool watch_is_named(const struct watch *w, const struct nacos *n, const char *name);
/* What came back: tell the source. random: for back-off and spread. */
void watch_take(struct watch *w, struct access *a, struct usher_source *source,
		const struct usher_http_event *event, uint64_t now_usec, uint64_t *random);
/* It could not be asked, or the answer is of no use: told to the source, and tried again. */
void watch_fail(struct watch *w, struct usher_source *source, int code,
		const struct usher_error *why, uint64_t now_usec, uint64_t *random);
