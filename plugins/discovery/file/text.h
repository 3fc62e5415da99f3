#pragma once

/* The bytes of one file, and which file in which state they are. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <usher/error.h>

/* What changes whenever a file is replaced or written. */
struct file_stamp {
	uint64_t device, inode, size;
	int64_t modified_nsec, changed_nsec; /* CLOCK_REALTIME */
	int64_t born_nsec;                   /* 0: the file system does not say */
};

struct file_text {
	char *bytes; /* size bytes and a NUL */
	size_t size;
	uint64_t hash;
	struct file_stamp stamp;
};

/* The stamp of what a path leads to now. It is opened for that, for network file systems tell the
 * truth on open only. Errors: what open says; EINVAL (not a regular file). */
int file_stamp_read(const char *path, struct file_stamp *ret, struct usher_error *reterr);
bool file_stamp_equal(const struct file_stamp *a, const struct file_stamp *b);
/* The same file, written in place, rather than another one under its name. */
bool file_stamp_same_file(const struct file_stamp *a, const struct file_stamp *b);
/* Whether it was written less than so long ago; a time in the future is not. */
bool file_stamp_is_younger(const struct file_stamp *stamp, int64_t age_nsec);

/* Read it whole. Errors: as above, and EAGAIN (it changed meanwhile), EFBIG, EIO, ENOMEM; each with
 * a message that starts with the path. */
int file_text_read(const char *path, struct file_text *ret, struct usher_error *reterr);
void file_text_done(struct file_text *text);
