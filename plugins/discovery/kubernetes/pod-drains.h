#pragma once

/* The drains of this node's Pods: what was asked for, and how each goes. A Pod may serve several
 * services, and is drained in each; people look at one condition, which is all of them together.
 *
 * Thread: any; `run` says what is asked for, the registration's thread how it goes. */

#include <usher/plugin.h>

#include "shelf.h"

#define POD_DRAINS_STEP_MAX    64
#define POD_DRAINS_MESSAGE_MAX 1024

struct pod_drains;

/* How it goes for a Pod as a whole: it is done when it is in every service. */
struct pod_drains_sum {
	enum usher_drain_state state;
	char step[POD_DRAINS_STEP_MAX]; /* "": none */
	char message[POD_DRAINS_MESSAGE_MAX];
	uint64_t since_usec; /* CLOCK_REALTIME */
};

struct pod_drains *pod_drains_new(void);
struct pod_drains *pod_drains_free(struct pod_drains *d);

/* Whether the Pod is to be drained in that service. Returns 0, -ENOMEM. */
int pod_drains_ask(struct pod_drains *d, const char *uid, const char *service, bool wanted);
/* Whether usherd was told that it stays, and: it was. Asking for a drain ends that. */
bool pod_drains_is_said_to_stay(struct pod_drains *d, const char *uid, const char *service);
void pod_drains_said_to_stay(struct pod_drains *d, const char *uid, const char *service);
/* All has been said of the Pods that there are; the others are forgotten. */
void pod_drains_keep(struct pod_drains *d, const struct shelf *pods);
/* How it goes in one service. Returns 1; 0 when it is no news of that Pod, but of one that had its
 * name before; -EAGAIN (it is not known yet what is asked for). */
int pod_drains_tell(struct pod_drains *d, const char *uid, const char *service,
		const struct usher_drain_progress *progress, struct pod_drains_sum *ret);
