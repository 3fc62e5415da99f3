#pragma once

/* The whole daemon: the only room that knows everybody. Start, ready, reload, stop. */

#include <usher/error.h>

struct daemon;

enum daemon_flags {
	DAEMON_RELOAD_ON_CHANGE = 1u << 0, /* of the configuration's files */
};

/* Read the configuration, load the plug-ins, go on with what the disk knows, start the sources,
 * open the doors. Errors: of whichever part failed; with its message. */
int daemon_new(const char *config_path, unsigned flags, struct daemon **ret,
		struct usher_error *reterr);
struct daemon *daemon_free(struct daemon *d); /* NULL is fine */

/* Until SIGTERM or SIGINT, and through an orderly stop. 0, or a negative errno. */
int daemon_run(struct daemon *d);

/* Whether a configuration would be taken: it is read, its plug-ins are loaded, its options and
 * chains are judged; nothing is started. Errors: with their message. */
int daemon_check(const char *config_path, struct usher_error *reterr);
