#pragma once

/* The rows of a ledger, for the two halves of it: ledger.c changes them, ledger-batch.c has them
 * written. */

#include "hash.h"
#include "ledger.h"

/* What begins with writing_ stands still while the row is in a batch. */
struct row {
	UT_hash_handle hh;
	struct row *prev, *next;  /* in its queue */
	struct row *next_writing; /* in the batch */
	enum row_kind kind;
	enum row_queue queue;
	bool present, whole;
	bool caller_decides; /* the last change of a record has somebody who waits for it */
	bool writing, writing_present, writing_whole;
	enum row_queue writing_queue;
	unsigned feeds; /* of a cursor: how many of its service are present */
	struct content *content, *writing_content;
	struct content *kept; /* of a record: what the disk has; NULL: nothing */
	bool kept_lost;       /* the disk had it, until the file was lost */
	uint64_t number, writing_number;
	struct completion *waiting, *writing_waiting;
	char key[]; /* kind, service, NUL, source, NUL */
};

struct ledger {
	struct row *rows;
	struct row *later, *awaited; /* queues, oldest first */
};

/* Into the queue, or up to a more urgent one; whole: not the time alone. */
void ledger_queue(struct ledger *ledger, struct row *row, enum row_queue queue, bool whole);
void ledger_unqueue(struct ledger *ledger, struct row *row);
/* Free the row if it is neither on disk, nor wanted there, nor on its way. */
void ledger_forget_unused(struct ledger *ledger, struct row *row);

void row_set_content(struct row *row, struct content *content); /* takes the content */
/* Whether it is a drain or a registration: what somebody decided, and no mere memory. */
bool row_is_record(const struct row *row);
/* Of a record: the disk has this content now. */
void row_keep(struct row *row, struct content *content);
