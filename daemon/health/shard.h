#pragma once

/* One thread of the prober: a loop over epoll that starts probes when they are due and ends them at
 * their deadline. What a probe does meanwhile is its engine's (engine.h).
 *
 * The core adds probes and changes them; the shard lets go of a removed one through the outbox, and
 * only then the core frees it. Thread: the core's, where nothing else is said. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "engine.h"
#include "outbox.h"
#include "prober.h"
#include "timer-wheel.h"

/* How long the loop must have been away, beyond what it had asked for, to have been stalled:
 * deadlines that passed meanwhile prove nothing. And to have stood still: nothing that was found
 * before does. */
#define SHARD_STALL_USEC      UINT64_C(100000)
#define SHARD_STANDSTILL_USEC UINT64_C(1000000)
/* Attempts of a probe in a row that are not believed because the loop was stalled. One that is
 * short of time all along would else never find anybody down. */
#define SHARD_DOUBTS_MAX 3
/* The core is told of results no more often than this. */
#define SHARD_BATCH_USEC UINT64_C(10000)

struct shard;

enum probe_state {
	PROBE_IS_NEW, /* not asked yet, or to be asked anew: waits for its turn among the first */
	PROBE_WAITS,  /* for its time */
	PROBE_IS_DUE, /* waits for the cap on the rate, or the end of this turn */
	PROBE_IS_UNDER_WAY,
	PROBE_IS_GONE,
};

struct probe {
	struct attempt attempt; /* first */
	const struct engine *engine;
	struct shard *shard;
	struct target *target;
	void *userdata;

	/* the shard's thread */
	struct timer timer; /* until it is due, then until the deadline */
	TAILQ_ENTRY(probe) all, line, rest;
	enum probe_state state;
	bool is_taken;   /* the shard has it */
	bool may_keep;   /* its connection, from one attempt to the next ... */
	bool is_at_rest; /* ... which it does now */
	bool asked;      /* at least once since it was new */
	unsigned doubts; /* attempts in a row that were not believed */
	struct probe_timing timing;
	uint64_t base_usec; /* when it was due last, without jitter */
	uint64_t due_usec;
	uint64_t started_usec;

	/* under the shard's lock */
	struct probe *command_next;
	bool has_command, is_removed;
	uint64_t interval_wanted_usec; /* 0: as it is */

	/* the core's */
	struct probe *outbox_next;
	bool removed;
	uint64_t interval_usec;
	struct probe_stats stats;
};

TAILQ_HEAD(probe_list, probe);

/* What all shards go by; the core writes, they read. */
struct shard_rates {
	_Atomic double stretch;  /* of intervals: 1 or more */
	_Atomic double max_rate; /* of one shard; 0: no cap */
	_Atomic double burst;    /* of one shard */
	size_t room;             /* descriptors of one shard; set before there are any */
};

struct shard_counts {
	size_t under_way;
	size_t new; /* wait for their first attempt, or to be asked anew */
	uint64_t standstills;
	uint64_t crowded_usec; /* when one waited for room last; 0: never */
};

/* Starts the thread. Errors: ENOMEM, EAGAIN, EMFILE. */
int shard_new(struct inbox *inbox, const struct shard_rates *rates, outbox_on_batch on_batch,
		void *userdata, struct shard **ret);
/* Ends it. All of its probes and their targets are freed. */
struct shard *shard_free(struct shard *s);

/* From now on the probe is the shard's, until the outbox gives it back. */
void shard_add(struct shard *s, struct probe *probe);
void shard_remove(struct shard *s, struct probe *probe);
void shard_set_interval(struct shard *s, struct probe *probe, uint64_t interval_usec);
/* Intervals have become shorter: who waits longer than one is given a new time. */
void shard_respread(struct shard *s);
void shard_counts(const struct shard *s, struct shard_counts *ret);

struct probe *probe_free(struct probe *probe); /* with its target */
