#pragma once

/* A queue of keys for a reconciler, as in Kubernetes: each key is in it once, however often it was
 * added; retries back off per key. Level-triggered: an event adds a key, the reconciler compares
 * what should be with what is. What is due first runs first, and of what is due at once the one
 * that was added first.
 *
 * Thread: the core's. */

#include <stdint.h>

#include <systemd/sd-event.h>

struct work_queue;

/* What is to be done with the key afterwards: nothing, or again after `*ret_again_usec` (written by
 * the reconciler when it returns WORK_LATER); WORK_RETRY: again after the key's back-off. */
enum work_result {
	WORK_DONE,
	WORK_LATER,
	WORK_RETRY
};

typedef enum work_result (*work_reconcile)(
		void *userdata, const char *key, uint64_t *ret_again_usec);

#define WORK_BACKOFF_MIN_USEC UINT64_C(100000)
#define WORK_BACKOFF_MAX_USEC UINT64_C(30000000)

int work_queue_new(
		sd_event *event, work_reconcile reconcile, void *userdata, struct work_queue **ret);
struct work_queue *work_queue_free(struct work_queue *queue); /* NULL is fine */

/* As soon as the loop turns. A key that waits for a later time is moved forward; its back-off
 * stays. */
int work_queue_add(struct work_queue *queue, const char *key);
/* Forget a key and its back-off. Inside its own reconcile this wins over the result. */
void work_queue_remove(struct work_queue *queue, const char *key);
