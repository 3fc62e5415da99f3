#include <unistd.h>

#include <systemd/sd-event.h>

#include "clock.h"
#include "inbox.h"
#include "loop.h"
#include "ownership.h"
#include "random.h"
#include "test.h"
#include "text.h"
#include "work-queue.h"
#include "worker.h"

/* A loop that ends by itself when what a test waits for does not come. */
static sd_event *loop_new(void)
{
	sd_event *event = NULL;

	assert_ok(sd_event_new(&event));
	assert_ok(sd_event_add_time_relative(event, NULL, CLOCK_MONOTONIC, 10 * USEC_PER_SEC, 1,
			NULL, (void *) (intptr_t) -ETIMEDOUT));
	return event;
}

struct counted {
	struct message message;
	sd_event *event;
	int *received, *discarded;
	int end_at;
};

static void counted_receive(struct message *message, void *userdata)
{
	struct counted *c = (struct counted *) message;

	(void) userdata;
	if (++*c->received == c->end_at)
		(void) sd_event_exit(c->event, 0);
	free(c);
}

static void counted_discard(struct message *message)
{
	struct counted *c = (struct counted *) message;

	++*c->discarded;
	free(c);
}

static void post(struct inbox *inbox, struct counted value)
{
	struct counted *c = malloc(sizeof(*c));

	assert_non_null(c);
	*c = value;
	c->message = (struct message){ .receive = counted_receive, .discard = counted_discard };
	inbox_post(inbox, &c->message);
}

static void every_message_is_received_once(void **state)
{
	sd_event *event = loop_new();
	struct inbox *inbox = NULL;
	int received = 0, discarded = 0;

	(void) state;
	assert_ok(inbox_new(event, &inbox));
	for (int i = 0; i < 1000; i++)
		post(inbox,
				(struct counted){ .event = event,
						.received = &received,
						.discarded = &discarded,
						.end_at = 1000 });
	assert_int_equal(sd_event_loop(event), 0);
	assert_int_equal(received, 1000);
	assert_int_equal(discarded, 0);
	inbox_free(inbox);
	sd_event_unref(event);
}

static void what_nobody_received_is_discarded(void **state)
{
	sd_event *event = loop_new();
	struct inbox *inbox = NULL;
	int received = 0, discarded = 0;

	(void) state;
	assert_ok(inbox_new(event, &inbox));
	post(inbox,
			(struct counted){ .event = event,
					.received = &received,
					.discarded = &discarded });
	inbox_free(inbox);
	assert_int_equal(discarded, 1);
	sd_event_unref(event);
}

struct sum {
	struct job job;
	sd_event *event;
	int value, cancelled, *left;
};

static void sum_run(struct job *job)
{
	((struct sum *) job)->value++;
}

static void sum_done(struct job *job, bool cancelled)
{
	struct sum *sum = (struct sum *) job;

	sum->cancelled = cancelled;
	if (--*sum->left == 0)
		(void) sd_event_exit(sum->event, 0);
}

static void jobs_come_back_done(void **state)
{
	struct sum jobs[100];
	sd_event *event = loop_new();
	struct inbox *inbox = NULL;
	struct worker *worker = NULL;
	int left = ELEMENTS(jobs);

	(void) state;
	assert_ok(inbox_new(event, &inbox));
	assert_ok(worker_new(inbox, "test", 3, &worker));
	for (size_t i = 0; i < ELEMENTS(jobs); i++) {
		jobs[i] = (struct sum){
			.job = { .run = sum_run, .done = sum_done }, .event = event, .left = &left
		};
		assert_ok(worker_submit(worker, &jobs[i].job));
	}
	assert_int_equal(sd_event_loop(event), 0);
	for (size_t i = 0; i < ELEMENTS(jobs); i++) {
		assert_int_equal(jobs[i].value, 1);
		assert_int_equal(jobs[i].cancelled, 0);
	}
	worker_free(worker);
	inbox_free(inbox);
	sd_event_unref(event);
}

struct blocking {
	struct job job;
	int fds[2];
	bool cancelled;
};

static void blocking_run(struct job *job)
{
	struct blocking *b = (struct blocking *) job;
	char byte;

	(void) !read(b->fds[0], &byte, 1);
}

static void blocking_done(struct job *job, bool cancelled)
{
	((struct blocking *) job)->cancelled = cancelled;
}

static void a_job_does_not_wait_behind_another_while_a_thread_may_start(void **state)
{
	struct blocking slow = { .job = { .run = blocking_run, .done = blocking_done } };
	uint64_t until_usec = clock_boot_usec() + 120 * USEC_PER_SEC;
	sd_event *event = loop_new();
	struct inbox *inbox = NULL;
	struct worker *worker = NULL;
	int left = 100;
	struct sum first = {
		.job = { .run = sum_run, .done = sum_done }, .event = event, .left = &left
	};
	struct sum second = first;

	(void) state;
	assert_ok(pipe(slow.fds));
	assert_ok(inbox_new(event, &inbox));
	assert_ok(worker_new(inbox, "test", 2, &worker));
	/* A thread that has nothing to do is not two. */
	assert_ok(worker_submit(worker, &first.job));
	while (left > 99)
		assert_ok(sd_event_run(event, USEC_PER_SEC));
	assert_ok(worker_submit(worker, &slow.job));
	assert_ok(worker_submit(worker, &second.job));
	while (left > 98) {
		assert_true(clock_boot_usec() < until_usec);
		assert_ok(sd_event_run(event, USEC_PER_SEC));
	}
	assert_int_equal(write(slow.fds[1], "x", 1), 1);
	worker_free(worker);
	inbox_free(inbox);
	close(slow.fds[0]);
	close(slow.fds[1]);
	sd_event_unref(event);
}

static void a_job_that_has_not_begun_is_cancelled(void **state)
{
	struct blocking first = { .job = { .run = blocking_run, .done = blocking_done } };
	struct blocking second = first;
	sd_event *event = loop_new();
	struct inbox *inbox = NULL;
	struct worker *worker = NULL;

	(void) state;
	assert_ok(pipe(first.fds));
	/* The second reads an end of file, should it begin after all. */
	assert_ok(pipe(second.fds));
	close(second.fds[1]);
	assert_ok(inbox_new(event, &inbox));
	assert_ok(worker_new(inbox, "test", 1, &worker));
	assert_ok(worker_submit(worker, &first.job));
	assert_ok(worker_submit(worker, &second.job));
	assert_int_equal(write(first.fds[1], "x", 1), 1);
	worker_free(worker);
	inbox_free(inbox);
	/* Whichever came first: each was given back. */
	assert_true(first.cancelled);
	assert_true(second.cancelled);
	close(first.fds[0]);
	close(first.fds[1]);
	close(second.fds[0]);
	sd_event_unref(event);
}

struct reconciler {
	sd_event *event;
	struct work_queue *queue;
	int runs, end_at;
	enum work_result result;
	uint64_t again_usec;
	bool add_again;
	bool remove;
};

static enum work_result reconcile(void *userdata, const char *key, uint64_t *ret_again_usec)
{
	struct reconciler *r = userdata;

	if (++r->runs == r->end_at) {
		(void) sd_event_exit(r->event, 0);
		return WORK_DONE;
	}
	if (r->add_again)
		assert_ok(work_queue_add(r->queue, key));
	if (r->remove)
		work_queue_remove(r->queue, key);
	*ret_again_usec = r->again_usec;
	return r->result;
}

static void run_reconciler(struct reconciler *r)
{
	r->event = loop_new();
	assert_ok(work_queue_new(r->event, reconcile, r, &r->queue));
	assert_ok(work_queue_add(r->queue, "key"));
}

static void end_reconciler(struct reconciler *r)
{
	work_queue_free(r->queue);
	sd_event_unref(r->event);
}

static void a_key_is_in_the_queue_once(void **state)
{
	struct reconciler r = { .result = WORK_DONE };

	(void) state;
	run_reconciler(&r);
	assert_ok(work_queue_add(r.queue, "key"));
	assert_ok(work_queue_add(r.queue, "key"));
	while (sd_event_run(r.event, 50 * USEC_PER_MSEC) > 0)
		;
	assert_int_equal(r.runs, 1);
	end_reconciler(&r);
}

static void a_key_added_while_it_runs_runs_again(void **state)
{
	struct reconciler r = { .result = WORK_DONE, .add_again = true, .end_at = 3 };

	(void) state;
	run_reconciler(&r);
	assert_int_equal(sd_event_loop(r.event), 0);
	assert_int_equal(r.runs, 3);
	end_reconciler(&r);
}

static void a_retry_comes_after_its_back_off(void **state)
{
	struct reconciler r = { .result = WORK_RETRY, .end_at = 3 };
	uint64_t before = clock_boot_usec();

	(void) state;
	run_reconciler(&r);
	assert_int_equal(sd_event_loop(r.event), 0);
	/* Half of 100 ms and half of 200 ms at least. */
	assert_true(clock_boot_usec() - before >= 3 * WORK_BACKOFF_MIN_USEC / 2);
	end_reconciler(&r);
}

static void later_is_when_the_reconciler_said(void **state)
{
	struct reconciler r = {
		.result = WORK_LATER, .again_usec = 20 * USEC_PER_MSEC, .end_at = 2
	};
	uint64_t before = clock_boot_usec();

	(void) state;
	run_reconciler(&r);
	assert_int_equal(sd_event_loop(r.event), 0);
	assert_true(clock_boot_usec() - before >= 20 * USEC_PER_MSEC);
	end_reconciler(&r);
}

#define KEYS 500

struct sequence {
	struct work_queue *queue;
	int runs[KEYS], count, wanted;
	bool is_busy; /* key 0 is added again with every run of it */
};

static enum work_result note_run(void *userdata, const char *key, uint64_t *ret_again_usec)
{
	struct sequence *s = userdata;
	int number = (int) strtol(key, NULL, 10);

	if (s->is_busy && number == 0)
		assert_ok(work_queue_add(s->queue, key));
	else
		s->runs[s->count++] = number;
	*ret_again_usec = 0;
	return WORK_DONE;
}

static bool have_run(void *userdata)
{
	const struct sequence *s = userdata;

	return s->count == s->wanted;
}

static void add_keys(struct sequence *s, int first, int count)
{
	char key[16];

	for (int i = first; i < first + count; i++) {
		(void) snprintf(key, sizeof(key), "%d", i);
		assert_ok(work_queue_add(s->queue, key));
	}
}

static void keys_run_in_the_order_in_which_they_were_added(void **state)
{
	sd_event *event = loop_new();
	struct sequence s = { .wanted = KEYS - 1 };

	(void) state;
	assert_ok(work_queue_new(event, note_run, &s, &s.queue));
	add_keys(&s, 0, KEYS);
	work_queue_remove(s.queue, "100");
	loop_until(event, have_run, &s);
	for (int i = 0; i < KEYS - 1; i++)
		assert_int_equal(s.runs[i], i < 100 ? i : i + 1);
	work_queue_free(s.queue);
	sd_event_unref(event);
}

static void a_key_that_never_rests_keeps_no_other_from_its_turn(void **state)
{
	sd_event *event = loop_new();
	struct sequence s = { .is_busy = true, .wanted = 39 };

	(void) state;
	assert_ok(work_queue_new(event, note_run, &s, &s.queue));
	add_keys(&s, 0, 40);
	loop_until(event, have_run, &s);
	work_queue_free(s.queue);
	sd_event_unref(event);
}

static void a_key_removed_while_it_runs_is_forgotten(void **state)
{
	struct reconciler r = { .result = WORK_RETRY, .remove = true };

	(void) state;
	run_reconciler(&r);
	while (sd_event_run(r.event, 300 * USEC_PER_MSEC) > 0)
		;
	assert_int_equal(r.runs, 1);
	end_reconciler(&r);
}

static void text_is_escaped_as_json_wants_it(void **state)
{
	struct text text = {};
	char *data;

	(void) state;
	text_add_json(&text, "a\"b\\c\n\x01 \xc3\xa9");
	text_add(&text, ",", 1);
	text_add_json(&text, NULL);
	text_add_unsigned(&text, UINT64_MAX);
	text_add_format(&text, ":%d", -3);
	data = text_take(&text);
	assert_string_equal(data, "\"a\\\"b\\\\c\\n\\u0001 \xc3\xa9\",null18446744073709551615:-3");
	free(data);
}

static int build_a_text(void *userdata)
{
	struct text text = {};
	char *data;

	(void) userdata;
	for (int i = 0; i < 100; i++)
		text_add_format(&text, "number %d ", i);
	data = text_take(&text);
	free(data);
	return data ? 0 : -ENOMEM;
}

static void a_text_that_cannot_grow_says_so_at_the_end(void **state)
{
	(void) state;
	assert_survives_oom(build_a_text, NULL);
}

static void random_numbers_fill_their_range(void **state)
{
	unsigned counts[10] = { 0 };
	struct random random;

	(void) state;
	random_init(&random);
	for (int i = 0; i < 100000; i++)
		counts[random_below(&random, ELEMENTS(counts))]++;
	for (size_t i = 0; i < ELEMENTS(counts); i++)
		assert_in_range(counts[i], 9000, 11000);
}

static void wall_time_is_written_as_rfc_3339(void **state)
{
	char text[CLOCK_TEXT_MAX];

	(void) state;
	assert_string_equal(clock_wall_format(UINT64_C(1700000000123456), text),
			"2023-11-14T22:13:20.123456Z");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_message_is_received_once),
		cmocka_unit_test(what_nobody_received_is_discarded),
		cmocka_unit_test(jobs_come_back_done),
		cmocka_unit_test(a_job_does_not_wait_behind_another_while_a_thread_may_start),
		cmocka_unit_test(a_job_that_has_not_begun_is_cancelled),
		cmocka_unit_test(a_key_is_in_the_queue_once),
		cmocka_unit_test(a_key_added_while_it_runs_runs_again),
		cmocka_unit_test(a_retry_comes_after_its_back_off),
		cmocka_unit_test(later_is_when_the_reconciler_said),
		cmocka_unit_test(keys_run_in_the_order_in_which_they_were_added),
		cmocka_unit_test(a_key_that_never_rests_keeps_no_other_from_its_turn),
		cmocka_unit_test(a_key_removed_while_it_runs_is_forgotten),
		cmocka_unit_test(text_is_escaped_as_json_wants_it),
		cmocka_unit_test(a_text_that_cannot_grow_says_so_at_the_end),
		cmocka_unit_test(random_numbers_fill_their_range),
		cmocka_unit_test(wall_time_is_written_as_rfc_3339),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
