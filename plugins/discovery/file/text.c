#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <usher/document.h>

#include "own.h"

#define NSEC_PER_SEC INT64_C(1000000000)

static int64_t timestamp_nsec(const struct statx_timestamp *t)
{
	return (int64_t) t->tv_sec * NSEC_PER_SEC + t->tv_nsec;
}

static int stamp_of(int fd, const char *path, struct file_stamp *ret, struct usher_error *reterr)
{
	struct statx s;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &s) < 0)
		return usher_error_set(reterr, -errno, "%s: %m", path);
	if (!S_ISREG(s.stx_mode))
		return usher_error_set(reterr, -EINVAL, "%s: is not a regular file", path);

	*ret = (struct file_stamp){
		.device = (uint64_t) s.stx_dev_major << 32 | s.stx_dev_minor,
		.inode = s.stx_ino,
		.size = s.stx_size,
		.modified_nsec = timestamp_nsec(&s.stx_mtime),
		.changed_nsec = timestamp_nsec(&s.stx_ctime),
		.born_nsec = (s.stx_mask & STATX_BTIME) ? timestamp_nsec(&s.stx_btime) : 0,
	};
	return 0;
}

static int open_to_read(const char *path, struct usher_error *reterr)
{
	/* O_NONBLOCK: a FIFO under the name must not hang the thread. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	if (fd >= 0)
		return fd;
	if (errno == EACCES || errno == EPERM)
		return usher_error_set(reterr, -errno,
				"%s: usherd may not read it; give its user the right to read the "
				"file and to enter its folders",
				path);
	return usher_error_set(reterr, -errno, "%s: %m", path);
}

int file_stamp_read(const char *path, struct file_stamp *ret, struct usher_error *reterr)
{
	autoclose int fd = open_to_read(path, reterr);

	if (fd < 0)
		return fd;
	return stamp_of(fd, path, ret, reterr);
}

bool file_stamp_equal(const struct file_stamp *a, const struct file_stamp *b)
{
	return file_stamp_same_file(a, b) && a->size == b->size &&
			a->modified_nsec == b->modified_nsec && a->changed_nsec == b->changed_nsec;
}

bool file_stamp_same_file(const struct file_stamp *a, const struct file_stamp *b)
{
	return a->device == b->device && a->inode == b->inode && a->born_nsec == b->born_nsec;
}

bool file_stamp_is_younger(const struct file_stamp *stamp, int64_t age_nsec)
{
	struct timespec now;
	int64_t age;

	if (clock_gettime(CLOCK_REALTIME, &now) < 0)
		return false;
	age = (int64_t) now.tv_sec * NSEC_PER_SEC + now.tv_nsec - stamp->changed_nsec;
	return age >= 0 && age < age_nsec;
}

/* FNV-1a, 64 bits: to notice that a file was written again with what it said before. */
static uint64_t hash_of(const char *bytes, size_t size)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ (unsigned char) bytes[i]) * UINT64_C(0x100000001b3);
	return hash;
}

static int changed_while_read(const char *path, struct usher_error *reterr)
{
	return usher_error_set(reterr, -EAGAIN, "%s: changes while it is read", path);
}

/* Exactly size bytes, and then the end. */
static int read_whole(
		int fd, const char *path, char *bytes, size_t size, struct usher_error *reterr)
{
	size_t have = 0;

	for (;;) {
		char beyond;
		ssize_t n = have < size ? read(fd, bytes + have, size - have)
					: read(fd, &beyond, 1);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return usher_error_set(reterr, -errno, "%s: cannot read: %m", path);
		if (n == 0)
			return have == size ? 0 : changed_while_read(path, reterr);
		if (have == size)
			return changed_while_read(path, reterr);
		have += (size_t) n;
	}
}

int file_text_read(const char *path, struct file_text *ret, struct usher_error *reterr)
{
	struct file_stamp before = { 0 }, after = { 0 }, there = { 0 };
	autoclose int fd = -1;
	autofree char *bytes = NULL;
	int r;

	fd = open_to_read(path, reterr);
	if (fd < 0)
		return fd;
	r = stamp_of(fd, path, &before, reterr);
	if (r < 0)
		return r;
	if (before.size > (uint64_t) USHER_DOCUMENT_SIZE_MAX)
		return usher_error_set(reterr, -EFBIG,
				"%s: has %llu bytes, more than the %zu that usher reads", path,
				(unsigned long long) before.size, USHER_DOCUMENT_SIZE_MAX);

	bytes = malloc((size_t) before.size + 1);
	if (!bytes)
		return usher_error_set(reterr, -ENOMEM, "%s: out of memory", path);
	r = read_whole(fd, path, bytes, (size_t) before.size, reterr);
	if (r < 0)
		return r;
	bytes[before.size] = '\0';

	r = stamp_of(fd, path, &after, reterr);
	if (r < 0)
		return r;
	/* A rename puts another file under the name without touching this one. */
	r = file_stamp_read(path, &there, NULL);
	if (r < 0 || !file_stamp_equal(&before, &after) || !file_stamp_same_file(&after, &there))
		return changed_while_read(path, reterr);

	*ret = (struct file_text){
		.bytes = bytes,
		.size = (size_t) before.size,
		.hash = hash_of(bytes, (size_t) before.size),
		.stamp = before,
	};
	bytes = NULL;
	return 0;
}

void file_text_done(struct file_text *text)
{
	free(text->bytes);
	*text = (struct file_text){ 0 };
}
