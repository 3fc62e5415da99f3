#include "replace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "own.h"

#define LOCK_TRIES     500
#define LOCK_NAP_NSEC  20000000
#define NEW_FILE_MODE  0644
#define TEMPORARY_MARK ".usher-"
#define RANDOM_LENGTH  6 /* of mkostemp */

static int explain(struct usher_error *reterr, int code, const char *what, const char *path)
{
	errno = -code;
	switch (errno) {
	case EROFS:
		return usher_error_set(reterr, code,
				"%s: %s: the file system is read-only; put the file where usherd may "
				"write, or make the change where it comes from",
				path, what);
	case EACCES:
	case EPERM:
		return usher_error_set(reterr, code,
				"%s: %s: usherd may not; give its user the right to write to the "
				"folder (with systemd also ReadWritePaths=)",
				path, what);
	case ENOSPC:
	case EDQUOT:
		return usher_error_set(reterr, code,
				"%s: %s: the disk is full; the file is as it was", path, what);
	default:
		return usher_error_set(reterr, code, "%s: %s: %m", path, what);
	}
}

/* Wait for the lock of an open folder, within LOCK_TRIES naps. */
static int lock_folder(int fd, const char *folder, struct usher_error *reterr)
{
	for (int tries = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; tries++) {
		const struct timespec nap = { .tv_nsec = LOCK_NAP_NSEC };

		if (errno != EWOULDBLOCK && errno != EINTR)
			return explain(reterr, -errno, "cannot lock the folder", folder);
		if (tries == LOCK_TRIES)
			return usher_error_set(reterr, -ETIMEDOUT,
					"%s: another process has held the lock of the folder for 10s; "
					"see who does with `lslocks`",
					folder);
		(void) nanosleep(&nap, NULL);
	}
	return 0;
}

int replace_lock(const char *folder, struct usher_error *reterr)
{
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;

	if (fd < 0)
		return explain(reterr, -errno, "cannot open the folder", folder);
	r = lock_folder(fd, folder, reterr);
	if (r < 0) {
		(void) close(fd);
		return r;
	}
	return fd;
}

static void close_folder(DIR **d)
{
	if (*d)
		(void) closedir(*d);
}

/* ".NAME.usher-XXXXXX", which no reader takes for a file of endpoints. */
static bool is_leftover(const char *entry, const char *name)
{
	size_t length = strlen(name);

	return entry[0] == '.' && strncmp(entry + 1, name, length) == 0 &&
			strncmp(entry + 1 + length, TEMPORARY_MARK, strlen(TEMPORARY_MARK)) == 0 &&
			strlen(entry) == 1 + length + strlen(TEMPORARY_MARK) + RANDOM_LENGTH;
}

/* Under the lock nobody else is writing: such a file belongs to someone who was killed. */
static void remove_leftovers(int folder, const char *name)
{
	cleanup(close_folder) DIR *d = NULL;
	struct dirent *entry;
	int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return;
	d = fdopendir(fd);
	if (!d) {
		(void) close(fd);
		return;
	}
	while ((entry = readdir(d))) // NOLINT(concurrency-mt-unsafe): the stream is ours
		if (is_leftover(entry->d_name, name))
			(void) unlinkat(folder, entry->d_name, 0);
}

static int write_all(int fd, const char *bytes, size_t size)
{
	while (size > 0) {
		ssize_t n = write(fd, bytes, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		bytes += n;
		size -= (size_t) n;
	}
	return 0;
}

/* The new file is the old one to everyone else: same owner, same rights. */
static int keep_rights(int fd, const char *path, bool is_new, struct usher_error *reterr)
{
	struct stat old, own;

	if (is_new)
		return fchmod(fd, NEW_FILE_MODE) < 0
				? explain(reterr, -errno, "cannot set the mode", path)
				: 0;
	if (stat(path, &old) < 0 || fstat(fd, &own) < 0)
		return explain(reterr, -errno, "cannot see its owner", path);
	if ((old.st_uid != own.st_uid || old.st_gid != own.st_gid) &&
			fchown(fd, old.st_uid, old.st_gid) < 0)
		return usher_error_set(reterr, -EPERM,
				"%s: belongs to user %u and group %u, which usherd cannot keep when it "
				"rewrites the file; give the file to usherd's user",
				path, old.st_uid, old.st_gid);
	if (fchmod(fd, old.st_mode & 07777) < 0)
		return explain(reterr, -errno, "cannot keep the mode", path);
	return 0;
}

static int write_temporary(int fd, const char *path, const char *bytes, size_t size, bool is_new,
		struct usher_error *reterr)
{
	int r = keep_rights(fd, path, is_new, reterr);

	if (r < 0)
		return r;
	r = write_all(fd, bytes, size);
	if (r < 0)
		return explain(reterr, r, "cannot write the new text", path);
	if (fsync(fd) < 0)
		return explain(reterr, -errno, "cannot write the new text", path);
	return 0;
}

static int check_unchanged(
		const char *path, const struct file_stamp *expected, struct usher_error *reterr)
{
	struct file_stamp now;
	int r = file_stamp_read(path, &now, NULL);

	if (expected ? r == 0 && file_stamp_equal(&now, expected) : r == -ENOENT)
		return 0;
	return usher_error_set(reterr, -EAGAIN, "%s: someone else is changing it", path);
}

int replace_file(const char *path, const char *bytes, size_t size,
		const struct file_stamp *expected, struct usher_error *reterr)
{
	autofree char *temporary = NULL, *folder_path = NULL;
	autoclose int folder = -1, fd = -1;
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	int r;

	if (asprintf(&folder_path, "%.*s", (int) (slash ? slash - path + 1 : 1),
			    slash ? path : ".") < 0) {
		folder_path = NULL;
		return usher_error_set(reterr, -ENOMEM, "%s: out of memory", path);
	}
	if (asprintf(&temporary, "%s/.%s" TEMPORARY_MARK "XXXXXX", folder_path, name) < 0) {
		temporary = NULL;
		return usher_error_set(reterr, -ENOMEM, "%s: out of memory", path);
	}
	folder = open(folder_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0)
		return explain(reterr, -errno, "cannot open the folder", folder_path);
	remove_leftovers(folder, name);

	fd = mkostemp(temporary, O_CLOEXEC);
	if (fd < 0)
		return explain(reterr, -errno, "cannot make a file beside it", path);
	r = write_temporary(fd, path, bytes, size, !expected, reterr);
	if (r == 0)
		r = check_unchanged(path, expected, reterr);
	if (r == 0 && rename(temporary, path) < 0)
		r = explain(reterr, -errno, "cannot put the new text in its place", path);
	if (r < 0) {
		(void) unlink(temporary);
		return r;
	}
	if (fsync(folder) < 0)
		return explain(reterr, -errno, "cannot make the new text last", path);
	return 0;
}
