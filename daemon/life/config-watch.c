#include "config-watch.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "clock.h"
#include "config.h"
#include "file-watch.h"
#include "log.h"
#include "ownership.h"
#include "thread.h"

#define PATHS 2 /* the file, and conf.d */

#define AGAIN_USEC (1 * USEC_PER_SEC) /* after a lack of memory */

struct config_watch {
	struct inbox *inbox;
	config_changed changed;
	void *userdata;
	struct file_watch *paths[PATHS];
	int stop_fd;
	pthread_t thread;
};

struct change {
	struct message message;
	config_changed changed;
};

static void change_discard(struct message *message)
{
	free((struct change *) message);
}

static void change_receive(struct message *message, void *userdata)
{
	autofree struct change *change = (struct change *) message;

	change->changed(userdata);
}

static bool post_change(struct config_watch *w)
{
	struct change *change = malloc(sizeof(*change));

	if (!change)
		return false;
	*change = (struct change){
		.message = { .receive = change_receive,
				.discard = change_discard,
				.userdata = w->userdata },
		.changed = w->changed,
	};
	inbox_post(w->inbox, &change->message);
	return true;
}

static int wait_msec(uint64_t due_usec, uint64_t now_usec)
{
	uint64_t left = due_usec > now_usec ? due_usec - now_usec : 0;
	uint64_t msec = (left + USEC_PER_MSEC - 1) / USEC_PER_MSEC;

	return msec < INT_MAX ? (int) msec : INT_MAX;
}

/* Until something has happened, or it is time to look; false: told to stop. */
static bool wait_for_any(struct config_watch *w, uint64_t due_usec)
{
	struct pollfd fds[PATHS + 1] = { { .fd = w->stop_fd, .events = POLLIN } };

	for (size_t i = 0; i < PATHS; i++)
		fds[i + 1] = (struct pollfd){ .fd = file_watch_fd(w->paths[i]), .events = POLLIN };
	(void) poll(fds, ELEMENTS(fds), wait_msec(due_usec, clock_boot_usec()));
	return fds[0].revents == 0;
}

/* What has changed is told, and the time to look again is found. */
static uint64_t look_at_all(struct config_watch *w, bool *untold)
{
	uint64_t now = clock_boot_usec(), due = USEC_FOREVER;

	for (size_t i = 0; i < PATHS; i++) {
		int r = file_watch_check(w->paths[i], now);
		uint64_t next = r < 0 ? now + AGAIN_USEC : file_watch_due_usec(w->paths[i]);

		*untold = *untold || r > 0;
		due = next < due ? next : due;
	}
	if (*untold && post_change(w))
		*untold = false;
	return *untold && due > now + AGAIN_USEC ? now + AGAIN_USEC : due;
}

static void *config_watch_run(void *userdata)
{
	struct config_watch *w = userdata;
	bool untold = false;

	while (wait_for_any(w, look_at_all(w, &untold)))
		continue;
	return NULL;
}

static int watch_paths(struct config_watch *w, const char *path)
{
	autofree char *folder = get_current_dir_name(), *file = NULL, *fragments = NULL;
	int r;

	if (!folder)
		return -errno;
	if (path[0] == '/')
		folder[0] = '\0';
	if (asprintf(&file, "%s%s%s", folder, folder[0] ? "/" : "", path) < 0)
		return -ENOMEM;
	fragments = config_fragments_path(file);
	if (!fragments)
		return -ENOMEM;
	r = file_watch_new(file, &w->paths[0]);
	return r < 0 ? r : file_watch_new(fragments, &w->paths[1]);
}

static void tell_weakness(const struct config_watch *w)
{
	for (size_t i = 0; i < PATHS; i++) {
		const char *weakness = file_watch_weakness(w->paths[i]);

		if (weakness)
			log_warning(NULL, "%s is only looked at from time to time: %s",
					file_watch_path(w->paths[i]), weakness);
	}
}

static void watch_release(struct config_watch *w)
{
	for (size_t i = 0; i < PATHS; i++)
		(void) file_watch_free(w->paths[i]);
	closep(&w->stop_fd);
	free(w);
}

static int watch_start(struct config_watch *w, const char *path)
{
	int r;

	w->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->stop_fd < 0)
		return -errno;
	r = watch_paths(w, path);
	if (r < 0)
		return r;
	tell_weakness(w);
	return thread_start(&w->thread, "usher-config", config_watch_run, w);
}

int config_watch_new(struct inbox *inbox, const char *path, config_changed changed, void *userdata,
		struct config_watch **ret)
{
	struct config_watch *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return -ENOMEM;
	w->inbox = inbox;
	w->changed = changed;
	w->userdata = userdata;
	w->stop_fd = -1;
	r = watch_start(w, path);
	if (r < 0) {
		watch_release(w);
		return r;
	}
	*ret = w;
	return 0;
}

struct config_watch *config_watch_free(struct config_watch *watch)
{
	if (!watch)
		return NULL;
	(void) eventfd_write(watch->stop_fd, 1);
	(void) pthread_join(watch->thread, NULL);
	watch_release(watch);
	return NULL;
}
