#pragma once

/* The watch of one service: what is asked next, and what an answer means.
 *
 * An answer is believed when it proves itself: the leader is known, and who answers is no further
 * behind it than max_stale. One that does not, that is empty, whose index went back, or in which
 * much is lost at once is asked for again, at the leader and with a majority's consent. */

#include "consul.h"

enum watch_ask {
	WATCH_PLAIN,    /* what there is, at once */
	WATCH_BLOCKING, /* what there is once it has changed, or the wait is over */
	WATCH_PROOF,    /* what there is, as a majority agrees */
	WATCH_CANARY,   /* whether a service that is always there is seen */
};

struct watch {
	char *service, *name, *port; /* as wanted; port may be NULL */
	bool wanted;
	enum watch_ask next, asked;
	uint64_t request;                /* under way; 0: none */
	uint64_t due_usec;               /* not to be asked before */
	uint64_t budget_usec;            /* of the bucket that limits how often it is asked */
	unsigned failures;               /* in a row */
	uint64_t index;                  /* to wait behind; 0: none */
	uint64_t seen_index;             /* the highest of this history */
	uint64_t disturbed_usec;         /* when it last looked as after a restart; 0: never */
	uint64_t all_down_usec;          /* since when none is ready that was; 0: not */
	uint64_t doubted_until_usec;     /* until when what was offered last is doubted; 0: not */
	uint64_t empty_usec;             /* when a majority said that there is none; 0: not */
	size_t skipped;                  /* that were told of in the log */
	struct usher_endpoints *trusted; /* the last that was not doubted */
};

/* NULL: no memory. */
struct watch *watch_new(const struct usher_wanted *wanted);
struct watch *watch_free(struct watch *w);
bool watch_is_for(const struct watch *w, const struct usher_wanted *wanted);

/* Send what is next. may_block: whether there is a connection to spare for a request that waits. */
int watch_ask(struct watch *w, const struct consul *c, struct usher_http *http, bool may_block,
		uint64_t now_usec);
/* What came back: tell the source. random: retry.h's. */
void watch_take(struct watch *w, const struct consul *c, struct usher_http *http,
		struct usher_source *source, const struct usher_http_event *event,
		uint64_t now_usec, uint64_t *random);
