#pragma once

/* A source: one configured use of a discovery plug-in, in a thread of its own, and what it says.
 *
 * The thread talks to the core by messages only; this header is the core's side. A plug-in that
 * returns or fails is run again after a back-off; one that does not stop in time is named and left
 * behind. */

#include <stdbool.h>
#include <stdint.h>
#include <usher/plugin.h>

#include "freshness.h"
#include "inbox.h"
#include "observation.h"
#include "plugin-instance.h"
#include "worker.h"

#define SOURCE_STOP_USEC         UINT64_C(3000000)
#define SOURCE_KNOWN_MAX         100000
#define SOURCE_REGISTRATIONS_MAX 1024 /* that wait for one registry */
#define SOURCE_DRAINS_MAX        1024 /* that a plug-in has asked for and the core has not taken */

struct source;

/* An endpoint that the plug-in wants drained, or not any more. */
struct source_drain {
	bool wanted;
	const char *service, *id;
	const char *uid;        /* NULL: whichever is there */
	const char *reason;     /* NULL */
	uint64_t deadline_usec; /* from now; 0: as configured */
};

/* Called on the core. service is the wanted service's name in usher. */
struct source_events {
	/* The reference is the callee's. Not called for an offer equal to the one before: that is a
	 * confirm. */
	void (*offered)(void *userdata, struct source *source, const char *service,
			struct observation *observation);
	void (*confirmed)(void *userdata, struct source *source, const char *service,
			uint64_t observed_usec);
	void (*failed)(void *userdata, struct source *source, const char *service, int code,
			const char *reason);
	/* The latest word about an endpoint; it may be the same as before. */
	void (*drain)(void *userdata, struct source *source, const struct source_drain *drain);
};

/* Start the thread. Takes a reference to the instance. Errors: EAGAIN, ENOMEM. */
int source_start(const char *name, struct plugin_instance *instance, struct inbox *inbox,
		const struct source_events *events, void *userdata, struct source **ret);
/* Tell it to stop, and wait at most until the given time (CLOCK_BOOTTIME) for its thread; then
 * leave it behind. No event is called any more. NULL is fine. Stop many at once by asking them all
 * first. */
void source_ask_to_stop(struct source *source);
struct source *source_stop(struct source *source, uint64_t until_usec);

const char *source_name(const struct source *source);
/* A number that no other source has, or had under the same name. */
uint64_t source_serial(const struct source *source);
const struct plugin_instance *source_instance(const struct source *source);

/* Say which services are wanted; replaces what was wanted. Copies; of a service that is named twice
 * the first counts. Errors: ENOMEM. */
int source_want(struct source *source, const struct usher_wanted *wanted, size_t count);

/* Keep what it says of a service until source_go_on(): the latest of each kind, as ever. Nothing
 * where the service is not wanted of it. */
void source_hold(struct source *source, const char *service);
void source_go_on(struct source *source, const char *service);

struct source_status {
	enum source_state state; /* of the source as a whole: failed when its last word was and no
				    service of it does better */
	uint64_t last_contact_usec; /* CLOCK_BOOTTIME of the last offer or confirm; 0: never */
	uint64_t last_change_usec;  /* of the last offer that differed */
	unsigned wanted;
	unsigned restarts; /* of its thread, after a fault */
	bool running;
	const char *error;        /* the last, in words; NULL: none since the last contact */
	const char *const *known; /* NULL-terminated, sorted; NULL: it does not say */
	size_t known_count;
};
/* Borrowed until the loop turns. */
void source_get_status(const struct source *source, struct source_status *ret);

/* ---- registration: what the registry is told, one at a time, in a thread of the source's own ----
 */

enum source_registration {
	SOURCE_ADD,
	SOURCE_RENEW,
	SOURCE_SET_STATE,
	SOURCE_REMOVE,
	SOURCE_PROGRESS, /* by source_tell_progress() */
};

/* r: 0, or a negative errno with the reason. */
typedef void (*source_registered)(void *userdata, int r, const char *reason);

/* Whether the plug-in offers it. */
bool source_can(const struct source *source, enum source_registration what);
/* How long after an add or a renew the plug-in wants the next renew, as it said after the last one;
 * 0: it does not ask for any. */
uint64_t source_renew_after_usec(const struct source *source);
/* Start it; done is called on the core, once, also when it failed or the source stopped
 * (ECANCELED). endpoint is for SOURCE_ADD and copied; id for the others; state for
 * SOURCE_SET_STATE. Returns a handle for source_forget(), or NULL when out of memory or when
 * SOURCE_REGISTRATIONS_MAX wait already (then done is not called). What the plug-in cannot do, and
 * an endpoint that cannot be, are answers like any other (EOPNOTSUPP, EINVAL). */
struct registration_job;
struct registration_job *source_register(struct source *source, enum source_registration what,
		const struct usher_wanted *service, const struct usher_endpoint *endpoint,
		const char *id, enum usher_admin_state state, source_registered done,
		void *userdata);
/* The same, for how a drain goes that the plug-in has asked for. Copies. */
struct registration_job *source_tell_progress(struct source *source,
		const struct usher_wanted *service, const char *id,
		const struct usher_drain_progress *progress, source_registered done,
		void *userdata);
/* Nobody waits for the answer any more; done will not be called. The job itself goes on. */
void source_forget(struct registration_job *job);
