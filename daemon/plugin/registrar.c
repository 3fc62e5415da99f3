#include "registrar.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "ownership.h"
#include "thread.h"

/* One thing to tell. The core and whoever works on it hold a reference each. */
struct registration_job {
	struct message message;
	atomic_uint refs;
	struct registration_job *next; /* in the queue */
	enum source_registration what;
	struct usher_wanted service; /* made of the texts below */
	char *service_text, *name_text, *port_text;
	struct usher_endpoints *endpoint;
	char *id;
	enum usher_admin_state state;
	struct usher_drain_progress progress; /* with the texts below */
	char *drain_text, *step_text, *progress_text;

	bool finished; /* under the lock; then r and err stay as they are */
	int r;
	struct usher_error err;

	struct registrar *registrar; /* the core's: NULL once it is answered */
	struct registration_job *previous_waiting, *next_waiting;
	source_registered done;
	void *userdata;
};

/* What the thread needs, kept alive by it when it is left behind. */
struct registrar_shared {
	atomic_uint refs;
	struct plugin_instance *instance;
	struct inbox *inbox;
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct registration_job *queue, **queue_last; /* under the lock */
	bool stopping;
	bool deaf;                              /* nobody takes results any more */
	atomic_uint_least64_t renew_after_usec; /* as the plug-in said last */
};

struct registrar {
	struct registrar_shared *shared;
	char *source;
	pthread_t thread;
	bool started;
	bool stopped;
	struct registration_job *waiting; /* every job not answered yet */
	unsigned count;
};

static struct registration_job *job_unref(struct registration_job *job)
{
	if (!job || atomic_fetch_sub_explicit(&job->refs, 1, memory_order_acq_rel) != 1)
		return NULL;
	free(job->service_text);
	free(job->name_text);
	free(job->port_text);
	usher_endpoints_unref(job->endpoint);
	free(job->id);
	free(job->drain_text);
	free(job->step_text);
	free(job->progress_text);
	free(job);
	return NULL;
}
DEFINE_CLEANUP(struct registration_job, job_unref);

static void shared_unref(struct registrar_shared *shared)
{
	if (!shared || atomic_fetch_sub_explicit(&shared->refs, 1, memory_order_acq_rel) != 1)
		return;
	while (shared->queue) {
		struct registration_job *job = shared->queue;

		shared->queue = job->next;
		job_unref(job);
	}
	plugin_instance_unref(shared->instance);
	pthread_cond_destroy(&shared->more);
	pthread_mutex_destroy(&shared->lock);
	free(shared);
}

static int copy_text(const char *text, char **ret)
{
	if (!text)
		return 0;
	*ret = strdup(text);
	return *ret ? 0 : -ENOMEM;
}

static int copy_endpoint(struct registration_job *job, const struct usher_endpoint *endpoint)
{
	if (!endpoint)
		return 0;
	job->endpoint = usher_endpoints_new();
	if (!job->endpoint)
		return -ENOMEM;
	job->r = usher_endpoints_add(job->endpoint, endpoint, &job->err);
	if (job->r < 0)
		job->finished = true; /* an endpoint that cannot be is an answer */
	usher_endpoints_seal(job->endpoint);
	return job->r == -ENOMEM ? -ENOMEM : 0;
}

static int copy_progress(struct registration_job *job, const struct usher_drain_progress *progress)
{
	int r;

	if (!progress)
		return 0;
	r = copy_text(progress->drain, &job->drain_text);
	if (r >= 0)
		r = copy_text(progress->step, &job->step_text);
	if (r >= 0)
		r = copy_text(progress->text, &job->progress_text);
	job->progress = *progress;
	job->progress.size = sizeof(job->progress);
	job->progress.drain = job->drain_text;
	job->progress.step = job->step_text;
	job->progress.text = job->progress_text;
	return r;
}

static int job_new(const struct registration *registration, struct registration_job **ret)
{
	cleanup(job_unrefp) struct registration_job *job = calloc(1, sizeof(*job));
	int r;

	if (!job)
		return -ENOMEM;
	atomic_init(&job->refs, 1);
	job->what = registration->what;
	job->state = registration->state;
	r = copy_text(registration->service.service, &job->service_text);
	if (r >= 0)
		r = copy_text(registration->service.name, &job->name_text);
	if (r >= 0)
		r = copy_text(registration->service.port, &job->port_text);
	job->service = (struct usher_wanted){ job->service_text, job->name_text, job->port_text };
	if (r >= 0)
		r = copy_text(registration->id, &job->id);
	if (r >= 0)
		r = copy_endpoint(job, registration->endpoint);
	if (r >= 0)
		r = copy_progress(job, registration->progress);
	if (r < 0)
		return r;
	*ret = take(job);
	return 0;
}

/* ---- on the thread ---- */

/* The endpoint as a plug-in gets it: with its metadata as an array. */
static int call_add(struct registration_job *job, const struct usher_registration *registration,
		void *data)
{
	autofree struct usher_label *labels = NULL;
	struct usher_endpoint endpoint;

	usher_endpoints_get(job->endpoint, 0, &endpoint);
	labels = calloc(endpoint.metadata_count + 1, sizeof(*labels));
	if (!labels)
		return usher_error_set(&job->err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < endpoint.metadata_count; i++)
		labels[i] = usher_endpoints_metadata_at(job->endpoint, 0, i);
	endpoint.metadata = labels;
	return registration->add(data, &job->service, &endpoint, &job->err);
}

static int call_plugin(struct registration_job *job, const struct plugin_instance *instance)
{
	const struct usher_registration *registration = instance->plugin->registration;
	void *data = instance->data;

	switch (job->what) {
	case SOURCE_ADD:
		return call_add(job, registration, data);
	case SOURCE_RENEW:
		return registration->renew(data, &job->service, job->id, &job->err);
	case SOURCE_SET_STATE:
		return registration->set_state(data, &job->service, job->id, job->state, &job->err);
	case SOURCE_REMOVE:
		return registration->remove(data, &job->service, job->id, &job->err);
	case SOURCE_PROGRESS:
		return registration->progress(
				data, &job->service, job->id, &job->progress, &job->err);
	}
	return -EINVAL;
}

static void ask_when_to_renew(struct registrar_shared *shared, const struct registration_job *job)
{
	const struct plugin_instance *instance = shared->instance;
	const struct usher_registration *registration = instance->plugin->registration;

	if (job->r < 0 || (job->what != SOURCE_ADD && job->what != SOURCE_RENEW) ||
			!registration->renew_after_usec)
		return;
	atomic_store_explicit(&shared->renew_after_usec,
			registration->renew_after_usec(instance->data), memory_order_relaxed);
}

/* Under the lock: hand the worker's reference to the core, or drop it when nobody asks. */
static void post_result(struct registrar_shared *shared, struct registration_job *job)
{
	job->finished = true;
	if (shared->deaf)
		job_unref(job);
	else
		inbox_post(shared->inbox, &job->message);
}

static void *registrar_main(void *userdata)
{
	struct registrar_shared *shared = userdata;

	pthread_mutex_lock(&shared->lock);
	for (;;) {
		struct registration_job *job;

		while (!shared->stopping && !shared->queue)
			pthread_cond_wait(&shared->more, &shared->lock);
		if (shared->stopping)
			break;
		job = shared->queue;
		shared->queue = job->next;
		if (!shared->queue)
			shared->queue_last = &shared->queue;

		pthread_mutex_unlock(&shared->lock);
		job->r = call_plugin(job, shared->instance);
		ask_when_to_renew(shared, job);
		pthread_mutex_lock(&shared->lock);
		post_result(shared, job);
	}
	pthread_mutex_unlock(&shared->lock);
	shared_unref(shared);
	return NULL;
}

/* ---- on the core ---- */

static void list_add(struct registrar *registrar, struct registration_job *job)
{
	job->registrar = registrar;
	job->next_waiting = registrar->waiting;
	if (job->next_waiting)
		job->next_waiting->previous_waiting = job;
	registrar->waiting = job;
	registrar->count++;
}

static void list_remove(struct registration_job *job)
{
	if (job->next_waiting)
		job->next_waiting->previous_waiting = job->previous_waiting;
	if (job->previous_waiting)
		job->previous_waiting->next_waiting = job->next_waiting;
	else
		job->registrar->waiting = job->next_waiting;
	job->registrar->count--;
	job->registrar = NULL;
}

/* Once: later answers find it answered. */
static void answer(struct registration_job *job, int r, const char *reason)
{
	if (!job->registrar)
		return;
	list_remove(job);
	if (job->done)
		job->done(job->userdata, r < 0 ? r : 0, reason);
	job_unref(job);
}

static const char *reason_of(const struct registration_job *job)
{
	return job->r < 0 ? usher_error_text(&job->err, job->r) : "";
}

static void registration_on_result(struct message *message, void *userdata)
{
	struct registration_job *job = userdata;

	(void) message;
	answer(job, job->r, reason_of(job));
	job_unref(job);
}

static void registration_discard(struct message *message)
{
	job_unref(message->userdata);
}

static struct registrar_shared *shared_new(struct plugin_instance *instance, struct inbox *inbox)
{
	struct registrar_shared *shared = calloc(1, sizeof(*shared));

	if (!shared)
		return NULL;
	atomic_init(&shared->refs, 1);
	pthread_mutex_init(&shared->lock, NULL);
	pthread_cond_init(&shared->more, NULL);
	shared->queue_last = &shared->queue;
	shared->instance = plugin_instance_ref(instance);
	shared->inbox = inbox;
	return shared;
}

int registrar_new(const char *source, struct plugin_instance *instance, struct inbox *inbox,
		struct registrar **ret)
{
	struct registrar *registrar = calloc(1, sizeof(*registrar));

	if (!registrar)
		return -ENOMEM;
	registrar->source = strdup(source);
	registrar->shared = shared_new(instance, inbox);
	if (!registrar->source || !registrar->shared) {
		registrar_free(registrar);
		return -ENOMEM;
	}
	*ret = registrar;
	return 0;
}

struct registrar *registrar_free(struct registrar *registrar)
{
	if (!registrar)
		return NULL;
	assert(!registrar->waiting);
	shared_unref(registrar->shared);
	free(registrar->source);
	free(registrar);
	return NULL;
}

void registrar_ask_to_stop(struct registrar *registrar)
{
	struct registrar_shared *shared = registrar->shared;

	pthread_mutex_lock(&shared->lock);
	shared->stopping = true;
	pthread_cond_signal(&shared->more);
	pthread_mutex_unlock(&shared->lock);
}

/* What is done is answered as it went; the rest is cancelled. */
static void answer_all(struct registrar *registrar)
{
	while (registrar->waiting) {
		struct registration_job *job = registrar->waiting;
		bool finished;

		pthread_mutex_lock(&registrar->shared->lock);
		finished = job->finished;
		pthread_mutex_unlock(&registrar->shared->lock);
		if (finished)
			answer(job, job->r, reason_of(job));
		else
			answer(job, -ECANCELED, "the source stopped before the registry answered");
	}
}

void registrar_stop(struct registrar *registrar, uint64_t until_usec)
{
	struct registrar_shared *shared = registrar->shared;
	const char *plugin = shared->instance->plugin->name;

	registrar->stopped = true;
	registrar_ask_to_stop(registrar);
	if (registrar->started && thread_join_until(registrar->thread, until_usec) < 0) {
		log_error(FIELDS(.value[LOG_SOURCE] = registrar->source,
					  .value[LOG_PLUGIN] = plugin),
				"Plug-in %s of source %s does not come back from its registry; leaving "
				"its thread behind",
				plugin, registrar->source);
		pthread_detach(registrar->thread);
	}
	pthread_mutex_lock(&shared->lock);
	shared->deaf = true;
	pthread_mutex_unlock(&shared->lock);
	answer_all(registrar);
}

bool registrar_can(const struct registrar *registrar, enum source_registration what)
{
	const struct usher_registration *registration =
			registrar->shared->instance->plugin->registration;

	if (!registration)
		return false;
	switch (what) {
	case SOURCE_ADD:
		return registration->add;
	case SOURCE_RENEW:
		return registration->renew;
	case SOURCE_SET_STATE:
		return registration->set_state;
	case SOURCE_REMOVE:
		return registration->remove;
	case SOURCE_PROGRESS:
		return registration->progress;
	}
	return false;
}

uint64_t registrar_renew_after_usec(const struct registrar *registrar)
{
	return atomic_load_explicit(&registrar->shared->renew_after_usec, memory_order_relaxed);
}

static const char *words_of(enum source_registration what)
{
	static const char *const words[] = {
		[SOURCE_ADD] = "register an endpoint",
		[SOURCE_RENEW] = "renew a registration",
		[SOURCE_SET_STATE] = "set an endpoint's state",
		[SOURCE_REMOVE] = "deregister an endpoint",
		[SOURCE_PROGRESS] = "be told how a drain goes",
	};

	return words[what];
}

static void start_thread(struct registrar *registrar)
{
	struct registrar_shared *shared = registrar->shared;

	if (registrar->started)
		return;
	atomic_fetch_add_explicit(&shared->refs, 1, memory_order_relaxed);
	if (thread_start(&registrar->thread, registrar->source, registrar_main, shared) < 0)
		shared_unref(shared);
	else
		registrar->started = true;
}

/* What stands in the way of even asking is an answer, too, and comes the same way. */
static void refuse_impossible(struct registrar *registrar, struct registration_job *job)
{
	const char *plugin = registrar->shared->instance->plugin->name;

	if (job->finished)
		return;
	if (!registrar_can(registrar, job->what))
		job->r = usher_error_set(&job->err, -EOPNOTSUPP,
				"plug-in %s of source %s cannot %s", plugin, registrar->source,
				words_of(job->what));
	else if (job->what == SOURCE_ADD ? !job->endpoint : !job->id)
		job->r = usher_error_set(&job->err, -EINVAL, "which endpoint is not said");
	else if (!registrar->started)
		job->r = usher_error_set(&job->err, -EAGAIN,
				"no thread could be started for source %s; try again",
				registrar->source);
	job->finished = job->r < 0;
}

struct registration_job *registrar_add(struct registrar *registrar,
		const struct registration *registration, source_registered done, void *userdata)
{
	struct registrar_shared *shared = registrar->shared;
	struct registration_job *job = NULL;

	if (registrar->stopped || registrar->count >= SOURCE_REGISTRATIONS_MAX)
		return NULL;
	if (job_new(registration, &job) < 0)
		return NULL;
	job->message.receive = registration_on_result;
	job->message.discard = registration_discard;
	job->message.userdata = job;
	job->done = done;
	job->userdata = userdata;
	atomic_fetch_add_explicit(&job->refs, 1, memory_order_relaxed); /* the worker's */
	list_add(registrar, job);

	if (registrar_can(registrar, registration->what))
		start_thread(registrar);
	refuse_impossible(registrar, job);
	pthread_mutex_lock(&shared->lock);
	if (job->finished) {
		post_result(shared, job);
	} else {
		*shared->queue_last = job;
		shared->queue_last = &job->next;
		pthread_cond_signal(&shared->more);
	}
	pthread_mutex_unlock(&shared->lock);
	return job;
}

void source_forget(struct registration_job *job)
{
	if (!job)
		return;
	job->done = NULL;
}
