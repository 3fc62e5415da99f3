#include "store-writer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "clock.h"
#include "log.h"

#define BATCH_MAX        256 /* rows of one transaction */
#define RETRY_MIN_USEC   USEC_PER_SEC
#define MESSAGE_TROUBLE  "7b4a7c2f5f0f4b52b0f3d1c2a6f1e903"
#define MESSAGE_RECOVERY "7b4a7c2f5f0f4b52b0f3d1c2a6f1e904"

void store_lock(struct store *s)
{
	(void) pthread_mutex_lock(&s->lock);
}

void store_unlock(struct store *s)
{
	(void) pthread_mutex_unlock(&s->lock);
}

struct store *store_free(struct store *s)
{
	store_file_done(&s->file);
	ledger_free(s->ledger);
	(void) pthread_cond_destroy(&s->wake);
	(void) pthread_mutex_destroy(&s->lock);
	free(s);

	return NULL;
}

/* The disk has nothing any more. */
static void lose(struct store *s)
{
	ledger_requeue_all(s->ledger);
	s->clear = true;
	s->reserve = s->next_revision + STORE_REVISION_STEP;
	if (s->reserve < s->reserved)
		s->reserve = s->reserved;
}

static void take_batch(struct store *s, struct batch *ret, struct transaction *ret_transaction)
{
	/* What a lost file had is written again as a whole or not at all. */
	ledger_take(s->ledger, s->clear ? SIZE_MAX : BATCH_MAX, ret);
	/* A disk that failed is asked even where nothing waits, or nobody would know that it works
	 * again; the same number again would not be written. */
	if (s->failing && s->reserve == 0)
		s->reserve = s->reserved + 1;
	*ret_transaction = (struct transaction){
		.clear = s->clear,
		.rows = ret->first,
		.reserved = s->reserve,
	};
	s->due_usec = ledger_pending(s->ledger) ? 0 : USEC_FOREVER;
	s->hurry = false;
}

static bool transaction_empty(const struct transaction *transaction)
{
	return !transaction->rows && !transaction->clear && transaction->reserved == 0;
}

static int rewrite(struct store *s, struct batch *batch, struct transaction *transaction,
		const char *why, struct usher_error *reterr)
{
	int r;

	r = store_file_renew(&s->file, why, reterr);
	if (r < 0)
		return r;
	store_lock(s);
	ledger_untake(s->ledger, batch, false);
	lose(s);
	take_batch(s, batch, transaction);
	store_unlock(s);

	return database_write(s->file.database, transaction, reterr);
}

/* Write the batch. What is awaited may still fit where the rest does not: then 0, with the rest
 * back in the queue and the error set. */
static int write_batch(struct store *s, struct batch *batch, struct transaction *transaction,
		struct usher_error *err)
{
	int r;

	if (transaction_empty(transaction))
		return 0;
	r = database_write(s->file.database, transaction, err);
	if (r == -EBADMSG) {
		struct usher_error why = *err;

		*err = (struct usher_error){};
		r = rewrite(s, batch, transaction, why.text, err);
	}
	if (r >= 0 || !s->file.database || !batch->awaited || !batch->others)
		return r;

	store_lock(s);
	ledger_untake(s->ledger, batch, true);
	store_unlock(s);
	transaction->rows = batch->first;

	return database_write(s->file.database, transaction, NULL);
}

enum change {
	UNCHANGED,
	BEGAN_TO_FAIL,
	RECOVERED
};

static enum change note_health(struct store *s, const struct usher_error *err)
{
	bool failed = err->code < 0, failed_before = s->failing;

	(void) snprintf(s->trouble, sizeof(s->trouble), "%s", failed ? err->text : "");
	s->failing = failed;
	if (!failed)
		return failed_before ? RECOVERED : UNCHANGED;

	s->retry_usec = failed_before ? s->retry_usec * 2 : RETRY_MIN_USEC;
	if (s->retry_usec > STORE_CHECK_USEC)
		s->retry_usec = STORE_CHECK_USEC;
	s->due_usec = s->hurry ? 0 : clock_monotonic_usec() + s->retry_usec;

	return failed_before ? UNCHANGED : BEGAN_TO_FAIL;
}

static void tell_health(const struct store *s, enum change change, const struct usher_error *err)
{
	switch (change) {
	case UNCHANGED:
		break;
	case BEGAN_TO_FAIL:
		log_error(FIELDS(.value[LOG_MESSAGE_ID] = MESSAGE_TROUBLE),
				"%s; changes stay in memory and are tried again, and no drain can start",
				err->text);
		break;
	case RECOVERED:
		log_notice(FIELDS(.value[LOG_MESSAGE_ID] = MESSAGE_RECOVERY),
				"%s: the disk takes writes again", s->file.path);
		break;
	}
}

static enum change settle(struct store *s, struct batch *batch,
		const struct transaction *transaction, int r, struct usher_error *err)
{
	if (r >= 0) {
		s->clear = false;
		if (transaction->reserved != 0) {
			s->reserved = transaction->reserved;
			s->overrun = false;
		}
		if (s->reserve == transaction->reserved)
			s->reserve = 0;
	}
	if (r < 0 && err->code == 0)
		(void) usher_error_prefix(err, r, "%s", s->file.path);
	ledger_settle(s->ledger, batch, r, err->text, s->inbox);

	return note_health(s, err);
}

/* One transaction. */
static void store_turn(struct store *s)
{
	struct transaction transaction;
	struct usher_error err = {};
	enum change change;
	struct batch batch;
	int r;

	s->check_usec = clock_monotonic_usec() + STORE_CHECK_USEC;
	r = store_file_check(&s->file, &err);
	store_lock(s);
	if (r > 0)
		lose(s);
	take_batch(s, &batch, &transaction);
	store_unlock(s);

	if (r >= 0)
		r = write_batch(s, &batch, &transaction, &err);

	store_lock(s);
	change = settle(s, &batch, &transaction, r, &err);
	store_unlock(s);
	tell_health(s, change, &err);
}

/* Wait until something is due. Under the lock. */
static void store_wait(struct store *s)
{
	uint64_t until_usec;

	while (!s->closing) {
		struct timespec until;

		until_usec = s->due_usec < s->check_usec ? s->due_usec : s->check_usec;
		if (until_usec <= clock_monotonic_usec())
			return;
		until.tv_sec = (time_t) (until_usec / USEC_PER_SEC);
		until.tv_nsec = (long) (until_usec % USEC_PER_SEC) * 1000;
		(void) pthread_cond_clockwait(&s->wake, &s->lock, CLOCK_MONOTONIC, &until);
	}
}

/* The revisions that were reserved and not handed out are given back. */
static void give_back(struct store *s)
{
	struct transaction transaction = { .reserved = s->next_revision };

	if (s->file.database && !s->failing)
		(void) database_write(s->file.database, &transaction, NULL);
}

void *store_run(void *userdata)
{
	struct store *s = userdata;
	bool left_behind;

	store_lock(s);
	for (;;) {
		store_wait(s);
		if (s->closing && (!ledger_pending(s->ledger) || !s->inbox))
			break;
		store_unlock(s);
		store_turn(s);
		store_lock(s);
		if (s->closing && s->failing)
			break;
	}
	store_unlock(s);
	give_back(s);
	store_lock(s);
	s->finished = true;
	left_behind = !s->inbox;
	store_unlock(s);
	if (left_behind)
		store_free(s);

	return NULL;
}
