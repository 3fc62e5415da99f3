#pragma once

/* What consumers are told of one service, rendered once per revision and shared by all of them: the
 * whole list, and the last updates, so that a watcher can go on from a revision it knows.
 *
 * The freshness is apart, for it changes with time: it is rendered anew when TOPIC_TELL_USEC are
 * over or anything but the age has changed, and tells the age at the end of that time, so that what
 * it says stays an upper bound. */

#include <stdbool.h>
#include <stdint.h>

#include "blob.h"
#include "directory.h"
#include "hash.h"

#define TOPIC_TELL_USEC     UINT64_C(10000)
#define TOPIC_UPDATES_MAX   64     /* kept for watchers that are behind, or come back */
#define TOPIC_UPDATES_BYTES 262144 /* of those, but at least one */
#define TOPIC_SHARED_LIST                                               \
	65536 /* a longer list is sent from the shared text, not copied \
	       */
#define TOPIC_IDLE_USEC UINT64_C(60000000) /* updates are kept so long after the last watcher */

struct MHD_Response;
struct watch;

struct update {
	uint64_t from, revision;
	struct blob *head; /* up to the freshness */
	struct blob *tail; /* from there on */
};

struct topic {
	UT_hash_handle hh; /* by context */
	struct context *context;
	struct snapshot *snapshot; /* the one in force; NULL: no answer yet */

	struct blob *list; /* a snapshot line; NULL: nobody asked since the revision came */
	size_t list_split;

	struct update *updates; /* a ring of TOPIC_UPDATES_MAX; NULL: nobody has watched */
	uint64_t update_first, update_next; /* numbers; a number's place is its remainder */
	size_t update_bytes;

	struct blob *bookmark; /* the head of a bookmark line, up to the freshness */

	struct blob *freshness;
	struct freshness told; /* with the age as told */
	uint64_t told_until_usec;
	uint64_t told_serial; /* another for every rendering, of any topic */

	struct MHD_Response *response; /* the list as an answer */
	uint64_t response_serial;

	struct watch *watches;
	uint64_t idle_since_usec;
	uint64_t bookmarks; /* how many have been due */
	uint64_t bookmark_due_usec;
	enum source_state bookmark_state; /* told by the last */
};

struct topics {
	struct topic *by_context;
	uint64_t last_serial;
};

/* The topic of a context, made if need be. NULL when out of memory. */
struct topic *topics_get(struct topics *topics, struct context *context);
struct topic *topics_find(const struct topics *topics, const struct context *context);
/* Nobody watches it any more. */
void topics_remove(struct topics *topics, struct topic *topic);

/* A new snapshot is in force: keep the update if somebody may want it. */
void topic_publish(struct topic *topic, uint64_t now_usec);
/* Keep updates from now on. ENOMEM. */
int topic_start_updates(struct topic *topic);
/* Whether a change is told to somebody, or kept for who may come back. */
bool topic_wants_updates(const struct topic *topic, uint64_t now_usec);
/* For directory_renderer. */
char *topic_difference(const struct snapshot *before, const struct snapshot *after,
		const struct snapshot_names *names, size_t *ret_length);
/* The whole list as a line of a watch, with a place for the freshness. NULL when out of memory. */
struct blob *topic_list(struct topic *topic, size_t *ret_split);
/* The freshness as it may be told now, and its serial number. NULL when out of memory. */
struct blob *topic_freshness(struct topics *topics, struct topic *topic,
		const struct freshness *freshness, uint64_t now_usec);
/* The list as an answer, shared for as long as its freshness may be told. Borrowed. NULL when out
 * of memory. */
struct MHD_Response *topic_response(struct topics *topics, struct topic *topic,
		const struct freshness *freshness, uint64_t now_usec);
/* The head of a bookmark. NULL when out of memory. */
struct blob *topic_bookmark(struct topic *topic);
/* The number of the update that goes on from the revision, or -ENOENT. For the revision in force it
 * is the next to come. */
int topic_find_update(const struct topic *topic, uint64_t revision, uint64_t *ret_number);
const struct update *topic_update(const struct topic *topic, uint64_t number);
