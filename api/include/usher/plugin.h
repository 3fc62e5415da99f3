#pragma once

/* What a plug-in of usher is written against: this header, what it includes, and nothing else.
 *
 * A plug-in is a shared object with one exported constant, `usher_plugin`, written with
 * USHER_PLUGIN(). It says who it is, which options it takes, and which facets it offers:
 *
 *   discovery     where services live, watched in a thread of the plug-in's own
 *   registration  telling a registry about an endpoint: add, renew, set its state, remove
 *   stage         one step of a chain: takes candidates, gives candidates
 *   selector      picks one of the candidates
 *
 * Diary of the ABI, newest last. Within a major, structs only grow at their end and a field is read
 * only where `size` covers it; a size of 0 stands for the struct as it was in N.0.
 *
 *   1.0  options, discovery, registration, stage, selector
 *   1.1  view and request say more (health, open requests, who asks, its headers);
 *        a stage may weigh, tell what it did, and say per instance whether it looks at the request;
 *        a selector may learn from reports, in slots that the host keeps;
 *        hashes of keys and selectors of labels for all; the metadata "zone" is a zone;
 *        HTTP for discovery and registration;
 *        what a stage that looks at the request needs to know of endpoints is marked before;
 *        a registration says when it wants to be renewed;
 *        a source may ask for drains, and its registration is told how they go
 */

#include <stdarg.h>
#include <strings.h>
#include <usher/document.h>
#include <usher/endpoint.h>
#include <usher/error.h>
#include <usher/hash.h>
#include <usher/http.h>
#include <usher/match.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define USHER_ABI_MAJOR 1
#define USHER_ABI_MINOR 1

/* ---- options ---- */

/* The host parses a plug-in's options from its table into the instance before any of its code runs,
 * and shows the table to people. What an option points to lives as long as the instance. */
enum usher_option_type {
	USHER_OPTION_STRING,   /* const char * */
	USHER_OPTION_PATH,     /* const char *, absolute */
	USHER_OPTION_BOOL,     /* bool */
	USHER_OPTION_INTEGER,  /* int64_t, in min..max when max > min */
	USHER_OPTION_DURATION, /* uint64_t, microseconds */
	USHER_OPTION_SHARE,    /* double, 0..1; in min..max percent when max > min */
	USHER_OPTION_SIZE,     /* uint64_t, bytes */
	USHER_OPTION_CHOICE,   /* int, the index of the text in choices */
	USHER_OPTION_STRINGS,  /* const char *const *, NULL-terminated; one text counts as a list of
				  one */
	USHER_OPTION_NODE,     /* const struct usher_node *: for what no other type can say */
};

enum usher_option_flags {
	USHER_REQUIRED = 1u << 0,
	USHER_SECRET = 1u << 1, /* never logged, never shown */
};

/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): the order is the ABI's */
struct usher_option {
	const char *name; /* NULL ends the table */
	enum usher_option_type type;
	size_t offset; /* of the field in the instance */
	unsigned flags;
	const char *help;         /* one sentence */
	const char *default_text; /* as a person would write it; NULL: the field stays zero */
	int64_t min, max;
	const char *const *choices; /* NULL-terminated */
};

/* ---- discovery ---- */

struct usher_source; /* the host's side of one configured use of a plug-in */

/* A service that somebody wants to know about. Never grows within a major, for it stands in arrays.
 */
struct usher_wanted {
	const char *service; /* its name in usher; what offer, confirm and fail take */
	const char *name;    /* its name in the registry */
	const char *port; /* which of its ports, by name or number; NULL: the only one, or the first
			   */
};

enum usher_verdict {
	USHER_FRESH = 0,   /* complete, from an authority that proved itself current */
	USHER_SUSPECT = 1, /* complete, but it shrank in a way that a control-plane fault also makes
			    */
};

struct usher_discovery {
	size_t size;
	/* Runs in a thread of its own until usher_source_wait() says 0, then returns. It may block
	 * in anything the host can interrupt; what else it blocks in delays the stop, and a plug-in
	 * that does not stop in time is named in the log and left behind. Returning earlier, or a
	 * negative value, is a fault: the host calls run again after a back-off. */
	int (*run)(void *instance, struct usher_source *source);
};

/* The functions below may be called only from the thread that runs `run`, and are never for
 * waiting. */

/* What is wanted now; the list lives until the next usher_source_wait(). */
const struct usher_wanted *usher_source_wanted(struct usher_source *source, size_t *ret_count);

/* "This is the directory of the service now." Takes the set, whatever it returns, and seals it.
 * Offering a set equal to the last one costs little and proves that it is current. `revision` is
 * the registry's own word for it, for people; NULL: none. `observed_usec` is when the authority was
 * asked (CLOCK_BOOTTIME); 0: now. Errors: ENOENT (nobody wants the service any more: fine to
 * ignore), ENOMEM. */
int usher_source_offer(struct usher_source *source, const char *service,
		struct usher_endpoints *set, enum usher_verdict verdict, const char *revision,
		uint64_t observed_usec);
/* "Nothing changed, and the authority itself has just proved it." NULL: every service offered so
 * far. */
void usher_source_confirm(struct usher_source *source, const char *service, uint64_t observed_usec);
/* "I could not find out": unreachable, denied (EACCES, EPERM), nonsense (EBADMSG). The last good
 * answer stays, and ages. NULL: every wanted service. */
void usher_source_fail(struct usher_source *source, const char *service, int code,
		const struct usher_error *why);
/* Which services the source can see, wanted or not; replaces what was said before. */
void usher_source_known(struct usher_source *source, const char *const *names, size_t count);

enum usher_wait_flags {
	USHER_WAIT_WANTED = 1u << 0,  /* what is wanted has changed */
	USHER_WAIT_TIMEOUT = 1u << 1, /* the time is over */
	USHER_WAIT_FD = 1u << 2,      /* the descriptor is ready, or in error */
	USHER_WAIT_PATH = 1u
			<< 3, /* the file or folder has changed, and has been quiet for a moment */
	USHER_WAIT_HTTP = 1u << 4, /* since 1.1: usher_http_next() has something */
};

struct usher_wait {
	size_t size;
	uint64_t timeout_usec; /* 0: no limit */
	bool backoff; /* wait for the host's next jittered back-off delay instead of timeout_usec:
			 0.2 s doubling to 30 s, reset by the next offer or confirm */
	int fd;       /* with events != 0: a descriptor to wait for */
	short events; /* as in poll(2); 0: none */
	const char *path; /* a file or folder to wait for, through symbolic links; NULL: none.
			     Changes since the previous wait for the same path count; the
			     first wait for a path ends at once, for it may have changed since
			     it was read. */
};

/* Wait for whatever comes first. Returns a set of enum usher_wait_flags, 0 when told to stop, or a
 * negative errno (EINVAL, ENOMEM, EMFILE). */
int usher_source_wait(struct usher_source *source, const struct usher_wait *wait);

/* The name of the source in the configuration. */
const char *usher_source_name(struct usher_source *source);

/* ---- drains that a registry asks for (since 1.1) ---- */

/* Level-triggered: what is said holds until the contrary is said, and saying it again is harmless,
 * so that a plug-in may say it of every endpoint whenever it has read the registry anew.
 *
 * A drain is refused by the same guards as anybody's, and then tried again until it is not. While
 * the source asks for it, one that is running, held, done, failed or cancelled by people is not
 * started anew for the same incarnation; say undrain and drain for that. It survives a restart of
 * usherd, and so does who has asked for it. How it goes is told to registration.progress. */
struct usher_drain_request {
	size_t size;
	const char *service;    /* its name in usher */
	const char *id;         /* the endpoint's, as it is offered */
	const char *uid;        /* only this incarnation; NULL: the one that is there */
	const char *reason;     /* for people: "pod catalog-a is being deleted"; NULL */
	uint64_t deadline_usec; /* how long it may take from now on; 0: as configured */
};

/* "This endpoint is to be taken out of service." Errors: ENOENT (nobody wants the service), EINVAL
 * (service or id is missing), E2BIG (too many wait for usherd), ENOMEM. */
int usher_source_drain(struct usher_source *source, const struct usher_drain_request *request);
/* "It is not, or not any more": a drain that the source has asked for is cancelled, or undone where
 * it is over; what people have asked for stays. An endpoint that has gone for good needs no
 * undrain: it would be registered again. Errors: as above. */
int usher_source_undrain(struct usher_source *source, const char *service, const char *id);

/* ---- registration ---- */

/* Of a drain that the source has asked for (since 1.1). */
enum usher_drain_state {
	USHER_DRAIN_REFUSED = 0,   /* by a guard, or there is no such endpoint: tried again */
	USHER_DRAIN_RUNNING = 1,   /* at `step` */
	USHER_DRAIN_HELD = 2,      /* waits for people to decide, out of service meanwhile */
	USHER_DRAIN_DONE = 3,      /* nobody uses it any more */
	USHER_DRAIN_FAILED = 4,    /* it has ended, and text says how to go on */
	USHER_DRAIN_RETURNING = 5, /* cancelled or undone: on its way back */
	USHER_DRAIN_CANCELLED = 6, /* ... and in service again */
};

struct usher_drain_progress {
	size_t size;
	enum usher_drain_state state;
	const char *drain;   /* its name, for `usherctl describe drain`; NULL: it was refused */
	const char *step;    /* "propagation"; NULL: it was refused */
	const char *text;    /* for people: what it waits for, why it was refused or has failed */
	uint64_t since_usec; /* when state and step became so, CLOCK_REALTIME microseconds */
};

/* Called one at a time in a thread of the source that is not the one of `run`; both share the
 * instance, so what both touch needs a lock. A NULL member: this registry cannot do that, and the
 * host says so. Each may block, but should give up in well under a minute. Each is idempotent:
 * doing it twice is doing it once. Errors: EROFS (cannot be written; why), EACCES, ENOENT,
 * ETIMEDOUT, EIO, ...: all with a message.
 *
 * What is registered outlives the instance: `done` neither deregisters nor revokes a lease nor ends
 * a session, for usherd may come back in a moment, and adds again what it had. What is to go is
 * removed one by one before. */
struct usher_registration {
	size_t size;
	/* Also for what is registered already, by an earlier run of usherd or with another content:
	 * then the registry is to show this one. */
	int (*add)(void *instance, const struct usher_wanted *service,
			const struct usher_endpoint *endpoint, struct usher_error *reterr);
	/* Keep it alive, also what an earlier run of usherd has added: what the registry has of it
	 * is taken over as it is, for nobody may know yet what it should be. What somebody else has
	 * there lives by itself, and that it does is success. ENOENT: the registry does not have
	 * it, or nobody can tell whose it is; the host adds it again, as it is then, when it may be
	 * there. */
	int (*renew)(void *instance, const struct usher_wanted *service, const char *id,
			struct usher_error *reterr);
	int (*set_state)(void *instance, const struct usher_wanted *service, const char *id,
			enum usher_admin_state state, struct usher_error *reterr);
	int (*remove)(void *instance, const struct usher_wanted *service, const char *id,
			struct usher_error *reterr);
	/* since 1.1 */
	/* How long after an add or a renew that succeeded the next renew is to come, such as a
	 * third of the lease, by the newest that the registry has said. Asked after each of them,
	 * in the same thread. NULL or 0: nothing runs out by itself; the host still looks from time
	 * to time, by a renew or, where there is none, by adding again. */
	uint64_t (*renew_after_usec)(const void *instance);
	/* How a drain goes that the source has asked for: after every change, again after a restart
	 * of usherd, and again later when it fails (ENOENT: there is nothing to tell it to, which
	 * is fine). What is told is the newest; what lay between may be left out. */
	int (*progress)(void *instance, const struct usher_wanted *service, const char *id,
			const struct usher_drain_progress *progress, struct usher_error *reterr);
};

/* ---- selection ---- */

/* What a consumer asked for. NULL or empty: it did not say. */
struct usher_request {
	size_t size;
	const char *hint;
	const char *version;
	const char *sticky;         /* an endpoint's id */
	const char *key;            /* for consistent hashing */
	const char *const *exclude; /* ids already tried */
	size_t exclude_count;
	uint64_t random; /* fresh for every request */
	uint64_t cursor; /* one more for every pick of the service that had a choice, from a random
			    start */
	uint64_t now_usec;
	/* since 1.1 */
	const char *consumer; /* who asks: the name it gave itself, or that of its program */
	const char *last;     /* the id that this consumer was given last, for a stage with
				 USHER_STAGE_LAST */
	const struct usher_label *headers; /* of the request that the endpoint is for, as far as the
					      consumer passed them on; in no order */
	size_t header_count;
};

/* The value of the first header of that name, in any case of letters, or NULL. */
static inline const char *usher_request_header(
		const struct usher_request *request, const char *name)
{
	for (size_t i = 0; request && i < request->header_count; i++)
		if (strcasecmp(request->headers[i].name, name) == 0)
			return request->headers[i].value;
	return NULL;
}

/* Where the request stands in 0..1, 1 excluded, for a decision by share: always the same for the
 * same key where by_key is set and the request has one, else at random. Another seed, another
 * decision that has nothing to do with this one, nor with what a selector makes of `random`. */
static inline double usher_request_draw(
		const struct usher_request *request, bool by_key, uint64_t seed)
{
	if (by_key && request->key && request->key[0])
		return usher_hash_fraction(usher_hash_text(request->key, seed));
	return usher_hash_fraction(usher_hash(&request->random, sizeof(request->random), seed));
}

/* Effective weights are in thousandths, so that a ramp can give a part of a weight of 1. */
#define USHER_WEIGHT_UNIT 1000

/* What is being chosen from: immutable while a stage or selector looks at it. A candidate is an
 * index into endpoints, and so into each array; what the host does not know is NULL. */
struct usher_view {
	size_t size;
	const struct usher_endpoints *endpoints;
	const uint32_t *weights; /* effective weight of each endpoint: its own times
				    USHER_WEIGHT_UNIT, scaled by ramps; 0: no new traffic */
	const char *zone;        /* of this node; NULL: unknown */
	/* since 1.1 */
	const char *service;
	const char *node;            /* the name of this node */
	const uint8_t *health;       /* enum usher_health; NULL: the service has no checks */
	const uint8_t *admin_states; /* enum usher_admin_state: what is in force, the source's or a
					drain's, whichever is further out */
	const uint8_t *ranks;        /* of the source it is taken from, among the service's: 0 is
					the first */
	const uint64_t *since_usec;  /* since when it may be used without interruption: it came,
					recovered or was restored; 0: since before usher looked */
	const uint32_t *active;      /* requests that are open at it, as far as is known */
	const void *slots;           /* the selector's, slot_size bytes for each endpoint */
	double panic_threshold; /* on_all_down: panic: below this share of usable candidates all are
				   used, and at none usable in any case; negative: on_all_down: fail
				 */
	uint64_t now_usec;
};

enum usher_stage_flags {
	USHER_STAGE_WHOLE = 1u << 0,  /* judges the service as a whole, so it may not stand behind
					 a stage that looks at the request */
	USHER_STAGE_STRICT = 1u << 1, /* on_empty is fail where nobody says it */
	USHER_STAGE_HEALTH = 1u << 2, /* reads the health: of no use to a service without checks */
	USHER_STAGE_WEIGHS = 1u << 3, /* changes weights: of no use before a selector that ignores
					 them */
	USHER_STAGE_EXCLUDES =
			1u << 4,    /* sees to what the request excludes, in place of the host */
	USHER_STAGE_LAST = 1u << 5, /* reads request->last */
};

/* One run of a stage. */
struct usher_pass {
	size_t size;
	const struct usher_view *view;
	const struct usher_request *request; /* NULL in the shared part of the chain */
	uint32_t *weights;   /* those of the view, to be changed in place; NULL outside the shared
				part */
	uint64_t again_usec; /* written by the stage: the time, as now_usec of the view, at which
				its result changes by itself; 0: not */
	bool panic; /* written by the stage: it let through what it should not, for too little would
		       have been left */
	bool final; /* written by the stage: where it leaves none, none it is, whatever on_empty
		       says */
	const uint64_t *marks; /* what the stage's mark made of each endpoint of the view; NULL: it
				  was not asked, so the stage asks itself */
};

struct usher_stage {
	size_t size;
	bool looks_at_request; /* false: the result may be computed once and shared by all */
	/* Compact candidates in place, keeping their order, and return how many stay: whatever else
	 * it answers fails the pick. Pure: no allocation, no lock, no I/O. request is NULL for a
	 * stage that does not look at it. */
	size_t (*filter)(const void *instance, const struct usher_view *view,
			const struct usher_request *request, uint32_t *candidates, size_t count);
	/* Why this candidate left: "zone west is not east". Called only for one that filter has
	 * dropped. */
	void (*explain)(const void *instance, const struct usher_view *view,
			const struct usher_request *request, uint32_t candidate, char *ret_text,
			size_t size);
	/* since 1.1 */
	unsigned flags; /* enum usher_stage_flags */
	/* Whether this instance looks at the request; NULL: looks_at_request says it for all. */
	bool (*needs_request)(const void *instance);
	/* In place of filter, for a stage that does more than drop. As pure as that. */
	size_t (*run)(const void *instance, struct usher_pass *pass, uint32_t *candidates,
			size_t count);
	/* What it did as a whole, where numbers do not say it: "zone east has 20% of the capacity
	 * for 50% of the traffic: 44% goes elsewhere"; leaves ret_text empty where there is nothing
	 * to say. candidates are those that came in, `kept` of them stayed. */
	void (*tell)(const void *instance, const struct usher_pass *pass,
			const uint32_t *candidates, size_t count, size_t kept, char *ret_text,
			size_t size);
	/* What the stage needs to know of one endpoint, in 64 bits of its own, for a run that is to
	 * take a few nanoseconds an endpoint: the host asks for all of them at publication and
	 * hands the answers to each run for a request, in pass->marks. It depends on nothing but
	 * the instance and the view, less its active, slots and now_usec; a pointer to a text of
	 * the endpoint is good, for the marks do not outlive it. As pure as filter. NULL: nothing
	 * to mark. */
	uint64_t (*mark)(const void *instance, const struct usher_view *view, uint32_t endpoint);
};

enum usher_selector_flags {
	USHER_SELECTOR_IGNORES_WEIGHTS = 1u << 0, /* but for weight 0 */
	/* pick gets prepared also where a stage has looked at the request: the candidates are then
	 * some of those of prepare, in the same order. */
	USHER_SELECTOR_SUBSETS = 1u << 1,
};

/* How calls to an endpoint went, as a consumer says. */
struct usher_report {
	size_t size;
	enum usher_outcome outcome;
	uint32_t count;        /* of calls, at least 1 */
	uint64_t latency_usec; /* of one of them; 0: not told */
	uint64_t now_usec;
};

#define USHER_SLOT_MAX 64 /* bytes */

struct usher_selector {
	size_t size;
	/* At publication, for the candidates that the shared part of the chain left: compute what
	 * picks need. May allocate, and like the stages of the shared part, mark and release, it is
	 * called on any thread. NULL: nothing to prepare. */
	int (*prepare)(const void *instance, const struct usher_view *view,
			const uint32_t *candidates, size_t count, void **ret_prepared);
	void (*release)(void *prepared);
	/* The position in candidates of the chosen one, or -1 when none may be chosen (all have
	 * weight 0). count is at least 1. prepared is NULL when the candidates are not those of
	 * prepare, because a stage has looked at the request. Pure: no allocation, no lock, no I/O.
	 */
	ssize_t (*pick)(const void *instance, const void *prepared, const struct usher_view *view,
			const struct usher_request *request, const uint32_t *candidates,
			size_t count);
	/* The long-run share of candidates[position], 0..1, for explain. */
	double (*share)(const void *instance, const struct usher_view *view,
			const uint32_t *candidates, size_t count, size_t position);
	/* since 1.1 */
	unsigned flags; /* enum usher_selector_flags */
	/* Bytes that the host keeps for each endpoint as long as it is there (by id and uid), zeros
	 * at first; USHER_SLOT_MAX at most. */
	size_t slot_size;
	/* Learn from a report, in the endpoint's slot. As pure as pick. */
	void (*report)(const void *instance, void *slot, const struct usher_report *report);
};

/* ---- the plug-in ---- */

struct usher_plugin {
	size_t size;
	uint32_t abi_major, abi_minor;
	size_t option_size;
	const char *name;    /* as in the configuration, and as the file is called: NAME.so */
	const char *version; /* NULL: "1.0" */
	const char *summary; /* a few words */
	size_t instance_size;
	const struct usher_option *options;
	/* After the options are parsed; NULL: nothing to do. Called by the thread that loads, may
	 * not block. An error that begins with an option ("wait: is too long", "servers[1]: ...")
	 * is shown with the place of that one. */
	int (*init)(void *instance, struct usher_error *reterr);
	void (*done)(void *instance);
	const struct usher_discovery *discovery;
	const struct usher_registration *registration;
	const struct usher_stage *stage;
	const struct usher_selector *selector;
};

enum usher_log_priority {
	USHER_LOG_ERROR = 3,
	USHER_LOG_WARNING = 4,
	USHER_LOG_INFO = 6,
	USHER_LOG_DEBUG = 7
};

/* To the host's log, with the name of the plug-in. Thread: any. Never secrets, never bodies. */
__attribute__((format(printf, 2, 3))) void usher_log(
		enum usher_log_priority priority, const char *format, ...);

/* The ABI numbers also stand in an ELF note, so that the host can refuse a plug-in before any of
 * its code runs (its constructors included). */
#define USHER_NOTE_NAME    "usher"
#define USHER_NOTE_TYPE    1
#define USHER_NOTE_SECTION ".note.usher.abi"

struct usher_abi_note {
	uint32_t name_size, desc_size, type;
	char name[8];
	uint32_t major, minor;
};

#define USHER_EXPORT __attribute__((visibility("default")))

/* USHER_PLUGIN(.name = "file", .summary = "...", ...): the one exported constant, and the note. */
#define USHER_PLUGIN(...)                                                                  \
	__attribute__((used, aligned(4),                                                   \
			section(USHER_NOTE_SECTION))) static const struct usher_abi_note   \
			usher_abi_note_ = { sizeof(USHER_NOTE_NAME), 2 * sizeof(uint32_t), \
				USHER_NOTE_TYPE, USHER_NOTE_NAME, USHER_ABI_MAJOR,         \
				USHER_ABI_MINOR };                                         \
	USHER_EXPORT extern const struct usher_plugin usher_plugin;                        \
	const struct usher_plugin usher_plugin = { .size = sizeof(struct usher_plugin),    \
		.abi_major = USHER_ABI_MAJOR,                                              \
		.abi_minor = USHER_ABI_MINOR,                                              \
		.option_size = sizeof(struct usher_option),                                \
		__VA_ARGS__ }

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
