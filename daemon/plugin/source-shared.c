#include "source-shared.h"

#include <assert.h>
#include <stdlib.h>

#include "ownership.h"

struct usher_source *source_shared_ref(struct usher_source *shared)
{
	atomic_fetch_add_explicit(&shared->refs, 1, memory_order_relaxed);
	return shared;
}

static void drop_queue(struct usher_source *shared)
{
	while (shared->queue) {
		struct said *said = shared->queue;

		shared->queue = said->next;
		said_unref(said);
	}
}

struct usher_source *source_shared_unref(struct usher_source *shared)
{
	if (!shared || atomic_fetch_sub_explicit(&shared->refs, 1, memory_order_acq_rel) != 1)
		return NULL;
	drop_queue(shared);
	for (size_t i = 0; i < SOURCE_WATCHES_MAX; i++)
		file_watch_free(shared->watches[i].watch);
	wanted_list_unref(shared->newest);
	wanted_list_unref(shared->current);
	failure_unref(shared->fault);
	free(shared->known);
	drain_words_free(shared->drains);
	if (shared->wake_fd >= 0)
		(void) close(shared->wake_fd);
	plugin_instance_unref(shared->instance);
	pthread_mutex_destroy(&shared->lock);
	free(shared->name);
	free(shared);
	return NULL;
}

void source_shared_post(struct usher_source *shared)
{
	if (!shared->core || shared->posted)
		return;
	shared->posted = true;
	inbox_post(shared->inbox, &source_shared_ref(shared)->message);
}

void source_shared_queue(struct usher_source *shared, struct said *said)
{
	if (!said->queued) {
		said->queued = true;
		said->next = NULL;
		*shared->queue_last = said_ref(said);
		shared->queue_last = &said->next;
	}
	source_shared_post(shared);
}

struct said *source_shared_find(struct usher_source *shared, const char *service)
{
	struct said *said = wanted_list_find(shared->newest, service);

	if (!shared->core || !said || said->since > shared->current->generation)
		return NULL;
	return said;
}

static void put_fail(struct usher_source *shared, struct said *said, struct failure *failure)
{
	failure_unref(said->failed);
	said->failed = failure_ref(failure);
	said->failing = true;
	source_shared_queue(shared, said);
}

void source_shared_fail(struct usher_source *shared, const char *service, struct failure *failure)
{
	struct said *said = source_shared_find(shared, service);

	if (said)
		put_fail(shared, said, failure);
}

void source_shared_fail_quiet(struct usher_source *shared, struct failure *failure)
{
	for (size_t i = 0; i < shared->current->count; i++) {
		struct said *said = source_shared_find(shared, shared->current->wanted[i].service);

		if (said && !said->failing)
			put_fail(shared, said, failure);
	}
}
