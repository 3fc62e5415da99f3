/* What is to be done about a registration in a registry, from how things are. */

#include "ownership.h"
#include "placement.h"
#include "test.h"

/* Registered, well, and nothing to do. */
#define FINE                                                                           \
	.is_wanted = true, .is_known = true, .has_passed = true, .is_well = true,      \
	.may_be_there = true, .is_there = true, .is_current = true, .can_renew = true, \
	.can_remove = true

#define SECOND UINT64_C(1000000)

static void assert_decides(const struct placement_facts *facts, enum placement_act act,
		enum registration_state state)
{
	struct placement_decision decision;

	placement_decide(facts, &decision);
	assert_int_equal(decision.act, act);
	assert_string_equal(registration_state_to_string(decision.state),
			registration_state_to_string(state));
}

#define DECIDES(act, state, ...) \
	assert_decides(&(const struct placement_facts){ FINE, __VA_ARGS__ }, act, state)

#pragma GCC diagnostic ignored "-Woverride-init"
#ifdef __clang__
#pragma clang diagnostic ignored "-Winitializer-overrides"
#endif

static void what_is_as_it_should_be_is_left_alone(void **state)
{
	(void) state;
	DECIDES(PLACEMENT_NOTHING, REGISTRATION_REGISTERED, );
}

static void what_is_missing_or_another_is_added(void **state)
{
	(void) state;
	DECIDES(PLACEMENT_ADD, REGISTRATION_REGISTERED, .is_there = false);
	DECIDES(PLACEMENT_ADD, REGISTRATION_REGISTERED, .is_current = false);
}

static void what_is_due_is_renewed_or_added_again_where_nothing_can_be_renewed(void **state)
{
	(void) state;
	DECIDES(PLACEMENT_RENEW, REGISTRATION_REGISTERED, .is_due = true);
	DECIDES(PLACEMENT_ADD, REGISTRATION_REGISTERED, .is_due = true, .can_renew = false);
}

static void before_the_first_good_check_nothing_is_added_but_what_is_there_is_kept(void **state)
{
	(void) state;
	DECIDES(PLACEMENT_NOTHING, REGISTRATION_WAITING, .has_passed = false, .is_well = false,
			.is_there = false, .may_be_there = false, .is_due = true);
	DECIDES(PLACEMENT_RENEW, REGISTRATION_WAITING, .has_passed = false, .is_well = false,
			.is_current = false, .is_due = true);
	DECIDES(PLACEMENT_NOTHING, REGISTRATION_WAITING, .has_passed = false, .is_well = false,
			.is_current = false);
}

static void before_the_first_good_check_a_bad_one_is_told_where_asked_of_what_is_there(void **state)
{
	(void) state;
	DECIDES(PLACEMENT_REMOVE, REGISTRATION_WAITING, .has_passed = false, .is_well = false,
			.is_down = true, .on_unhealthy = UNHEALTHY_DEREGISTER);
	DECIDES(PLACEMENT_ADD, REGISTRATION_WAITING, .has_passed = false, .is_well = false,
			.is_down = true, .is_current = false, .on_unhealthy = UNHEALTHY_UNREADY);
	DECIDES(PLACEMENT_NOTHING, REGISTRATION_WAITING, .has_passed = false, .is_well = false,
			.is_down = true, .is_there = false, .may_be_there = false,
			.is_current = false, .on_unhealthy = UNHEALTHY_UNREADY);
}

static void what_a_registry_does_not_find_to_renew_may_be_there_all_the_same(void **state)
{
	(void) state;
	DECIDES(PLACEMENT_RENEW, REGISTRATION_WAITING, .has_passed = false, .is_well = false,
			.is_there = false, .is_current = false, .is_due = true);
	DECIDES(PLACEMENT_REMOVE, REGISTRATION_WAITING, .has_passed = false, .is_well = false,
			.is_down = true, .is_there = false, .on_unhealthy = UNHEALTHY_DEREGISTER);
	DECIDES(PLACEMENT_ADD, REGISTRATION_WAITING, .has_passed = false, .is_well = false,
			.is_down = true, .is_there = false, .is_current = false,
			.on_unhealthy = UNHEALTHY_UNREADY);
}

static void what_was_told_of_another_address_is_not_kept_alive(void **state)
{
	(void) state;
	DECIDES(PLACEMENT_NOTHING, REGISTRATION_WAITING, .has_passed = false, .is_well = false,
			.is_current = false, .is_another = true, .is_due = true);
}

static void a_drain_lets_it_be_renewed_and_nothing_else(void **state)
{
	(void) state;
	DECIDES(PLACEMENT_RENEW, REGISTRATION_HELD, .is_held = true, .is_due = true,
			.is_current = false);
	DECIDES(PLACEMENT_NOTHING, REGISTRATION_HELD, .is_held = true, .is_there = false,
			.is_due = true);
	DECIDES(PLACEMENT_NOTHING, REGISTRATION_HELD, .is_held = true, .is_due = true,
			.can_renew = false);
}

static void falling_health_is_told_only_where_asked(void **state)
{
	(void) state;
	DECIDES(PLACEMENT_NOTHING, REGISTRATION_REGISTERED, .is_well = false);
	DECIDES(PLACEMENT_REMOVE, REGISTRATION_UNHEALTHY, .is_well = false,
			.on_unhealthy = UNHEALTHY_DEREGISTER);
	DECIDES(PLACEMENT_NOTHING, REGISTRATION_UNHEALTHY, .is_well = false, .is_there = false,
			.on_unhealthy = UNHEALTHY_DEREGISTER);
	DECIDES(PLACEMENT_ADD, REGISTRATION_REGISTERED, .is_there = false,
			.on_unhealthy = UNHEALTHY_DEREGISTER);
	/* not ready is another content */
	DECIDES(PLACEMENT_ADD, REGISTRATION_REGISTERED, .is_well = false, .is_current = false,
			.on_unhealthy = UNHEALTHY_UNREADY);
}

static void what_nobody_wants_goes_whatever_else_holds(void **state)
{
	(void) state;
	DECIDES(PLACEMENT_REMOVE, REGISTRATION_REMOVED, .is_wanted = false);
	DECIDES(PLACEMENT_REMOVE, REGISTRATION_REMOVED, .is_wanted = false, .is_held = true,
			.is_known = false, .has_passed = false, .is_there = false);
	DECIDES(PLACEMENT_NOTHING, REGISTRATION_REMOVED, .is_wanted = false, .is_there = false,
			.may_be_there = false);
	DECIDES(PLACEMENT_NOTHING, REGISTRATION_REMOVED, .is_wanted = false, .can_remove = false);
}

static void without_an_address_nothing_is_said(void **state)
{
	(void) state;
	DECIDES(PLACEMENT_NOTHING, REGISTRATION_PENDING, .is_known = false, .is_due = true,
			.is_current = false);
}

static void renewals_are_spread_before_their_time_never_after(void **state)
{
	const uint64_t lease_usec = 15000000;

	(void) state;
	assert_int_equal(placement_renew_delay(lease_usec, 0), lease_usec);
	assert_in_range(placement_renew_delay(lease_usec, UINT64_MAX), lease_usec * 3 / 4,
			lease_usec * 3 / 4 + 10);
	assert_int_equal(placement_renew_delay(0, 0), PLACEMENT_LOOK_USEC);
	assert_int_equal(placement_renew_delay(1, 0), PLACEMENT_RENEW_MIN_USEC);
	assert_int_equal(placement_renew_delay(UINT64_C(86400000000), 0), UINT64_C(86400000000));
}

/* When it is due, having waited since the 100th second. */
static uint64_t due(const struct placement_facts *f, enum placement_act act, uint64_t renewed_usec,
		uint64_t failed_usec)
{
	const struct placement_times times = { .waiting_usec = 100 * SECOND,
		.renewed_usec = renewed_usec,
		.renew_after_usec = 5 * SECOND,
		.failed_usec = failed_usec };

	assert_false(placement_is_addition(f, act, &times));
	return placement_due(f, act, &times);
}

static void news_and_what_goes_are_due_at_once_and_renewals_before_their_leases_are_out(
		void **state)
{
	const struct placement_facts fine = { FINE }, another = { FINE, .is_current = false };

	(void) state;
	assert_int_equal(due(&another, PLACEMENT_ADD, 95 * SECOND, 0), 100 * SECOND);
	assert_int_equal(due(&fine, PLACEMENT_REMOVE, 95 * SECOND, 0), 100 * SECOND);
	/* Of an earlier run: nobody knows since when its lease runs. */
	assert_int_equal(due(&another, PLACEMENT_ADD, 0, 0), 100 * SECOND);
	assert_int_equal(due(&fine, PLACEMENT_RENEW, 95 * SECOND, 0), 105 * SECOND);
	assert_int_equal(due(&fine, PLACEMENT_ADD, 95 * SECOND, 0), 105 * SECOND);
	assert_int_equal(due(&fine, PLACEMENT_RENEW, 95 * SECOND, 101 * SECOND), 131 * SECOND);
}

static void a_first_addition_comes_before_what_is_not_due_or_once_it_has_waited_for_long(
		void **state)
{
	const struct placement_facts new = { FINE, .is_there = false };
	const struct placement_times just_come = { .waiting_usec = 100 * SECOND };
	const struct placement_times failed = { .failed_usec = 100 * SECOND };

	(void) state;
	assert_true(placement_is_addition(&new, PLACEMENT_ADD, &just_come));
	assert_false(placement_is_addition(&new, PLACEMENT_ADD, &failed));
	assert_true(placement_addition_is_first(100 * SECOND, 102 * SECOND, 101 * SECOND));
	assert_false(placement_addition_is_first(100 * SECOND, 101 * SECOND, 101 * SECOND));
	assert_false(placement_addition_is_first(100 * SECOND, 120 * SECOND, 125 * SECOND));
	assert_true(placement_addition_is_first(100 * SECOND, 131 * SECOND, 140 * SECOND));
}

static void a_lease_is_three_times_what_is_asked_for_and_nothing_is_none(void **state)
{
	const struct placement_times never = { .renew_after_usec = 5 * SECOND };
	const struct placement_times renewed = { .renewed_usec = 100 * SECOND,
		.renew_after_usec = 5 * SECOND };
	const struct placement_times endless = { .renewed_usec = 100 * SECOND };

	(void) state;
	assert_int_equal(placement_lease(5 * SECOND), 15 * SECOND);
	assert_int_equal(placement_lease(1), PLACEMENT_LEASE_MIN_USEC);
	assert_int_equal(placement_lease(0), 0);
	assert_int_equal(placement_lease_end(&renewed), 115 * SECOND);
	assert_int_equal(placement_lease_end(&never), UINT64_MAX);
	assert_int_equal(placement_lease_end(&endless), UINT64_MAX);
}

static void attempts_come_anywhere_up_to_a_back_off_that_doubles_to_its_maximum(void **state)
{
	(void) state;
	assert_int_equal(placement_backoff(1, 0), PLACEMENT_RETRY_MIN_USEC);
	for (unsigned failures = 1; failures < 100; failures++) {
		uint64_t most = PLACEMENT_BACKOFF_MIN_USEC;

		for (unsigned i = 1; i < failures && most < PLACEMENT_BACKOFF_MAX_USEC; i++)
			most *= 2;
		if (most > PLACEMENT_BACKOFF_MAX_USEC)
			most = PLACEMENT_BACKOFF_MAX_USEC;
		assert_in_range(placement_backoff(failures, UINT64_MAX), most - 10, most);
		assert_int_equal(placement_backoff(failures, 0), PLACEMENT_RETRY_MIN_USEC);
	}
	assert_in_range(placement_backoff(UINT32_MAX, UINT64_MAX), PLACEMENT_BACKOFF_MAX_USEC - 10,
			PLACEMENT_BACKOFF_MAX_USEC);
}

static void a_failure_of_the_registry_is_everybodys_one_of_the_content_is_not(void **state)
{
	(void) state;
	assert_true(placement_failure_is_shared(-ECONNREFUSED));
	assert_true(placement_failure_is_shared(-ETIMEDOUT));
	assert_true(placement_failure_is_shared(-EIO));
	assert_false(placement_failure_is_shared(-EINVAL));
	assert_false(placement_failure_is_shared(-EACCES));
	assert_false(placement_failure_is_shared(-EROFS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_as_it_should_be_is_left_alone),
		cmocka_unit_test(what_is_missing_or_another_is_added),
		cmocka_unit_test(
				what_is_due_is_renewed_or_added_again_where_nothing_can_be_renewed),
		cmocka_unit_test(
				before_the_first_good_check_nothing_is_added_but_what_is_there_is_kept),
		cmocka_unit_test(what_a_registry_does_not_find_to_renew_may_be_there_all_the_same),
		cmocka_unit_test(
				before_the_first_good_check_a_bad_one_is_told_where_asked_of_what_is_there),
		cmocka_unit_test(what_was_told_of_another_address_is_not_kept_alive),
		cmocka_unit_test(a_drain_lets_it_be_renewed_and_nothing_else),
		cmocka_unit_test(falling_health_is_told_only_where_asked),
		cmocka_unit_test(what_nobody_wants_goes_whatever_else_holds),
		cmocka_unit_test(without_an_address_nothing_is_said),
		cmocka_unit_test(renewals_are_spread_before_their_time_never_after),
		cmocka_unit_test(
				news_and_what_goes_are_due_at_once_and_renewals_before_their_leases_are_out),
		cmocka_unit_test(
				a_first_addition_comes_before_what_is_not_due_or_once_it_has_waited_for_long),
		cmocka_unit_test(a_lease_is_three_times_what_is_asked_for_and_nothing_is_none),
		cmocka_unit_test(
				attempts_come_anywhere_up_to_a_back_off_that_doubles_to_its_maximum),
		cmocka_unit_test(a_failure_of_the_registry_is_everybodys_one_of_the_content_is_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
