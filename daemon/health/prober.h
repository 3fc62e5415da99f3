#pragma once

/* Asks targets in turn, each at its interval, off the core: the one prober of the node.
 *
 * Probes are spread over threads ("shards"), each a loop of its own over epoll with a wheel of
 * timers. A probe's next time is counted from when it was due, not from when it was carried out, so
 * a slow answer does not shift it; jitter is drawn anew each time within the interval. The first
 * attempt comes at once, as fast as PROBER_BURST allows, the second at a random point of the
 * interval. One attempt of a probe at a time: where the timeout is longer than the interval, the
 * next waits for its end.
 *
 * An attempt whose answer was there in time but was read late, because this process stood still
 * (SIGSTOP, suspend, starved), proves nothing either way: a thread that finds that it has stood
 * still discards what is under way and asks everybody again, spread like first attempts, before
 * anything is judged. One that is short of time all along believes every fourth attempt.
 *
 * Probes that are under way and connections that are kept have no more descriptors open than a part
 * of what the process may have, so that consumers and sources find theirs. An attempt that finds no
 * room waits for it, and is late.
 *
 * With a cap on the rate (max_rate) intervals are stretched alike for all, and prober_stats says by
 * how much. Results come to the core in batches. Thread: the core's, but for the threads inside. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <systemd/sd-event.h>

#include "check.h"
#include "inbox.h"
#include "verdict.h"

#define PROBER_PROBES_MAX 200000
/* First attempts a second, over all threads; and of one service at once. */
#define PROBER_BURST 2000

struct prober;
struct probe;

struct probe_timing {
	uint64_t interval_usec, timeout_usec;
	double jitter;
};

struct probe_result {
	struct probe *probe;
	void *userdata; /* of prober_add */
	struct verdict verdict;
	uint64_t started_usec, took_usec;
	uint32_t connections, bytes; /* that it cost; bytes both ways */
	uint64_t late_usec; /* by how much it started after it was due; first attempts are due when
			       their turn comes */
};

/* Called on the core. A probe that was removed is in no batch any more; of one that is removed
 * during the call, what is left of the batch has NULL as probe and userdata. */
typedef void (*prober_on_results)(void *userdata, const struct probe_result *results, size_t count);

int prober_new(struct inbox *inbox, const struct prober_config *config,
		prober_on_results on_results, void *userdata, struct prober **ret);
struct prober *prober_free(struct prober *p); /* NULL is fine */
/* Takes effect for what is due from now on; a change of `threads` needs a restart, and is logged
 * so. */
void prober_configure(struct prober *p, const struct prober_config *config);

/* Begin to ask. Takes the target, unless it fails. Errors: E2BIG, ENOMEM, EAGAIN (no thread),
 * EMFILE (no descriptor for one). */
int prober_add(struct prober *p, struct target *target, const struct probe_timing *timing,
		void *userdata, struct probe **ret);
/* Stop at once: what is under way is broken off, and no result of it is delivered after this
 * returns. */
void prober_remove(struct prober *p, struct probe *probe);
/* Another pace, as while it is down. Shorter: the next attempt moves forward. */
void prober_set_interval(struct prober *p, struct probe *probe, uint64_t interval_usec);

/* Totals since the start, over all threads. */
struct prober_stats {
	uint64_t probes;                     /* carried out */
	uint64_t discarded;                  /* results that came too late to be believed */
	uint64_t local;                      /* PROBE_LOCAL */
	uint64_t connections;                /* opened */
	uint64_t bytes_sent, bytes_received; /* of the protocol, without TCP and TLS */
	uint64_t standstills;                /* times that a thread found it had stood still */
	size_t count;                        /* probes that are asked in turn */
	size_t under_way;
	size_t room;        /* descriptors that probes may have open at once */
	double wanted_rate; /* probes a second that the intervals ask for */
	double rate;        /* that have been carried out, of the last half minute or so */
	double stretch;     /* what intervals are multiplied with because of the cap: 1 or more */
	uint64_t late_p50_usec, late_p99_usec, late_max_usec; /* of the last minute or so */
};
void prober_stats(struct prober *p, struct prober_stats *ret);
/* The same counts of one probe. */
struct probe_stats {
	uint64_t probes, connections, bytes_sent, bytes_received;
};
void probe_stats(const struct probe *probe, struct probe_stats *ret);
