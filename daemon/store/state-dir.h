#pragma once

/* The folder that usherd keeps its state in, and the lock that keeps a second usherd out of it.
 *
 * The lock is an flock on DIR/lock, which the kernel drops with the process; the file holds its
 * owner's pid, for the message. */

#include <stdbool.h>
#include <sys/stat.h>
#include <usher/error.h>

struct state_dir {
	char *path;
	int lock_fd;
	bool fresh; /* no usherd has used the folder before */
};

/* Make the folder (0750) as needed and lock it. Errors: EBUSY (another usherd uses it), what mkdir
 * and open say; with a message. */
int state_dir_init(struct state_dir *dir, const char *path, struct usher_error *reterr);
void state_dir_done(struct state_dir *dir);
/* Make and lock again what somebody removed or replaced while we run; 0 when all is as it was. */
int state_dir_refresh(struct state_dir *dir, struct usher_error *reterr);

/* Which file a path names. */
struct file_identity {
	dev_t device;
	ino_t inode; /* 0: none */
};
struct file_identity file_identify(const char *path);
bool file_identity_equal(struct file_identity a, struct file_identity b);

#define STATE_DIR_SET_ASIDE_MAX 8 /* files kept of each WORD; the oldest go */
#define STATE_DIR_NAME_MAX      4096
/* Rename a database to NAME.WORD-TIME, with the files that belong to it. ret_name needs
 * STATE_DIR_NAME_MAX bytes. Errors: as of rename. */
int state_dir_set_aside(const char *path, const char *word, char *ret_name);

/* What went wrong with a path, and what to do about it; returns code. */
int state_dir_explain(struct usher_error *reterr, int code, const char *path, const char *what);
