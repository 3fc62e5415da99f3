#pragma once

/* What the files of a shard share. */

#include <pthread.h>
#include <sys/epoll.h>

#include "pace.h"
#include "random.h"
#include "shard.h"

#define SHARD_EVENTS_MAX  512
#define SHARD_ENGINES_MAX 4
#define SHARD_STARTS_MAX  128 /* a turn; then answers are looked at again */

struct shard_engine {
	const struct engine *engine;
	struct shard *shard;
	void *opened; /* its own */
	struct timer timer;
	void (*expired)(void *engine);
};

struct shard {
	pthread_t thread;
	int epoll_fd;
	const struct shard_rates *rates;
	struct outbox *outbox;

	/* under the lock */
	pthread_mutex_t lock;
	struct probe *commands, **commands_last;
	bool stop, respread;

	_Atomic size_t under_way, new_count; /* the thread's to write */
	_Atomic uint64_t standstills, crowded_usec;

	/* the thread's */
	struct timer_wheel wheel;
	struct shard_watch wake;
	struct shard_engine engines[SHARD_ENGINES_MAX];
	unsigned engine_count;
	struct random random;
	struct pace cap, burst;
	struct probe_list all, first, due; /* every probe; those in line for a start */
	struct probe_list at_rest;         /* whose connection can be closed, longest first */
	size_t taken;                      /* descriptors, of rates->room ... */
	size_t keepers;                    /* ... some for those that keep theirs */
	uint64_t now_usec;
	uint64_t turn_usec;      /* when this turn began */
	uint64_t last_turn_usec; /* how long the turn before took, without its wait */
	uint64_t asked_usec;     /* when the wait that has just ended was to end */
	uint64_t posted_usec;
	bool has_results;
	bool stalled;       /* in this turn */
	bool is_crowded;    /* who is next in line waits for room */
	bool first_is_next; /* which line is served, where both wait */
	struct epoll_event events[SHARD_EVENTS_MAX];
	int event_count, event_at; /* -1: what the wait has brought is not dealt with yet */
};

/* shard-watch.c */
/* How many events are there, at most SHARD_EVENTS_MAX. Whose watch is removed before or while they
 * are dealt with is not called. */
int shard_wait(struct shard *s, int timeout_msec);
void shard_dispatch(struct shard *s);
/* What the shard keeps of an engine, opened. Errors: of engine->open; EMFILE: too many engines. */
int shard_open_engine(struct shard *s, const struct engine *engine, void **ret);
void *shard_opened(const struct shard *s, const struct engine *engine); /* of one that is open */
void shard_close_engines(struct shard *s);

/* shard-attempt.c: one probe, from its turn to its result. Each call leaves it in another state. */
void probe_take(struct shard *s, struct probe *probe); /* the core has added it */
void probe_begin(struct probe *probe);                 /* its turn has come */
void probe_ask_anew(struct probe *probe);              /* what is under way is broken off */
void probe_let_go(struct probe *probe);                /* give it back to the core */
void probe_hasten(struct probe *probe, uint64_t interval_usec);
void probe_respread(struct probe *probe);

/* shard-room.c */
/* Whether the probe may begin now; connections at rest are closed for it. */
bool room_is_there(struct probe *probe);
void room_take(struct probe *probe);   /* it begins */
void room_leave(struct probe *probe);  /* its attempt has ended */
void room_forget(struct probe *probe); /* its connection is not kept any more */

/* shard-loop.c */
void *shard_run(void *userdata);
