/* The one wait of a discovery plug-in, for whatever comes first. */

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>

#include "clock.h"
#include "http-private.h"
#include "log.h"
#include "ownership.h"
#include "source-backoff.h"
#include "source-shared.h"

#define WAIT_FDS (3 + SOURCE_HTTP_MAX) /* ours, the plug-in's, the watch's, those of HTTP */

/* What the plug-in asks for, in a struct of our size. */
static int read_wait(const struct usher_wait *said, struct usher_wait *ret)
{
	size_t size;

	*ret = (struct usher_wait){ .fd = -1 };
	if (!said)
		return 0;
	size = said->size == 0 ? sizeof(*ret) : said->size;
	if (size < sizeof(size) || size > sizeof(*ret))
		return -EINVAL;
	memcpy(ret, said, size);
	if (ret->events != 0 && ret->fd < 0)
		return -EINVAL;
	if (ret->path && ret->path[0] != '/')
		return -EINVAL;
	return 0;
}

static void warn_of_weak_watch(struct usher_source *source, const struct file_watch *watch)
{
	const char *why = file_watch_weakness(watch);

	if (why)
		log_warning(FIELDS(.value[LOG_SOURCE] = source->name),
				"Source %s cannot follow all of %s as it changes (%s); looking at it "
				"every %u s as well",
				source->name, file_watch_path(watch), why,
				(unsigned) (FILE_WATCH_POLL_USEC / USEC_PER_SEC));
}

static struct source_watch *find_watch(struct usher_source *source, const char *path)
{
	struct source_watch *oldest = &source->watches[0];

	for (size_t i = 0; i < SOURCE_WATCHES_MAX; i++) {
		struct source_watch *watch = &source->watches[i];

		if (watch->watch && strcmp(file_watch_path(watch->watch), path) == 0)
			return watch;
		if (watch->used < oldest->used)
			oldest = watch;
	}
	oldest->watch = file_watch_free(oldest->watch);
	return oldest;
}

/* The watch for a path. > 0: it is new, so what the plug-in read before may have changed already.
 */
static int get_watch(struct usher_source *source, const char *path, struct file_watch **ret)
{
	struct source_watch *watch = find_watch(source, path);
	int r = 0;

	if (!watch->watch) {
		r = file_watch_new(path, &watch->watch);
		if (r < 0)
			return r;
		warn_of_weak_watch(source, watch->watch);
		r = 1;
	}
	watch->used = ++source->waits;
	file_watch_rest(watch->watch, clock_boot_usec());
	*ret = watch->watch;
	return r;
}

static uint64_t deadline_of(
		struct usher_source *source, const struct usher_wait *wait, uint64_t now)
{
	uint64_t timeout = wait->timeout_usec;

	if (wait->backoff)
		timeout = source_backoff_usec(source->attempt++, random_next(&source->random));
	return timeout == 0 || timeout > USEC_FOREVER - now ? USEC_FOREVER : now + timeout;
}

static int poll_until(struct pollfd fds[WAIT_FDS], uint64_t until, uint64_t now)
{
	uint64_t left = until > now ? until - now : 0;
	struct timespec timeout = {
		.tv_sec = (time_t) (left / USEC_PER_SEC),
		.tv_nsec = (long) (left % USEC_PER_SEC) * 1000,
	};

	if (ppoll(fds, WAIT_FDS, until == USEC_FOREVER ? NULL : &timeout, NULL) < 0)
		return errno == EINTR ? 0 : -errno;
	return 0;
}

static void add_http(struct usher_source *source, struct pollfd *fds, uint64_t *until)
{
	size_t count = 0;

	for (struct usher_http *h = source->http; h; h = h->next) {
		assert(count < SOURCE_HTTP_MAX);
		fds[count++] = (struct pollfd){ .fd = http_fd(h), .events = POLLIN };
		if (http_due_usec(h) < *until)
			*until = http_due_usec(h);
	}
	while (count < SOURCE_HTTP_MAX)
		fds[count++].fd = -1;
}

/* Wait until something has come, or not at all when something is here already. */
static int wait_once(struct usher_source *source, const struct usher_wait *wait,
		struct file_watch *watch, uint64_t deadline, int flags)
{
	struct pollfd fds[WAIT_FDS] = {
		{ .fd = source->wake_fd, .events = POLLIN },
		{ .fd = wait->events ? wait->fd : -1, .events = wait->events },
		{ .fd = watch ? file_watch_fd(watch) : -1, .events = POLLIN },
	};
	uint64_t now = clock_boot_usec(), until = deadline;
	eventfd_t count;
	int r;

	if (watch && file_watch_due_usec(watch) < until)
		until = file_watch_due_usec(watch);
	add_http(source, &fds[3], &until);
	r = poll_until(fds, flags ? now : until, now);
	if (r < 0)
		return r;

	if (fds[0].revents)
		(void) eventfd_read(source->wake_fd, &count);
	if (fds[1].revents)
		flags |= USHER_WAIT_FD;
	for (struct usher_http *h = source->http; h; h = h->next)
		if (http_process(h))
			flags |= USHER_WAIT_HTTP;
	now = clock_boot_usec();
	if (watch) {
		r = file_watch_check(watch, now);
		if (r < 0)
			return r;
		if (r > 0)
			flags |= USHER_WAIT_PATH;
	}
	return now >= deadline ? flags | USHER_WAIT_TIMEOUT : flags;
}

int usher_source_wait(struct usher_source *source, const struct usher_wait *wait)
{
	struct file_watch *watch = NULL;
	struct usher_wait asked;
	uint64_t deadline;
	int r, flags = 0;

	r = read_wait(wait, &asked);
	if (r < 0)
		return r;
	if (asked.path) {
		r = get_watch(source, asked.path, &watch);
		if (r < 0)
			return r;
		flags = r > 0 ? USHER_WAIT_PATH : 0;
	}
	deadline = deadline_of(source, &asked, clock_boot_usec());

	for (;;) {
		if (source_is_told_to_stop(source))
			return 0;
		if (source_take_wanted(source))
			flags |= USHER_WAIT_WANTED;
		r = wait_once(source, &asked, watch, deadline, flags);
		if (r != 0 || flags)
			break;
	}
	/* The order to stop may have come while we waited: it outranks everything. */
	return source_is_told_to_stop(source) ? 0 : r;
}
