#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "clock.h"
#include "log.h"
#include "ownership.h"
#include "source-backoff.h"
#include "source-shared.h"

static _Thread_local const char *thread_source;

const char *source_thread_name(void)
{
	return thread_source;
}

bool source_take_wanted(struct usher_source *shared)
{
	struct wanted_list *old = NULL;
	bool changed;

	pthread_mutex_lock(&shared->lock);
	changed = shared->current != shared->newest;
	if (changed) {
		old = shared->current;
		shared->current = wanted_list_ref(shared->newest);
		wanted_list_unref(old);
	}
	pthread_mutex_unlock(&shared->lock);
	return changed;
}

static bool is_stopping(struct usher_source *shared)
{
	bool stopping;

	pthread_mutex_lock(&shared->lock);
	stopping = shared->stopping;
	pthread_mutex_unlock(&shared->lock);
	return stopping;
}

static void set_running(struct usher_source *shared, bool running)
{
	pthread_mutex_lock(&shared->lock);
	shared->running = running;
	pthread_mutex_unlock(&shared->lock);
}

/* Until the time is over (false) or the order to stop (true). */
static bool pause_or_stop(struct usher_source *shared, uint64_t delay_usec)
{
	uint64_t until = clock_boot_usec() + delay_usec;

	for (;;) {
		struct pollfd wake = { .fd = shared->wake_fd, .events = POLLIN };
		uint64_t now = clock_boot_usec();
		struct timespec left;
		eventfd_t count;

		if (is_stopping(shared))
			return true;
		if (now >= until)
			return false;
		left.tv_sec = (time_t) ((until - now) / USEC_PER_SEC);
		left.tv_nsec = (long) ((until - now) % USEC_PER_SEC) * 1000;
		if (ppoll(&wake, 1, &left, NULL) > 0)
			(void) eventfd_read(shared->wake_fd, &count);
	}
}

/* run came back without having been told to. */
static void report_fault(struct usher_source *shared, int r, uint64_t delay_usec)
{
	const char *plugin = shared->instance->plugin->name;
	struct usher_error err = {};
	int code = r < 0 ? r : -EIO;

	if (r < 0)
		(void) usher_error_set(&err, code, "plug-in %s gave up: %s", plugin,
				usher_error_text(NULL, r));
	else
		(void) usher_error_set(&err, code,
				"plug-in %s returned from run though nobody told it to stop",
				plugin);
	log_error(FIELDS(.value[LOG_SOURCE] = shared->name, .value[LOG_PLUGIN] = plugin),
			"Source %s: %s; running it again in %.1f s", shared->name, err.text,
			(double) delay_usec / (double) USEC_PER_SEC);

	pthread_mutex_lock(&shared->lock);
	shared->restarts++;
	failure_unref(shared->fault);
	shared->fault = failure_new(code, err.text);
	if (shared->fault)
		source_shared_fail_quiet(shared, shared->fault);
	source_shared_post(shared);
	pthread_mutex_unlock(&shared->lock);
}

void *source_thread_main(void *userdata)
{
	struct usher_source *shared = userdata;
	const struct usher_discovery *discovery = shared->instance->plugin->discovery;
	unsigned faults = 0;

	thread_source = shared->name;
	while (!is_stopping(shared)) {
		uint64_t began, delay;
		int r;

		(void) source_take_wanted(shared);
		set_running(shared, true);
		began = clock_boot_usec();
		r = discovery->run(shared->instance->data, shared);
		set_running(shared, false);
		if (is_stopping(shared))
			break;

		if (clock_boot_usec() - began >= SOURCE_BACKOFF_MAX_USEC)
			faults = 0;
		delay = source_backoff_usec(faults++, random_next(&shared->random));
		report_fault(shared, r, delay);
		if (pause_or_stop(shared, delay))
			break;
	}
	source_shared_unref(shared);
	return NULL;
}
