#include "worker.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "clock.h"
#include "ownership.h"
#include "thread.h"

#define THREADS_MAX 16

/* Shared with its threads; the last to let go frees it, for a thread may be left behind. */
struct worker {
	atomic_uint refs;
	struct inbox *inbox; /* NULL once the worker is freed; under the lock */
	char name[16];
	unsigned limit;
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct job *first, **last; /* under the lock */
	unsigned queued;
	unsigned idle; /* threads, also those that a queued job has woken and that do not run yet */
	unsigned started;
	bool stopping;
	pthread_t threads[THREADS_MAX];
};

static void worker_unref(struct worker *worker)
{
	if (atomic_fetch_sub(&worker->refs, 1) != 1)
		return;
	pthread_cond_destroy(&worker->more);
	pthread_mutex_destroy(&worker->lock);
	free(worker);
}

static struct job *job_of(struct message *message)
{
	return (struct job *) ((char *) message - offsetof(struct job, message));
}

static void job_receive(struct message *message, void *userdata)
{
	struct job *job = job_of(message);

	(void) userdata;
	job->done(job, false);
}

static void job_discard(struct message *message)
{
	struct job *job = job_of(message);

	job->done(job, true);
}

static struct job *worker_next(struct worker *worker)
{
	struct job *job;

	pthread_mutex_lock(&worker->lock);
	worker->idle++;
	while (!worker->first && !worker->stopping)
		pthread_cond_wait(&worker->more, &worker->lock);
	worker->idle--;
	job = worker->stopping ? NULL : worker->first;
	if (job) {
		worker->first = job->next;
		worker->queued--;
		if (!worker->first)
			worker->last = &worker->first;
	}
	pthread_mutex_unlock(&worker->lock);
	return job;
}

/* Posting under the lock: worker_free() has either not begun, or the inbox is out of reach. */
static void worker_deliver(struct worker *worker, struct job *job)
{
	job->message = (struct message){ .receive = job_receive, .discard = job_discard };
	pthread_mutex_lock(&worker->lock);
	if (worker->inbox)
		inbox_post(worker->inbox, &job->message);
	pthread_mutex_unlock(&worker->lock);
}

static void *worker_run(void *userdata)
{
	struct worker *worker = userdata;
	struct job *job;

	while ((job = worker_next(worker))) {
		job->run(job);
		worker_deliver(worker, job);
	}
	worker_unref(worker);
	return NULL;
}

int worker_new(struct inbox *inbox, const char *name, unsigned threads, struct worker **ret)
{
	struct worker *worker = calloc(1, sizeof(*worker));

	if (!worker)
		return -ENOMEM;
	worker->refs = 1;
	worker->inbox = inbox;
	worker->limit = threads < THREADS_MAX ? threads : THREADS_MAX;
	worker->last = &worker->first;
	(void) snprintf(worker->name, sizeof(worker->name), "%s", name);
	pthread_mutex_init(&worker->lock, NULL);
	pthread_cond_init(&worker->more, NULL);
	*ret = worker;
	return 0;
}

struct worker *worker_free(struct worker *worker)
{
	uint64_t until = clock_boot_usec() + WORKER_STOP_USEC;
	struct job *job;

	if (!worker)
		return NULL;
	pthread_mutex_lock(&worker->lock);
	worker->stopping = true;
	job = worker->first;
	worker->first = NULL;
	worker->last = &worker->first;
	worker->queued = 0;
	pthread_cond_broadcast(&worker->more);
	pthread_mutex_unlock(&worker->lock);
	while (job) {
		struct job *next = job->next;

		job->done(job, true);
		job = next;
	}
	for (unsigned i = 0; i < worker->started; i++)
		if (thread_join_until(worker->threads[i], until) < 0)
			(void) pthread_detach(worker->threads[i]);
	pthread_mutex_lock(&worker->lock);
	worker->inbox = NULL;
	pthread_mutex_unlock(&worker->lock);
	worker_unref(worker);
	return NULL;
}

int worker_submit(struct worker *worker, struct job *job)
{
	bool start;
	int r = 0;

	job->next = NULL;
	pthread_mutex_lock(&worker->lock);
	start = worker->idle <= worker->queued && worker->started < worker->limit;
	if (start) {
		atomic_fetch_add(&worker->refs, 1);
		r = thread_start(&worker->threads[worker->started], worker->name, worker_run,
				worker);
		if (r < 0)
			atomic_fetch_sub(&worker->refs, 1);
		else
			worker->started++;
	}
	/* Without a new thread an older one takes it, later. */
	if (r == 0 || worker->started > 0) {
		*worker->last = job;
		worker->last = &job->next;
		worker->queued++;
		pthread_cond_signal(&worker->more);
		r = 0;
	}
	pthread_mutex_unlock(&worker->lock);
	return r;
}
