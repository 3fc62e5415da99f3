#include "reload.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ownership.h"

struct waiter {
	struct waiter *next;
	reload_done done;
	void *userdata;
};

struct reading {
	struct job job;
	struct reload *reload; /* NULL: nobody waits any more */
	char *path;
	struct config *config;
	struct usher_error error;
	int r;
	struct waiter *waiters; /* that this reading answers */
};

struct reload {
	struct worker *worker;
	const char *path;
	const struct reload_events *events;
	void *userdata;
	struct reading *reading; /* under way; NULL: none */
	struct waiter *waiters;  /* for the next one */
	bool again;
};

static void waiters_answer(struct waiter *waiter, int r, const char *reason)
{
	while (waiter) {
		struct waiter *next = waiter->next;

		waiter->done(waiter->userdata, r, reason);
		free(waiter);
		waiter = next;
	}
}

static void reading_free(struct reading *reading)
{
	config_unref(reading->config);
	free(reading->path);
	free(reading);
}

static void reading_run(struct job *job)
{
	struct reading *reading = (struct reading *) job;

	reading->r = config_load(reading->path, &reading->config, &reading->error);
}

static void reload_begin(struct reload *reload);

static void reading_done(struct job *job, bool cancelled)
{
	struct reading *reading = (struct reading *) job;
	struct reload *reload = reading->reload;
	struct waiter *waiters = take(reading->waiters);

	if (!reload || cancelled) {
		waiters_answer(waiters, -ECANCELED, "usherd stops");
		if (reload)
			reload->reading = NULL;
		reading_free(reading);
		return;
	}
	if (reading->r >= 0)
		reading->r = reload->events->apply(
				reload->userdata, take(reading->config), &reading->error);
	reload->reading = NULL;
	reload->events->ended(reload->userdata, reading->r,
			reading->r < 0 ? usher_error_text(&reading->error, reading->r) : NULL);
	waiters_answer(waiters, reading->r, usher_error_text(&reading->error, reading->r));
	reading_free(reading);
	if (reload->again)
		reload_begin(reload);
}

static struct reading *reading_new(struct reload *reload)
{
	struct reading *reading = calloc(1, sizeof(*reading));

	if (!reading)
		return NULL;
	reading->job = (struct job){ .run = reading_run, .done = reading_done };
	reading->reload = reload;
	reading->path = strdup(reload->path);
	if (!reading->path) {
		free(reading);
		return NULL;
	}
	return reading;
}

static void reload_begin(struct reload *reload)
{
	struct reading *reading = reading_new(reload);
	int r = reading ? worker_submit(reload->worker, &reading->job) : -ENOMEM;

	reload->again = false;
	if (r < 0) {
		waiters_answer(take(reload->waiters), r,
				"no memory or no thread to read the configuration with");
		if (reading)
			reading_free(reading);
		return;
	}
	reading->waiters = take(reload->waiters);
	reload->reading = reading;
	reload->events->begun(reload->userdata);
}

int reload_new(struct worker *worker, const char *path, const struct reload_events *events,
		void *userdata, struct reload **ret)
{
	struct reload *reload = calloc(1, sizeof(*reload));

	if (!reload)
		return -ENOMEM;
	reload->worker = worker;
	reload->path = path;
	reload->events = events;
	reload->userdata = userdata;
	*ret = reload;
	return 0;
}

struct reload *reload_free(struct reload *reload)
{
	if (!reload)
		return NULL;
	waiters_answer(take(reload->waiters), -ECANCELED, "usherd stops");
	if (reload->reading)
		reload->reading->reload = NULL;
	free(reload);
	return NULL;
}

void reload_request(struct reload *reload, reload_done done, void *userdata)
{
	if (done) {
		struct waiter *waiter = malloc(sizeof(*waiter));

		if (!waiter) {
			done(userdata, -ENOMEM, "out of memory");
			return;
		}
		*waiter = (struct waiter){
			.next = reload->waiters, .done = done, .userdata = userdata
		};
		reload->waiters = waiter;
	}
	if (reload->reading)
		reload->again = true;
	else
		reload_begin(reload);
}
