/* From results and reports to a state. Each case is a row: what comes in, one letter a second, and
 * what is said after each. */

#include "clock.h"
#include "judge.h"
#include "ownership.h"
#include "test.h"

#define START (1000 * USEC_PER_SEC)

static struct health_config config_of(unsigned rise, unsigned fall, enum usher_health initial)
{
	return (struct health_config){ .rise = rise,
		.fall = fall,
		.initial = initial,
		.flap_changes = 5,
		.flap_window_usec = 60 * USEC_PER_SEC,
		.flap_hold_usec = 30 * USEC_PER_SEC,
		.outlier = {
				.enabled = true,
				.consecutive = 5,
				.failure_share = 1,
				.minimum_calls = 20,
				.interval_usec = 10 * USEC_PER_SEC,
				.minimum_endpoints = 3,
				.max_ejected = 0.1,
				.ejection_usec = 30 * USEC_PER_SEC,
				.max_ejection_usec = 300 * USEC_PER_SEC,
		} };
}

/* ---- results ---- */

static enum probe_outcome outcome_of(char letter)
{
	return letter == 'p'            ? PROBE_IS_UP
			: letter == 'g' ? PROBE_IS_DEGRADED
			: letter == 'f' ? PROBE_IS_DOWN
					: PROBE_IS_NOTHING;
}

static char letter_of(enum usher_health health)
{
	static const char letters[] = { [USHER_HEALTH_UNKNOWN] = '?',
		[USHER_HEALTH_UP] = 'u',
		[USHER_HEALTH_DEGRADED] = 'g',
		[USHER_HEALTH_DOWN] = 'd',
		[USHER_HEALTH_EJECTED] = 'e' };

	return letters[health];
}

struct sequence {
	unsigned rise, fall;
	enum usher_health initial;
	const char *results; /* p good, g degraded, f bad, n nothing */
	const char *states;  /* after each */
};

static void assert_states(const struct sequence *s)
{
	struct health_config config = config_of(s->rise, s->fall, s->initial);
	char found[64] = "";
	struct judge j;

	judge_init(&j, &config, START);
	assert_int_equal(judge_health(&j), s->initial);
	for (size_t i = 0; s->results[i]; i++) {
		uint64_t now_usec = START + (i + 1) * USEC_PER_SEC;
		enum usher_health before = judge_health(&j);
		bool was_flapping = j.flapping, changed;

		changed = judge_result(&j, &config, outcome_of(s->results[i]), now_usec);
		found[i] = letter_of(judge_health(&j));
		assert_int_equal(changed, judge_health(&j) != before || j.flapping != was_flapping);
		if (judge_health(&j) != before)
			assert_int_equal(j.since_usec, now_usec);
	}
	if (strcmp(found, s->states) != 0)
		fail_msg("rise %u fall %u initial %s: %s gives %s instead of %s", s->rise, s->fall,
				usher_health_to_string(s->initial), s->results, found, s->states);
}

static void assert_all_states(const struct sequence *sequences, size_t count)
{
	for (size_t i = 0; i < count; i++)
		assert_states(&sequences[i]);
}

#define UNKNOWN USHER_HEALTH_UNKNOWN
#define UP      USHER_HEALTH_UP
#define DOWN    USHER_HEALTH_DOWN

static void rise_and_fall_count_results_in_a_row(void **state)
{
	static const struct sequence sequences[] = {
		{ 2, 3, UP, "pfff", "uuud" },
		{ 2, 3, DOWN, "pfff", "dddd" },
		{ 2, 3, UNKNOWN, "pfff", "uuud" },
		{ 2, 3, UP, "ffpff", "uuuuu" },
		{ 2, 3, UP, "fff", "uud" },
		{ 2, 3, DOWN, "pp", "du" },
		{ 2, 3, DOWN, "pfpp", "dddu" },
		{ 2, 3, UP, "fffpp", "uuddu" },
		{ 1, 1, UP, "fp", "du" },
		{ 1, 3, DOWN, "pfff", "uuud" },
		{ 3, 1, UP, "fppfppp", "ddddddu" },
		{ 2, 3, UP, "ffffffpffpp", "uuddddddddu" },
	};

	(void) state;
	assert_all_states(sequences, ELEMENTS(sequences));
}

static void the_first_result_alone_ends_unknown(void **state)
{
	static const struct sequence sequences[] = {
		{ 2, 3, UNKNOWN, "p", "u" },
		{ 2, 3, UNKNOWN, "f", "d" },
		{ 2, 3, UNKNOWN, "g", "g" },
		{ 5, 5, UNKNOWN, "fppppp", "dddddu" },
		{ 2, 3, UNKNOWN, "nnfnpp", "??dddu" },
		/* no network at boot, which then comes: up as soon as rise says so */
		{ 2, 3, UNKNOWN, "fffffffpp", "ddddddddu" },
	};

	(void) state;
	assert_all_states(sequences, ELEMENTS(sequences));
}

static void what_proves_nothing_changes_nothing(void **state)
{
	static const struct sequence sequences[] = {
		{ 2, 3, UP, "nnnnn", "uuuuu" },
		{ 2, 3, UP, "fnfnf", "uuuud" },
		{ 2, 3, DOWN, "pnp", "ddu" },
	};

	(void) state;
	assert_all_states(sequences, ELEMENTS(sequences));
}

static void degraded_is_believed_like_down(void **state)
{
	static const struct sequence sequences[] = {
		{ 2, 3, UP, "ggg", "uug" },
		{ 2, 3, UP, "gpgpg", "uuuuu" },
		{ 2, 3, UP, "gggpp", "uuggu" },
		{ 2, 3, UP, "gggpgp", "uugggg" },
		{ 2, 3, UP, "gggfff", "uugggd" },
		{ 2, 3, DOWN, "gg", "dg" },
		{ 2, 3, DOWN, "gp", "du" },
		{ 2, 3, DOWN, "pg", "dg" },
	};

	(void) state;
	assert_all_states(sequences, ELEMENTS(sequences));
}

/* ---- flapping ---- */

struct flight {
	struct judge j;
	struct health_config config;
	uint64_t now_usec;
	unsigned transitions; /* of the state */
};

static void take_off(struct flight *f, unsigned rise, unsigned fall)
{
	f->config = config_of(rise, fall, UP);
	f->now_usec = START;
	f->transitions = 0;
	judge_init(&f->j, &f->config, START);
}

/* One letter after the other, each `step` after the last. */
static void feed(struct flight *f, const char *results, uint64_t step_usec)
{
	for (; *results; results++) {
		enum usher_health before = judge_health(&f->j);

		f->now_usec += step_usec;
		(void) judge_result(&f->j, &f->config, outcome_of(*results), f->now_usec);
		f->transitions += judge_health(&f->j) != before;
	}
}

static void results_that_alternate_for_ten_minutes_are_published_once_at_most(void **state)
{
	struct flight f;

	(void) state;
	take_off(&f, 2, 3);
	f.config.initial = UNKNOWN;
	judge_init(&f.j, &f.config, START);
	for (unsigned i = 0; i < 300; i++)
		feed(&f, "pf", USEC_PER_SEC);
	assert_true(f.transitions <= 1);
	assert_true(f.j.flapping);
}

static void a_state_that_changes_too_often_stays_down(void **state)
{
	struct flight f;

	(void) state;
	take_off(&f, 1, 1);
	feed(&f, "fpfpf", USEC_PER_SEC);
	assert_int_equal(f.transitions, 5);
	assert_true(f.j.flapping);
	assert_int_equal(judge_health(&f.j), DOWN);
	for (unsigned i = 0; i < 300; i++)
		feed(&f, "pf", USEC_PER_SEC);
	assert_int_equal(f.transitions, 5);
	assert_true(f.j.flapping);
}

static void the_change_that_is_one_too_many_is_not_up(void **state)
{
	struct flight f;

	(void) state;
	take_off(&f, 1, 1);
	f.config.flap_changes = 4;
	feed(&f, "fpfp", USEC_PER_SEC);
	assert_int_equal(judge_health(&f.j), DOWN);
	assert_true(f.j.flapping);
	assert_int_equal(f.transitions, 3);
}

static void flapping_ends_with_results_that_agree_for_as_long_as_hold(void **state)
{
	struct flight f;

	(void) state;
	take_off(&f, 1, 1);
	feed(&f, "fpfpf", USEC_PER_SEC);
	feed(&f, "ppp", 10 * USEC_PER_SEC);
	assert_int_equal(judge_health(&f.j), DOWN);
	feed(&f, "p", 10 * USEC_PER_SEC);
	assert_int_equal(judge_health(&f.j), UP);
	assert_false(f.j.flapping);
	/* and it takes as many changes as before to begin again */
	feed(&f, "fp", USEC_PER_SEC);
	assert_int_equal(judge_health(&f.j), UP);
	assert_false(f.j.flapping);
}

static void what_flaps_and_then_is_dead_is_down_and_no_longer_flapping(void **state)
{
	struct flight f;

	(void) state;
	take_off(&f, 2, 3);
	feed(&f, "pfpfpfpf", USEC_PER_SEC);
	assert_true(f.j.flapping);
	assert_int_equal(judge_health(&f.j), UP);
	feed(&f, "ff", USEC_PER_SEC);
	assert_int_equal(judge_health(&f.j), DOWN);
	assert_true(f.j.flapping);
	feed(&f, "ffff", 10 * USEC_PER_SEC);
	assert_false(f.j.flapping);
	feed(&f, "pp", USEC_PER_SEC);
	assert_int_equal(judge_health(&f.j), UP);
}

static void changes_that_are_far_apart_are_no_flapping(void **state)
{
	struct flight f;

	(void) state;
	take_off(&f, 1, 1);
	feed(&f, "fpfpfpfpfp", 16 * USEC_PER_SEC);
	assert_false(f.j.flapping);
	assert_int_equal(f.transitions, 10);
	take_off(&f, 2, 3);
	feed(&f, "fpfpfpfpfpfpfp", 16 * USEC_PER_SEC);
	assert_false(f.j.flapping);
}

static void single_failures_are_no_flapping(void **state)
{
	struct flight f;

	(void) state;
	take_off(&f, 2, 3);
	for (unsigned i = 0; i < 20; i++)
		feed(&f, "ppppf", USEC_PER_SEC);
	assert_false(f.j.flapping);
	assert_int_equal(f.transitions, 0);
}

static void flapping_can_be_switched_off(void **state)
{
	struct flight f;

	(void) state;
	take_off(&f, 1, 1);
	f.config.flap_changes = 0;
	feed(&f, "fpfpfpfpfpfp", USEC_PER_SEC);
	assert_int_equal(f.transitions, 12);
	assert_false(f.j.flapping);
	/* also for one that flaps already */
	take_off(&f, 1, 1);
	feed(&f, "fpfpf", USEC_PER_SEC);
	assert_true(f.j.flapping);
	f.config.flap_changes = 0;
	feed(&f, "p", USEC_PER_SEC);
	assert_false(f.j.flapping);
	assert_int_equal(judge_health(&f.j), UP);
}

/* ---- reports ---- */

static bool report_calls(
		struct flight *f, enum usher_outcome outcome, unsigned count, bool may_eject)
{
	const struct usher_report report = {
		.size = sizeof(report), .outcome = outcome, .count = count
	};

	return judge_report(&f->j, &f->config.outlier, &report, may_eject, f->now_usec);
}

static void failures_in_a_row_eject(void **state)
{
	struct flight f;

	(void) state;
	take_off(&f, 2, 3);
	assert_false(report_calls(&f, USHER_OUTCOME_ERROR, 4, true));
	assert_false(report_calls(&f, USHER_OUTCOME_OK, 1, true));
	assert_false(report_calls(&f, USHER_OUTCOME_TIMEOUT, 2, true));
	assert_false(report_calls(&f, USHER_OUTCOME_FAILED, 2, true));
	assert_int_equal(judge_health(&f.j), UP);
	assert_true(report_calls(&f, USHER_OUTCOME_ERROR, 1, true));
	assert_int_equal(judge_health(&f.j), USHER_HEALTH_EJECTED);
	assert_int_equal(judge_deadline(&f.j, &f.config), START + 30 * USEC_PER_SEC);
	assert_int_equal(f.j.since_usec, START);
}

static void an_ejection_ends_by_itself(void **state)
{
	struct flight f;

	(void) state;
	take_off(&f, 2, 3);
	assert_int_equal(judge_deadline(&f.j, &f.config), USEC_FOREVER);
	assert_true(report_calls(&f, USHER_OUTCOME_ERROR, 5, true));
	assert_false(judge_time(&f.j, &f.config, START + 30 * USEC_PER_SEC - 1));
	assert_true(judge_time(&f.j, &f.config, START + 30 * USEC_PER_SEC));
	assert_int_equal(judge_health(&f.j), UP);
	assert_int_equal(f.j.since_usec, START + 30 * USEC_PER_SEC);
	assert_int_equal(judge_deadline(&f.j, &f.config), USEC_FOREVER);
}

static void ejections_in_a_row_take_longer_and_no_longer_than_the_maximum(void **state)
{
	static const unsigned expected[] = { 30, 60, 90, 120, 150, 180, 210, 240, 270, 300, 300 };
	struct flight f;

	(void) state;
	take_off(&f, 2, 3);
	for (size_t i = 0; i < ELEMENTS(expected); i++) {
		assert_true(report_calls(&f, USHER_OUTCOME_ERROR, 5, true));
		assert_int_equal(f.j.ejected_until_usec - f.now_usec, expected[i] * USEC_PER_SEC);
		f.now_usec = f.j.ejected_until_usec;
		assert_true(judge_time(&f.j, &f.config, f.now_usec));
	}
}

static void an_interval_without_ejection_takes_one_off(void **state)
{
	struct flight f;

	(void) state;
	take_off(&f, 2, 3);
	for (unsigned i = 0; i < 3; i++) {
		assert_true(report_calls(&f, USHER_OUTCOME_ERROR, 5, true));
		f.now_usec = f.j.ejected_until_usec;
		assert_true(judge_time(&f.j, &f.config, f.now_usec));
	}
	assert_int_equal(judge_ejections(&f.j, &f.config.outlier, f.now_usec), 3);
	f.now_usec += 20 * USEC_PER_SEC;
	assert_int_equal(judge_ejections(&f.j, &f.config.outlier, f.now_usec), 1);
	assert_true(report_calls(&f, USHER_OUTCOME_ERROR, 5, true));
	assert_int_equal(f.j.ejected_until_usec - f.now_usec, 60 * USEC_PER_SEC);
	f.now_usec = f.j.ejected_until_usec;
	assert_true(judge_time(&f.j, &f.config, f.now_usec));
	assert_int_equal(judge_ejections(&f.j, &f.config.outlier, f.now_usec + 600 * USEC_PER_SEC),
			0);
}

static void the_share_of_failures_ejects_when_there_were_enough_calls(void **state)
{
	struct flight f;

	(void) state;
	take_off(&f, 2, 3);
	f.config.outlier.consecutive = 0;
	f.config.outlier.failure_share = 0.85;
	/* 17 of 19: too few calls */
	assert_false(report_calls(&f, USHER_OUTCOME_OK, 2, true));
	assert_false(report_calls(&f, USHER_OUTCOME_ERROR, 17, true));
	/* 17 of 20: exactly the share is not more than it */
	assert_false(report_calls(&f, USHER_OUTCOME_OK, 1, true));
	/* 18 of 21 */
	assert_true(report_calls(&f, USHER_OUTCOME_ERROR, 1, true));
	assert_int_equal(judge_health(&f.j), USHER_HEALTH_EJECTED);
}

static void the_share_is_that_of_one_interval(void **state)
{
	struct flight f;

	(void) state;
	take_off(&f, 2, 3);
	f.config.outlier.consecutive = 0;
	f.config.outlier.failure_share = 0.5;
	assert_false(report_calls(&f, USHER_OUTCOME_ERROR, 19, true));
	f.now_usec += 10 * USEC_PER_SEC;
	assert_false(report_calls(&f, USHER_OUTCOME_ERROR, 1, true));
	assert_int_equal(f.j.window_calls, 1);
}

static void without_room_an_ejection_waits_for_it(void **state)
{
	struct flight f;

	(void) state;
	take_off(&f, 2, 3);
	assert_false(report_calls(&f, USHER_OUTCOME_ERROR, 50, false));
	assert_int_equal(judge_health(&f.j), UP);
	assert_true(report_calls(&f, USHER_OUTCOME_ERROR, 1, true));
}

static void what_is_reported_during_an_ejection_is_no_news(void **state)
{
	struct flight f;
	uint64_t until;

	(void) state;
	take_off(&f, 2, 3);
	assert_true(report_calls(&f, USHER_OUTCOME_ERROR, 5, true));
	until = f.j.ejected_until_usec;
	f.now_usec += USEC_PER_SEC;
	assert_false(report_calls(&f, USHER_OUTCOME_ERROR, 100, true));
	assert_int_equal(f.j.ejected_until_usec, until);
	assert_int_equal(f.j.ejections, 1);
}

static void checks_and_ejections_are_kept_apart(void **state)
{
	struct flight f;

	(void) state;
	take_off(&f, 2, 3);
	assert_true(report_calls(&f, USHER_OUTCOME_ERROR, 5, true));
	feed(&f, "pp", USEC_PER_SEC);
	assert_int_equal(judge_health(&f.j), USHER_HEALTH_EJECTED);
	feed(&f, "fff", USEC_PER_SEC);
	assert_int_equal(judge_health(&f.j), DOWN);
	assert_false(judge_time(&f.j, &f.config, START + 40 * USEC_PER_SEC));
	assert_int_equal(judge_health(&f.j), DOWN);
}

static void switching_outliers_off_ends_ejections(void **state)
{
	struct flight f;

	(void) state;
	take_off(&f, 2, 3);
	assert_true(report_calls(&f, USHER_OUTCOME_ERROR, 5, true));
	f.config.outlier.enabled = false;
	assert_true(judge_deadline(&f.j, &f.config) <= f.now_usec);
	assert_true(judge_time(&f.j, &f.config, f.now_usec));
	assert_int_equal(judge_health(&f.j), UP);
	assert_false(report_calls(&f, USHER_OUTCOME_ERROR, 50, true));
}

static void the_cap_leaves_room_for_at_least_one(void **state)
{
	static const struct {
		double max_ejected;
		unsigned minimum;
		size_t ejected, count;
		bool expected;
	} rows[] = {
		{ 0.1, 3, 0, 10, true },
		{ 0.1, 3, 0, 9, true },
		{ 0.1, 3, 1, 9, false },
		{ 0.1, 3, 1, 10, false },
		{ 0.1, 3, 1, 20, true },
		{ 0.4, 3, 1, 5, true },
		{ 0.4, 3, 2, 5, false },
		{ 0.5, 3, 0, 2, false },
		{ 0.5, 2, 0, 2, true },
		{ 0.29, 3, 28, 100, true },
		{ 0.29, 3, 29, 100, false },
		{ 1, 1, 0, 1, true },
		{ 1, 1, 9, 10, true },
		{ 1, 0, 0, 0, true },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS(rows); i++) {
		const struct outlier_config outlier = { .max_ejected = rows[i].max_ejected,
			.minimum_endpoints = rows[i].minimum };

		if (judge_may_eject(&outlier, rows[i].ejected, rows[i].count) != rows[i].expected)
			fail_msg("%zu of %zu ejected, cap %g", rows[i].ejected, rows[i].count,
					rows[i].max_ejected);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rise_and_fall_count_results_in_a_row),
		cmocka_unit_test(the_first_result_alone_ends_unknown),
		cmocka_unit_test(what_proves_nothing_changes_nothing),
		cmocka_unit_test(degraded_is_believed_like_down),
		cmocka_unit_test(results_that_alternate_for_ten_minutes_are_published_once_at_most),
		cmocka_unit_test(a_state_that_changes_too_often_stays_down),
		cmocka_unit_test(the_change_that_is_one_too_many_is_not_up),
		cmocka_unit_test(flapping_ends_with_results_that_agree_for_as_long_as_hold),
		cmocka_unit_test(what_flaps_and_then_is_dead_is_down_and_no_longer_flapping),
		cmocka_unit_test(changes_that_are_far_apart_are_no_flapping),
		cmocka_unit_test(single_failures_are_no_flapping),
		cmocka_unit_test(flapping_can_be_switched_off),
		cmocka_unit_test(failures_in_a_row_eject),
		cmocka_unit_test(an_ejection_ends_by_itself),
		cmocka_unit_test(ejections_in_a_row_take_longer_and_no_longer_than_the_maximum),
		cmocka_unit_test(an_interval_without_ejection_takes_one_off),
		cmocka_unit_test(the_share_of_failures_ejects_when_there_were_enough_calls),
		cmocka_unit_test(the_share_is_that_of_one_interval),
		cmocka_unit_test(without_room_an_ejection_waits_for_it),
		cmocka_unit_test(what_is_reported_during_an_ejection_is_no_news),
		cmocka_unit_test(checks_and_ejections_are_kept_apart),
		cmocka_unit_test(switching_outliers_off_ends_ejections),
		cmocka_unit_test(the_cap_leaves_room_for_at_least_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
