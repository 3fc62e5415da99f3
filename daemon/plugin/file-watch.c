#include "file-watch.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "clock.h"
#include "path-walk.h"

/* In every folder on the way; in those of the path itself and of links, what happens to files, too.
 */
#define WATCH_FOLDER                                                                        \
	(IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_DELETE_SELF | \
			IN_MOVE_SELF | IN_ONLYDIR | IN_EXCL_UNLINK | IN_MASK_ADD)
#define WATCH_FILES (IN_CLOSE_WRITE | IN_MODIFY)
#define FOLDER_GONE (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_UNMOUNT)
#define WRITTEN_MAX 16
#define EVENTS_SIZE 16384u
#define ANY_NAME    ((const char *) NULL)

/* One name that matters in one watched folder. */
struct watched_name {
	int wd;
	bool final; /* a change of it is a change, not only a reason to look */
	char *folder;
	char *name; /* ANY_NAME: all of them */
};

/* A name whose file was written in place. */
struct written {
	uint64_t hash; /* of folder and name; 0: free */
	bool closed;
};

struct file_watch {
	char *path;
	int fd; /* of inotify; -1: none to be had */
	struct watched_name *names;
	size_t count;
	size_t allocated;
	const char *weakness;

	bool dirty;   /* something happened and has not been told */
	bool certain; /* and it is a change, whatever the stamp says */
	bool whole;   /* something was put in place as a whole */
	bool crowded; /* there was more than could be followed */
	uint64_t first_usec, last_usec;
	struct written written[WRITTEN_MAX];
	uint64_t told_usec;   /* and the reader is not back; 0: it is */
	uint64_t rested_usec; /* nothing is told before */

	uint64_t stamp; /* of what was there when we last told or looked */
	uint64_t looked_usec;
};

/* ---- the stamp: what stat says of everything that counts ---- */

static uint64_t stamp_entry(int folder, const char *name)
{
	struct stat status = {};

	if (fstatat(folder, name, &status, 0) < 0)
		(void) fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW);

	const uint64_t facts[] = {
		status.st_dev,
		status.st_ino,
		status.st_mode,
		(uint64_t) status.st_size,
		(uint64_t) status.st_mtim.tv_sec,
		(uint64_t) status.st_mtim.tv_nsec,
		(uint64_t) status.st_ctim.tv_sec,
		(uint64_t) status.st_ctim.tv_nsec,
	};
	return XXH64(facts, sizeof(facts), XXH64(name, strlen(name), 0));
}

/* A sum, so that it does not depend on the order in which the entries are read. */
static uint64_t stamp_folder(const char *path)
{
	const struct dirent *entry;
	uint64_t sum = 0;
	size_t count = 0;
	DIR *folder;

	folder = opendir(path);
	if (!folder)
		return 0;
	while (count++ < FILE_WATCH_ENTRIES_MAX &&
			(entry = readdir(folder))) // NOLINT(concurrency-mt-unsafe)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			sum += stamp_entry(dirfd(folder), entry->d_name);
	(void) closedir(folder);
	return sum;
}

static uint64_t stamp_path(const char *path)
{
	struct stat status;
	uint64_t stamp;

	if (stat(path, &status) < 0)
		return 0;
	stamp = stamp_entry(AT_FDCWD, path);
	return S_ISDIR(status.st_mode) ? stamp + stamp_folder(path) : stamp;
}

/* ---- the way: which names in which folders ---- */

static void weaken(struct file_watch *watch, const char *why)
{
	if (!watch->weakness)
		watch->weakness = why;
}

static int add_folder(struct file_watch *watch, const char *folder, bool final)
{
	int wd;

	if (watch->fd < 0)
		return -1;
	wd = inotify_add_watch(watch->fd, folder, WATCH_FOLDER | (final ? WATCH_FILES : 0));
	if (wd >= 0)
		return wd;
	if (errno == ENOSPC)
		weaken(watch, "no inotify watches are left, raise fs.inotify.max_user_watches");
	else if (errno == EACCES)
		weaken(watch, "a folder on the way may not be read");
	else if (errno != ENOENT && errno != ENOTDIR)
		weaken(watch, "the kernel does not watch a folder on the way");
	return -1;
}

static bool has_name(const struct file_watch *watch, int wd, const char *name, bool final)
{
	for (size_t i = 0; i < watch->count; i++) {
		struct watched_name *known = &watch->names[i];

		if (known->wd != wd)
			continue;
		if (known->name == ANY_NAME || (name && strcmp(known->name, name) == 0)) {
			known->final |= final;
			return true;
		}
	}
	return false;
}

static int grow_names(struct file_watch *watch)
{
	size_t allocated = watch->allocated ? 2 * watch->allocated : 16;
	struct watched_name *names;

	if (watch->count < watch->allocated)
		return 0;
	names = reallocarray(watch->names, allocated, sizeof(*names));
	if (!names)
		return -ENOMEM;
	watch->names = names;
	watch->allocated = allocated;
	return 0;
}

static int add_name(struct file_watch *watch, const char *folder, const char *name, bool final)
{
	autofree char *folder_copy = NULL;
	char *name_copy = NULL;
	int wd = add_folder(watch, folder, final);

	if (wd < 0 || has_name(watch, wd, name, final))
		return 0;
	if (watch->count == FILE_WATCH_NAMES_MAX) {
		weaken(watch, "it leads to too many names");
		return 0;
	}
	folder_copy = strdup(folder);
	if (!folder_copy || grow_names(watch) < 0)
		return -ENOMEM;
	if (name != ANY_NAME) {
		name_copy = strdup(name);
		if (!name_copy)
			return -ENOMEM;
	}
	watch->names[watch->count++] = (struct watched_name){
		.wd = wd,
		.final = final,
		.folder = take(folder_copy),
		.name = name_copy,
	};
	return 0;
}

static int watch_step(void *userdata, const struct path_step *step)
{
	struct file_watch *watch = userdata;

	return add_name(watch, step->folder, step->name, step->final);
}

/* Links in a watched folder lead elsewhere; what they lead to counts, too. */
static int walk_links(struct file_watch *watch, const char *real)
{
	const struct dirent *entry;
	size_t count = 0;
	DIR *folder;
	int r = 0;

	folder = opendir(real);
	if (!folder)
		return 0;
	while (r >= 0 && count++ < FILE_WATCH_ENTRIES_MAX &&
			(entry = readdir(folder))) { // NOLINT(concurrency-mt-unsafe)
		char path[PATH_MAX], ignored[PATH_MAX];
		int n;

		if (entry->d_type != DT_LNK && entry->d_type != DT_UNKNOWN)
			continue;
		n = snprintf(path, sizeof(path), "%s/%s", real, entry->d_name);
		if (n < 0 || (size_t) n >= sizeof(path) || entry->d_name[0] == '.')
			continue;
		r = path_walk(path, watch_step, watch, ignored);
		if (r == -ELOOP || r == -ENAMETOOLONG)
			r = 0;
	}
	(void) closedir(folder);
	return r < 0 ? r : 0;
}

static int walk_way(struct file_watch *watch)
{
	char real[PATH_MAX];
	struct stat status;
	int r;

	r = path_walk(watch->path, watch_step, watch, real);
	if (r == -ELOOP || r == -ENAMETOOLONG)
		return 0; /* a broken way: whatever mends it is on the part that is watched */
	if (r <= 0)
		return r;
	if (lstat(real, &status) < 0 || !S_ISDIR(status.st_mode))
		return 0;
	r = add_name(watch, real, ANY_NAME, true);
	return r < 0 ? r : walk_links(watch, real);
}

static void free_names(struct watched_name *names, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(names[i].folder);
		free(names[i].name);
	}
	free(names);
}

static bool watches_folder(const struct file_watch *watch, int wd)
{
	for (size_t i = 0; i < watch->count; i++)
		if (watch->names[i].wd == wd)
			return true;
	return false;
}

/* Walk the way anew, and let go of the folders that are no longer on it. */
static int rebuild(struct file_watch *watch)
{
	struct watched_name *old = watch->names;
	size_t old_count = watch->count;
	int r;

	watch->names = NULL;
	watch->count = watch->allocated = 0;
	watch->weakness = watch->fd < 0 ? "no inotify instance is left, raise "
					  "fs.inotify.max_user_instances"
					: NULL;
	r = walk_way(watch);
	if (r < 0)
		weaken(watch, "memory is short");
	for (size_t i = 0; i < old_count; i++)
		if (!watches_folder(watch, old[i].wd))
			(void) inotify_rm_watch(watch->fd, old[i].wd);
	free_names(old, old_count);
	return r;
}

int file_watch_new(const char *path, struct file_watch **ret)
{
	cleanup(file_watch_freep) struct file_watch *watch = NULL;
	int r;

	assert(path);
	assert(ret);

	if (path[0] != '/')
		return -EINVAL;
	if (strlen(path) >= PATH_MAX)
		return -ENAMETOOLONG;
	watch = calloc(1, sizeof(*watch));
	if (!watch)
		return -ENOMEM;
	watch->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	watch->path = strdup(path);
	if (!watch->path)
		return -ENOMEM;
	r = rebuild(watch);
	if (r < 0)
		return r;
	watch->stamp = stamp_path(path);
	watch->looked_usec = clock_boot_usec();
	*ret = take(watch);
	return 0;
}

struct file_watch *file_watch_free(struct file_watch *watch)
{
	if (!watch)
		return NULL;
	free_names(watch->names, watch->count);
	if (watch->fd >= 0)
		(void) close(watch->fd);
	free(watch->path);
	free(watch);
	return NULL;
}

const char *file_watch_path(const struct file_watch *watch)
{
	return watch->path;
}

int file_watch_fd(const struct file_watch *watch)
{
	return watch->fd;
}

const char *file_watch_weakness(const struct file_watch *watch)
{
	return watch->weakness;
}

/* ---- what is written in place, and what is put there as a whole ---- */

static uint64_t hash_of(const struct inotify_event *event)
{
	return XXH64(event->name, strlen(event->name), (uint64_t) event->wd) | 1;
}

static void written_add(struct file_watch *watch, uint64_t hash, bool closed)
{
	struct written *unused = NULL;

	for (size_t i = 0; i < WRITTEN_MAX; i++) {
		struct written *w = &watch->written[i];

		if (w->hash == hash) {
			w->closed = closed;
			return;
		}
		if (w->hash == 0)
			unused = w;
	}
	if (unused)
		*unused = (struct written){ hash, closed };
	else
		watch->crowded = true;
}

static void written_remove(struct file_watch *watch, uint64_t hash)
{
	for (size_t i = 0; i < WRITTEN_MAX; i++)
		if (watch->written[i].hash == hash)
			watch->written[i].hash = 0;
}

static enum file_watch_calm calm_of(const struct file_watch *watch)
{
	enum file_watch_calm calm =
			watch->whole && !watch->crowded ? FILE_WATCH_WHOLE : FILE_WATCH_SETTLING;

	for (size_t i = 0; i < WRITTEN_MAX; i++) {
		if (watch->written[i].hash == 0)
			continue;
		if (!watch->written[i].closed)
			return FILE_WATCH_WRITING;
		calm = FILE_WATCH_SETTLING;
	}
	return calm;
}

/* Whether a new name is a file that somebody has opened to write it: a link is whole at once, and
 * nobody closes it. */
static bool is_being_made(const char *folder, const char *name)
{
	char path[PATH_MAX];
	struct stat status;
	int n = snprintf(path, sizeof(path), "%s/%s", folder, name);

	return n > 0 && (size_t) n < sizeof(path) && lstat(path, &status) == 0 &&
			S_ISREG(status.st_mode) && status.st_nlink == 1;
}

/* What hides in a folder is on its way to another name, or an editor's, which keeps it open for as
 * long as somebody looks at the file. */
static bool is_aside(const struct watched_name *known, const struct inotify_event *event)
{
	return known->name == ANY_NAME && event->name[0] == '.';
}

static void follow_writer(struct file_watch *watch, const struct watched_name *known,
		const struct inotify_event *event)
{
	uint64_t hash = hash_of(event);

	if (event->mask & IN_MOVED_TO)
		watch->whole = true;
	if (event->mask & (IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO))
		written_remove(watch, hash);
	if (event->mask & IN_ISDIR || !known->final || is_aside(known, event))
		return;
	if (event->mask & IN_CREATE) {
		if (is_being_made(known->folder, event->name))
			written_add(watch, hash, false);
		else
			watch->whole = true;
	}
	if (event->mask & (IN_MODIFY | IN_CLOSE_WRITE))
		written_add(watch, hash, event->mask & IN_CLOSE_WRITE);
}

/* ---- events ---- */

static void note(struct file_watch *watch, bool certain, uint64_t now_usec)
{
	if (!watch->dirty)
		watch->first_usec = now_usec;
	watch->dirty = true;
	watch->certain |= certain;
	watch->last_usec = now_usec;
}

static bool take_name(
		struct file_watch *watch, const struct inotify_event *event, uint64_t now_usec)
{
	bool ours = false;

	for (size_t i = 0; i < watch->count && event->len > 0; i++) {
		const struct watched_name *known = &watch->names[i];

		if (known->wd != event->wd)
			continue;
		if (known->name != ANY_NAME && strcmp(known->name, event->name) != 0)
			continue;
		note(watch, known->final, now_usec);
		follow_writer(watch, known, event);
		ours = true;
	}
	return ours && !(event->mask & (IN_MODIFY | IN_CLOSE_WRITE));
}

/* What one event means for us. Returns whether the way may be another now. */
static bool take_event(
		struct file_watch *watch, const struct inotify_event *event, uint64_t now_usec)
{
	if (event->mask & IN_Q_OVERFLOW) {
		watch->crowded = true;
		note(watch, true, now_usec);
		return true;
	}
	if (event->mask & FOLDER_GONE) {
		if (!watches_folder(watch, event->wd))
			return false;
		note(watch, false, now_usec);
		return true;
	}
	return take_name(watch, event, now_usec);
}

/* Returns > 0 when the way may be another. */
static int read_events(struct file_watch *watch, uint64_t now_usec)
{
	_Alignas(struct inotify_event) char buffer[EVENTS_SIZE];
	int changed = 0;

	while (watch->fd >= 0) {
		ssize_t size = read(watch->fd, buffer, sizeof(buffer));
		ssize_t at = 0;

		if (size < 0 && errno == EINTR)
			continue;
		if (size <= 0)
			break;
		while (at < size) {
			const struct inotify_event *event = (const void *) (buffer + at);

			if (take_event(watch, event, now_usec))
				changed = 1;
			at += (ssize_t) (sizeof(*event) + event->len);
		}
	}
	return changed;
}

uint64_t file_watch_settled_usec(uint64_t first_usec, uint64_t last_usec, enum file_watch_calm calm)
{
	static const struct {
		uint64_t quiet, limit;
	} patience[] = {
		[FILE_WATCH_WRITING] = { FILE_WATCH_WRITER_USEC, FILE_WATCH_OPEN_USEC },
		[FILE_WATCH_SETTLING] = { FILE_WATCH_SETTLE_USEC, FILE_WATCH_BUSY_USEC },
		[FILE_WATCH_WHOLE] = { FILE_WATCH_WHOLE_USEC, FILE_WATCH_SETTLE_USEC },
	};
	uint64_t quiet = last_usec + patience[calm].quiet;
	uint64_t limit = first_usec + patience[calm].limit;

	return quiet < limit ? quiet : limit;
}

uint64_t file_watch_rested_usec(uint64_t told_usec, uint64_t now_usec)
{
	uint64_t took = now_usec > told_usec ? now_usec - told_usec : 0;
	uint64_t rest = took < FILE_WATCH_SETTLE_USEC / 4 ? 4 * took : FILE_WATCH_SETTLE_USEC;

	return now_usec + rest;
}

uint64_t file_watch_due_usec(const struct file_watch *watch)
{
	uint64_t settled;

	if (!watch->dirty)
		return watch->looked_usec + FILE_WATCH_POLL_USEC;
	settled = file_watch_settled_usec(watch->first_usec, watch->last_usec, calm_of(watch));
	return settled > watch->rested_usec ? settled : watch->rested_usec;
}

/* Look at the path itself. */
static int look(struct file_watch *watch, uint64_t now_usec)
{
	uint64_t stamp = stamp_path(watch->path);
	bool changed = watch->certain || stamp != watch->stamp;

	watch->dirty = watch->certain = watch->whole = watch->crowded = false;
	memset(watch->written, 0, sizeof(watch->written));
	watch->stamp = stamp;
	watch->looked_usec = now_usec;
	watch->told_usec = changed ? now_usec : 0;
	return changed;
}

void file_watch_rest(struct file_watch *watch, uint64_t now_usec)
{
	if (watch->told_usec)
		watch->rested_usec = file_watch_rested_usec(watch->told_usec, now_usec);
	watch->told_usec = 0;
}

int file_watch_check(struct file_watch *watch, uint64_t now_usec)
{
	int r;

	r = read_events(watch, now_usec);
	if (r > 0) {
		r = rebuild(watch);
		if (r < 0)
			return r;
	}
	if (now_usec < file_watch_due_usec(watch))
		return 0;
	if (!watch->dirty && watch->weakness) {
		r = rebuild(watch); /* perhaps there is more to be had by now */
		if (r < 0)
			return r;
	}
	return look(watch, now_usec);
}
