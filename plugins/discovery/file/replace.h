#pragma once

/* Putting a new text in a file's place so that a reader sees the old or the new one and nothing
 * between, whenever the power fails; and one writer at a time. */

#include "text.h"

/* One writer at a time in a folder: a lock on the folder itself, which goes with its process.
 * Returns a descriptor to close. Errors: ETIMEDOUT (someone else holds it), what open and flock
 * say. */
int replace_lock(const char *folder, struct usher_error *reterr);

/* Put bytes in the place of the file at path, which is no symbolic link, with its owner and mode
 * kept; 0644 for a new file. expected: what was read of it, NULL: there was none. What a writer
 * that was killed left behind is removed. Call under the lock of its folder. Errors: EAGAIN (it is
 * not any more what was read; nothing is changed), EROFS, EACCES, ENOSPC, ...: the old file stays,
 * and the message says what to do. */
int replace_file(const char *path, const char *bytes, size_t size,
		const struct file_stamp *expected, struct usher_error *reterr);
