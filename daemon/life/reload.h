#pragma once

/* Reading the configuration again, off the loop: one reading at a time; requests that come
 * meanwhile are answered by one more reading, so that each sees the file as it was when it asked,
 * or newer. */

#include "config.h"
#include "worker.h"

struct reload;

/* Judge and swap the configuration that was read; takes it. 0, or a negative errno with the reason.
 */
typedef int (*reload_apply)(void *userdata, struct config *config, struct usher_error *reterr);
/* Before a reading and after it, with its result: for whoever tells the service manager. */
struct reload_events {
	void (*begun)(void *userdata);
	reload_apply apply;
	void (*ended)(void *userdata, int r, const char *reason);
};

typedef void (*reload_done)(void *userdata, int r, const char *reason);

/* path, events and userdata are borrowed for the object's life. */
int reload_new(struct worker *worker, const char *path, const struct reload_events *events,
		void *userdata, struct reload **ret);
struct reload *reload_free(
		struct reload *reload); /* whoever still waits is told ECANCELED; NULL is fine */

/* done may be NULL; it is called once, from a later turn of the loop, also when this fails for lack
 * of memory. */
void reload_request(struct reload *reload, reload_done done, void *userdata);
