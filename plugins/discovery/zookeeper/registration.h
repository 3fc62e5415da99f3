#pragma once

#include "keeper.h"

/* Make an ephemeral node of ours with this value, whatever was there of the same instance: one that
 * an earlier session has left is replaced. > 0: it is somebody else's, was out of service, and has
 * got the state of the value. Errors: EBUSY (another instance has the node), EACCES,
 * EAGAIN, what keeping a session can fail with. */
int zk_registration_put(struct zk_keeper *k, const char *path, const char *value,
		struct usher_error *reterr);
