#pragma once

/* The configuration's files, watched: the main file and conf.d beside it, through whatever way they
 * are written, mounted ConfigMaps among them. Watching walks folders, which may take its time on a
 * network's file system, so it has a thread of its own. */

#include "inbox.h"

struct config_watch;

typedef void (*config_changed)(void *userdata);

/* changed runs on the core; several changes may be told as one. path is that of the main file.
 * userdata lives until the inbox has gone. Errors: ENOMEM, EMFILE, EAGAIN, or of finding the
 * working folder for a relative path. */
int config_watch_new(struct inbox *inbox, const char *path, config_changed changed, void *userdata,
		struct config_watch **ret);
struct config_watch *config_watch_free(struct config_watch *watch); /* NULL is fine; returns NULL */
