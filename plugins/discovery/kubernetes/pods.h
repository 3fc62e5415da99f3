#pragma once

/* The Pods of this node. One that is being deleted, or that somebody has annotated, is to be
 * drained in each service that it serves; one that is not any more is to come back.
 *
 * What is said about the endpoints of an answer is said again when it has become something else,
 * whichever of the two has changed. */

#include "kubernetes.h"

/* Follow them, where that is configured. Errors: ENOMEM; with a message. */
int pods_init(struct watcher *w, struct usher_error *reterr);
void pods_done(struct watcher *w);
/* Tell what is due. */
void pods_tell(struct watcher *w);
