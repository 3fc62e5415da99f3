#pragma once

/* What of this node is registered: instances that registries are told about, kept alive there, and
 * taken out again.
 *
 * Declared in the configuration, or asked for over the API and then on disk. A reconciler compares
 * for each registration and each of its registries what should be with what is, and does one thing
 * at a time: a registry never has more than one call of ours under way, so that a drain's need not
 * wait. Before a registry is told, the disk knows that it may have been: whatever happens to usherd
 * then, the next run takes out what nobody wants any more.
 *
 * It waits for the first good check; what an earlier run has put there is only kept alive until
 * then. While a drain's override is in force for the instance, it is neither added nor described
 * anew. Thread: the core's. */

#include <systemd/sd-event.h>

#include "directory.h"
#include "placement.h"
#include "store.h"

struct registrations;

#define REGISTRATIONS_API_MAX   1000
#define REGISTRATIONS_MAX       (CONFIG_REGISTRATIONS_MAX + REGISTRATIONS_API_MAX)
#define REGISTRATIONS_KEPT_USEC UINT64_C(600000000) /* that one which is out is still shown */
#define REGISTRATIONS_STOP_USEC UINT64_C(5000000)

/* In order: before the store is read, while it is, with the configuration. directory and store
 * outlive it, but for directory_free(), before which it goes. */
int registrations_new(sd_event *event, struct directory *directory, struct registrations **ret);
/* Nothing is taken out: what is registered stays. NULL is fine. */
struct registrations *registrations_free(struct registrations *r);
void registrations_set_store(struct registrations *r, struct store *store);
void registrations_restore(struct registrations *r, const struct stored_registration *stored);

/* Everything that can be refused is refused here, so that applying cannot fail half way. */
struct registrations_plan;
int registrations_prepare(struct registrations *r, struct config *config,
		struct registrations_plan **ret, struct usher_error *reterr);
struct registrations_plan *registrations_plan_free(struct registrations_plan *plan);
/* After directory_apply() of the same configuration. Takes the plan. The first call starts. */
void registrations_apply(struct registrations *r, struct registrations_plan *plan);

/* Take out what is to be out when usherd stops. done is called once, from a later turn: when that
 * is done, or after REGISTRATIONS_STOP_USEC. */
void registrations_stop(struct registrations *r, void (*done)(void *userdata), void *userdata);

/* A change that was asked for over the API is on disk (r is 0), or was refused with a negative
 * errno and its reason. */
typedef void (*registrations_decided)(void *userdata, uint64_t ticket, int r, const char *reason);
/* decided NULL: nobody is there any more. */
void registrations_set_above(
		struct registrations *r, registrations_decided decided, void *userdata);

/* What came of asking. */
struct registrations_change {
	uint64_t ticket; /* to be decided; 0: nothing changes */
	bool is_new;     /* there was none */
};

/* Over the API: another registration, or another content of one. json is as
 * registration_config_parse() takes it. Errors: EBADMSG, EINVAL, ERANGE, EEXIST (the body); EPERM
 * (the configuration declares it), EBUSY (another change of it is being written), E2BIG (a text or
 * a list of the body), EUSERS (REGISTRATIONS_API_MAX), ENOMEM; with a message. */
int registrations_put(struct registrations *r, const char *service, const char *id,
		const char *json, const char *requested_by, struct registrations_change *ret,
		struct usher_error *reterr);
/* Take it out. Errors: ENOENT, EPERM, EBUSY, ENOMEM. */
int registrations_remove(struct registrations *r, const char *service, const char *id,
		struct registrations_change *ret, struct usher_error *reterr);

struct registration_view {
	const char *service, *id;
	bool is_nothing; /* it was asked for in vain: not to be shown */
	bool is_configured;
	const char *requested_by; /* NULL: the configuration */
	enum registration_state state;
	uint64_t since_usec;
	const char *why; /* what stands in the way, or what failed; NULL */
	const struct registration_config
			*what; /* NULL: it is leaving, or cannot be read any more */
	const struct usher_endpoints *endpoint; /* one; NULL: no address yet */
	const struct health *health;            /* of the one endpoint; NULL: it is not checked */
	size_t place_count;
};

struct registry_view {
	const char *source, *name, *port;
	enum registration_state state;
	uint64_t since_usec;
	uint64_t told_usec;    /* when it was last told what it is; 0: not by this run */
	uint64_t renewed_usec; /* the last proof that it is there; 0: none by this run */
	uint64_t next_usec;    /* when it is asked next; USEC_FOREVER: on an event */
	uint64_t called_usec;  /* since when it has not answered; 0: nothing is under way */
	unsigned failures;     /* in a row */
	const char *error;     /* the last, until the next success; NULL */
};

/* In the order of services and ids. Borrowed until the loop turns. */
size_t registrations_count(const struct registrations *r);
void registrations_get(const struct registrations *r, size_t i, struct registration_view *ret);
void registrations_get_place(
		const struct registrations *r, size_t i, size_t k, struct registry_view *ret);
/* The index, or -ENOENT. */
ssize_t registrations_find(const struct registrations *r, const char *service, const char *id);

/* What it is, whatever its checks say: a set of one, borrowed until the loop turns. NULL: there is
 * no such registration, or it has no address. */
struct usher_endpoints *registrations_endpoint(
		const struct registrations *r, const char *service, const char *id);

/* Calls of registries so far. */
struct registry_calls {
	const char *source;
	uint64_t done[SOURCE_REMOVE + 1], failed[SOURCE_REMOVE + 1];
};
size_t registrations_registry_count(const struct registrations *r);
void registrations_registry(const struct registrations *r, size_t i, struct registry_calls *ret);
