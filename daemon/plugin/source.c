#include "source.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "clock.h"
#include "log.h"
#include "ownership.h"
#include "registrar.h"
#include "source-shared.h"
#include "thread.h"

#define DELIVERIES_A_TURN 64 /* services whose news the core takes before the loop turns */

struct source {
	struct usher_source *shared;
	pthread_t thread;
	const struct source_events *events;
	void *userdata;
	struct registrar *registrar;
	uint64_t serial;
	enum source_state state;
	uint64_t last_contact_usec, last_change_usec;
	char *error;
	struct known *known;
};

/* One service's news, out of the lock. */
struct delivery {
	struct said *said;
	struct observation *offered;
	uint64_t confirmed_usec;
	struct failure *failed;
	bool alone; /* other services of the source do not fail */
};

static void note_contact(struct source *source, uint64_t observed_usec)
{
	if (observed_usec > source->last_contact_usec)
		source->last_contact_usec = observed_usec;
	source->state = SOURCE_LIVE;
	free(source->error);
	source->error = NULL;
}

static enum source_state state_of_failure(int code)
{
	return code == -EACCES || code == -EPERM ? SOURCE_DENIED : SOURCE_FAILED;
}

static void note_failure(struct source *source, const struct failure *failure)
{
	source->state = state_of_failure(failure->code);
	free(source->error);
	source->error = strdup(failure->text);
}

/* Of the thread itself: whatever the plug-in said before it returned says more. */
static void note_fault(struct source *source, const struct failure *failure)
{
	if (source->state != SOURCE_FAILED && source->state != SOURCE_DENIED)
		note_failure(source, failure);
}

/* The core wants to hear no more of the service for now: what was said after the offer waits with
 * what may have been said meanwhile. */
static bool put_back(struct usher_source *shared, struct delivery *delivery)
{
	struct said *said = delivery->said;
	bool held;

	pthread_mutex_lock(&shared->lock);
	held = said->held;
	if (held && !said->offered) {
		if (delivery->failed && !said->failed && said->confirmed_usec == 0)
			said->failed = take(delivery->failed);
		if (delivery->confirmed_usec > said->confirmed_usec)
			said->confirmed_usec = delivery->confirmed_usec;
	}
	pthread_mutex_unlock(&shared->lock);
	return held;
}

/* In the order in which they were said. Each call may stop the source, and then the rest is for
 * nobody. */
static void deliver(struct usher_source *shared, struct delivery *delivery)
{
	const char *service = delivery->said->service;
	struct source *source = shared->core;

	if (source && delivery->offered) {
		note_contact(source, delivery->offered->observed_usec);
		source->last_change_usec = delivery->offered->observed_usec;
		source->events->offered(source->userdata, source, service, take(delivery->offered));
		if (put_back(shared, delivery))
			return;
		source = shared->core;
	}
	if (source && delivery->confirmed_usec > 0) {
		note_contact(source, delivery->confirmed_usec);
		source->events->confirmed(
				source->userdata, source, service, delivery->confirmed_usec);
		source = shared->core;
	}
	if (source && delivery->failed) {
		if (!delivery->alone)
			note_failure(source, delivery->failed);
		source->events->failed(source->userdata, source, service, delivery->failed->code,
				delivery->failed->text);
	}
}

/* Under the lock: whether some service does not fail. What one service lacks, such as a name that
 * the registry does not know, says nothing of the source. */
static bool any_succeeds(const struct usher_source *shared)
{
	for (size_t i = 0; shared->newest && i < shared->newest->count; i++) {
		const struct said *said = shared->newest->said[i];

		if (!said->failing && said_last_offer(said))
			return true;
	}
	return false;
}

/* Under the lock: take the news of up to DELIVERIES_A_TURN services. */
static size_t collect(struct usher_source *shared, struct delivery *deliveries)
{
	bool failed = false, alone;
	size_t count = 0;

	while (shared->queue && count < DELIVERIES_A_TURN) {
		struct said *said = shared->queue;

		shared->queue = said->next;
		said->next = NULL;
		said->queued = false;
		if (said->held) {
			said_unref(said);
			continue;
		}
		deliveries[count++] = (struct delivery){
			.said = said, /* with the queue's reference */
			.offered = take(said->offered),
			.confirmed_usec = said->confirmed_usec,
			.failed = take(said->failed),
		};
		failed = failed || deliveries[count - 1].failed;
		said->confirmed_usec = 0;
		if (deliveries[count - 1].offered) {
			observation_unref(said->delivered);
			said->delivered = observation_ref(deliveries[count - 1].offered);
		}
	}
	alone = failed && any_succeeds(shared);
	for (size_t i = 0; i < count; i++)
		deliveries[i].alone = alone;
	if (!shared->queue)
		shared->queue_last = &shared->queue;
	else
		source_shared_post(shared);
	return count;
}

static void deliver_drains(struct usher_source *shared, struct drain_word *drains)
{
	for (struct drain_word *word = drains; word; word = word->next) {
		struct source *source = shared->core;

		if (source && source->events->drain)
			source->events->drain(source->userdata, source, &word->drain);
	}
	drain_words_free(drains);
}

static void finish(struct usher_source *shared, struct delivery *deliveries, size_t count)
{
	pthread_mutex_lock(&shared->lock);
	for (size_t i = 0; i < count; i++) {
		observation_unref(deliveries[i].offered);
		failure_unref(deliveries[i].failed);
		said_unref(deliveries[i].said);
	}
	pthread_mutex_unlock(&shared->lock);
}

static void source_on_news(struct message *message, void *userdata)
{
	struct delivery deliveries[DELIVERIES_A_TURN];
	struct usher_source *shared = userdata;
	struct drain_word *drains = NULL;
	struct failure *fault;
	struct known *known;
	size_t count = 0;

	(void) message;
	pthread_mutex_lock(&shared->lock);
	shared->posted = false;
	fault = take(shared->fault);
	known = take(shared->known);
	if (shared->core) {
		count = collect(shared, deliveries);
		drains = source_drains_take(shared);
	}
	pthread_mutex_unlock(&shared->lock);

	if (shared->core && known) {
		free(shared->core->known);
		shared->core->known = take(known);
	}
	free(known);
	for (size_t i = 0; i < count; i++)
		deliver(shared, &deliveries[i]);
	deliver_drains(shared, drains);
	if (shared->core && fault)
		note_fault(shared->core, fault);

	pthread_mutex_lock(&shared->lock);
	failure_unref(fault);
	pthread_mutex_unlock(&shared->lock);
	finish(shared, deliveries, count);
	source_shared_unref(shared);
}

static void source_discard_news(struct message *message)
{
	struct usher_source *shared = message->userdata;

	/* posted stays: there is no inbox any more to post to. */
	source_shared_unref(shared);
}

static struct usher_source *shared_new(
		const char *name, struct plugin_instance *instance, struct inbox *inbox)
{
	struct usher_source *shared = calloc(1, sizeof(*shared));

	if (!shared)
		return NULL;
	atomic_init(&shared->refs, 1);
	pthread_mutex_init(&shared->lock, NULL);
	shared->queue_last = &shared->queue;
	shared->instance = plugin_instance_ref(instance);
	shared->inbox = inbox;
	shared->message.receive = source_on_news;
	shared->message.discard = source_discard_news;
	shared->message.userdata = shared;
	random_init(&shared->random);
	shared->name = strdup(name);
	shared->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!shared->name || shared->wake_fd < 0 ||
			wanted_list_new(NULL, 0, 0, NULL, 0, &shared->newest) < 0)
		return source_shared_unref(shared);
	shared->current = wanted_list_ref(shared->newest);
	return shared;
}

static struct source *source_free(struct source *source)
{
	if (!source)
		return NULL;
	registrar_free(source->registrar);
	source_shared_unref(source->shared);
	free(source->error);
	free(source->known);
	free(source);
	return NULL;
}
DEFINE_CLEANUP(struct source, source_free);

int source_start(const char *name, struct plugin_instance *instance, struct inbox *inbox,
		const struct source_events *events, void *userdata, struct source **ret)
{
	static uint64_t serial;
	cleanup(source_freep) struct source *source = NULL;
	int r;

	assert(name);
	assert(instance && instance->plugin->discovery);
	assert(inbox);
	assert(events);
	assert(ret);

	source = calloc(1, sizeof(*source));
	if (!source)
		return -ENOMEM;
	source->events = events;
	source->userdata = userdata;
	source->state = SOURCE_UNKNOWN;
	source->serial = ++serial;
	source->shared = shared_new(name, instance, inbox);
	if (!source->shared)
		return -ENOMEM;
	r = registrar_new(name, instance, inbox, &source->registrar);
	if (r < 0)
		return r;

	source->shared->core = source;
	r = thread_start(&source->thread, name, source_thread_main,
			source_shared_ref(source->shared));
	if (r < 0) {
		source->shared->core = NULL;
		source_shared_unref(source->shared);
		return r;
	}
	*ret = take(source);
	return 0;
}

void source_ask_to_stop(struct source *source)
{
	if (!source)
		return;
	pthread_mutex_lock(&source->shared->lock);
	source->shared->stopping = true;
	pthread_mutex_unlock(&source->shared->lock);
	(void) eventfd_write(source->shared->wake_fd, 1);
	registrar_ask_to_stop(source->registrar);
}

struct source *source_stop(struct source *source, uint64_t until_usec)
{
	struct usher_source *shared;

	if (!source)
		return NULL;
	shared = source->shared;
	source_ask_to_stop(source);
	pthread_mutex_lock(&shared->lock);
	shared->core = NULL;
	pthread_mutex_unlock(&shared->lock);

	if (thread_join_until(source->thread, until_usec) < 0) {
		log_error(FIELDS(.value[LOG_SOURCE] = shared->name,
					  .value[LOG_PLUGIN] = shared->instance->plugin->name),
				"Plug-in %s of source %s does not stop; leaving its thread behind",
				shared->instance->plugin->name, shared->name);
		pthread_detach(source->thread);
	}
	registrar_stop(source->registrar, until_usec);
	return source_free(source);
}

const char *source_name(const struct source *source)
{
	return source->shared->name;
}

uint64_t source_serial(const struct source *source)
{
	return source->serial;
}

const struct plugin_instance *source_instance(const struct source *source)
{
	return source->shared->instance;
}

/* Under the lock: what nobody wants any more is not delivered; what is wanted again, before the
 * thread has noticed that it was not, is delivered once more. */
static void mark_wanted(
		struct usher_source *shared, struct wanted_list *old, struct wanted_list *list)
{
	for (size_t i = 0; i < old->count; i++)
		old->said[i]->wanted = false;
	for (size_t i = 0; i < list->count; i++) {
		struct said *said = list->said[i];

		said->wanted = true;
		if (said->since == list->generation || wanted_list_find(old, said->service) == said)
			continue;
		if (!said->offered && said->delivered) {
			said->offered = observation_ref(said->delivered);
			source_shared_queue(shared, said);
		}
	}
	for (size_t i = 0; i < old->count; i++) {
		struct said *said = old->said[i];

		if (said->wanted)
			continue;
		if (said->offered) {
			observation_unref(said->delivered);
			said->delivered = take(said->offered);
		}
		said->confirmed_usec = 0;
		said->failed = failure_unref(said->failed);
	}
}

int source_want(struct source *source, const struct usher_wanted *wanted, size_t count)
{
	struct usher_source *shared = source->shared;
	struct wanted_list *list = NULL;
	int r;

	pthread_mutex_lock(&shared->lock);
	r = wanted_list_new(wanted, count, shared->newest->generation + 1,
			(const struct wanted_list *const[]){ shared->newest, shared->current }, 2,
			&list);
	if (r >= 0 && !wanted_list_equal(list, shared->newest)) {
		mark_wanted(shared, shared->newest, list);
		wanted_list_unref(shared->newest);
		shared->newest = list;
		(void) eventfd_write(shared->wake_fd, 1);
	} else {
		wanted_list_unref(list);
	}
	pthread_mutex_unlock(&shared->lock);
	return r;
}

void source_hold(struct source *source, const char *service)
{
	struct usher_source *shared = source->shared;
	struct said *said;

	pthread_mutex_lock(&shared->lock);
	said = wanted_list_find(shared->newest, service);
	if (said)
		said->held = true;
	pthread_mutex_unlock(&shared->lock);
}

void source_go_on(struct source *source, const char *service)
{
	struct usher_source *shared = source->shared;
	struct said *said;

	pthread_mutex_lock(&shared->lock);
	said = wanted_list_find(shared->newest, service);
	if (said && said->held) {
		said->held = false;
		if (said->offered || said->confirmed_usec > 0 || said->failed)
			source_shared_queue(shared, said);
	}
	pthread_mutex_unlock(&shared->lock);
}

void source_get_status(const struct source *source, struct source_status *ret)
{
	struct usher_source *shared = source->shared;

	*ret = (struct source_status){
		.state = source->state,
		.last_contact_usec = source->last_contact_usec,
		.last_change_usec = source->last_change_usec,
		.error = source->error,
		.known = source->known ? source->known->names : NULL,
		.known_count = source->known ? source->known->count : 0,
	};
	pthread_mutex_lock(&shared->lock);
	ret->wanted = (unsigned) shared->newest->count;
	ret->restarts = shared->restarts;
	ret->running = shared->running;
	pthread_mutex_unlock(&shared->lock);
}

bool source_can(const struct source *source, enum source_registration what)
{
	return registrar_can(source->registrar, what);
}

uint64_t source_renew_after_usec(const struct source *source)
{
	return registrar_renew_after_usec(source->registrar);
}

// NOLINTNEXTLINE(readability-function-size): its parameters are the contract
struct registration_job *source_register(struct source *source, enum source_registration what,
		const struct usher_wanted *service, const struct usher_endpoint *endpoint,
		const char *id, enum usher_admin_state state, source_registered done,
		void *userdata)
{
	return registrar_add(source->registrar,
			&(const struct registration){
					.what = what,
					.service = *service,
					.endpoint = endpoint,
					.id = id,
					.state = state,
			},
			done, userdata);
}

struct registration_job *source_tell_progress(struct source *source,
		const struct usher_wanted *service, const char *id,
		const struct usher_drain_progress *progress, source_registered done, void *userdata)
{
	return registrar_add(source->registrar,
			&(const struct registration){
					.what = SOURCE_PROGRESS,
					.service = *service,
					.id = id,
					.progress = progress,
			},
			done, userdata);
}
