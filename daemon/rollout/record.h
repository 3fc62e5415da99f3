#pragma once

/* The durable record of a drain or restore: who, why, every transition with its time, revision and
 * evidence. A value with two renderings that are one: the JSON on disk is the JSON of the API. */

#include <stdbool.h>
#include <stdint.h>
#include <usher/endpoint.h>

#include <jansson.h>

#include "config.h"

#define DRAIN_ID_MAX       40
#define DRAIN_EVIDENCE_MAX 32   /* of one step; the oldest go */
#define DRAIN_STEPS_MAX    16   /* of one record: there, and the way back */
#define DRAIN_TEXT_MAX     1024 /* bytes of a reason, a requester or a text of evidence */

enum rollout_kind {
	ROLLOUT_DRAIN,
	ROLLOUT_RESTORE
};

enum drain_state {
	DRAIN_RUNNING,
	DRAIN_HELD, /* a budget is spent and its policy is hold: cancel, or `drain` again to go on
		     */
	DRAIN_CANCELLING,
	DRAIN_DONE,
	DRAIN_CANCELLED, /* and restored */
	DRAIN_FAILED,
};
const char *drain_state_to_string(enum drain_state state);
const char *rollout_kind_to_string(enum rollout_kind kind);
const char *drain_order_to_string(enum drain_order order);

enum drain_step {
	STEP_REQUESTED,
	STEP_READINESS,
	STEP_DEREGISTER,
	STEP_PROPAGATION,
	STEP_IN_FLIGHT,
	STEP_CLOSE,
	STEP_OPEN,  /* restore, and the way back of a cancelled drain, where an open hook is set */
	STEP_PROBE, /* ... and from here on, in any case */
	STEP_REGISTER,
	STEP_OBSERVED,
	STEP_RAMP,
	STEP_DONE,
	STEP_MAX,
};
const char *drain_step_to_string(enum drain_step step);

enum step_state {
	STEP_PENDING,
	STEP_ACTIVE,
	STEP_PROVEN,  /* its evidence is in */
	STEP_ASSUMED, /* a declared time has passed, or there was nothing to prove */
	STEP_SKIPPED, /* with the reason as evidence */
	STEP_FORCED,  /* its budget was spent and the policy is continue */
	STEP_FAILED,
};
const char *step_state_to_string(enum step_state state);

struct evidence {
	char *kind;  /* registry, registry_echo, consumers, external_caches, tcp, reports, quiet,
			hook, probe, ramp, disk, plan */
	bool proven; /* false: assumed, or missing */
	char *text;  /* "3 of 3 consumers have read revision 118" */
	uint64_t wall_usec;
};

struct step_record {
	enum drain_step step;
	enum step_state state;
	uint64_t started_wall_usec, finished_wall_usec;
	uint64_t deadline_wall_usec; /* of its budget; 0: it waits for nothing */
	uint64_t revision;           /* in force when it began */
	unsigned attempts; /* of its act; more than 1 when a crash fell inside, or it was retried */
	struct evidence *evidence;
	size_t evidence_count;
};

struct drain_record {
	char id[DRAIN_ID_MAX];
	enum rollout_kind kind;
	enum drain_state state;
	char *service;
	char *endpoint; /* id */
	char *source;   /* the configured source it was taken from; NULL: none known */
	char *uid;      /* of the incarnation it is about; NULL */
	char *reason;
	char *requested_by;            /* "root (uid 0, pid 4711)" */
	char *asking_source;           /* the source that has asked for the drain; NULL: people */
	char *token;                   /* idempotency token of its hooks */
	struct usher_endpoints *saved; /* the endpoint as it was, a set of one: for the way back and
					  for hooks; there as it is registered then, if this node
					  registers it */
	enum drain_order order;
	uint64_t requested_wall_usec, finished_wall_usec, deadline_wall_usec;
	uint64_t removal_revision;          /* from which no pick returns it; 0: not yet */
	uint64_t last_stale_pick_wall_usec; /* seen after the removal; 0: none */
	struct step_record *steps;          /* in the order they run */
	size_t step_count;
	size_t current; /* index into steps */
	bool withdrawn; /* the source does not ask for it any more */
	bool forced;    /* some step was */
	bool partial;   /* done, but something could not be told to the registry */
	char *failure;  /* why, and the way back; NULL */
};

/* Make a text that can be rendered: what is no UTF-8 becomes '?'. In place. */
void drain_text_clean(char *text);

void drain_record_done(struct drain_record *record);
bool drain_record_finished(const struct drain_record *record);
/* The step that runs, or the last one. A record has at least one. */
struct step_record *drain_record_current(const struct drain_record *record);
/* The last step of that kind, or NULL. */
struct step_record *drain_record_find(const struct drain_record *record, enum drain_step step);
/* Append a pending step. Errors: E2BIG, ENOMEM. */
int drain_record_add_step(struct drain_record *record, enum drain_step step);
/* Drop the steps from that index on. */
void drain_record_cut_steps(struct drain_record *record, size_t count);

/* Make it pending again, as if it had not begun. */
void step_record_reset(struct step_record *step);

/* Say what is known: replaces the step's last word of that kind. > 0 when it was another word.
 * Errors: ENOMEM. */
__attribute__((format(printf, 5, 6))) int step_record_note(struct step_record *step,
		const char *kind, bool proven, uint64_t wall_usec, const char *format, ...);
/* Say what happened: always one more. Errors: ENOMEM. */
__attribute__((format(printf, 5, 6))) int step_record_append(struct step_record *step,
		const char *kind, bool proven, uint64_t wall_usec, const char *format, ...);
/* The last evidence of that kind, or NULL. */
const struct evidence *step_record_find(const struct step_record *step, const char *kind);

/* In record-json.c. NULL when out of memory. */
json_t *drain_record_to_json(const struct drain_record *record);
/* Unknown members are ignored, so that an older usherd reads a newer one's record. Errors: EBADMSG
 * (the message names the member), ENOMEM. */
int drain_record_from_json(
		const json_t *json, struct drain_record *ret, struct usher_error *reterr);
