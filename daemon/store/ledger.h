#pragma once

/* What ought to be on disk, in memory: every row that is current, which of them are yet to be
 * written, and who waits for that.
 *
 * A row holds one state, so what is put twice before a commit is written once. The writer takes a
 * batch, writes it without holding anything up, and settles it; meanwhile rows may change again and
 * are then simply queued again. The copy is what a lost file is written again from; sets of
 * endpoints are shared with whoever else holds them.
 *
 * Thread: none of its own; whoever shares a ledger locks around each call. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <usher/endpoint.h>

#include "completion.h"
#include "content.h"
#include "store.h"

enum row_kind {
	ROW_FEED,
	ROW_DRAIN,
	ROW_CURSOR,
	ROW_REGISTRATION
};

/* How soon a row is to be written; also the order within a batch. */
enum row_queue {
	ROW_SETTLED,
	ROW_LATER,
	ROW_AWAITED, /* somebody waits for it */
};

struct row; /* opaque; see the row_* functions */
struct ledger;

struct ledger *ledger_new(void);                   /* NULL when out of memory */
struct ledger *ledger_free(struct ledger *ledger); /* NULL is fine; nobody is answered */

#define LEDGER_NAME_MAX USHER_TEXT_MAX /* bytes of a service, source or drain id */

/* A change of one row. Takes the completion (NULL: none) on success only. Errors: ENOMEM, E2BIG (a
 * name). */
int ledger_put_drain(struct ledger *ledger, const char *id, const char *json, bool finished,
		struct completion *completion);
/* Removing what is not there is fine, and is answered like anything else. */
int ledger_remove_drain(struct ledger *ledger, const char *id, struct completion *completion);
/* The same for a registration, named by two. */
int ledger_put_registration(struct ledger *ledger, const char *service, const char *id,
		const char *json, struct completion *completion);
int ledger_remove_registration(struct ledger *ledger, const char *service, const char *id,
		struct completion *completion);
/* > 0: the set is equal to the one before, so only the time is to be written. */
int ledger_put_feed(struct ledger *ledger, const struct stored_feed *feed,
		struct completion *completion);
/* Errors: ENOENT (no such feed is kept), E2BIG. */
int ledger_touch_feed(struct ledger *ledger, const char *service, const char *source,
		uint64_t observed_wall_usec);
/* Takes the service's cursor along with its last feed. Errors: ENOENT, E2BIG. */
int ledger_remove_feed(struct ledger *ledger, const char *service, const char *source);
/* A cursor of a service without feeds has nothing to come back to. Errors: ENOENT, E2BIG. */
int ledger_put_cursor(struct ledger *ledger, const char *service, uint64_t cursor);

/* The rows that were read from the disk are on it: for use while it is loaded. */
void ledger_settle_all(struct ledger *ledger);
/* The disk has nothing: everything is to be written again. No batch is out. */
void ledger_requeue_all(struct ledger *ledger);
bool ledger_pending(const struct ledger *ledger);

/* Rows that are being written, linked by row_next(). */
struct batch {
	struct row *first;
	bool awaited; /* some are */
	bool others;  /* some are not */
};
/* Awaited rows come first; at most `max` rows. */
void ledger_take(struct ledger *ledger, size_t max, struct batch *ret);
/* Put rows of the batch back into the queue, as if they had not been taken: all, or those that
 * nobody waits for. */
void ledger_untake(struct ledger *ledger, struct batch *batch, bool only_others);
/* On disk, or refused with a reason. What was refused is queued again, except a drain or a
 * registration whose caller was waiting: it is told, decides, and the row is again what the disk
 * has. Answers go to the inbox, or nowhere when that is NULL. Empties the batch. */
void ledger_settle(struct ledger *ledger, struct batch *batch, int r, const char *reason,
		struct inbox *inbox);

/* Of a row in a batch, what is to be written; stable without a lock until it is settled. */
struct row *row_next(const struct row *row);
enum row_kind row_kind(const struct row *row);
const char *row_service(const struct row *row); /* or the id of a drain */
const char *row_source(const struct row *row);  /* or the id of a registration */
bool row_whole(const struct row *row);          /* false: a feed of which only the time is */
bool row_present(const struct row *row);        /* false: it is to be removed */
const struct content *row_content(const struct row *row); /* not of a cursor */
uint64_t row_number(const struct row *row);               /* the time of a feed, or a cursor */
