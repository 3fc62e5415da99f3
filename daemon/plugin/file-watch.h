#pragma once

/* Whether a file or folder has changed, through whatever way it was written: in place, renamed
 * over, deleted and made again, or by turning a symbolic link on the way to it (mounted
 * ConfigMaps).
 *
 * inotify watches follow inodes, not paths, so every folder on the way is watched for the one name
 * that matters there, and the way is walked anew whenever one of these changes. What a rename or a
 * link puts in place is whole, and told as soon as those that belong together have gathered. After
 * anything else a change is told when it has been quiet for a moment, and while somebody still has
 * the file open after writing only after a longer one, so that a reader does not meet a
 * half-written file. A reader that takes long is not woken again at once. Where the kernel
 * tells nothing (NFS, FUSE, too many watches, an overflow), the path is looked at every
 * FILE_WATCH_POLL_USEC.
 *
 * A path that does not exist is waited for. Of a folder any entry counts, and what the entries link
 * to. Thread: one at a time. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ownership.h"

#define FILE_WATCH_WHOLE_USEC UINT64_C(2000) /* quiet, when all that came is whole */
#define FILE_WATCH_SETTLE_USEC                                             \
	UINT64_C(50000) /* quiet after the last event; of whole ones, from \
			   the first one, at most */
#define FILE_WATCH_BUSY_USEC                                                 \
	UINT64_C(500000) /* from the first event, at most, though it goes on \
			  */
#define FILE_WATCH_WRITER_USEC UINT64_C(2000000) /* quiet, with a writer that has not closed */
#define FILE_WATCH_OPEN_USEC   UINT64_C(5000000) /* from the first event, with such a writer */
#define FILE_WATCH_POLL_USEC   UINT64_C(5000000)
#define FILE_WATCH_NAMES_MAX   4096  /* names watched for; what is beyond is left to the poll */
#define FILE_WATCH_ENTRIES_MAX 16384 /* of a folder, looked at by the poll */

struct file_watch;

/* path is absolute. Changes count from now on. Errors: EINVAL, ENAMETOOLONG, ENOMEM. */
int file_watch_new(const char *path, struct file_watch **ret);
struct file_watch *file_watch_free(struct file_watch *watch); /* NULL is fine; returns NULL */
DEFINE_CLEANUP(struct file_watch, file_watch_free);

const char *file_watch_path(const struct file_watch *watch);
/* Poll for reading; -1: there is nothing to poll, only the time. */
int file_watch_fd(const struct file_watch *watch);
/* When to check at the latest (CLOCK_BOOTTIME), whether or not the descriptor is ready. */
uint64_t file_watch_due_usec(const struct file_watch *watch);
/* The reader waits again: one that took long after it was told is not told anew at once. */
void file_watch_rest(struct file_watch *watch, uint64_t now_usec);
/* Take in what has happened. > 0: it has changed since the last time this said so, and is quiet; 0:
 * not, or not yet. Errors: ENOMEM. */
int file_watch_check(struct file_watch *watch, uint64_t now_usec);
/* Why some of it is only looked at every FILE_WATCH_POLL_USEC, in words; NULL: all is watched. */
const char *file_watch_weakness(const struct file_watch *watch);

/* How sure it is that what is there may be read. */
enum file_watch_calm {
	FILE_WATCH_WRITING,  /* somebody has written and not closed */
	FILE_WATCH_SETTLING, /* somebody has closed, deleted, ...: there may be more to come */
	FILE_WATCH_WHOLE,
};

/* When a change is told: pure. first and last are the times of its first and last event. */
uint64_t file_watch_settled_usec(
		uint64_t first_usec, uint64_t last_usec, enum file_watch_calm calm);
/* Until when a reader is left alone that was told at told_usec and is back now: for four times as
 * long as it took, but no longer than FILE_WATCH_SETTLE_USEC. Pure. */
uint64_t file_watch_rested_usec(uint64_t told_usec, uint64_t now_usec);
