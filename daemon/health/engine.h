#pragma once

/* How one attempt of a probe is carried out, in the loop of a shard: plain (TCP, and HTTP without
 * TLS, to numeric addresses), curl (TLS, HTTP/2, gRPC, names to be resolved), exec (a program).
 *
 * The shard knows time: it starts attempts when they are due and cancels them at their deadline.
 * The engine knows the protocol: it starts, waits for descriptors through the shard, and finishes.
 * Thread: the shard's. Nothing here may block. */

#include <stdbool.h>
#include <stdint.h>

#include "check.h"
#include "verdict.h"

struct shard;

/* One attempt under way: the first member of whatever the shard keeps for a probe. */
struct attempt {
	const struct target *target;
	void *state; /* the engine's, for this attempt; NULL before start and after the end */
	void *kept; /* the engine's, from one attempt of the probe to the next: a connection that is
		       kept alive */
	const char *phase; /* static, the engine's: what it is doing, for the verdict of a timeout:
			      "connecting"; NULL before start */
	uint64_t deadline_usec;
	bool closes; /* the shard's: there is no room to keep a connection that is not kept yet */
	uint32_t connections, bytes_sent,
			bytes_received; /* counted by the engine, for this attempt */
};

struct engine {
	const char *name;
	unsigned descriptors; /* that an attempt has open at most, as a rule */
	bool forgets_at_once; /* forget() closes what is kept, and does not leave that to a library
			       */
	/* What the engine keeps for one shard; made when it is first needed. */
	int (*open)(struct shard *shard, void **ret);
	void (*close)(void *engine);
	/* Begin. May finish at once by attempt_finish(). Errors are this node's fault: PROBE_LOCAL.
	 */
	int (*start)(void *engine, struct attempt *attempt);
	/* Break off without a result. What is kept may stay. */
	void (*cancel)(void *engine, struct attempt *attempt);
	/* Let go of attempt->kept; the probe goes. NULL: nothing is ever kept. */
	void (*forget)(void *engine, struct attempt *attempt);
};

extern const struct engine engine_plain, engine_curl, engine_exec;

/* The one that carries out this target. */
const struct engine *engine_of(const struct target *target);

/* ---- what a shard offers ---- */

/* A descriptor that is watched; embed it where it is used. */
struct shard_watch {
	void (*ready)(struct shard_watch *watch, uint32_t events); /* EPOLLIN and the like */
	int fd;
};

/* Level-triggered unless events has EPOLLET. Errors: those of epoll_ctl. */
int shard_watch_add(struct shard *shard, struct shard_watch *watch, uint32_t events);
int shard_watch_change(struct shard *shard, struct shard_watch *watch, uint32_t events);
/* Before the descriptor is closed. Its ready() does not run any more, also for events of this turn.
 */
void shard_watch_remove(struct shard *shard, struct shard_watch *watch);

/* A timer of an engine's own, one each: curl needs one. 0: off. */
void shard_timer_set(struct shard *shard, const struct engine *engine, uint64_t at_usec,
		void (*expired)(void *engine));

uint64_t shard_now_usec(const struct shard *shard); /* CLOCK_BOOTTIME, of this turn */

/* The end of an attempt: the shard takes the verdict and starts no new one before its time. */
void attempt_finish(struct attempt *attempt, const struct verdict *verdict);
