#include "plugin-file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <usher/plugin.h>

#include "ownership.h"
#include "plugin-preview.h"

static bool trusted(uid_t uid)
{
	return uid == 0 || uid == geteuid();
}

static void stamp_from_stat(const struct stat *status, struct plugin_stamp *ret)
{
	*ret = (struct plugin_stamp){
		.device = status->st_dev,
		.inode = status->st_ino,
		.size = status->st_size,
		.modified = status->st_mtim,
	};
}

int plugin_file_stamp(const char *path, struct plugin_stamp *ret)
{
	struct stat status;

	if (stat(path, &status) < 0)
		return -errno;
	stamp_from_stat(&status, ret);
	return 0;
}

bool plugin_stamp_equal(const struct plugin_stamp *a, const struct plugin_stamp *b)
{
	return a->device == b->device && a->inode == b->inode && a->size == b->size &&
			a->modified.tv_sec == b->modified.tv_sec &&
			a->modified.tv_nsec == b->modified.tv_nsec;
}

static int check_file(int fd, struct plugin_stamp *ret, struct usher_error *reterr)
{
	struct stat status;

	if (fstat(fd, &status) < 0)
		return usher_error_set(reterr, -errno, "cannot be looked at: %s",
				usher_error_text(NULL, -errno));
	if (!S_ISREG(status.st_mode))
		return usher_error_set(reterr, -EPERM, "is no regular file");
	if (!trusted(status.st_uid))
		return usher_error_set(reterr, -EPERM,
				"belongs to uid %u; a plug-in must belong to root or to usherd's own "
				"user (uid %u)",
				status.st_uid, geteuid());
	if (status.st_mode & (S_IWGRP | S_IWOTH))
		return usher_error_set(reterr, -EPERM,
				"others may write it (mode %04o); make sure that it is what you "
				"installed, then chmod go-w",
				status.st_mode & 07777);
	if (status.st_size > PLUGIN_FILE_MAX)
		return usher_error_set(reterr, -EFBIG, "is larger than %lld MiB",
				(long long) PLUGIN_FILE_MAX / 1024 / 1024);

	stamp_from_stat(&status, ret);
	return 0;
}

/* `direct`: the file's own folder, in which nobody else may write at all. In one further up a
 * sticky bit is enough to keep others from replacing what is not theirs. */
static int check_folder(const char *folder, bool direct, struct usher_error *reterr)
{
	struct stat status;
	mode_t others;

	if (stat(folder, &status) < 0)
		return usher_error_set(reterr, -errno, "its folder %s cannot be looked at: %s",
				folder, usher_error_text(NULL, -errno));
	if (!trusted(status.st_uid))
		return usher_error_set(reterr, -EPERM,
				"the folder %s belongs to uid %u, who could replace the file; it must "
				"belong to root or to usherd's own user (uid %u)",
				folder, status.st_uid, geteuid());

	others = direct ? S_IWGRP | S_IWOTH : S_IWOTH;
	if (!(status.st_mode & others) || (!direct && status.st_mode & S_ISVTX))
		return 0;
	return usher_error_set(reterr, -EPERM,
			"others may write in the folder %s (mode %04o) and so replace the file; chmod "
			"go-w, or move the file to a folder that only root writes",
			folder, status.st_mode & 07777);
}

/* Every folder from the file up. path is absolute and is cut as we go. */
static int check_folders(char *path, struct usher_error *reterr)
{
	bool direct = true;
	char *slash;
	int r;

	while ((slash = strrchr(path, '/'))) {
		slash[slash == path] = '\0';
		r = check_folder(path, direct, reterr);
		if (r < 0 || slash == path)
			return r;
		direct = false;
	}
	return 0;
}

/* Where the file is listed, and, when it is a link, where it really is. */
static int check_places(const char *path, struct usher_error *reterr)
{
	autofree char *real = realpath(path, NULL);
	autofree char *listed = strdup(path);
	char *slash;
	int r;

	if (!real)
		return usher_error_set(reterr, -errno, "cannot be followed: %s",
				usher_error_text(NULL, -errno));
	if (!listed)
		return usher_error_set(reterr, -ENOMEM, "out of memory");

	slash = strrchr(listed, '/');
	if (slash) {
		slash[slash == listed] = '\0';
		r = check_folder(listed, true, reterr);
		if (r < 0)
			return r;
	}
	return check_folders(real, reterr);
}

static int read_whole(int fd, size_t size, uint8_t **ret, struct usher_error *reterr)
{
	autofree uint8_t *image = malloc(size + 1);
	size_t done = 0;

	if (!image)
		return usher_error_set(reterr, -ENOMEM, "out of memory for its %zu bytes", size);
	while (done < size) {
		ssize_t n = read(fd, image + done, size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return usher_error_set(reterr, -errno, "cannot be read: %s",
					usher_error_text(NULL, -errno));
		if (n == 0)
			return usher_error_set(reterr, -EBADMSG,
					"became shorter while it was read; is it being installed?");
		done += (size_t) n;
	}
	*ret = take(image);
	return 0;
}

static int check_abi(const struct elf_abi *abi, struct usher_error *reterr)
{
	if (abi->major == USHER_ABI_MAJOR && abi->minor <= USHER_ABI_MINOR)
		return 0;
	return usher_error_set(reterr, -EPROTO,
			"built for plug-in ABI %u.%u, this usherd offers %u.%u", abi->major,
			abi->minor, USHER_ABI_MAJOR, USHER_ABI_MINOR);
}

static int check_open_file(int fd, const char *path, const char *name, struct elf_abi *ret_abi,
		struct plugin_stamp *ret_stamp, struct usher_error *reterr)
{
	autofree uint8_t *image = NULL;
	struct plugin_stamp stamp;
	struct elf_abi abi = {};
	int r;

	r = check_file(fd, &stamp, reterr);
	if (r < 0)
		return r;
	r = check_places(path, reterr);
	if (r < 0)
		return r;
	r = read_whole(fd, (size_t) stamp.size, &image, reterr);
	if (r < 0)
		return r;
	r = elf_check(image, (size_t) stamp.size, reterr);
	if (r < 0)
		return r;
	r = elf_note_read(image, (size_t) stamp.size, &abi, reterr);
	if (r < 0)
		return r;
	r = check_abi(&abi, reterr);
	if (r < 0)
		return r;
	r = plugin_preview(image, (size_t) stamp.size, name, &abi, reterr);
	if (r < 0)
		return r;

	*ret_abi = abi;
	*ret_stamp = stamp;
	return 0;
}

int plugin_file_check(const char *path, const char *name, struct elf_abi *ret_abi,
		struct plugin_stamp *ret_stamp, struct usher_error *reterr)
{
	autoclose int fd = -1;
	int r;

	assert(path);
	assert(name);
	assert(ret_abi);
	assert(ret_stamp);

	/* O_NONBLOCK: a pipe with the name of a plug-in must not hold the start up. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 && errno == ENOENT)
		return usher_error_set(reterr, -ENOENT, "%s: there is no such file", path);
	if (fd < 0)
		return usher_error_set(reterr, -errno, "%s: cannot be opened: %s", path,
				usher_error_text(NULL, -errno));

	r = check_open_file(fd, path, name, ret_abi, ret_stamp, reterr);
	if (r < 0)
		return usher_error_prefix(reterr, r, "%s", path);
	return 0;
}
