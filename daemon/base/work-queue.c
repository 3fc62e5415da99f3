#include "work-queue.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "clock.h"
#include "hash.h"
#include "heap.h"
#include "ownership.h"
#include "random.h"

#define KEYS_A_TURN 16

struct work {
	struct heap_item turn; /* the first member; its key is when it is due */
	UT_hash_handle hh;
	uint64_t backoff_usec;
	bool running;
	bool removed; /* while running */
	char key[];
};

struct work_queue {
	sd_event_source *timer;
	work_reconcile reconcile;
	void *userdata;
	struct work *works; /* by key */
	struct heap turns;  /* those that do not run */
	struct random random;
};

static struct work *work_find(const struct work_queue *queue, const char *key)
{
	struct work *work;

	HASH_FIND_STR(queue->works, key, work);
	return work;
}

static void work_drop(struct work_queue *queue, struct work *work)
{
	HASH_DEL(queue->works, work);
	heap_remove(&queue->turns, &work->turn);
	free(work);
}

static struct work *work_next(const struct work_queue *queue)
{
	return (struct work *) (void *) queue->turns.root;
}

/* Unless it comes earlier anyway. */
static void work_come(struct work_queue *queue, struct work *work, uint64_t due_usec)
{
	if (!heap_has(&work->turn) || due_usec < work->turn.key)
		heap_add(&queue->turns, &work->turn, due_usec);
}

static void queue_arm(struct work_queue *queue)
{
	const struct work *next = work_next(queue);

	if (!next) {
		(void) sd_event_source_set_enabled(queue->timer, SD_EVENT_OFF);
		return;
	}
	(void) sd_event_source_set_time(queue->timer, next->turn.key);
	(void) sd_event_source_set_enabled(queue->timer, SD_EVENT_ONESHOT);
}

/* Half of it fixed, half at random, so that what failed together does not come back together. */
static uint64_t work_backoff(struct work_queue *queue, struct work *work)
{
	uint64_t delay = work->backoff_usec ? work->backoff_usec * 2 : WORK_BACKOFF_MIN_USEC;

	if (delay > WORK_BACKOFF_MAX_USEC)
		delay = WORK_BACKOFF_MAX_USEC;
	work->backoff_usec = delay;
	return delay / 2 + random_below(&queue->random, delay / 2 + 1);
}

static void work_run(struct work_queue *queue, struct work *work)
{
	uint64_t again_usec = 0;
	enum work_result result;

	heap_remove(&queue->turns, &work->turn);
	work->running = true;
	result = queue->reconcile(queue->userdata, work->key, &again_usec);
	work->running = false;
	if (work->removed) {
		work_drop(queue, work);
		return;
	}
	switch (result) {
	case WORK_DONE:
		work->backoff_usec = 0;
		break;
	case WORK_LATER:
		work->backoff_usec = 0;
		work_come(queue, work, clock_boot_usec() + again_usec);
		return;
	case WORK_RETRY:
		work_come(queue, work, clock_boot_usec() + work_backoff(queue, work));
		return;
	}
	/* Added again while it ran: it stays. */
	if (!heap_has(&work->turn))
		work_drop(queue, work);
}

static int queue_on_time(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct work_queue *queue = userdata;
	uint64_t now = clock_boot_usec();

	(void) source;
	(void) usec;
	for (int i = 0; i < KEYS_A_TURN; i++) {
		struct work *next = work_next(queue);

		if (!next || next->turn.key > now)
			break;
		work_run(queue, next);
	}
	queue_arm(queue);
	return 0;
}

int work_queue_new(
		sd_event *event, work_reconcile reconcile, void *userdata, struct work_queue **ret)
{
	struct work_queue *queue = calloc(1, sizeof(*queue));
	int r;

	if (!queue)
		return -ENOMEM;
	queue->reconcile = reconcile;
	queue->userdata = userdata;
	random_init(&queue->random);
	r = sd_event_add_time(event, &queue->timer, CLOCK_BOOTTIME, USEC_FOREVER, 1, queue_on_time,
			queue);
	if (r < 0) {
		work_queue_free(queue);
		return r;
	}
	(void) sd_event_source_set_enabled(queue->timer, SD_EVENT_OFF);
	(void) sd_event_source_set_description(queue->timer, "work-queue");
	*ret = queue;
	return 0;
}

struct work_queue *work_queue_free(struct work_queue *queue)
{
	struct work *work, *next;

	if (!queue)
		return NULL;
	HASH_ITER(hh, queue->works, work, next)
	work_drop(queue, work);
	sd_event_source_disable_unref(queue->timer);
	free(queue);
	return NULL;
}

int work_queue_add(struct work_queue *queue, const char *key)
{
	struct work *work = work_find(queue, key);
	size_t size;

	if (!work) {
		size = strlen(key) + 1;
		work = calloc(1, sizeof(*work) + size);
		if (!work)
			return -ENOMEM;
		memcpy(work->key, key, size);
		HASH_ADD_KEYPTR(hh, queue->works, work->key, size - 1, work);
		if (!hash_was_added(work)) {
			free(work);
			return -ENOMEM;
		}
	}
	work->removed = false;
	/* By the time: who is added again and again does not come before who waits for long. */
	work_come(queue, work, clock_boot_usec());
	if (!work->running)
		queue_arm(queue);
	return 0;
}

void work_queue_remove(struct work_queue *queue, const char *key)
{
	struct work *work = work_find(queue, key);

	if (!work)
		return;
	if (work->running)
		work->removed = true;
	else
		work_drop(queue, work);
	queue_arm(queue);
}
