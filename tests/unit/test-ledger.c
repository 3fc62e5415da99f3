/* The ledger of the store: what is written, in which order, and what becomes of what is refused. */

#include "ledger.h"
#include "ownership.h"
#include "test.h"

DEFINE_CLEANUP(struct ledger, ledger_free);
DEFINE_CLEANUP(struct usher_endpoints, usher_endpoints_unref);

#define BATCH_MAX 100

static void nobody(void *userdata, int r, const char *reason)
{
	(void) userdata;
	(void) r;
	(void) reason;
}

static struct completion *somebody(void)
{
	struct completion *completion = NULL;

	assert_ok(completion_new(nobody, NULL, &completion));

	return completion;
}

static struct usher_endpoints *some_endpoints(unsigned count)
{
	struct usher_endpoints *set = usher_endpoints_new();

	for (unsigned i = 0; i < count; i++) {
		struct usher_endpoint endpoint = USHER_ENDPOINT_INIT;

		endpoint.address = "10.0.0.5";
		endpoint.port = (uint16_t) (8080 + i);
		assert_ok(usher_endpoints_add(set, &endpoint, NULL));
	}
	usher_endpoints_seal(set);

	return set;
}

static void put_drain(struct ledger *ledger, const char *id, const char *json, bool awaited)
{
	assert_ok(ledger_put_drain(ledger, id, json, false, awaited ? somebody() : NULL));
}

static void put_feed(struct ledger *ledger, const char *service, struct usher_endpoints *set)
{
	const struct stored_feed feed = { .service = service, .source = "files", .endpoints = set };

	assert_ok(ledger_put_feed(ledger, &feed, NULL));
}

/* What the next batch writes, as "drain=JSON feed+ cursor-": removed ones with a minus, times alone
 * with a tilde. */
static void take_text(struct ledger *ledger, struct batch *batch, char *ret, size_t size)
{
	size_t length = 0;

	ret[0] = '\0';
	ledger_take(ledger, BATCH_MAX, batch);
	for (const struct row *row = batch->first; row; row = row_next(row)) {
		const char *state = !row_present(row)        ? "-"
				: row_kind(row) != ROW_DRAIN ? row_whole(row) ? "+" : "~"
							     : "=";
		const char *json = row_present(row) && row_kind(row) == ROW_DRAIN
				? row_content(row)->text
				: "";

		length += (size_t) snprintf(ret + length, size - length, "%s%s%s%s",
				length ? " " : "", row_service(row), state, json);
	}
}

#define assert_takes(ledger, batch, expected)                     \
	do {                                                      \
		char taken_[512];                                 \
		take_text(ledger, batch, taken_, sizeof(taken_)); \
		assert_string_equal(taken_, expected);            \
	} while (0)

static void settle(struct ledger *ledger, struct batch *batch, int r)
{
	ledger_settle(ledger, batch, r, "because", NULL);
}

/* Put and write. */
static void commit_drain(struct ledger *ledger, const char *id, const char *json)
{
	struct batch batch;

	put_drain(ledger, id, json, true);
	ledger_take(ledger, BATCH_MAX, &batch);
	settle(ledger, &batch, 0);
}

static void what_somebody_waits_for_is_written_first(void **state)
{
	cleanup(usher_endpoints_unrefp) struct usher_endpoints *set = some_endpoints(1);
	cleanup(ledger_freep) struct ledger *ledger = ledger_new();
	struct batch batch;

	(void) state;
	put_feed(ledger, "s", set);
	assert_ok(ledger_put_cursor(ledger, "s", 1));
	put_drain(ledger, "d1", "1", true);
	put_drain(ledger, "d2", "2", true);
	put_drain(ledger, "d1", "3", true);
	assert_takes(ledger, &batch, "d1=3 d2=2 s+ s+");
	assert_true(batch.awaited && batch.others);
	settle(ledger, &batch, 0);
	assert_false(ledger_pending(ledger));
}

static void a_batch_is_bounded(void **state)
{
	cleanup(ledger_freep) struct ledger *ledger = ledger_new();
	struct batch batch;
	char id[16];

	(void) state;
	for (unsigned i = 0; i < 10; i++) {
		(void) snprintf(id, sizeof(id), "d%u", i);
		put_drain(ledger, id, "", true);
	}
	ledger_take(ledger, 4, &batch);
	assert_string_equal(row_service(batch.first), "d0");
	settle(ledger, &batch, 0);
	assert_takes(ledger, &batch, "d4= d5= d6= d7= d8= d9=");
	settle(ledger, &batch, 0);
}

static void a_change_during_the_write_is_written_after_it(void **state)
{
	cleanup(ledger_freep) struct ledger *ledger = ledger_new();
	struct batch batch;

	(void) state;
	put_drain(ledger, "d", "1", true);
	ledger_take(ledger, BATCH_MAX, &batch);
	put_drain(ledger, "d", "2", true);
	assert_string_equal(row_content(batch.first)->text, "1");
	settle(ledger, &batch, 0);
	assert_takes(ledger, &batch, "d=2");
	settle(ledger, &batch, 0);
}

static void a_refused_drain_is_again_what_the_disk_has(void **state)
{
	cleanup(ledger_freep) struct ledger *ledger = ledger_new();
	struct batch batch;

	(void) state;
	commit_drain(ledger, "old", "1");
	put_drain(ledger, "old", "2", true);
	put_drain(ledger, "new", "3", true);
	ledger_take(ledger, BATCH_MAX, &batch);
	settle(ledger, &batch, -ENOSPC);
	assert_false(ledger_pending(ledger));
	ledger_requeue_all(ledger);
	assert_takes(ledger, &batch, "old=1");
	settle(ledger, &batch, 0);

	assert_ok(ledger_remove_drain(ledger, "old", somebody()));
	assert_takes(ledger, &batch, "old-");
	settle(ledger, &batch, -ENOSPC);
	ledger_requeue_all(ledger);
	assert_takes(ledger, &batch, "old=1");
	settle(ledger, &batch, 0);
}

static void a_refused_drain_of_a_lost_file_is_written_as_it_was(void **state)
{
	cleanup(ledger_freep) struct ledger *ledger = ledger_new();
	struct batch batch;

	(void) state;
	commit_drain(ledger, "d", "1");
	put_drain(ledger, "d", "2", true);
	ledger_requeue_all(ledger);
	assert_takes(ledger, &batch, "d=2");
	settle(ledger, &batch, -ENOSPC);
	assert_takes(ledger, &batch, "d=1");
	settle(ledger, &batch, 0);
	assert_false(ledger_pending(ledger));
}

static void a_refused_drain_that_changed_meanwhile_goes_on(void **state)
{
	cleanup(ledger_freep) struct ledger *ledger = ledger_new();
	struct batch batch;

	(void) state;
	put_drain(ledger, "d", "1", true);
	ledger_take(ledger, BATCH_MAX, &batch);
	put_drain(ledger, "d", "2", true);
	settle(ledger, &batch, -ENOSPC);
	assert_takes(ledger, &batch, "d=2");
	settle(ledger, &batch, 0);
}

static void what_nobody_waits_for_is_tried_until_it_is_written(void **state)
{
	cleanup(usher_endpoints_unrefp) struct usher_endpoints *set = some_endpoints(1);
	cleanup(ledger_freep) struct ledger *ledger = ledger_new();
	struct batch batch;

	(void) state;
	put_drain(ledger, "d", "1", false);
	put_feed(ledger, "s", set);
	for (unsigned i = 0; i < 3; i++) {
		assert_takes(ledger, &batch, "d=1 s+");
		/* A touch in between does not make less of a feed that is not on disk. */
		assert_ok(ledger_touch_feed(ledger, "s", "files", i));
		settle(ledger, &batch, -ENOSPC);
	}
	assert_takes(ledger, &batch, "d=1 s+");
	assert_int_equal(row_number(row_next(batch.first)), 2);
	settle(ledger, &batch, 0);
	assert_ok(ledger_touch_feed(ledger, "s", "files", 9));
	assert_takes(ledger, &batch, "s~");
	settle(ledger, &batch, 0);
}

static void an_equal_set_only_renews_the_time(void **state)
{
	cleanup(usher_endpoints_unrefp) struct usher_endpoints *first = some_endpoints(2);
	cleanup(usher_endpoints_unrefp) struct usher_endpoints *equal = some_endpoints(2);
	cleanup(usher_endpoints_unrefp) struct usher_endpoints *other = some_endpoints(3);
	cleanup(ledger_freep) struct ledger *ledger = ledger_new();
	struct batch batch;

	(void) state;
	put_feed(ledger, "s", first);
	assert_takes(ledger, &batch, "s+");
	settle(ledger, &batch, 0);
	put_feed(ledger, "s", equal);
	assert_takes(ledger, &batch, "s~");
	settle(ledger, &batch, 0);
	put_feed(ledger, "s", other);
	assert_takes(ledger, &batch, "s+");
	settle(ledger, &batch, 0);
}

static void a_batch_goes_back_as_if_it_had_not_been_taken(void **state)
{
	cleanup(usher_endpoints_unrefp) struct usher_endpoints *set = some_endpoints(1);
	cleanup(ledger_freep) struct ledger *ledger = ledger_new();
	struct batch batch;

	(void) state;
	put_feed(ledger, "s", set);
	put_drain(ledger, "d", "1", true);
	ledger_take(ledger, BATCH_MAX, &batch);
	ledger_untake(ledger, &batch, true);
	assert_true(batch.awaited && !batch.others);
	assert_string_equal(row_service(batch.first), "d");
	assert_null(row_next(batch.first));
	ledger_untake(ledger, &batch, false);
	assert_null(batch.first);
	assert_takes(ledger, &batch, "d=1 s+");
	settle(ledger, &batch, 0);
}

static void everything_current_is_written_again_in_its_order(void **state)
{
	cleanup(usher_endpoints_unrefp) struct usher_endpoints *set = some_endpoints(1);
	cleanup(ledger_freep) struct ledger *ledger = ledger_new();
	struct batch batch;

	(void) state;
	commit_drain(ledger, "d2", "2");
	commit_drain(ledger, "d1", "1");
	commit_drain(ledger, "d3", "3");
	put_feed(ledger, "s", set);
	ledger_take(ledger, BATCH_MAX, &batch);
	settle(ledger, &batch, 0);
	assert_ok(ledger_remove_drain(ledger, "d1", NULL));
	put_drain(ledger, "d3", "4", true);
	ledger_requeue_all(ledger);
	assert_takes(ledger, &batch, "d2=2 d1- d3=4 s+");
	settle(ledger, &batch, 0);
}

static void the_last_feed_takes_the_cursor_along(void **state)
{
	cleanup(usher_endpoints_unrefp) struct usher_endpoints *set = some_endpoints(1);
	cleanup(ledger_freep) struct ledger *ledger = ledger_new();
	struct batch batch;

	(void) state;
	assert_errno(ledger_put_cursor(ledger, "s", 1), ENOENT);
	put_feed(ledger, "s", set);
	put_feed(ledger, "s", set);
	assert_ok(ledger_put_cursor(ledger, "s", 1));
	ledger_take(ledger, BATCH_MAX, &batch);
	settle(ledger, &batch, 0);
	assert_ok(ledger_remove_feed(ledger, "s", "files"));
	assert_errno(ledger_put_cursor(ledger, "s", 2), ENOENT);
	assert_takes(ledger, &batch, "s- s-");
	settle(ledger, &batch, 0);
	assert_errno(ledger_remove_feed(ledger, "s", "files"), ENOENT);
	ledger_requeue_all(ledger);
	assert_false(ledger_pending(ledger));
}

static int change_with_little_memory(void *userdata)
{
	cleanup(ledger_freep) struct ledger *ledger = ledger_new();
	const struct stored_feed feed = {
		.service = "s",
		.source = "files",
		.endpoints = userdata,
		.revision = "r",
	};
	struct completion *completion;
	struct batch batch;
	int r;

	if (!ledger)
		return -ENOMEM;
	r = completion_new(nobody, NULL, &completion);
	if (r < 0)
		return r;
	r = ledger_put_drain(ledger, "d", "{}", false, completion);
	if (r < 0) {
		free(completion);
		return r;
	}
	r = ledger_put_feed(ledger, &feed, NULL);
	if (r >= 0)
		r = ledger_put_cursor(ledger, "s", 1);
	ledger_take(ledger, BATCH_MAX, &batch);
	settle(ledger, &batch, 0);

	return r;
}

static void a_change_that_finds_no_memory_changes_nothing(void **state)
{
	cleanup(usher_endpoints_unrefp) struct usher_endpoints *set = some_endpoints(1);

	(void) state;
	assert_survives_oom(change_with_little_memory, set);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_somebody_waits_for_is_written_first),
		cmocka_unit_test(a_batch_is_bounded),
		cmocka_unit_test(a_change_during_the_write_is_written_after_it),
		cmocka_unit_test(a_refused_drain_is_again_what_the_disk_has),
		cmocka_unit_test(a_refused_drain_of_a_lost_file_is_written_as_it_was),
		cmocka_unit_test(a_refused_drain_that_changed_meanwhile_goes_on),
		cmocka_unit_test(what_nobody_waits_for_is_tried_until_it_is_written),
		cmocka_unit_test(an_equal_set_only_renews_the_time),
		cmocka_unit_test(a_batch_goes_back_as_if_it_had_not_been_taken),
		cmocka_unit_test(everything_current_is_written_again_in_its_order),
		cmocka_unit_test(the_last_feed_takes_the_cursor_along),
		cmocka_unit_test(a_change_that_finds_no_memory_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
