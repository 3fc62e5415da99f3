/* The core's side of a shard. */

#include "shard.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "ownership.h"
#include "shard-private.h"
#include "thread.h"

static struct shard *shard_destroy(struct shard *s)
{
	struct probe *probe, *next;

	while ((probe = TAILQ_FIRST(&s->all))) {
		TAILQ_REMOVE(&s->all, probe, all);
		probe_free(probe);
	}
	for (probe = s->outbox ? outbox_close(s->outbox) : NULL; probe; probe = next) {
		next = probe->outbox_next;
		probe_free(probe);
	}
	if (s->wake.fd >= 0)
		(void) close(s->wake.fd);
	if (s->epoll_fd >= 0)
		(void) close(s->epoll_fd);
	pthread_mutex_destroy(&s->lock);
	free(s);
	return NULL;
}

static int shard_open(
		struct shard *s, struct inbox *inbox, outbox_on_batch on_batch, void *userdata)
{
	int r;

	r = outbox_new(inbox, on_batch, userdata, &s->outbox);
	if (r < 0)
		return r;
	s->wake.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (s->wake.fd < 0 || s->epoll_fd < 0)
		return -errno;
	r = shard_watch_add(s, &s->wake, EPOLLIN);
	if (r < 0)
		return r;
	return thread_start(&s->thread, "prober", shard_run, s);
}

int shard_new(struct inbox *inbox, const struct shard_rates *rates, outbox_on_batch on_batch,
		void *userdata, struct shard **ret)
{
	struct shard *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->rates = rates;
	s->epoll_fd = s->wake.fd = -1;
	s->commands_last = &s->commands;
	TAILQ_INIT(&s->all);
	TAILQ_INIT(&s->first);
	TAILQ_INIT(&s->due);
	TAILQ_INIT(&s->at_rest);
	pthread_mutex_init(&s->lock, NULL);
	r = shard_open(s, inbox, on_batch, userdata);
	if (r < 0) {
		shard_destroy(s);
		return r;
	}
	*ret = s;
	return 0;
}

static void shard_wake(struct shard *s)
{
	(void) eventfd_write(s->wake.fd, 1);
}

struct shard *shard_free(struct shard *s)
{
	if (!s)
		return NULL;
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	pthread_mutex_unlock(&s->lock);
	shard_wake(s);
	(void) pthread_join(s->thread, NULL);
	return shard_destroy(s);
}

/* Under the lock. True: the shard is to be woken. */
static bool shard_queue(struct shard *s, struct probe *probe)
{
	bool was_empty = !s->commands;

	if (probe->has_command)
		return false;
	probe->has_command = true;
	probe->command_next = NULL;
	*s->commands_last = probe;
	s->commands_last = &probe->command_next;
	return was_empty;
}

void shard_add(struct shard *s, struct probe *probe)
{
	bool wake;

	probe->shard = s;
	pthread_mutex_lock(&s->lock);
	wake = shard_queue(s, probe);
	pthread_mutex_unlock(&s->lock);
	if (wake)
		shard_wake(s);
}

void shard_remove(struct shard *s, struct probe *probe)
{
	bool wake;

	pthread_mutex_lock(&s->lock);
	probe->is_removed = true;
	wake = shard_queue(s, probe);
	pthread_mutex_unlock(&s->lock);
	if (wake)
		shard_wake(s);
}

void shard_set_interval(struct shard *s, struct probe *probe, uint64_t interval_usec)
{
	bool wake;

	pthread_mutex_lock(&s->lock);
	probe->interval_wanted_usec = interval_usec;
	wake = shard_queue(s, probe);
	pthread_mutex_unlock(&s->lock);
	if (wake)
		shard_wake(s);
}

void shard_respread(struct shard *s)
{
	pthread_mutex_lock(&s->lock);
	s->respread = true;
	pthread_mutex_unlock(&s->lock);
	shard_wake(s);
}

void shard_counts(const struct shard *s, struct shard_counts *ret)
{
	*ret = (struct shard_counts){
		.under_way = atomic_load_explicit(&s->under_way, memory_order_relaxed),
		.new = atomic_load_explicit(&s->new_count, memory_order_relaxed),
		.standstills = atomic_load_explicit(&s->standstills, memory_order_relaxed),
		.crowded_usec = atomic_load_explicit(&s->crowded_usec, memory_order_relaxed),
	};
}

struct probe *probe_free(struct probe *probe)
{
	if (!probe)
		return NULL;
	target_free(probe->target);
	free(probe);
	return NULL;
}
