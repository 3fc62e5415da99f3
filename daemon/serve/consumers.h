#pragma once

/* Who uses the directory, which part of it, and how far they have read.
 *
 * A consumer is a local process at one door under one name, with all its connections. What it knows
 * of a service is an interest; what one connection has been sent of it is a reading. A reading is
 * read once everything written to its socket has been taken by the peer (SIOCOUTQ is 0), which
 * needs no help from the consumer; a consumer that acknowledges is believed instead.
 *
 * Each watch is a reading of its own: the one furthest behind counts. Lists count per consumer: the
 * newest it has read. Picks leave nothing behind that could be stale, so they make no interest. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "rollout.h"
#include "server.h"
#include "text.h"

#define CONSUMER_NAME_MAX      128  /* bytes of Usher-Consumer that are kept */
#define CONSUMER_INTERESTS_MAX 4096 /* services of one consumer */

struct consumers;
struct consumer;
struct interest;

struct reading {
	struct interest *interest; /* NULL: none */
	struct reading *next, *prev;
	int fd;
	uint64_t sent;    /* handed over for sending */
	uint64_t flushed; /* of that, written to the socket */
	uint64_t read;    /* of that, taken by the peer */
};

struct consumers *consumers_new(void);
struct consumers *consumers_free(struct consumers *c);

/* One more connection of a process. pid 0: not known (then the connection is a consumer of its
 * own). name NULL: none given. NULL when out of memory. */
struct consumer *consumers_enter(struct consumers *c, enum server_door door, pid_t pid, uid_t uid,
		const char *name, uint64_t now_usec);
void consumers_leave(struct consumer *consumer);
/* Usher-Consumer, else the program, else "pid N". Borrowed until the consumer goes. */
const char *consumer_name(struct consumer *consumer);
/* Whether the name that a request gives (NULL: none) is the one it has. */
bool consumer_is_named(const struct consumer *consumer, const char *name);
size_t consumers_count(const struct consumers *c, enum server_door door);

/* A watch. On success the reading is linked until reading_stop(). Errors: E2BIG, ENOMEM. */
int reading_start_watch(
		struct reading *reading, struct consumer *consumer, const char *service, int fd);
/* A list of the service has been queued on the connection: there is one such reading a connection,
 * for the answers go out one after another. Errors: E2BIG, ENOMEM. */
int reading_sent_list(struct reading *reading, struct consumer *consumer, const char *service,
		int fd, uint64_t revision);
/* The answer is in the socket. */
void reading_flushed_list(struct reading *reading);
/* The peer has asked for something else since, so it has read the last answer. */
void reading_answered_by_next_request(struct reading *reading);
/* Forget it. */
void reading_stop(struct reading *reading);

/* "I use this revision now." Errors: E2BIG, ENOMEM. */
int consumer_ack(struct consumer *consumer, const char *service, uint64_t revision);

/* Who of the connected consumers that know the service has caught up. ret->behind is borrowed until
 * the next call. */
void consumers_evidence(struct consumers *c, const char *service, uint64_t revision,
		struct consumer_evidence *ret);

/* {"consumers": [...]}; current says the revision in force of a service (0: none). */
void consumers_render(struct consumers *c, uint64_t now_usec,
		uint64_t (*current)(void *userdata, const char *service), void *userdata,
		struct text *text);
