#pragma once

/* How the keys of the wanted services are followed.
 *
 * Each service is read whole (a range), then watched from the next revision on; the watches of many
 * services share a stream. Silence of a stream proves nothing, and its progress messages little, so
 * at each `probe` etcd itself is asked at which revision it is, which only a member in touch with
 * the leader answers. A table that is whole as of that revision is current, and confirmed: in a
 * quiet etcd that one question is all. Of the others it is asked how many keys each service has and
 * which was changed last. Where that is what the table says, it is confirmed, too; where it is not,
 * the service is read again. The same question comes before a watch is resumed: a revision that is
 * compacted, or in the future because etcd was wiped, is never watched from.
 *
 * A revision that went down, or another cluster, is another history: what a service has lost in it
 * is in doubt for a while, for whoever lives registers again. */

#include "json-stream.h"
#include "session.h"
#include "table.h"

#define PROBE_SERVICES  64 /* in one transaction; etcd allows 128 by default */
#define RANGES_MAX      16 /* at once */
#define STREAMS_MAX     8
#define STREAM_WORTH    256 /* watches that wait for no more to come along */
#define ROUNDS_THOROUGH 12  /* of so many, one asks about each service, whatever the revision */
#define DOUBT_USEC      UINT64_C(60000000)

enum task_kind {
	TASK_RANGE,
	TASK_PULSE, /* at which revision etcd is */
	TASK_PROBE,
	TASK_STREAM,
};

/* One request, and what it is about. */
struct task {
	enum task_kind kind;
	struct task *next;
	uint64_t id;
	int64_t floor;                         /* the highest revision known when it was sent */
	struct service *about[PROBE_SERVICES]; /* of a probe and, alone, of a range; NULL: gone */
	size_t count;
	/* of a stream */
	struct json_stream text;
	int status;
	bool is_useful; /* it has carried a watch */
};

enum need {
	NEEDS_RANGE,
	NEEDS_PROOF, /* the table was whole once; is it still? */
	NEEDS_NOTHING,
};

struct service {
	struct service *next;
	char *service, *name, *port;
	char *prefix;
	enum need need;
	struct etcd_table table;
	int64_t revision;     /* the table is whole as of it */
	uint64_t proven_usec; /* and was when etcd was asked then */
	bool is_complete;     /* there has been a whole answer */
	struct task *range, *stream;
	int64_t watch_id;
	/* The pages of a range that is under way. */
	struct etcd_table coming;
	int64_t coming_revision;
	uint64_t asked_usec;
	unsigned failures;
	unsigned cancelled; /* watches, one after the other */
	uint64_t retry_usec;
	bool is_dirty;   /* to be offered */
	bool is_offered; /* what the table says is what the host has */
	bool is_wanted;
	struct usher_endpoints *offered; /* the last set */
	struct usher_endpoints *before;  /* of the other history */
	uint64_t doubt_until_usec;
};

struct follower {
	const struct etcd *etcd;
	struct usher_source *source;
	struct etcd_session session;
	struct service *services;
	struct task *tasks;
	char cluster[ETCD_CLUSTER_MAX];
	int64_t revision; /* the highest of this history */
	int64_t last_watch_id;
	size_t servers;
	unsigned failures; /* of the whole, one after the other */
	uint64_t retry_usec;
	bool is_lost;        /* until one request has been answered */
	uint64_t probe_usec; /* when the next round is due */
	unsigned rounds;
	unsigned stream_failures;
	uint64_t stream_retry_usec;
	uint64_t random;
};

/* A point in time after so many failures. */
uint64_t etcd_retry_usec(struct follower *f, unsigned failures);

/* ---- watch.c ---- */
/* Break off, and forget, one request. */
void etcd_task_end(struct follower *f, struct task *task);
/* No stream tells of this service any more. */
void etcd_service_detach(struct service *s);
/* Read it again, after a while where it failed. */
void etcd_service_reread(struct follower *f, struct service *s);
/* Nothing can be found out now: all is broken off, and tried again later, with another member. */
void etcd_follower_lose(struct follower *f, int code, const struct usher_error *why);
/* One page more. */
int etcd_range_start(struct follower *f, struct service *s, const struct etcd_kv *behind);

/* ---- events.c ---- */
/* Judge what has come for a task. The task may be gone afterwards. */
void etcd_follower_take(
		struct follower *f, struct task *task, const struct usher_http_event *event);
/* Another history, as the header of an answer says to one who knew `floor`. */
bool etcd_follower_note(struct follower *f, const struct etcd_header *header, int64_t floor);
/* Tell the host what is new. */
void etcd_follower_offer(struct follower *f);
