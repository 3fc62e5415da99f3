#pragma once

/* Following one service's directory: a snapshot, then updates, bookmarks that renew the age, and an
 * end. A watcher holds only where it stands; what it is sent is its topic's, rendered once. */

#include <stdint.h>

#include "consumers.h"
#include "stream.h"
#include "topic.h"

#define WATCHES_MAX        4096
#define WATCH_BOOKMARK_MIN UINT64_C(20000)    /* microseconds between bookmarks, at the least */
#define WATCH_BOOKMARK_MAX UINT64_C(15000000) /* and at the most, whatever max_age says */

struct request;
struct server;

struct watch {
	struct stream stream; /* first */
	struct topic *topic;  /* NULL: the service is gone */
	struct watch *next, *prev;
	struct reading reading;
	uint64_t number;    /* of the update it gets next */
	uint64_t bookmarks; /* seen */
	bool fresh;         /* gets the whole list next */
};

/* Answer with a watch of the context; revision 0: none known. Returns 0, or a negative errno. */
int watch_start(struct request *q, struct context *context, uint64_t revision);

/* For the directory's events. */
void watch_on_published(struct server *s, struct context *context);
void watch_on_renewed(struct server *s, struct context *context);
void watch_on_removed(struct server *s, struct context *context);

int watch_init(struct server *s);
void watch_done(struct server *s);
