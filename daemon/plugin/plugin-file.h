#pragma once

/* A plug-in's file before it is loaded: who could have written it, and what its bytes say.
 *
 * Whoever can write the file, or a folder on the way to it, can run code as the daemon; so all of
 * that belongs to root or to the daemon's own user, and nobody else may write. */

#include <stdbool.h>
#include <sys/stat.h>

#include "elf-note.h"

#define PLUGIN_FILE_MAX ((off_t) 256 * 1024 * 1024) /* bytes */

/* Which file it was: to tell one that has been replaced since. */
struct plugin_stamp {
	dev_t device;
	ino_t inode;
	off_t size;
	struct timespec modified;
};

/* Whether the file may be loaded. name is its own, without folder and .so. Errors: ENOENT (no such
 * file), EPERM (others could have written it), ENOEXEC, EBADMSG, EPROTO (another ABI), EINVAL (what
 * it says of itself does not hold), and what open and read say; the message begins with the path.
 * Symbolic links are followed, and judged by what they lead to. */
int plugin_file_check(const char *path, const char *name, struct elf_abi *ret_abi,
		struct plugin_stamp *ret_stamp, struct usher_error *reterr);

/* The stamp of what is at path now. Errors: what stat says. */
int plugin_file_stamp(const char *path, struct plugin_stamp *ret);
bool plugin_stamp_equal(const struct plugin_stamp *a, const struct plugin_stamp *b);
