#pragma once

/* The disk: the records of drains and registrations, the last known directory, and the revisions
 * handed out, in one SQLite file (WAL, synchronous FULL) behind a thread of its own, which commits
 * what has gathered in one transaction.
 *
 * The core never waits: it posts, and is called back when the commit is on disk. What is lost or
 * damaged is said once and started anew beside it (NAME.damaged-TIME); a file that somebody deleted
 * is written again within STORE_REFRESH_USEC. */

#include <stdbool.h>
#include <stdint.h>
#include <usher/endpoint.h>
#include <usher/error.h>

#include "inbox.h"

#define STORE_REFRESH_USEC  UINT64_C(10000000)
#define STORE_REVISION_STEP UINT64_C(1000000)

struct store;

/* What was on disk at the start. Strings are owned by the caller of the walk only for the call. */
struct stored_feed {
	const char *service;
	const char *source;
	struct usher_endpoints *endpoints; /* a reference is the callee's to take */
	const char *revision;              /* the registry's own word; NULL */
	uint64_t observed_wall_usec;
};

struct stored_drain {
	const char *id;
	const char *json; /* the whole record */
	bool finished;
};

struct stored_registration {
	const char *service;
	const char *id;
	const char *json; /* the whole record */
};

struct store_loader {
	void (*feed)(void *userdata, const struct stored_feed *feed);
	void (*drain)(void *userdata, const struct stored_drain *drain);
	void (*cursor)(void *userdata, const char *service, uint64_t cursor);
	/* NULL: nobody is interested */
	void (*registration)(void *userdata, const struct stored_registration *registration);
};

/* Open DIR/usher.db, creating the folder (0750) and the file (0640) as needed, read it through the
 * loader in the caller's thread, and start the thread. *ret_revision is the first revision that was
 * never handed out; where the file was lost, it comes from the wall clock, past anything that could
 * have been counted. Errors: what mkdir and open say, EBUSY (another usherd uses the folder),
 * EPROTONOSUPPORT (a newer usherd wrote the file), ENOSPC, ENOMEM; with a message. The inbox
 * outlives the store. */
int store_open(const char *dir, struct inbox *inbox, const struct store_loader *loader,
		void *userdata, struct store **ret, uint64_t *ret_revision,
		struct usher_error *reterr);
#define STORE_CLOSE_USEC UINT64_C(5000000)
/* Commits what is waiting, for at most five seconds; what has no answer by then gets none. NULL is
 * fine. */
struct store *store_close(struct store *store);

/* r: 0 when it is on disk, or a negative errno with its reason (valid for the call). */
typedef void (*store_done)(void *userdata, int r, const char *reason);

/* Each copies what it needs, a set of endpoints by reference. done may be NULL. Of what is put
 * twice before a commit, the later is written and both are answered. Errors at once: ENOMEM, E2BIG
 * (a name longer than USHER_TEXT_MAX).
 *
 * Where the disk does not take a drain or a registration whose caller waits, the caller is told and
 * decides, and the record is again what the disk has; everything else is tried again until it is on
 * disk. */
int store_put_drain(struct store *store, const char *id, const char *json, bool finished,
		store_done done, void *userdata);
int store_remove_drain(struct store *store, const char *id, store_done done, void *userdata);
int store_put_registration(struct store *store, const char *service, const char *id,
		const char *json, store_done done, void *userdata);
int store_remove_registration(struct store *store, const char *service, const char *id,
		store_done done, void *userdata);
int store_put_feed(struct store *store, const char *service, const char *source,
		struct usher_endpoints *endpoints, const char *revision,
		uint64_t observed_wall_usec, store_done done, void *userdata);
/* The endpoints are the same; only the time is newer. Cheap, and written with the next commit, or
 * within STORE_REFRESH_USEC. Errors: ENOENT (no such feed is stored). */
int store_touch_feed(struct store *store, const char *service, const char *source,
		uint64_t observed_wall_usec);
/* The last feed of a service takes its cursor along. Errors: ENOENT. */
int store_remove_feed(struct store *store, const char *service, const char *source);
/* Written within STORE_REFRESH_USEC. Errors: ENOENT (no feed of the service is stored, so there is
 * nothing to come back to). */
int store_put_cursor(struct store *store, const char *service, uint64_t cursor);

/* The next revision; 0 never. Reserves ahead, and never hands out one that the disk does not know
 * to be reserved unless the disk fails, which is logged. */
uint64_t store_next_revision(struct store *store);

/* Why the disk last failed, or NULL while it works; for status. Valid until the loop turns. */
const char *store_trouble(struct store *store);
