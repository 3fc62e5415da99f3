#pragma once

/* How the nodes of the wanted services are followed.
 *
 * Each service's folder is listed and each of its nodes read, with watches that are set again at
 * each reading. A server answers from its own memory, which may be behind, and a silent watch
 * proves nothing; so at each `probe` it is asked to catch up with the leader (sync). What has
 * changed until then has been told before the answer comes, for one connection keeps its order. So
 * with the answer every folder that is settled is current as of the question, and age is counted
 * from these questions alone.
 *
 * A history other than before (a lower zxid, another base, servers that refused whoever had seen
 * more) leaves what is missing in it in doubt for a while, for whoever lives registers again. */

#include "folder.h"
#include "retry.h"
#include "session.h"
#include "zookeeper.h"

#define ZK_ASKED_MAX  200                /* requests that are under way at once */
#define ZK_LOOKS_MAX  64                 /* at nodes, with each proof */
#define ZK_DOUBT_USEC UINT64_C(60000000) /* after another history has begun */

/* One that the host wants, and its folder; several may want the same. */
struct zk_want {
	struct zk_want *next;
	char *service, *name, *port;
	struct zk_watched *watched; /* NULL: its name can be in no path */
	bool is_wanted;
	bool is_dirty;                            /* to be offered */
	bool is_offered;                          /* what the folder says is what the host has */
	struct usher_endpoints *offered, *before; /* the last set; that of the other history */
	uint64_t doubt_until_usec;
};

struct zk_watched {
	struct zk_folder folder;
	bool is_wanted;
	bool is_dirty; /* something new is known of it */
	bool needs_check;
	bool is_checked;      /* there is no answer yet */
	uint64_t check_usec;  /* the time that the answer will be a proof of */
	uint64_t proven_usec; /* the list is what there was then */
	unsigned failures;    /* of the list */
	uint64_t retry_usec;
	bool has_denied; /* nodes that we may not read, and try again */
	unsigned denials;
	uint64_t denied_usec;
};

enum zk_presence {
	ZK_UNKNOWN,
	ZK_THERE,
	ZK_MISSING,
};

struct zk_follower {
	const struct zookeeper *z;
	struct usher_source *source;
	struct zk_session *session;
	char *secret; /* that the session was told */
	struct zk_want *wants, **last_want;
	struct zk_watched **watched; /* in the order of their paths */
	size_t watched_count;
	uint64_t random;

	/* The node above all services. */
	char *base;
	enum zk_presence presence;
	bool base_needs_list, base_is_asked, base_is_armed, base_is_awaited;
	bool was_there;    /* once */
	int64_t base_zxid; /* in which it was made; 0: none known */
	uint64_t base_list_usec;

	bool is_open, is_read_only;
	uint64_t proven_usec; /* the server knows all that there was then; 0: it has not said so */
	uint64_t probe_usec;  /* the next is due */
	bool is_probing;
	size_t look_folder, look_node; /* whose turn it is to be looked at */
	size_t looks;                  /* that are left, of this time */
};

/* ---- watch.c ---- */
/* A point in time for the next question, soon: something has changed that is worth a proof. */
void zk_follower_probe_soon(struct zk_follower *f);

/* ---- events.c ---- */
void zk_follower_take(struct zk_follower *f, struct zk_event *event);

/* ---- offers.c ---- */
/* Another history has begun: what has been offered is remembered. */
void zk_follower_doubt(struct zk_follower *f, const char *why);
/* Why the folder cannot be read: those who want it keep what they have. */
void zk_follower_fail(struct zk_follower *f, struct zk_watched *w, int code,
		const struct usher_error *why);
/* Tell the host what is new. */
void zk_follower_offer(struct zk_follower *f);
/* The folder is what there was at that time. */
void zk_follower_confirm(struct zk_follower *f, const struct zk_watched *w, uint64_t usec);
