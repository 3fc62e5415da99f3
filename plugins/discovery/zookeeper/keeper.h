#pragma once

/* The session that registered nodes belong to, in a thread that keeps it alive.
 *
 * Ephemeral nodes live as long as their session, and that as long as somebody pings, so a thread
 * has it to itself. Jobs are done there, one at a time, each written from top to bottom with
 * questions that wait for their answer; whoever gave the job waits as long. When the session has
 * expired, a new one begins at once and what was registered is registered in it again. */

#include <stdbool.h>
#include <stddef.h>

#include "protocol.h"
#include "session.h"

struct zk_keeper;
struct zookeeper;

#define ZK_REGISTRATIONS_MAX 10000
#define ZK_JOB_USEC          UINT64_C(15000000) /* for one job, reconnections and all */

/* One node that is ours. */
struct zk_registration {
	struct zk_registration *next;
	char *path;
	char *value;     /* the newest that is known */
	int64_t session; /* that it was last seen in */
};

/* What one question was answered with. */
struct zk_answer {
	int code; /* enum zk_code */
	struct zk_stat stat;
	char *data; /* of ZK_GET_DATA, ended by a zero byte; NULL: none */
	size_t size;
};

void zk_answer_done(struct zk_answer *answer);

/* ---- for who gives jobs: any thread ---- */
/* In the thread of the keeper. Returns 0 or a negative errno. */
typedef int (*zk_job)(struct zk_keeper *k, void *userdata, struct usher_error *reterr);

int zk_keeper_new(const struct zookeeper *z, struct zk_keeper **ret, struct usher_error *reterr);
/* Registered nodes are left to their session's time, so that whoever comes next finds them. */
struct zk_keeper *zk_keeper_free(struct zk_keeper *k); /* NULL is fine */
int zk_keeper_do(struct zk_keeper *k, zk_job run, void *userdata, struct usher_error *reterr);

/* ---- for jobs: in the thread of the keeper ---- */
const struct zookeeper *zk_keeper_config(const struct zk_keeper *k);
int64_t zk_keeper_session(const struct zk_keeper *k);

/* Wait for a session. Errors: those of connecting; ETIMEDOUT (the job has no time left). */
int zk_keeper_open(struct zk_keeper *k, struct usher_error *reterr);
/* Begin a question and have it answered. ret->code says what the server said; an error is that
 * there was no answer: then nobody knows whether it was done. */
struct jute_out *zk_keeper_begin(
		struct zk_keeper *k, enum zk_op op, const char *path, struct usher_error *reterr);
int zk_keeper_ask(struct zk_keeper *k, struct zk_answer *ret, struct usher_error *reterr);

struct zk_registration *zk_keeper_find(const struct zk_keeper *k, const char *path);
/* It is there, in the session of now. Takes value. Errors: E2BIG, ENOMEM. */
int zk_keeper_remember(
		struct zk_keeper *k, const char *path, char *value, struct usher_error *reterr);
void zk_keeper_forget(struct zk_keeper *k, const char *path);
