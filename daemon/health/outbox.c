#include "outbox.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "shard.h"

#define FIRST_CAPACITY 64
#define KEPT_CAPACITY  4096 /* more goes back once the core has taken it */

struct records {
	struct outbox_record *list;
	size_t count, capacity;
};

struct outbox {
	struct message message; /* first; in the inbox while `posted` */
	struct inbox *inbox;
	outbox_on_batch on_batch;
	void *userdata;
	struct records taken; /* the core's: of the batch before, for its memory */

	pthread_mutex_t lock;
	struct records waiting;
	struct probe *gone, **gone_last;
	uint64_t lost;
	bool posted, closed;
};

static void outbox_free(struct outbox *o)
{
	pthread_mutex_destroy(&o->lock);
	free(o->taken.list);
	free(o->waiting.list);
	free(o);
}

static void outbox_on_message(struct message *message, void *userdata)
{
	struct outbox *o = userdata;
	struct records batch;
	struct probe *gone;
	uint64_t lost;
	bool closed;

	assert(message == &o->message);
	if (o->taken.capacity > KEPT_CAPACITY) {
		free(o->taken.list);
		o->taken = (struct records){};
	}
	pthread_mutex_lock(&o->lock);
	batch = o->waiting;
	o->waiting = (struct records){ .list = o->taken.list, .capacity = o->taken.capacity };
	o->taken = batch;
	gone = o->gone;
	o->gone = NULL;
	o->gone_last = &o->gone;
	lost = o->lost;
	o->lost = 0;
	o->posted = false;
	closed = o->closed;
	pthread_mutex_unlock(&o->lock);

	if (closed)
		outbox_free(o);
	else
		o->on_batch(o->userdata, batch.list, batch.count, gone, lost);
}

static void outbox_on_discarded(struct message *message)
{
	struct outbox *o = (struct outbox *) message;

	pthread_mutex_lock(&o->lock);
	o->posted = false;
	pthread_mutex_unlock(&o->lock);
	if (o->closed)
		outbox_free(o);
}

int outbox_new(struct inbox *inbox, outbox_on_batch on_batch, void *userdata, struct outbox **ret)
{
	struct outbox *o = calloc(1, sizeof(*o));

	if (!o)
		return -ENOMEM;
	*o = (struct outbox){ .message = { .receive = outbox_on_message,
					      .discard = outbox_on_discarded,
					      .userdata = o },
		.inbox = inbox,
		.on_batch = on_batch,
		.userdata = userdata };
	o->gone_last = &o->gone;
	pthread_mutex_init(&o->lock, NULL);
	*ret = o;
	return 0;
}

struct probe *outbox_close(struct outbox *o)
{
	struct probe *gone = o->gone;

	if (o->posted) {
		/* The message still lies in the inbox, and takes the rest with it. */
		o->closed = true;
		o->waiting.count = 0;
		o->gone = NULL;
	} else {
		outbox_free(o);
	}
	return gone;
}

static bool records_grow(struct records *records)
{
	size_t capacity = records->capacity ? 2 * records->capacity : FIRST_CAPACITY;
	struct outbox_record *list;

	if (records->capacity == OUTBOX_RECORDS_MAX)
		return false;
	list = reallocarray(records->list, capacity, sizeof(*list));
	if (!list)
		return false;
	records->list = list;
	records->capacity = capacity;
	return true;
}

void outbox_add(struct outbox *o, const struct outbox_record *record)
{
	pthread_mutex_lock(&o->lock);
	if (o->waiting.count < o->waiting.capacity || records_grow(&o->waiting))
		o->waiting.list[o->waiting.count++] = *record;
	else
		o->lost++;
	pthread_mutex_unlock(&o->lock);
}

void outbox_add_gone(struct outbox *o, struct probe *probe)
{
	pthread_mutex_lock(&o->lock);
	probe->outbox_next = NULL;
	*o->gone_last = probe;
	o->gone_last = &probe->outbox_next;
	pthread_mutex_unlock(&o->lock);
}

void outbox_discard(struct outbox *o)
{
	pthread_mutex_lock(&o->lock);
	for (size_t i = 0; i < o->waiting.count; i++)
		o->waiting.list[i].discarded = true;
	pthread_mutex_unlock(&o->lock);
}

void outbox_post(struct outbox *o)
{
	bool post;

	pthread_mutex_lock(&o->lock);
	post = !o->posted && (o->waiting.count > 0 || o->gone || o->lost > 0);
	o->posted |= post;
	pthread_mutex_unlock(&o->lock);
	if (post)
		inbox_post(o->inbox, &o->message);
}
