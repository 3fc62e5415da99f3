#pragma once

/* Threads for work that may block: the core hands over a job and gets it back done.
 *
 * `run` is called on a worker thread and sees only its job; `done` is called on the core afterwards
 * and owns the job from then on. A job that the worker had not finished when it was freed is given
 * to `done` with cancelled set where it had not begun; where it is running, free waits for it no
 * longer than WORKER_STOP_USEC and then leaves it behind (its `done` is never called). */

#include <stdbool.h>

#include "inbox.h"

#define WORKER_STOP_USEC UINT64_C(2000000)

struct worker;

struct job {
	struct message message; /* the worker's */
	void (*run)(struct job *job);
	void (*done)(struct job *job, bool cancelled);
	struct job *next; /* the worker's */
};

/* `threads` start when there is work, not before. name stands in messages and as the thread's name.
 */
int worker_new(struct inbox *inbox, const char *name, unsigned threads, struct worker **ret);
struct worker *worker_free(struct worker *worker); /* NULL is fine */

/* Errors: EAGAIN (no thread could be started and none runs; the job stays the caller's). */
int worker_submit(struct worker *worker, struct job *job);
