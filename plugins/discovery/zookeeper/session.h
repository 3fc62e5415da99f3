#pragma once

/* A session with ZooKeeper: a connection to one of its servers, made anew wherever it is lost, and
 * what comes through it, pulled as events.
 *
 * Nothing here waits. The owner polls the descriptor until a time, lets the session do what there
 * is to do, and takes the events:
 *
 *     poll(zk_session_fd(s), zk_session_events(s), until zk_session_due_usec(s));
 *     zk_session_process(s);
 *     while (zk_session_next(s, &event))
 *             ...
 *
 * A server that is silent is left: it has to answer within ZK_ANSWER_USEC. Servers that refuse
 * whoever has seen more than they know (wiped or restored ones) are believed when every server has
 * refused for as long as a session lasts: then a new session begins, without a past. Thread: one.
 */

#include <usher/error.h>

#include "protocol.h"

#define ZK_PORT           2181
#define ZK_SERVERS_MAX    64
#define ZK_ANSWER_USEC    UINT64_C(5000000)
#define ZK_FRAME_MAX      ((size_t) 16 * 1024 * 1024) /* bytes of one message of a server */
#define ZK_REQUEST_MAX    ((size_t) 1024 * 1024)      /* bytes of one request: jute.maxbuffer */
#define ZK_READ_ONLY_USEC UINT64_C(10000000)          /* then a better server is looked for */

struct zk_session;

struct zk_session_config {
	const char *const *servers; /* "HOST" or "HOST:PORT", checked; NULL-terminated */
	uint64_t timeout_usec;      /* of the session, as is asked for */
	uint64_t connect_usec;      /* for its name, and then until it has opened the session */
	unsigned backoff_steps;     /* its window doubles no more often */
	bool read_only;             /* also servers without a majority will do */
	const char *name_servers;   /* see zk_lookup_new(); NULL: the system's */
};

enum zk_event_kind {
	ZK_CONNECTED, /* first of each connection */
	ZK_LOST,      /* last of each connection, and of each attempt at one */
	ZK_REPLY,
	ZK_CHANGED, /* a watch */
};

struct zk_event {
	enum zk_event_kind kind;
	/* ZK_CONNECTED */
	bool is_new;       /* another session than before: what belonged to that one is gone */
	bool is_read_only; /* and proves nothing */
	bool is_doubtful;  /* every server refused whoever had seen what we have */
	/* ZK_LOST */
	int code;
	struct usher_error why;
	bool is_last; /* of the servers, which have all been tried since one worked */
	/* ZK_REPLY */
	enum zk_op op;
	void *tag;
	bool is_watched;     /* it was asked with a watch */
	int error;           /* enum zk_code */
	bool is_behind;      /* of another history: its zxid is lower than what was seen before */
	struct jute_in body; /* valid until the next call, as path is */
	uint64_t sent_usec;
	/* ZK_REPLY, ZK_CHANGED */
	const char *path; /* never NULL */
	enum zk_change change;
};

/* Whether it can be a server: EINVAL. */
int zk_server_check(const char *server, struct usher_error *reterr);

/* The configuration's lists and texts are borrowed. NULL: out of memory. */
struct zk_session *zk_session_new(const struct zk_session_config *config);
/* polite: let the server end the session at once; otherwise it lasts for its time. */
struct zk_session *zk_session_free(struct zk_session *s, bool polite);

/* "USER:PASSWORD" for the scheme digest: told to each server from now on, and to this one. NULL:
 * nobody. ENOMEM. */
int zk_session_set_secret(struct zk_session *s, const char *secret);

int zk_session_fd(const struct zk_session *s); /* -1: there is none now */
short zk_session_events(const struct zk_session *s);
uint64_t zk_session_due_usec(const struct zk_session *s);
void zk_session_process(struct zk_session *s);
bool zk_session_next(struct zk_session *s, struct zk_event *ret);

/* The server of the moment, for messages. */
const char *zk_session_server(const struct zk_session *s);
bool zk_session_is_open(const struct zk_session *s);
int64_t zk_session_id(const struct zk_session *s);
int64_t zk_session_zxid(const struct zk_session *s);
size_t zk_session_unanswered(const struct zk_session *s);

/* Begin a request; what belongs to it is written to what this returns, and zk_session_send() sends
 * it. The answer comes with the tag and the path. NULL: not connected, or no memory. */
struct jute_out *zk_session_begin(struct zk_session *s, enum zk_op op, const char *path, void *tag);
/* Errors: ENOMEM, EMSGSIZE: the request is not sent, and its answer will not come. */
int zk_session_send(struct zk_session *s);
/* The same for what is just a path. ENOTCONN, ENOMEM. */
int zk_session_read(struct zk_session *s, enum zk_op op, const char *path, bool watch, void *tag);
int zk_session_sync(struct zk_session *s, const char *path);
/* What was watched before the connection was lost, to be watched again in the same session:
 * whatever has changed meanwhile is told. Paths are taken in rows, as many as fit one request. */
int zk_session_watch_again(struct zk_session *s, const char *const *data, size_t data_count,
		const char *const *exist, size_t exist_count, const char *const *children,
		size_t children_count);
/* Answers with this tag come with NULL. */
void zk_session_forget(struct zk_session *s, const void *tag);
/* Leave this server. */
void zk_session_lose(struct zk_session *s, int code, const char *text);
