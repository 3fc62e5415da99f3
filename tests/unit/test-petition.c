/* Drains that a source asks for, on the bench of the rollouts. */

#include "rollout-bench.h"

static const struct drain_record *newest(void)
{
	return rollout_count(bench.rollout) > 0 ? rollout_at(bench.rollout, 0) : NULL;
}

static bool is_told(const char *words)
{
	return strstr(bench.progress, words);
}

static void until_told(const char *words)
{
	bench_until(is_told(words));
}

/* The source asks for it, and it is done. */
static const struct drain_record *drained(const char *id)
{
	bench_asks(true, id, NULL);
	until_told("done done");
	return newest();
}

/* The source asks for it, and the registry takes its time. */
static void until_it_waits(const char *id)
{
	bench.late = true;
	bench.service.drain.registry_usec = 20 * USEC_PER_SEC;
	bench_asks(true, id, NULL);
	until_told("running propagation");
}

static void a_source_has_an_endpoint_drained_and_is_told_step_by_step(void **state)
{
	const struct drain_record *record;

	(void) state;
	record = drained("catalog-a");
	assert_int_equal(record->state, DRAIN_DONE);
	assert_string_equal(record->requested_by, "source files");
	assert_string_equal(record->asking_source, "files");
	assert_string_equal(record->reason, "it is to go");
	assert_false(bench_chosen("catalog-a"));
	assert_true(is_told("catalog-a running "));
	assert_string_equal(bench.progress_text, "nobody uses it any more");
}

static void asking_twice_is_asking_once(void **state)
{
	(void) state;
	bench_asks(true, "catalog-a", NULL);
	bench_asks(true, "catalog-a", NULL);
	until_told("done done");
	bench_asks(true, "catalog-a", NULL);
	bench_for(50 * USEC_PER_MSEC);
	assert_int_equal(rollout_count(bench.rollout), 1);
	assert_int_equal(bench.asked[SOURCE_REMOVE], 1);
}

static void what_people_drain_already_is_told_and_not_begun_anew(void **state)
{
	const struct drain_record *record = bench_drain("catalog-a");

	(void) state;
	bench_asks(true, "catalog-a", NULL);
	until_told("done done");
	assert_ptr_equal(newest(), record);
	assert_null(record->asking_source);
}

static void what_people_drain_is_not_undone_by_a_source(void **state)
{
	const struct drain_record *record = bench_drain("catalog-a");

	(void) state;
	bench_asks(true, "catalog-a", NULL);
	until_told("done done");
	bench_asks(false, "catalog-a", NULL);
	bench_for(50 * USEC_PER_MSEC);
	assert_int_equal(rollout_count(bench.rollout), 1);
	assert_int_equal(record->state, DRAIN_DONE);
}

static void an_undrain_cancels_a_drain_that_runs(void **state)
{
	(void) state;
	until_it_waits("catalog-a");
	bench_asks(false, "catalog-a", NULL);
	until_told("returning");
	bench.late = false;
	until_told("cancelled");
	assert_int_equal(newest()->state, DRAIN_CANCELLED);
	assert_true(newest()->withdrawn);
	assert_true(bench_chosen("catalog-a"));
}

static void an_undrain_brings_back_what_was_drained(void **state)
{
	(void) state;
	(void) drained("catalog-a");
	bench_asks(false, "catalog-a", NULL);
	until_told("cancelled");
	assert_int_equal(newest()->kind, ROLLOUT_RESTORE);
	assert_int_equal(newest()->state, DRAIN_DONE);
	assert_string_equal(newest()->requested_by, "source files");
	assert_true(bench_chosen("catalog-a"));
}

static void an_undrain_of_another_one_of_that_name_is_nothing(void **state)
{
	(void) state;
	bench.endpoints[0].uid = "u1";
	bench_show();
	(void) drained("catalog-a");
	bench.endpoints[0].uid = "u2";
	bench.endpoints[0].gone = false;
	bench_show();
	bench_asks(false, "catalog-a", NULL);
	bench_until(bench_chosen("catalog-a"));
	bench_for(50 * USEC_PER_MSEC);
	assert_int_equal(rollout_count(bench.rollout), 1);
}

static void an_undrain_of_nothing_is_nothing(void **state)
{
	(void) state;
	bench_asks(false, "catalog-a", NULL);
	bench_for(50 * USEC_PER_MSEC);
	assert_int_equal(rollout_count(bench.rollout), 0);
	assert_string_equal(bench.progress, "");
}

static void it_may_be_asked_for_again_after_it_was_undone(void **state)
{
	(void) state;
	(void) drained("catalog-a");
	bench_asks(false, "catalog-a", NULL);
	until_told("cancelled");
	bench.progress[0] = '\0';
	assert_int_equal(drained("catalog-a")->state, DRAIN_DONE);
	assert_int_equal(rollout_count(bench.rollout), 3);
}

static void a_guard_refuses_it_until_it_does_not(void **state)
{
	(void) state;
	bench.service.drain.min_ready = 3;
	bench_asks(true, "catalog-a", NULL);
	until_told("refused -");
	assert_int_equal(rollout_count(bench.rollout), 0);
	assert_true(strstr(bench.progress_text, "min_ready"));
	bench.service.drain.min_ready = 1;
	bench_show();
	until_told("done done");
}

static void an_endpoint_that_is_not_there_yet_is_waited_for(void **state)
{
	(void) state;
	bench_asks(true, "catalog-d", NULL);
	until_told("catalog-d refused -");
	bench_add("catalog-d", NULL, 18084);
	bench_show();
	until_told("catalog-d done done");
}

static void only_the_incarnation_that_is_asked_for_is_drained(void **state)
{
	(void) state;
	bench.endpoints[0].uid = "u1";
	bench_show();
	bench_asks(true, "catalog-a", "u2");
	until_told("refused -");
	assert_true(strstr(bench.progress_text, "uid u1"));
	bench.endpoints[0].uid = "u2";
	bench_show();
	until_told("done done");
	assert_string_equal(newest()->uid, "u2");
}

static void the_next_incarnation_is_drained_anew_when_it_is_asked_for(void **state)
{
	(void) state;
	bench.endpoints[0].uid = "u1";
	bench_show();
	bench_asks(true, "catalog-a", "u1");
	until_told("done done");
	bench.progress[0] = '\0';
	bench.endpoints[0].uid = "u2";
	bench.endpoints[0].gone = false;
	bench_show();
	bench_asks(true, "catalog-a", "u2");
	until_told("done done");
	assert_int_equal(rollout_count(bench.rollout), 2);
	assert_string_equal(newest()->uid, "u2");
}

static void what_people_cancel_is_not_begun_anew(void **state)
{
	const struct drain_record *record;

	(void) state;
	until_it_waits("catalog-a");
	assert_ok(rollout_cancel(bench.rollout, newest()->id, &record, NULL));
	bench.late = false;
	until_told("cancelled");
	bench_asks(true, "catalog-a", NULL);
	bench_show();
	bench_for(50 * USEC_PER_MSEC);
	assert_int_equal(rollout_count(bench.rollout), 1);
	assert_true(bench_chosen("catalog-a"));
}

static void what_people_bring_back_is_not_begun_anew(void **state)
{
	(void) state;
	(void) drained("catalog-a");
	(void) bench_restore("catalog-a");
	until_told("cancelled");
	bench_asks(true, "catalog-a", NULL);
	bench_for(50 * USEC_PER_MSEC);
	assert_int_equal(rollout_count(bench.rollout), 2);
	assert_true(bench_chosen("catalog-a"));
}

static void a_restart_goes_on_and_tells_again(void **state)
{
	(void) state;
	until_it_waits("catalog-a");
	bench_restart();
	bench.progress[0] = '\0';
	until_told("running propagation");
	bench_asks(true, "catalog-a", NULL);
	bench_show();
	until_told("done done");
	assert_int_equal(rollout_count(bench.rollout), 1);
}

static void a_restart_tells_again_what_was_done(void **state)
{
	(void) state;
	(void) drained("catalog-a");
	bench_restart();
	bench.progress[0] = '\0';
	until_told("done done");
	bench_asks(false, "catalog-a", NULL);
	until_told("cancelled");
}

static void a_restart_in_the_middle_of_an_undrain_goes_on_with_it(void **state)
{
	(void) state;
	until_it_waits("catalog-a");
	bench_asks(false, "catalog-a", NULL);
	until_told("returning");
	bench_stop();
	if (bench.job)
		bench_job_free(bench.job);
	bench.late = false;
	bench.progress[0] = '\0';
	bench_start();
	until_told("cancelled");
	assert_true(bench_chosen("catalog-a"));
}

static void another_source_under_the_name_is_told_anew(void **state)
{
	(void) state;
	(void) drained("catalog-a");
	bench.serial++;
	bench.progress[0] = '\0';
	bench_asks(true, "catalog-a", NULL);
	until_told("done done");
}

static void progress_that_cannot_be_told_is_told_later(void **state)
{
	(void) state;
	bench.progress_answer = -EIO;
	bench_asks(true, "catalog-a", NULL);
	bench_until(newest() && bench_finished(newest()));
	bench.progress_answer = 0;
	bench.progress[0] = '\0';
	until_told("done done");
}

static void a_source_that_is_told_nothing_is_obeyed_all_the_same(void **state)
{
	(void) state;
	bench.cannot[SOURCE_PROGRESS] = true;
	bench_asks(true, "catalog-a", NULL);
	bench_until(newest() && newest()->state == DRAIN_DONE);
	bench_asks(false, "catalog-a", NULL);
	bench_until(bench_chosen("catalog-a"));
	assert_string_equal(bench.progress, "");
}

#define petition_test(f) cmocka_unit_test_setup_teardown(f, bench_setup, bench_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		petition_test(a_source_has_an_endpoint_drained_and_is_told_step_by_step),
		petition_test(asking_twice_is_asking_once),
		petition_test(what_people_drain_already_is_told_and_not_begun_anew),
		petition_test(what_people_drain_is_not_undone_by_a_source),
		petition_test(an_undrain_cancels_a_drain_that_runs),
		petition_test(an_undrain_brings_back_what_was_drained),
		petition_test(an_undrain_of_another_one_of_that_name_is_nothing),
		petition_test(an_undrain_of_nothing_is_nothing),
		petition_test(it_may_be_asked_for_again_after_it_was_undone),
		petition_test(a_guard_refuses_it_until_it_does_not),
		petition_test(an_endpoint_that_is_not_there_yet_is_waited_for),
		petition_test(only_the_incarnation_that_is_asked_for_is_drained),
		petition_test(the_next_incarnation_is_drained_anew_when_it_is_asked_for),
		petition_test(what_people_cancel_is_not_begun_anew),
		petition_test(what_people_bring_back_is_not_begun_anew),
		petition_test(a_restart_goes_on_and_tells_again),
		petition_test(a_restart_tells_again_what_was_done),
		petition_test(a_restart_in_the_middle_of_an_undrain_goes_on_with_it),
		petition_test(another_source_under_the_name_is_told_anew),
		petition_test(progress_that_cannot_be_told_is_told_later),
		petition_test(a_source_that_is_told_nothing_is_obeyed_all_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
