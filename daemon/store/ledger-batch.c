#include <string.h>
#include <utlist.h>

#include "ownership.h"
#include "row.h"

static void ledger_take_row(struct ledger *ledger, struct row *row)
{
	row->writing = true;
	row->writing_queue = row->queue;
	row->writing_present = row->present;
	row->writing_whole = row->whole;
	row->writing_content = content_ref(row->content);
	row->writing_number = row->number;
	row->writing_waiting = take(row->waiting);
	row->whole = false;
	ledger_unqueue(ledger, row);
}

void ledger_take(struct ledger *ledger, size_t max, struct batch *ret)
{
	struct batch batch = {};
	struct row **end = &batch.first;
	struct row *row;

	for (size_t i = 0; i < max && (row = ledger->awaited ?: ledger->later); i++) {
		if (row->queue == ROW_AWAITED)
			batch.awaited = true;
		else
			batch.others = true;
		ledger_take_row(ledger, row);
		*end = row;
		end = &row->next_writing;
	}
	*end = NULL;
	*ret = batch;
}

static void row_end_writing(struct row *row)
{
	row->writing = false;
	row->writing_content = content_unref(row->writing_content);
}

static void ledger_untake_row(struct ledger *ledger, struct row *row)
{
	LL_CONCAT(row->writing_waiting, row->waiting);
	row->waiting = take(row->writing_waiting);
	row_end_writing(row);
	ledger_queue(ledger, row, row->writing_queue, row->writing_whole);
}

void ledger_untake(struct ledger *ledger, struct batch *batch, bool only_others)
{
	struct row **link = &batch->first;
	struct row *row;

	while ((row = *link)) {
		if (only_others && row->writing_queue == ROW_AWAITED) {
			link = &row->next_writing;
			continue;
		}
		*link = row->next_writing;
		ledger_untake_row(ledger, row);
	}
	batch->others = false;
	batch->awaited = batch->first;
}

/* Back to what the disk has, or had. */
static void ledger_revert(struct ledger *ledger, struct row *row)
{
	row_set_content(row, content_ref(row->kept));
	row->present = row->kept;
	row->caller_decides = false;
	if (row->kept && row->kept_lost)
		ledger_queue(ledger, row, ROW_LATER, true);
}

static void ledger_settle_row(struct ledger *ledger, struct row *row, int r, const char *reason,
		struct inbox *inbox)
{
	bool changed_since = row->queue != ROW_SETTLED;

	completions_answer(&row->writing_waiting, r, reason, inbox);
	if (r >= 0) {
		row_keep(row, row->writing_content);
		row_end_writing(row);
		if (!changed_since)
			row->caller_decides = false;
	} else {
		row_end_writing(row);
		if (!changed_since && row->caller_decides)
			ledger_revert(ledger, row);
		else
			ledger_queue(ledger, row, row_is_record(row) ? ROW_AWAITED : ROW_LATER,
					row->writing_whole);
	}
	ledger_forget_unused(ledger, row);
}

void ledger_settle(struct ledger *ledger, struct batch *batch, int r, const char *reason,
		struct inbox *inbox)
{
	struct row *row = batch->first, *next;

	for (; row; row = next) {
		next = row->next_writing;
		ledger_settle_row(ledger, row, r, reason, inbox);
	}
	*batch = (struct batch){};
}

struct row *row_next(const struct row *row)
{
	return row->next_writing;
}

enum row_kind row_kind(const struct row *row)
{
	return row->kind;
}

const char *row_service(const struct row *row)
{
	return row->key + 1;
}

const char *row_source(const struct row *row)
{
	return row->key + 1 + strlen(row->key + 1) + 1;
}

bool row_whole(const struct row *row)
{
	return row->writing_whole;
}

bool row_present(const struct row *row)
{
	return row->writing_present;
}

const struct content *row_content(const struct row *row)
{
	return row->writing_content;
}

uint64_t row_number(const struct row *row)
{
	return row->writing_number;
}
