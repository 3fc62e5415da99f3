#include "inbox.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/eventfd.h>

#include "ownership.h"

#define MESSAGES_A_TURN 64

struct inbox {
	pthread_mutex_t lock;
	struct message *first, **last; /* posted, oldest first; under the lock */
	int fd;                        /* readable while there are messages */
	sd_event_source *source;
};

static struct message *inbox_take(struct inbox *inbox)
{
	struct message *message;

	pthread_mutex_lock(&inbox->lock);
	message = inbox->first;
	if (message) {
		inbox->first = message->next;
		if (!inbox->first)
			inbox->last = &inbox->first;
	}
	pthread_mutex_unlock(&inbox->lock);
	return message;
}

static bool inbox_is_empty(struct inbox *inbox)
{
	bool empty;

	pthread_mutex_lock(&inbox->lock);
	empty = !inbox->first;
	pthread_mutex_unlock(&inbox->lock);
	return empty;
}

static void inbox_wake(struct inbox *inbox)
{
	(void) eventfd_write(inbox->fd, 1);
}

static int inbox_on_readable(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct inbox *inbox = userdata;
	eventfd_t count;

	(void) source;
	(void) events;
	/* Emptied first: whoever posts from now on wakes us again. */
	(void) eventfd_read(fd, &count);
	for (int i = 0; i < MESSAGES_A_TURN; i++) {
		struct message *message = inbox_take(inbox);

		if (!message)
			return 0;
		message->next = NULL;
		message->receive(message, message->userdata);
	}
	if (!inbox_is_empty(inbox))
		inbox_wake(inbox);
	return 0;
}

int inbox_new(sd_event *event, struct inbox **ret)
{
	struct inbox *inbox = calloc(1, sizeof(*inbox));
	int r;

	if (!inbox)
		return -ENOMEM;
	pthread_mutex_init(&inbox->lock, NULL);
	inbox->last = &inbox->first;
	inbox->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = inbox->fd < 0 ? -errno
			  : sd_event_add_io(event, &inbox->source, inbox->fd, EPOLLIN,
					    inbox_on_readable, inbox);
	if (r < 0) {
		inbox_free(inbox);
		return r;
	}
	(void) sd_event_source_set_description(inbox->source, "inbox");
	*ret = inbox;
	return 0;
}

struct inbox *inbox_free(struct inbox *inbox)
{
	struct message *message;

	if (!inbox)
		return NULL;
	while ((message = inbox_take(inbox)))
		message->discard(message);
	sd_event_source_disable_unref(inbox->source);
	if (inbox->fd >= 0)
		(void) close(inbox->fd);
	pthread_mutex_destroy(&inbox->lock);
	free(inbox);
	return NULL;
}

void inbox_post(struct inbox *inbox, struct message *message)
{
	bool was_empty;

	assert(message->receive);
	assert(message->discard);

	message->next = NULL;
	pthread_mutex_lock(&inbox->lock);
	was_empty = !inbox->first;
	*inbox->last = message;
	inbox->last = &message->next;
	pthread_mutex_unlock(&inbox->lock);
	if (was_empty)
		inbox_wake(inbox);
}
