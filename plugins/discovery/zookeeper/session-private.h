#pragma once

/* What the files behind session.h share: session.c has what is said, connection.c how it gets there
 * and back, and when. */

#include <usher/endpoint.h>

#include "lookup.h"
#include "session.h"

enum phase {
	PHASE_IDLE,       /* until retry_usec */
	PHASE_LOOKING_UP, /* the server's name */
	PHASE_CONNECTING, /* TCP */
	PHASE_GREETING,   /* the server is asked for a session */
	PHASE_OPEN,
};

struct request {
	struct request *next;
	int32_t xid;
	enum zk_op op;
	void *tag;
	bool is_watched;
	char *path;
	uint64_t sent_usec;
};

struct zk_session {
	struct zk_session_config config;
	char *secret;
	uint64_t random;
	size_t servers, server; /* how many, and which */
	char host[USHER_TEXT_MAX];

	enum phase phase;
	struct zk_lookup *lookup; /* while its name is looked up; else NULL */
	int fd;
	uint64_t began_usec, heard_usec, said_usec, retry_usec;
	bool greeted;      /* the event has to be given */
	bool has_answered; /* anything, on this connection */
	bool is_read_only;
	int lost; /* negative: as soon as what has come before is taken */
	char lost_text[USHER_ERROR_TEXT_MAX];

	struct zk_greeting granted; /* the session; 0: none */
	int32_t timeout_ms;         /* of this connection */
	bool is_new, is_doubtful;
	int64_t zxid;      /* the last that was seen */
	unsigned failures; /* since a connection lasted */
	unsigned refusals;
	uint64_t refused_usec; /* since when every server refuses */

	int32_t last_xid;
	struct request *requests, **last_request, *answered;
	size_t unanswered;
	struct jute_out out; /* what has not been sent */
	size_t out_at;       /* of the request that is being written */
	struct request *writing;
	unsigned char *in; /* what has come, and has not been taken */
	size_t in_size, in_at, in_capacity;
};

/* ---- session.c ---- */
void session_forget_requests(struct zk_session *s);
void session_send_ping(struct zk_session *s);

/* ---- connection.c ---- */
void session_close_connection(struct zk_session *s);
void session_flush(struct zk_session *s);
