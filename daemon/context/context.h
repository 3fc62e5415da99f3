#pragma once

/* All that the daemon holds for one service: policy, observations, chain, snapshot. Owned by the
 * directory; recomputes only when something it depends on changed, publishes only when the result
 * differs. */

#include <stdbool.h>
#include <stdint.h>

#include "chain.h"
#include "config.h"
#include "freshness.h"
#include "observation.h"
#include "snapshot.h"
#include "source.h"

struct directory;
struct context;
struct health;

/* One source of the context, and what it said. */
struct feed {
	const struct feed_config *config;
	struct source *source; /* NULL: not running */
	enum source_state state;
	struct observation *observation; /* in force; NULL: never answered */
	uint64_t observed_usec; /* of the last proof, for feed_age(): may lie before this boot
				   (restored from disk) */
	bool restored; /* the observation is the disk's; the source has not answered since the start
			*/
	struct observation *held; /* what the source says while the removals in it are held back;
				     NULL: nothing is held back */
	size_t held_removed, held_of; /* how many endpoints it would remove, of how many */
	uint64_t held_since_usec, held_until_usec;
	char *error; /* the last, while the source fails; NULL */
	unsigned offers, failures;
};

/* How old the observation in force is; USEC_FOREVER: never answered, or nobody can tell. */
uint64_t feed_age(const struct feed *feed, uint64_t now_usec);

/* What a rollout has decided about an endpoint. Keyed by id and uid: another incarnation at the
 * same id is not bound by it. */
struct override {
	const char *id;
	const char *uid; /* NULL: whichever */
	enum usher_admin_state admin_state;
	bool withdrawn;      /* not listed at all */
	double weight_share; /* of its own weight, 0..1, for a ramp */
};

/* The facts of a pick that found nothing; the words are the API's codes. */
enum pick_result {
	PICK_OK,
	PICK_SOURCE_UNKNOWN, /* no source has answered yet */
	PICK_SOURCE_FAILED,  /* never answered, and the last attempt failed */
	PICK_STALE,          /* past max_age and on_stale: fail */
	PICK_EMPTY,          /* the service truly has no endpoints */
	PICK_ALL_UNHEALTHY,
	PICK_FILTERED, /* a strict stage, a stage or selector at fault, or only drained, or weight
			  0; see stage */
};
const char *pick_result_to_string(enum pick_result result); /* "source_unknown", ... */

struct pick {
	enum pick_result result;
	uint32_t endpoint; /* index into snapshot->all */
	const char *stage; /* of PICK_FILTERED: the stage's name, "drain", "exclude" (all that are
			      left were excluded by the request) or the selector's name (all have
			      weight 0) */
	bool panic; /* given although a stage should not have let it through, for too little would
		       have been left */
	struct snapshot *snapshot; /* borrowed until the loop turns; NULL before the first answer */
	struct freshness freshness;
};

const char *context_service(const struct context *c);
bool context_is_eager(const struct context *c);
const struct service_config *context_config(const struct context *c);
/* The chain of its snapshot, or before the first the one that it will have. */
const struct chain *context_chain(const struct context *c);
/* What became of stage i of that chain so far: at publications for the shared part, else at picks.
 */
void context_stage_counts(const struct context *c, size_t i, struct chain_counts *ret);
/* NULL before the first answer. The first is published when all sources that the merge needs have
 * answered, or once startup_timeout has passed; one that is empty waits for all of them. Borrowed:
 * take a reference to keep it. */
struct snapshot *context_snapshot(const struct context *c);
/* Why none of the snapshot's endpoints is chosen, as a pick says it: PICK_EMPTY, PICK_ALL_UNHEALTHY
 * or PICK_FILTERED; PICK_SOURCE_UNKNOWN or PICK_SOURCE_FAILED when there are no endpoints, but not
 * by everybody's word; PICK_OK: some are, or there is no snapshot. Each revision has one answer.
 * *ret_stage is the stage that left none, NULL: no stage did; borrowed until the loop turns. */
enum pick_result context_why_none(const struct context *c, const char **ret_stage);
size_t context_feed_count(const struct context *c);
const struct feed *context_feed(const struct context *c, size_t i);
/* The name of the source that endpoint i of its snapshot was taken from, borrowed until the next
 * configuration; NULL: none of its feeds shows it, as after a reload to sources that have not
 * answered yet. */
const char *context_source_of(const struct context *c, const struct snapshot *snapshot, size_t i);
/* The name of the source that decided a field of endpoint i, where that is another; else NULL.
 * Borrowed as above. */
const char *context_field_source(const struct context *c, const struct snapshot *snapshot, size_t i,
		enum merge_field field);
/* The name of that feed's source if it shows endpoint i, under the same id; else NULL. */
const char *context_shown_by(
		const struct context *c, const struct snapshot *snapshot, size_t i, size_t feed);
void context_freshness(const struct context *c, uint64_t now_usec, struct freshness *ret);
/* Whether the sources have answered as far as the merge asks for it, so that READY need not wait:
 * all of them, or for `first` those up to the first that is not empty, for `race` any that is not
 * empty. The disk's word is no answer. */
bool context_has_answer(const struct context *c);

/* The health of its endpoints as it is observed, for details; those of the snapshot may be a moment
 * older. NULL: nothing observes it. Borrowed until the loop turns. */
struct health *context_health(const struct context *c);

/* Whoever follows a context holds it meanwhile, so that a lazy one does not go for lack of use. All
 * holds end with the context's `removed`; releasing within that is fine. */
void context_hold(struct context *c);
void context_release(struct context *c);

/* Choose. What the host knows of the request (random, cursor, now_usec, last) is filled in here. No
 * allocation, no lock, no system call. */
void context_pick(struct context *c, struct usher_request *request, uint64_t now_usec,
		struct pick *ret);

/* How calls to an endpoint went. Errors: ENOENT (not in its snapshot, or there is none). */
int context_report(struct context *c, const char *id, const struct usher_report *report);
/* How many requests all consumers together say they have open to an endpoint; holds until it is
 * said anew or the endpoint goes. Errors: as context_report. */
int context_set_in_flight(struct context *c, const char *id, uint64_t count);
/* The same as a pick, told stage by stage; arrays are owned by the explanation. */
struct explain_left {
	uint32_t endpoint;
	char reason[160];
};
struct explain_stage {
	const char *name; /* the host's own: "admin" comes first, draining, withdrawn and
			     maintenance endpoints leave; "exclude" comes behind the shared part
			     when the request excludes */
	bool shared;
	struct chain_step step;
	size_t rule_count; /* 0: the host's own */
	char told[240];    /* what it says of itself as a whole; empty: nothing */
	struct explain_left *left;
	size_t left_count;
};
struct explanation {
	struct pick pick;
	struct explain_stage *stages;
	size_t stage_count;
	const char *selector;
	bool selector_fault;    /* it answered nonsense */
	size_t candidate_count; /* that the selector chose from */
	double share;           /* of the chosen one */
};
int context_explain(struct context *c, struct usher_request *request, uint64_t now_usec,
		struct explanation *ret);
void explanation_done(struct explanation *e);
/* Why an endpoint of the current snapshot is not chosen: text into ret. */
void context_explain_left_out(struct context *c, uint32_t endpoint, char *ret, size_t size);
