#pragma once

/* What is to be done about one registration in one registry now. Pure.
 *
 * Level-triggered: from how things are to the next act, which may be repeated. */

#include <stdbool.h>
#include <stdint.h>

#include "registration-config.h"

enum registration_state {
	REGISTRATION_PENDING,    /* not told yet: what stands in the way is said */
	REGISTRATION_WAITING,    /* for its first good check */
	REGISTRATION_REGISTERED, /* the registry has it */
	REGISTRATION_FAILING,    /* the registry did not take the last act, which is tried again */
	REGISTRATION_UNHEALTHY,  /* out, or on its way, until its checks are good again */
	REGISTRATION_HELD,       /* a drain holds it back */
	REGISTRATION_LEAVING,    /* nobody wants it any more; being taken out */
	REGISTRATION_REMOVED,    /* out */
};

#define REGISTRATION_STATES (REGISTRATION_REMOVED + 1)

/* "pending", "waiting_for_health", "registered", ... */
const char *registration_state_to_string(enum registration_state state);

enum placement_act {
	PLACEMENT_NOTHING,
	PLACEMENT_ADD,
	PLACEMENT_RENEW,
	PLACEMENT_REMOVE
};

struct placement_facts {
	bool is_wanted;  /* somebody wants it there */
	bool is_known;   /* what is to be told is known: its address */
	bool is_held;    /* by a drain */
	bool has_passed; /* a check was good since it is asked as it is now; or it is not checked */
	bool is_well;    /* its checks are good now */
	bool is_down;    /* its checks are bad now; neither: not known yet */
	enum unhealthy_policy on_unhealthy;
	bool may_be_there; /* the disk says that it was put there */
	bool is_there;     /* as far as is known */
	bool is_current;   /* the registry was told what it is now, by this run of usherd */
	bool is_another;   /* this run has told it something else */
	bool can_renew, can_remove;
	bool is_due; /* the time to renew, or to look, has come */
};

struct placement_decision {
	enum placement_act act;
	enum registration_state state; /* once the act is done; failing is for who does it to say */
};

void placement_decide(const struct placement_facts *f, struct placement_decision *ret);

/* When to renew after a success, as a part of what the plug-in asked for (0: nothing), at random
 * from `random`, so that what began together does not stay together. */
#define PLACEMENT_LOOK_USEC      UINT64_C(60000000)
#define PLACEMENT_RENEW_MIN_USEC UINT64_C(200000)
uint64_t placement_renew_delay(uint64_t renew_after_usec, uint64_t random);

/* Whose turn comes first among what waits for the same registry. News of what is there, and that it
 * is to go, are due at once, a renewal when its lease is nearly out, and what has just failed after
 * some patience. A first addition, which nobody misses yet, comes before what is not due, and
 * before anything else once it has waited for long. */
#define PLACEMENT_PATIENCE_USEC UINT64_C(30000000)

struct placement_times {
	uint64_t waiting_usec;     /* since when it waits */
	uint64_t renewed_usec;     /* the last proof that it is there; 0: none by this run */
	uint64_t renew_after_usec; /* as the plug-in asked for it then; 0: nothing runs out */
	uint64_t failed_usec;      /* when the last call failed; 0: it did not */
};

bool placement_is_addition(const struct placement_facts *f, enum placement_act act,
		const struct placement_times *times);
/* Of one that is no addition. */
uint64_t placement_due(const struct placement_facts *f, enum placement_act act,
		const struct placement_times *times);
/* Whether an addition that waits since then comes before what is due then. */
bool placement_addition_is_first(uint64_t waiting_usec, uint64_t due_usec, uint64_t now_usec);

/* When its lease is over, as far as can be known: plug-ins ask for a renewal after a third of it.
 * USEC_FOREVER: there is none. What a busy machine alone makes late is not told from a lease that
 * is very short. */
#define PLACEMENT_LEASE_MIN_USEC UINT64_C(5000000)
uint64_t placement_lease(uint64_t renew_after_usec); /* 0: none */
uint64_t placement_lease_end(const struct placement_times *times);

/* The next attempt after so many failures in a row: anywhere up to the back-off, which doubles. */
#define PLACEMENT_RETRY_MIN_USEC   UINT64_C(100000)
#define PLACEMENT_BACKOFF_MIN_USEC UINT64_C(500000)
#define PLACEMENT_BACKOFF_MAX_USEC UINT64_C(30000000)
uint64_t placement_backoff(unsigned failures, uint64_t random);

/* Whether a failure is the registry's as a whole: then nothing else need be tried there meanwhile.
 */
bool placement_failure_is_shared(int code);
