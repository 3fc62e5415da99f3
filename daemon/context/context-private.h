#pragma once

/* What the files of this floor share about one context. */

#include "context.h"
#include "directory.h"
#include "last-choices.h"
#include "merge.h"
#include "staleness.h"
#include "tally.h"

/* Confirmed times reach the disk this seldom; after a kill an answer seems older by this much at
 * most, never younger. */
#define FEED_TOUCH_USEC UINT64_C(10000000)
/* What could not be done for lack of memory is tried again this often. */
#define CONTEXT_RETRY_USEC UINT64_C(1000000)
/* A stage that says its result changes by itself is run again no sooner than this. */
#define CONTEXT_AGAIN_USEC    UINT64_C(20000)
#define CONTEXT_OVERRIDES_MAX 10000

struct origin;

struct feed_state {
	struct feed feed;         /* what others see */
	struct origin *origin;    /* the configured source; NULL until the feed is connected */
	struct observation *base; /* while something is held back: what was in force before, which
				     offers are compared with */
	uint64_t touched_usec;    /* when the disk last heard of it */
	bool on_disk;
	bool leads;                  /* the race, where the service is merged so */
	uint64_t failing_since_usec; /* 0: it does not fail */
};

struct override_entry {
	struct override override; /* with the texts below */
	char *id, *uid;
};

struct background;

struct context {
	struct directory *directory;
	struct background *background; /* the next result is computed beside the loop; NULL: not */
	char *service;
	bool eager;
	const struct service_config *config; /* in the directory's configuration, or `own` */
	struct service_config own;           /* of a lazy one: the defaults, under its name */
	struct feed_config *own_feeds;
	struct chain *chain;      /* in force: what the snapshot was computed with */
	struct chain *next_chain; /* what the next one is computed with; NULL: the same */
	struct feed_state *feeds;
	size_t feed_count;

	struct override_entry *overrides;
	size_t override_count;

	struct merged merged; /* of the feeds as they are, while merged_valid */
	bool merged_valid;
	struct snapshot *snapshot;
	void *prepared;     /* the selector's, for what the snapshot has chosen */
	uint64_t *marks;    /* of the snapshot's endpoints, for the stages that look at requests */
	struct tally tally; /* of the snapshot's endpoints */
	struct chain_counts *counts; /* of the chain's stages; NULL before the first snapshot */
	uint64_t selector_faults;    /* answers of the selector that made no sense */
	struct last_choices *last;   /* NULL: no stage goes by it */
	enum pick_result why_none;   /* none of the snapshot is chosen; PICK_OK: some are */
	const char *why_none_stage;  /* of the chain in force, or "drain"; NULL: no stage did it */
	bool recompute_due;          /* for lack of memory it could not be done */
	double panic_threshold;      /* that the snapshot was computed with */
	uint64_t again_usec;         /* when a stage's result changes by itself; 0: not */

	struct check *check;   /* how its endpoints are asked; NULL: they are not */
	struct health *health; /* NULL: nothing observes it, or there is nothing to observe yet */
	const struct usher_endpoints *health_set; /* whose health is known; compared only */
	const uint8_t *health_states;             /* enum usher_health of each of them */

	enum source_state shown_state; /* the freshness that was last told */
	unsigned holds;
	uint64_t created_usec;
	uint64_t cursor, saved_cursor;
	uint64_t used_usec; /* the last pick or directory_get() */

	uint64_t deadline_usec; /* when something falls due by itself */
	size_t deadline_index;  /* in the directory's heap */
};

/* ---- context.c ---- */
int context_new(struct directory *d, const char *service, struct context **ret);
struct context *context_free(struct context *c);
/* Feeds for a configuration, without observations. NULL when out of memory. */
struct feed_state *feeds_new(const struct service_config *config);
struct feed_state *feeds_free(struct feed_state *feeds, size_t count);
/* The feed of a source, or NULL. */
struct feed_state *context_feed_of(struct context *c, const struct source *source);
/* Let the clock's work be done: holds that end, answers that age. */
void context_on_deadline(struct context *c, uint64_t now_usec);
/* Compute when that is next, and tell the directory. */
void context_schedule(struct context *c, uint64_t now_usec);
/* Tell when freshness has changed its state; true when it has. */
bool context_note_freshness(struct context *c, uint64_t now_usec);
bool context_is_idle(const struct context *c, uint64_t now_usec);

/* ---- feed.c ---- */
struct judgement;
/* What a source offers comes in; judgement is what it was found to be (NULL: not looked at yet).
 * Takes the observation. The result is to be computed, and then settled. */
void feed_take(struct context *c, struct feed_state *f, struct observation *observation,
		const struct judgement *judgement, uint64_t now_usec);
/* After something was computed, with the result r: tell what has changed beside the revision. */
void feed_settle(struct context *c, bool renewed, int r, uint64_t now_usec);
void feed_offered(struct context *c, struct feed_state *f, struct observation *observation,
		uint64_t now_usec);
void feed_confirmed(
		struct context *c, struct feed_state *f, uint64_t observed_usec, uint64_t now_usec);
void feed_failed(struct context *c, struct feed_state *f, int code, const char *reason,
		uint64_t now_usec);
/* Release what was held back long enough. */
void feed_on_deadline(struct context *c, struct feed_state *f, uint64_t now_usec);
/* An answer of an earlier life of the daemon. Takes the observation. */
void feed_restore(struct feed_state *f, struct observation *observation, uint64_t age_usec,
		uint64_t now_usec);
/* Write when the answer was last proved, if the disk knows the answer. */
void feed_touch(struct context *c, struct feed_state *f, uint64_t now_usec);

/* ---- publication.c ---- */
struct computing;
/* Put in force what was computed from the context as it is. Errors: ENOMEM. > 0: there is a new
 * revision. */
int context_publish(struct context *c, struct computing *k);
/* Compute the result again, and publish it when it differs. Errors: ENOMEM, E2BIG; then the last
 * result stays in force. > 0: there is a new revision. */
int context_recompute(struct context *c);
/* The same, said and tried again later when it fails. */
int context_recompute_or_retry(struct context *c, uint64_t now_usec);
/* The same, where it is large only if something it depends on has changed. */
int context_refresh(struct context *c, uint64_t now_usec);
/* Whether what is merged may be shown: before the first time, a part must not pass for the whole.
 */
bool context_may_publish(const struct context *c, uint64_t now_usec);
void context_fill_rules(const struct context *c, struct merge_rules *ret);
/* Whether this feed leads the race now, too. */
bool context_race_stands(const struct context *c, size_t leader, uint64_t now_usec);
/* Until when the first publication waits for sources that have not answered; USEC_FOREVER: it is
 * over. */
uint64_t context_patient_until(const struct context *c);
/* Let go of all that belongs to the snapshot and its chain. */
void context_drop_snapshot(struct context *c);
/* The chain that the next snapshot is computed with. */
struct chain *context_wanted_chain(const struct context *c);
/* Take a reference to the chain that the next snapshot is computed with. */
void context_replace_chain(struct context *c, struct chain *chain);
/* What the service's stages are told of on_all_down. */
double context_panic_threshold(const struct service_config *config);

/* ---- observed.c ---- */
/* Where the health of endpoints comes in: enum usher_health of each of the set, in its order,
 * borrowed until it is said anew; NULL: nothing observes it. Counts while the set is what is merged
 * (c->merged.endpoints), else all are unknown. */
void context_set_health(
		struct context *c, const struct usher_endpoints *set, const uint8_t *states);
/* After c->config has changed: observe the health as that says, by this check (NULL: there is
 * none). True: the next snapshot may differ. Cannot fail: what is asked changes with
 * context_follow_health(). */
bool context_observe(struct context *c, struct check *check);
void context_observe_no_more(struct context *c);
/* Observe what is merged now. ENOMEM. */
int context_follow_health(struct context *c);
/* Say when a panic, or an outage of all, begins or ends with the snapshot that is in force now. */
void context_note_outage(
		const struct context *c, const struct snapshot *previous, bool was_all_down);

/* ---- overrides.c ---- */
int context_set_override(struct context *c, const struct override *override);
int context_clear_override(struct context *c, const char *id);
const struct override *context_find_override(const struct context *c, const char *id);
/* Whether it is about this incarnation of its endpoint. */
bool override_binds(const struct override *override, const char *uid);
/* ... and takes it out of service. */
bool override_takes_out(const struct override *override, const char *uid);
/* A copy. ENOMEM. */
int override_entry_init(struct override_entry *e, const struct override *from);
void overrides_free(struct override_entry *overrides, size_t count);

/* ---- pick.c ---- */
/* tally is that of the snapshot. */
void context_view(const struct context *c, const struct snapshot *s, const struct tally *tally,
		uint64_t now_usec, struct usher_view *ret);
/* What the host says of a request by itself. */
void context_fill_request(struct context *c, struct usher_request *request, uint64_t now_usec);
/* Whether the host drops what the request excludes. */
bool context_drops_excluded(const struct context *c, const struct usher_request *request);
/* What the selector gets of what it has prepared. */
const void *context_prepared_for(const struct context *c, const struct usher_request *request);
/* Drop what the request excludes; returns how many stay. */
size_t request_drop_excluded(const struct usher_request *request, const struct snapshot *s,
		uint32_t *candidates, size_t count);
/* Why nothing can be chosen before anybody looks at candidates, or PICK_OK. */
enum pick_result context_refusal(const struct context *c, const struct freshness *freshness);
/* Of a snapshot without endpoints: PICK_EMPTY, or whose word is missing for that. */
enum pick_result context_emptiness(const struct context *c);
/* A stage that leaves none: which of the facts that is. */
enum pick_result context_stage_result(const struct chain *chain, size_t stage, bool fault);

/* ---- faults.c ---- */
/* Say once that a stage or the selector answers nonsense. `faults` is how often it has by now. */
void context_note_stage_fault(
		const struct context *c, const struct chain *chain, size_t stage, uint64_t faults);
void context_note_selector_fault(struct context *c, ssize_t position, size_t count);
