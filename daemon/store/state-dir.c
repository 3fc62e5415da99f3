#include "state-dir.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

#include "clock.h"
#include "ownership.h"

static void closedirp(DIR **dir)
{
	if (*dir)
		(void) closedir(*dir);
}

static const char *remedy(int code)
{
	switch (code) {
	case -EACCES:
	case -EPERM:
		return "; give the folder to the user that usherd runs as, or set state_dir to one "
		       "of its own";
	case -EROFS:
		return "; mount it writable, or set state_dir to a folder that is";
	case -ENOSPC:
	case -EDQUOT:
		return "; free some space there";
	case -ENOENT:
		return "; make the folder above it, or set state_dir to one that is there";
	case -ENOTDIR:
		return "; remove what is there, or set state_dir to a folder";
	case -EMFILE:
	case -ENFILE:
		return "; raise the limit of open files";
	default:
		return "";
	}
}

int state_dir_explain(struct usher_error *reterr, int code, const char *path, const char *what)
{
	return usher_error_set(reterr, code, "%s: cannot %s: %s%s", path, what,
			strerrordesc_np(-code) ?: "unknown error", remedy(code));
}

struct file_identity file_identify(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return (struct file_identity){};

	return (struct file_identity){ .device = st.st_dev, .inode = st.st_ino };
}

bool file_identity_equal(struct file_identity a, struct file_identity b)
{
	return a.inode == b.inode && a.device == b.device;
}

static int make_folder(const char *path, struct usher_error *reterr)
{
	struct stat st;

	if (mkdir(path, 0750) < 0 && errno != EEXIST)
		return state_dir_explain(reterr, -errno, path, "make the folder");
	if (stat(path, &st) < 0)
		return state_dir_explain(reterr, -errno, path, "look at the folder");
	if (!S_ISDIR(st.st_mode))
		return state_dir_explain(reterr, -ENOTDIR, path, "keep state there");

	return 0;
}

static int open_lock(const char *path, bool *ret_fresh, struct usher_error *reterr)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0640);

	*ret_fresh = fd >= 0;
	if (fd < 0 && errno == EEXIST)
		fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return state_dir_explain(reterr, -errno, path, "open the lock");

	return fd;
}

static int refuse_busy(int fd, const char *dir, struct usher_error *reterr)
{
	char owner[32];
	ssize_t size = pread(fd, owner, sizeof(owner) - 1, 0);

	owner[size < 0 ? 0 : size] = '\0';
	owner[strcspn(owner, "\n")] = '\0';

	return usher_error_set(reterr, -EBUSY,
			"%s: another usherd (pid %s) keeps its state there; stop it, or give this one "
			"a state_dir of its own",
			dir, owner[0] ? owner : "unknown");
}

/* Say in the lock who holds it: for people, so failing does not matter. */
static void sign_lock(int fd)
{
	char owner[32];
	int length = snprintf(owner, sizeof(owner), "%d\n", getpid());

	if (ftruncate(fd, 0) == 0)
		(void) !pwrite(fd, owner, (size_t) length, 0);
}

static int take_lock(const char *dir, int *ret_fd, bool *ret_fresh, struct usher_error *reterr)
{
	char path[STATE_DIR_NAME_MAX];
	autoclose int fd = -1;
	bool fresh;

	if (snprintf(path, sizeof(path), "%s/lock", dir) >= (int) sizeof(path))
		return state_dir_explain(reterr, -ENAMETOOLONG, dir, "keep state there");
	fd = open_lock(path, &fresh, reterr);
	if (fd < 0)
		return fd;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? refuse_busy(fd, dir, reterr)
					    : state_dir_explain(reterr, -errno, path, "lock");
	sign_lock(fd);
	*ret_fd = take_fd(fd);
	*ret_fresh = fresh;

	return 0;
}

int state_dir_init(struct state_dir *dir, const char *path, struct usher_error *reterr)
{
	autofree char *copy = strdup(path);
	bool fresh;
	int fd = -1;
	int r;

	if (!copy)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	r = make_folder(path, reterr);
	if (r < 0)
		return r;
	r = take_lock(path, &fd, &fresh, reterr);
	if (r < 0)
		return r;
	*dir = (struct state_dir){ .path = take(copy), .lock_fd = fd, .fresh = fresh };

	return 0;
}

void state_dir_done(struct state_dir *dir)
{
	if (!dir->path)
		return;
	(void) close(dir->lock_fd);
	free(dir->path);
	*dir = (struct state_dir){};
}

int state_dir_refresh(struct state_dir *dir, struct usher_error *reterr)
{
	char path[STATE_DIR_NAME_MAX];
	struct stat st;
	bool fresh;
	int fd = -1;
	int r;

	(void) snprintf(path, sizeof(path), "%s/lock", dir->path);
	if (fstat(dir->lock_fd, &st) == 0 &&
			file_identity_equal(file_identify(path),
					(struct file_identity){ st.st_dev, st.st_ino }))
		return 0;
	r = make_folder(dir->path, reterr);
	if (r < 0)
		return r;
	r = take_lock(dir->path, &fd, &fresh, reterr);
	if (r < 0)
		return r;
	(void) close(dir->lock_fd);
	dir->lock_fd = fd;

	return 0;
}

/* ---- setting aside ---- */

/* The oldest of the files FOLDER/PREFIX*, whose names end in their time, and how many there are. */
static size_t find_oldest(DIR *folder, const char *prefix, char *ret_oldest, size_t size)
{
	size_t count = 0;
	struct dirent *entry;

	rewinddir(folder);
	/* cppcheck-suppress readdirCalled; the stream is our own */
	while ((entry = readdir(folder))) { /* NOLINT(concurrency-mt-unsafe) */
		if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
			continue;
		if (count++ == 0 || strcmp(entry->d_name, ret_oldest) < 0)
			(void) snprintf(ret_oldest, size, "%s", entry->d_name);
	}

	return count;
}

static void keep_few(const char *path, const char *word, size_t max)
{
	const char *slash = strrchr(path, '/');
	char folder[STATE_DIR_NAME_MAX], prefix[NAME_MAX + 1], oldest[NAME_MAX + 1];
	cleanup(closedirp) DIR *dir = NULL;

	assert(slash);
	(void) snprintf(folder, sizeof(folder), "%.*s", (int) (slash - path), path);
	(void) snprintf(prefix, sizeof(prefix), "%s.%s-", slash + 1, word);
	dir = opendir(folder);
	while (dir && find_oldest(dir, prefix, oldest, sizeof(oldest)) > max)
		if (unlinkat(dirfd(dir), oldest, 0) < 0)
			return;
}

static int move_along(const char *path, const char *suffix, const char *name)
{
	char from[STATE_DIR_NAME_MAX + 8], to[STATE_DIR_NAME_MAX + 8];

	(void) snprintf(from, sizeof(from), "%s%s", path, suffix);
	(void) snprintf(to, sizeof(to), "%s%s", name, suffix);
	if (rename(from, to) < 0 && errno != ENOENT)
		return -errno;

	return 0;
}

int state_dir_set_aside(const char *path, const char *word, char *ret_name)
{
	char shared_memory[STATE_DIR_NAME_MAX];
	uint64_t wall_usec = clock_wall_usec();
	time_t seconds = (time_t) (wall_usec / USEC_PER_SEC);
	char when[32];
	struct tm tm;
	int r;

	if (!gmtime_r(&seconds, &tm) || strftime(when, sizeof(when), "%Y%m%dT%H%M%S", &tm) == 0)
		return -ERANGE;
	if (snprintf(ret_name, STATE_DIR_NAME_MAX, "%s.%s-%s.%06uZ", path, word, when,
			    (unsigned) (wall_usec % USEC_PER_SEC)) >= STATE_DIR_NAME_MAX)
		return -ENAMETOOLONG;
	/* The log goes first: a database that lost it midway is worse than a log without one. */
	r = move_along(path, "-wal", ret_name);
	if (r < 0)
		return r;
	r = move_along(path, "", ret_name);
	if (r < 0)
		return r;
	(void) snprintf(shared_memory, sizeof(shared_memory), "%s-shm", path);
	(void) unlink(shared_memory);
	keep_few(path, word, 2 * (size_t) STATE_DIR_SET_ASIDE_MAX); /* a database and its log */

	return 0;
}
