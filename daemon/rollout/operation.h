#pragma once

/* One rollout while it is looked after: its record, what of it is on disk, and what its current
 * step has going on. Inside of the floor; everything runs on the core. */

#include "evidence.h"
#include "hook.h"
#include "probe.h"
#include "random.h"
#include "rollout.h"
#include "sock-diag.h"
#include "steps.h"
#include "work-queue.h"

/* How often evidence is looked for that has no event. */
#define OPERATION_TICK_USEC      UINT64_C(50000)
#define OPERATION_SLOW_TICK_USEC UINT64_C(250000)
/* Between repetitions of an act, or of writing the record. */
#define OPERATION_BACKOFF_MIN_USEC UINT64_C(200000)
#define OPERATION_BACKOFF_MAX_USEC UINT64_C(5000000)
/* Of a hook that fails; one that usherd interrupted is run again in any case. */
#define OPERATION_HOOK_ATTEMPTS 3
/* What a rollout has at least after a restart, however long usherd was away. */
#define OPERATION_RESUME_USEC UINT64_C(10000000)
/* For consumers to come back after a restart, before their absence means anything. */
#define OPERATION_RETURN_USEC UINT64_C(5000000)

enum act_state {
	ACT_IDLE,
	ACT_RUNNING,
	ACT_DONE,   /* or there is nothing to do */
	ACT_FAILED, /* again at again_usec, if at all */
};

struct act {
	enum act_state state;
	unsigned failures;
	uint64_t again_usec; /* USEC_FOREVER: it has had its attempts */
};

/* Times are CLOCK_BOOTTIME; 0: not yet, not in this life. Flags stand together at the end. */
struct operation {
	struct rollout *rollout;
	struct drain_record record;
	uint64_t again_usec; /* when to look again; USEC_FOREVER: on an event */

	/* The disk. */
	uint64_t version; /* of the record; one more for every change that belongs on disk */
	uint64_t posted, committed;
	uint64_t disk_again_usec;

	/* The current step. */
	uint64_t deadline_usec;
	uint64_t step_started_usec, step_until_usec;
	uint64_t entry_version; /* on disk before the step acts; 0: it has not been entered */
	uint64_t began_usec;    /* since when it may act */
	uint64_t asked_usec;    /* when the registry was last asked for something new */
	struct act registry, hook;
	struct registration_job *job;
	struct hook *running_hook; /* also when it is over, until the reconciler frees it */

	/* Propagation. */
	uint64_t deregistered_usec, echo_usec;

	/* In flight, and a last look before the close. */
	struct quiet quiet;
	uint64_t sample_usec; /* of the last sample */
	size_t sample_open;
	uint64_t newest_connection_usec;
	uint64_t noted_usec; /* when a count was last told */
	uint64_t resolved_usec;
	struct sock_diag_target where; /* its addresses, since resolved_usec */
	char sample_fault[160];

	/* Probe and ramp. */
	struct probe *probe;
	uint64_t probe_next_usec;
	double share;

	unsigned serial; /* of the entered step, so that late answers find theirs gone */
	unsigned job_serial, hook_serial;
	unsigned disk_failures;
	unsigned probes_passed;
	int sample_code;
	bool posting; /* the disk has it */
	bool acted;
	bool interrupted; /* it was active when usherd went */
	bool resumed;     /* the record comes from the disk */
	bool released;    /* its endpoint is another incarnation: nothing is wanted of it */
	bool add_instead; /* of setting a state: the registry does not know it */
	bool hook_over;
	bool sample_wanted;
	bool changed; /* somebody should be told */
};

struct census;
struct petition;

struct rollout {
	sd_event *event;
	struct directory *directory;
	struct worker *worker;
	struct store *store;
	struct work_queue *queue;
	struct hook_host hooks;
	struct rollout_above above;
	void *above_userdata;
	rollout_registered registered; /* NULL: nobody registers */
	void *registered_userdata;
	struct operation **operations; /* oldest first */
	size_t count;
	struct petition **petitions; /* of the sources */
	size_t petition_count;
	struct work_queue *petition_queue;
	struct random random;
	struct census *counting; /* runs */
	struct census *counted;  /* the one before */
	uint64_t started_usec;   /* 0: not yet */
};

/* rollout.c */
struct operation *rollout_find_operation(const struct rollout *r, const char *id);
/* The newest for that endpoint; it alone says what the directory holds. */
struct operation *rollout_latest(
		const struct rollout *r, const char *service, const char *endpoint);
void rollout_wake(struct operation *op);
/* The record that has kept it out of service so far, if the latest has; NULL. */
const struct operation *rollout_keeper(const struct operation *latest);
const struct service_config *rollout_config(struct rollout *r, const char *service);
/* Takes the operation into the list. Errors: ENOMEM. */
int rollout_append(struct rollout *r, struct operation *op);
void rollout_forget_old(struct rollout *r);

/* operation.c */
struct operation *operation_new(struct rollout *r);
struct operation *operation_free(struct operation *op);
/* The record comes from the disk: find its times again. */
void operation_resume(struct operation *op);
/* Begin the record's current step, with a budget from now. */
void operation_begin_step(struct operation *op);
/* Make the step active, once more if it is; it acts when that is on disk. */
void operation_enter(struct operation *op, uint64_t now_usec);
/* The same, to repeat what has failed of its acts. */
void operation_enter_again(struct operation *op, uint64_t now_usec);
/* The step ends so: on to the next, or to the end. */
void operation_end_step(struct operation *op, enum step_state state);
/* The step's budget is spent: go on, hold or fail. */
void operation_spend(struct operation *op);
/* Something that belongs on disk has changed. */
void operation_touch(struct operation *op);
/* On the way back: what this node registers may be another instance by now than the one that was
 * taken out, at another address. */
void operation_refresh_saved(struct operation *op);
void operation_look_again(struct operation *op, uint64_t usec);
/* The step's act may happen: its entry is on disk. */
bool operation_may_act(const struct operation *op);
uint64_t operation_backoff(unsigned failures);
__attribute__((format(printf, 4, 5))) void operation_note(
		struct operation *op, const char *kind, bool proven, const char *format, ...);
__attribute__((format(printf, 2, 3))) void operation_fail(
		struct operation *op, const char *format, ...);
/* What a step waits for, in the words of its evidence: of what happened, the last; of what is
 * known, all that is missing. */
void operation_say_why_waiting(const struct step_record *step, char *ret, size_t size);
/* Write what is not on disk yet. */
void operation_commit(struct operation *op, uint64_t now_usec);

/* reconcile.c: look, act, wait. */
void operation_reconcile(struct operation *op, uint64_t now_usec);

/* act.c */
const struct feed *operation_feed(const struct operation *op);
void operation_look(const struct operation *op, struct echo *ret);
/* Put what the record wants into the directory. Errors: ENOENT, ENOMEM. *ret_revision: in force. */
int operation_apply_override(struct operation *op, uint64_t *ret_revision);
/* Do what the step does. True: it is done. */
bool operation_act(struct operation *op);
void operation_reset_acts(struct operation *op);
/* What the hook of a step is, and its name; NULL: it has none. */
const struct hook_config *operation_hook(const struct operation *op, const char **ret_name);

/* until.c */
/* STEP_ACTIVE: not yet, see the evidence; else what the step ends as. */
enum step_state operation_until(struct operation *op, uint64_t now_usec);
/* Right before the close, for what was in flight a moment ago: > 0 nothing is, 0 not known yet,
 * -EBUSY something is again. */
int operation_recheck(struct operation *op, uint64_t now_usec);

/* Set the share that a ramp has come to. */
void operation_take_share(struct operation *op, uint64_t now_usec);

/* census.c */
/* Have the open connections counted, with those of all others that want it. */
void census_want(struct operation *op, uint64_t now_usec, uint64_t tick_usec);
void census_done(struct rollout *r);
