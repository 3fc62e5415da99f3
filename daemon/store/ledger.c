#include "ledger.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <utlist.h>

#include "hash.h"
#include "row.h"

/* ---- rows ---- */

static struct row *row_free(struct row *row)
{
	completions_answer(&row->waiting, 0, NULL, NULL);
	completions_answer(&row->writing_waiting, 0, NULL, NULL);
	content_unref(row->content);
	content_unref(row->writing_content);
	content_unref(row->kept);
	free(row);

	return NULL;
}

static bool row_unused(const struct row *row)
{
	return !row->present && !row->writing && row->queue == ROW_SETTLED && row->feeds == 0;
}

void ledger_forget_unused(struct ledger *ledger, struct row *row)
{
	if (!row_unused(row))
		return;
	HASH_DEL(ledger->rows, row);
	row_free(row);
}

void ledger_unqueue(struct ledger *ledger, struct row *row)
{
	if (row->queue == ROW_LATER)
		DL_DELETE(ledger->later, row);
	else if (row->queue == ROW_AWAITED)
		DL_DELETE(ledger->awaited, row);
	row->queue = ROW_SETTLED;
}

void ledger_queue(struct ledger *ledger, struct row *row, enum row_queue queue, bool whole)
{
	row->whole |= whole;
	if (row->queue >= queue)
		return;
	ledger_unqueue(ledger, row);
	row->queue = queue;
	if (queue == ROW_AWAITED)
		DL_APPEND(ledger->awaited, row);
	else
		DL_APPEND(ledger->later, row);
}

void row_set_content(struct row *row, struct content *content)
{
	content_unref(row->content);
	row->content = content;
}

bool row_is_record(const struct row *row)
{
	return row->kind == ROW_DRAIN || row->kind == ROW_REGISTRATION;
}

void row_keep(struct row *row, struct content *content)
{
	if (!row_is_record(row))
		return;
	content_ref(content);
	content_unref(row->kept);
	row->kept = content;
	row->kept_lost = false;
}

/* What a row is found by: its kind, and names with their terminators. */
struct key {
	size_t length;
	char data[1 + 2 * (LEDGER_NAME_MAX + 1)];
};

static int key_init(struct key *key, enum row_kind kind, const char *service, const char *source)
{
	size_t service_size = strlen(service) + 1, source_size = strlen(source) + 1;

	if (service_size > LEDGER_NAME_MAX + 1 || source_size > LEDGER_NAME_MAX + 1)
		return -E2BIG;
	key->data[0] = (char) kind;
	memcpy(key->data + 1, service, service_size);
	memcpy(key->data + 1 + service_size, source, source_size);
	key->length = 1 + service_size + source_size;

	return 0;
}

static int ledger_find(struct ledger *ledger, enum row_kind kind, const char *service,
		const char *source, struct row **ret)
{
	struct row *found;
	struct key key;
	int r;

	r = key_init(&key, kind, service, source);
	if (r < 0)
		return r;
	HASH_FIND(hh, ledger->rows, key.data, key.length, found);
	if (!found)
		return -ENOENT;
	*ret = found;

	return 0;
}

static int ledger_find_or_add(struct ledger *ledger, enum row_kind kind, const char *service,
		const char *source, struct row **ret)
{
	struct row *row;
	struct key key;
	int r;

	r = key_init(&key, kind, service, source);
	if (r < 0)
		return r;
	HASH_FIND(hh, ledger->rows, key.data, key.length, row);
	if (row) {
		*ret = row;
		return 0;
	}
	row = calloc(1, sizeof(*row) + key.length);
	if (!row)
		return -ENOMEM;
	row->kind = kind;
	memcpy(row->key, key.data, key.length);
	HASH_ADD_KEYPTR(hh, ledger->rows, row->key, key.length, row);
	if (!hash_was_added(row)) {
		free(row);
		return -ENOMEM;
	}
	*ret = row;

	return 0;
}

/* ---- changes ---- */

static int change_record(struct ledger *ledger, enum row_kind kind, const char *first,
		const char *second, struct content *content, struct completion *completion)
{
	struct row *row;
	int r;

	r = ledger_find_or_add(ledger, kind, first, second, &row);
	if (r < 0)
		return r;
	row_set_content(row, content);
	row->present = content;
	row->caller_decides = completion;
	if (completion)
		LL_APPEND(row->waiting, completion);
	ledger_queue(ledger, row, ROW_AWAITED, true);

	return 0;
}

static int put_record(struct ledger *ledger, enum row_kind kind, const char *first,
		const char *second, struct content *content, struct completion *completion)
{
	int r;

	if (!content)
		return -ENOMEM;
	r = change_record(ledger, kind, first, second, content, completion);
	if (r < 0)
		content_unref(content);

	return r;
}

int ledger_put_drain(struct ledger *ledger, const char *id, const char *json, bool finished,
		struct completion *completion)
{
	return put_record(ledger, ROW_DRAIN, id, "", content_new(NULL, json, finished), completion);
}

int ledger_remove_drain(struct ledger *ledger, const char *id, struct completion *completion)
{
	return change_record(ledger, ROW_DRAIN, id, "", NULL, completion);
}

int ledger_put_registration(struct ledger *ledger, const char *service, const char *id,
		const char *json, struct completion *completion)
{
	return put_record(ledger, ROW_REGISTRATION, service, id, content_new(NULL, json, false),
			completion);
}

int ledger_remove_registration(struct ledger *ledger, const char *service, const char *id,
		struct completion *completion)
{
	return change_record(ledger, ROW_REGISTRATION, service, id, NULL, completion);
}

/* The row of a feed, present, and counted at the cursor of its service. */
static int ledger_add_feed(
		struct ledger *ledger, const char *service, const char *source, struct row **ret)
{
	struct row *row, *cursor;
	int r;

	r = ledger_find_or_add(ledger, ROW_FEED, service, source, &row);
	if (r < 0)
		return r;
	if (!row->present) {
		r = ledger_find_or_add(ledger, ROW_CURSOR, service, "", &cursor);
		if (r < 0) {
			ledger_forget_unused(ledger, row);
			return r;
		}
		cursor->feeds++;
		row->present = true;
	}
	*ret = row;

	return 0;
}

int ledger_put_feed(struct ledger *ledger, const struct stored_feed *feed,
		struct completion *completion)
{
	struct content *content = content_new(feed->endpoints, feed->revision, false);
	struct row *row;
	bool same;
	int r;

	if (!content)
		return -ENOMEM;
	r = ledger_add_feed(ledger, feed->service, feed->source, &row);
	if (r < 0) {
		content_unref(content);
		return r;
	}
	/* The newer set takes the place of an equal one, or memory would hold both. */
	same = row->content && content_equal(row->content, content);
	row_set_content(row, content);
	row->number = feed->observed_wall_usec;
	if (completion)
		LL_APPEND(row->waiting, completion);
	ledger_queue(ledger, row, completion ? ROW_AWAITED : ROW_LATER, !same);

	return same;
}

int ledger_touch_feed(struct ledger *ledger, const char *service, const char *source,
		uint64_t observed_wall_usec)
{
	struct row *row;
	int r;

	r = ledger_find(ledger, ROW_FEED, service, source, &row);
	if (r < 0)
		return r;
	if (!row->present)
		return -ENOENT;
	row->number = observed_wall_usec;
	ledger_queue(ledger, row, ROW_LATER, false);

	return 0;
}

static void ledger_uncount_feed(struct ledger *ledger, const char *service)
{
	struct row *cursor;

	if (ledger_find(ledger, ROW_CURSOR, service, "", &cursor) < 0 || --cursor->feeds > 0)
		return;
	if (cursor->present) {
		cursor->present = false;
		ledger_queue(ledger, cursor, ROW_LATER, true);
	}
	ledger_forget_unused(ledger, cursor);
}

int ledger_remove_feed(struct ledger *ledger, const char *service, const char *source)
{
	struct row *row;
	int r;

	r = ledger_find(ledger, ROW_FEED, service, source, &row);
	if (r < 0)
		return r;
	if (!row->present)
		return -ENOENT;
	row->present = false;
	row_set_content(row, NULL);
	ledger_queue(ledger, row, ROW_LATER, true);
	ledger_uncount_feed(ledger, service);

	return 0;
}

int ledger_put_cursor(struct ledger *ledger, const char *service, uint64_t cursor)
{
	struct row *row;
	int r;

	r = ledger_find(ledger, ROW_CURSOR, service, "", &row);
	if (r < 0)
		return r;
	if (row->feeds == 0)
		return -ENOENT;
	if (row->present && row->number == cursor)
		return 0;
	row->present = true;
	row->number = cursor;
	ledger_queue(ledger, row, ROW_LATER, true);

	return 0;
}

/* ---- what the disk has ---- */

void ledger_settle_all(struct ledger *ledger)
{
	for (struct row *row = ledger->rows; row; row = row->hh.next) {
		ledger_unqueue(ledger, row);
		row->whole = false;
		row_keep(row, row->content);
	}
}

void ledger_requeue_all(struct ledger *ledger)
{
	/* In the order in which the rows came, which is the order in which drains are read. */
	for (struct row *row = ledger->rows; row; row = row->hh.next) {
		enum row_queue queue = row->queue;

		assert(!row->writing);
		row->kept_lost = row->kept;
		if (queue == ROW_SETTLED && !row->present)
			continue;
		if (queue == ROW_SETTLED)
			row->caller_decides = false;
		ledger_unqueue(ledger, row);
		ledger_queue(ledger, row,
				row_is_record(row) || queue == ROW_AWAITED ? ROW_AWAITED
									   : ROW_LATER,
				true);
	}
}

bool ledger_pending(const struct ledger *ledger)
{
	return ledger->awaited || ledger->later;
}

/* ---- the whole ---- */

struct ledger *ledger_new(void)
{
	return calloc(1, sizeof(struct ledger));
}

struct ledger *ledger_free(struct ledger *ledger)
{
	struct row *row;

	if (!ledger)
		return NULL;
	while ((row = ledger->rows)) {
		HASH_DEL(ledger->rows, row);
		row_free(row);
	}
	free(ledger);

	return NULL;
}
