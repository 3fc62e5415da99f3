#pragma once

/* The two halves of the store: store.c is what the core calls, store-writer.c the thread that
 * writes what the core has left for it. */

#include <pthread.h>

#include "ledger.h"
#include "store-file.h"

struct store {
	pthread_mutex_t lock;
	pthread_cond_t wake; /* CLOCK_MONOTONIC */
	pthread_t thread;

	/* under the lock */
	struct ledger *ledger;
	struct inbox *inbox; /* NULL once the store is closed and the thread left behind */
	uint64_t due_usec;   /* when to write what is queued; USEC_FOREVER: nothing is */
	bool hurry;          /* somebody waits for what was queued since the last batch */
	bool closing, finished;
	uint64_t next_revision, reserved; /* the disk knows those below `reserved` */
	uint64_t reserve;                 /* what it is to know next; 0: nothing new */
	bool overrun;                     /* the reservation is used up, and that is said */
	bool failing;
	char trouble[USHER_ERROR_TEXT_MAX];

	/* the core's */
	char trouble_shown[USHER_ERROR_TEXT_MAX];

	/* the thread's, once it runs */
	struct store_file file;
	bool clear; /* the file is empty, or holds what is not current */
	uint64_t check_usec, retry_usec;
};

#define STORE_CHECK_USEC (STORE_REFRESH_USEC / 2) /* the file is looked after so often */

void store_lock(struct store *s);
void store_unlock(struct store *s);
struct store *store_free(struct store *s);

/* The thread; its argument is the store. It ends once the store is closing and what is queued is
 * written or refused, and frees the store when nobody waits for it any more. */
void *store_run(void *userdata);
