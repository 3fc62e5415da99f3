#pragma once

/* Drains and restores: durable, level-triggered operations on one endpoint.
 *
 * A reconciler looks at one record, does the act of its current step (idempotent), and moves on
 * when the evidence is in or the budget is spent. The record is on disk before a step acts. Thread:
 * the core's. */

#include "directory.h"
#include "record.h"

struct rollout;

#define ROLLOUT_PETITIONS_MAX 4096 /* endpoints of which sources ask that they be drained */
#define ROLLOUT_RUNNING_MAX   1000 /* at once */
#define ROLLOUT_KEPT_MAX      500  /* finished ones, for listing */
#define ROLLOUT_KEPT_USEC     (7 * UINT64_C(86400000000)) /* since they finished */
#define ROLLOUT_TIMEOUT_MAX_USEC                                        \
	(7 * UINT64_C(86400000000)) /* as the configuration's deadlines \
				     */

/* What the consumers have read: asked of the floor above. */
struct consumer_evidence {
	unsigned connected; /* consumers that know the service */
	unsigned caught_up; /* of those, that have read and acknowledged the revision */
	const char *behind; /* the name of one that is behind; NULL */
	uint64_t behind_revision;
};
struct in_flight_evidence {
	unsigned reporters;
	uint64_t requests;
};
struct rollout_above {
	void (*consumers)(void *userdata, const char *service, uint64_t revision,
			struct consumer_evidence *ret);
	void (*in_flight)(void *userdata, const char *service, const char *endpoint,
			struct in_flight_evidence *ret);
	/* A record changed: for whoever follows it. Called for every transition and new evidence.
	 */
	void (*changed)(void *userdata, const struct drain_record *record);
	/* More of the record is on disk: see rollout_version(). */
	void (*recorded)(void *userdata, const struct drain_record *record);
};

/* What a registration of this node says of an endpoint: a set of one, borrowed until the loop
 * turns; NULL: there is none. */
typedef struct usher_endpoints *(*rollout_registered)(
		void *userdata, const char *service, const char *endpoint);

int rollout_new(sd_event *event, struct directory *directory, struct worker *worker,
		struct rollout **ret);
/* Running drains stay on disk, to go on after a restart. Hooks that run are ended. When the loop
 * turns no more for the store and the directory: neither may call back afterwards. NULL is fine. */
struct rollout *rollout_free(struct rollout *r);
void rollout_set_store(struct rollout *r, struct store *store);
void rollout_set_above(struct rollout *r, const struct rollout_above *above, void *userdata);
/* What comes back is then what is registered, not what was taken out. */
void rollout_set_registered(struct rollout *r, rollout_registered registered, void *userdata);
/* From the store, before rollout_start(). */
void rollout_restore_drain(struct rollout *r, const struct stored_drain *drain);
/* Go on with what the disk says. Call after directory_apply. */
void rollout_start(struct rollout *r);

struct drain_request {
	const char *service;
	const char *endpoint;
	const char *reason; /* NULL */
	const char *requested_by;
	const char *uid;           /* of a drain: this incarnation only; NULL: whichever is there */
	const char *asking_source; /* NULL: people ask */
	uint64_t timeout_usec; /* instead of the configured deadline, ROLLOUT_TIMEOUT_MAX_USEC at
				  most; 0: as configured */
	bool order_given;
	enum drain_order order;
};

/* Start one, or find the one that runs for the same endpoint: then > 0, with the same record
 * (asking twice is asking once). Errors: ENOENT (service or endpoint), EPERM (a guard refuses:
 * min_ready, directory not live, a restore is running), EINVAL (the timeout), EIO (the disk does
 * not take the record), E2BIG, ENOMEM; with a message. The record is borrowed until the loop turns.
 */
int rollout_drain(struct rollout *r, const struct drain_request *request,
		const struct drain_record **ret, struct usher_error *reterr);
/* Bring back: of a drained endpoint, or of one that the source shows as draining or in maintenance.
 */
int rollout_restore(struct rollout *r, const struct drain_request *request,
		const struct drain_record **ret, struct usher_error *reterr);
/* Stop a drain and go back. > 0: it was being cancelled already. Errors: ENOENT, EALREADY (it is
 * finished; how). */
int rollout_cancel(struct rollout *r, const char *id, const struct drain_record **ret,
		struct usher_error *reterr);

/* A consumer was seen to use an endpoint by a choice older than its removal. */
void rollout_note_stale_pick(
		struct rollout *r, const char *service, const char *endpoint, uint64_t wall_usec);

const struct drain_record *rollout_find(struct rollout *r, const char *id);
/* Which version of the record this is, and which is on disk: what was asked for survives a crash
 * once that has caught up. 0 when there is none. */
uint64_t rollout_version(struct rollout *r, const char *id, uint64_t *ret_on_disk);
size_t rollout_count(const struct rollout *r);
const struct drain_record *rollout_at(const struct rollout *r, size_t i); /* newest first */
/* Running ones, for READY, STATUS and stop. */
size_t rollout_running(const struct rollout *r);
