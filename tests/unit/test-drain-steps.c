/* The decisions of a rollout: order, budgets, evidence, guards. Tables of cases. */

#include "clock.h"
#include "drain-guard.h"
#include "evidence.h"
#include "ownership.h"
#include "steps.h"
#include "test.h"

#define SEC USEC_PER_SEC

/* ---- plans ---- */

static void plan(struct drain_record *record, enum rollout_kind kind, enum drain_order order,
		const struct drain_config *config)
{
	*record = (struct drain_record){ .kind = kind, .order = order };
	assert_ok(steps_plan(record, config));
}

static void say_plan(const struct drain_record *record, char *ret, size_t size)
{
	size_t used = 0;

	ret[0] = '\0';
	for (size_t i = 0; i < record->step_count; i++)
		used += (size_t) snprintf(ret + used, size - used, "%s%s", i ? " " : "",
				drain_step_to_string(record->steps[i].step));
}

static void assert_plan(const struct drain_record *record, const char *expected)
{
	char text[256];

	say_plan(record, text, sizeof(text));
	assert_string_equal(text, expected);
}

static void each_order_has_its_steps(void **state)
{
	const struct drain_config bare = {};
	const struct drain_config hooked = { .open = { .kind = HOOK_EXEC },
		.readiness = { .kind = HOOK_HTTP } };
	struct drain_record record;

	(void) state;
	plan(&record, ROLLOUT_DRAIN, DRAIN_SERVE_STALE, &bare);
	assert_plan(&record, "requested deregister propagation readiness in_flight close done");
	drain_record_done(&record);
	plan(&record, ROLLOUT_DRAIN, DRAIN_REFUSE_FIRST, &bare);
	assert_plan(&record, "requested readiness deregister propagation in_flight close done");
	drain_record_done(&record);
	plan(&record, ROLLOUT_RESTORE, DRAIN_SERVE_STALE, &bare);
	assert_plan(&record, "requested probe register observed ramp done");
	drain_record_done(&record);
	plan(&record, ROLLOUT_RESTORE, DRAIN_SERVE_STALE, &hooked);
	assert_plan(&record, "requested open readiness probe register observed ramp done");
	drain_record_done(&record);
}

/* Let it have come to that step. */
static void advance(struct drain_record *record, enum drain_step step)
{
	for (record->current = 0;; record->current++) {
		struct step_record *s = drain_record_current(record);

		s->attempts = 1;
		s->state = s->step == step ? STEP_ACTIVE : STEP_PROVEN;
		if (s->step == step)
			return;
	}
}

static void the_way_back_undoes_what_was_done(void **state)
{
	static const struct {
		enum drain_order order;
		enum drain_step at;
		const char *expected;
	} cases[] = {
		{ DRAIN_SERVE_STALE, STEP_REQUESTED, "requested register observed ramp done" },
		{ DRAIN_SERVE_STALE, STEP_PROPAGATION,
				"requested deregister propagation register observed ramp done" },
		{ DRAIN_SERVE_STALE, STEP_IN_FLIGHT,
				"requested deregister propagation readiness in_flight readiness "
				"register observed ramp done" },
		{ DRAIN_SERVE_STALE, STEP_CLOSE,
				"requested deregister propagation readiness in_flight close open "
				"readiness probe register observed ramp done" },
		{ DRAIN_REFUSE_FIRST, STEP_READINESS,
				"requested readiness readiness register observed ramp done" },
	};
	const struct drain_config config = { .open = { .kind = HOOK_EXEC },
		.readiness = { .kind = HOOK_EXEC } };

	(void) state;
	for (size_t i = 0; i < ELEMENTS(cases); i++) {
		struct drain_record record;

		plan(&record, ROLLOUT_DRAIN, cases[i].order, &config);
		assert_false(steps_going_back(&record));
		advance(&record, cases[i].at);
		assert_ok(steps_plan_back(&record, &config, 1));
		assert_plan(&record, cases[i].expected);
		assert_true(steps_going_back(&record));
		assert_int_equal(drain_record_current(&record)->state, STEP_PENDING);
		drain_record_done(&record);
	}
}

/* ---- what the directory holds ---- */

static void what_the_directory_holds_follows_from_the_record(void **state)
{
	static const struct {
		enum drain_step at;
		bool acting, wanted, withdrawn;
	} cases[] = {
		{ STEP_REQUESTED, false, false, false },
		{ STEP_REQUESTED, true, true, false },
		{ STEP_DEREGISTER, false, true, false },
		{ STEP_DEREGISTER, true, true, true },
		{ STEP_PROPAGATION, false, true, true },
		{ STEP_CLOSE, true, true, true },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS(cases); i++) {
		struct drain_record record;
		struct override override;

		plan(&record, ROLLOUT_DRAIN, DRAIN_SERVE_STALE, &(struct drain_config){});
		advance(&record, cases[i].at);
		assert_int_equal(steps_override(&record, cases[i].acting, 1, &override),
				cases[i].wanted);
		if (cases[i].wanted) {
			assert_int_equal(override.withdrawn, cases[i].withdrawn);
			assert_int_equal(override.admin_state, USHER_ADMIN_DRAINING);
		}
		drain_record_done(&record);
	}
}

static void a_finished_drain_keeps_it_out_and_a_finished_restore_does_not(void **state)
{
	struct drain_record record;
	struct override override;

	(void) state;
	plan(&record, ROLLOUT_DRAIN, DRAIN_SERVE_STALE, &(struct drain_config){});
	advance(&record, STEP_DONE);
	record.state = DRAIN_DONE;
	drain_record_current(&record)->state = STEP_PROVEN;
	assert_true(steps_override(&record, false, 1, &override));
	assert_true(override.withdrawn);
	drain_record_done(&record);

	plan(&record, ROLLOUT_RESTORE, DRAIN_SERVE_STALE, &(struct drain_config){});
	record.removal_revision = 7;
	advance(&record, STEP_OBSERVED);
	assert_true(steps_override(&record, true, 1, &override));
	assert_true(override.withdrawn);
	advance(&record, STEP_RAMP);
	assert_true(steps_override(&record, true, 0.25, &override));
	assert_false(override.withdrawn);
	assert_int_equal(override.admin_state, USHER_ADMIN_READY);
	assert_true(override.weight_share > 0.24 && override.weight_share < 0.26);
	advance(&record, STEP_DONE);
	record.state = DRAIN_DONE;
	assert_false(steps_override(&record, true, 1, &override));
	drain_record_done(&record);
}

/* ---- budgets ---- */

static const struct drain_config from_the_manual = { .registry_usec = 5 * SEC,
	.consumer_refresh_usec = 30 * SEC,
	.consumer_cache_usec = 35 * SEC,
	.margin_usec = 2 * SEC,
	.in_flight_timeout_usec = 30 * SEC,
	.quiet_usec = SEC,
	.from_tcp = true };

static void budgets_that_fit_are_as_configured(void **state)
{
	struct step_budgets budgets;
	struct usher_error err = {};

	(void) state;
	assert_ok(steps_budget_drain(
			&from_the_manual, DRAIN_SERVE_STALE, 120 * SEC, &budgets, &err));
	assert_false(budgets.scaled);
	assert_int_equal(budgets.window_usec, 72 * SEC);
	assert_int_equal(budgets.sum_usec, 107 * SEC);
	assert_int_equal(budgets.reserve[STEP_IN_FLIGHT], 30 * SEC);
}

static void budgets_that_do_not_fit_share_what_is_left(void **state)
{
	struct step_budgets budgets;
	struct usher_error err = {};
	uint64_t sum;

	(void) state;
	assert_ok(steps_budget_drain(
			&from_the_manual, DRAIN_REFUSE_FIRST, 90 * SEC, &budgets, &err));
	assert_true(budgets.scaled);
	sum = budgets.reserve[STEP_READINESS] + budgets.reserve[STEP_DEREGISTER] +
			budgets.reserve[STEP_PROPAGATION] + budgets.reserve[STEP_IN_FLIGHT] +
			budgets.reserve[STEP_CLOSE];
	assert_true(sum <= 90 * SEC && sum > 89 * SEC);
	assert_true(budgets.reserve[STEP_IN_FLIGHT] >= SEC);
}

static void a_deadline_below_the_windows_is_refused(void **state)
{
	struct step_budgets budgets;
	struct usher_error err = {};

	(void) state;
	assert_errno(steps_budget_drain(
				     &from_the_manual, DRAIN_SERVE_STALE, 10 * SEC, &budgets, &err),
			ERANGE);
	assert_non_null(strstr(err.text, "1m13s"));
	assert_non_null(strstr(err.text, "10s"));
}

static void a_step_leaves_the_later_ones_their_part(void **state)
{
	struct step_budgets budgets;
	struct drain_record record;

	(void) state;
	assert_ok(steps_budget_drain(
			&from_the_manual, DRAIN_SERVE_STALE, 120 * SEC, &budgets, NULL));
	plan(&record, ROLLOUT_DRAIN, DRAIN_SERVE_STALE, &from_the_manual);
	advance(&record, STEP_DEREGISTER);
	assert_int_equal(steps_budget_end(&record, &budgets, 1000 * SEC, 1120 * SEC),
			1000 * SEC + STEP_REGISTRY_USEC);
	advance(&record, STEP_PROPAGATION);
	assert_int_equal(steps_budget_end(&record, &budgets, 1002 * SEC, 1120 * SEC), 1090 * SEC);
	advance(&record, STEP_IN_FLIGHT);
	assert_int_equal(steps_budget_end(&record, &budgets, 1080 * SEC, 1120 * SEC), 1110 * SEC);
	assert_int_equal(steps_budget_end(&record, &budgets, 1115 * SEC, 1120 * SEC), 1120 * SEC);
	drain_record_done(&record);
}

static void a_ramp_that_the_deadline_does_not_hold_is_refused(void **state)
{
	const struct restore_config restore = { .ramp_usec = 60 * SEC };
	struct step_budgets budgets;
	struct usher_error err = {};

	(void) state;
	assert_errno(steps_budget_restore(&restore, &from_the_manual, 30 * SEC, &budgets, &err),
			ERANGE);
	assert_non_null(strstr(err.text, "ramp"));
}

static void a_ramp_grows_in_equal_steps_to_one(void **state)
{
	uint64_t next = 0, at = 0;
	double last = 0;
	unsigned steps = 0;

	(void) state;
	while (at < 10 * SEC) {
		double share = steps_ramp_share(at, 10 * SEC, &next);

		assert_true(share > last && share < 1);
		assert_true(next > at);
		last = share;
		at = next;
		steps++;
	}
	assert_int_equal(steps, STEP_RAMP_STEPS);
	assert_true(steps_ramp_share(10 * SEC, 10 * SEC, &next) >= 1);
	assert_true(steps_ramp_share(0, 0, &next) >= 1);
}

/* ---- evidence ---- */

static void a_removal_is_proven_by_a_newer_answer_only(void **state)
{
	static const struct {
		struct echo echo;
		bool told;
		enum proof_kind expected;
	} cases[] = {
		{ { "files", true, false, false, NULL, 100 }, true, PROOF_PROVEN },
		{ { "files", true, true, false, NULL, 100 }, true, PROOF_PROVEN },
		{ { "files", true, true, true, NULL, 100 }, true, PROOF_MISSING },
		{ { "files", true, false, false, NULL, 49 }, true, PROOF_MISSING },
		{ { "files", false, false, false, NULL, 100 }, true, PROOF_MISSING },
		{ { "files", true, true, true, NULL, 100 }, false, PROOF_ASSUMED },
		{ { "files", true, false, false, NULL, 100 }, false, PROOF_PROVEN },
		{ { NULL, false, false, false, NULL, 0 }, true, PROOF_MISSING },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS(cases); i++) {
		struct proof proof;

		evidence_removed(&cases[i].echo, cases[i].told, 50, 60, SEC, &proof);
		assert_int_equal(proof.kind, cases[i].expected);
	}
}

static void an_echo_later_than_declared_is_said(void **state)
{
	const struct echo echo = { "files", true, true, true, NULL, 100 };
	struct proof proof;

	(void) state;
	evidence_removed(&echo, true, 0, 7 * SEC, 5 * SEC, &proof);
	assert_int_equal(proof.kind, PROOF_MISSING);
	assert_non_null(strstr(proof.text, "after 7s, longer than the 5s"));
}

static void an_echo_is_not_called_late_where_nothing_is_declared(void **state)
{
	const struct echo echo = { "files", true, true, true, NULL, 100 };
	struct proof proof;

	(void) state;
	evidence_removed(&echo, true, 0, 20 * USEC_PER_MSEC, 0, &proof);
	assert_int_equal(proof.kind, PROOF_MISSING);
	assert_string_equal(proof.text, "waiting for source files to show the removal");
}

static void consumers_prove_together(void **state)
{
	static const struct {
		struct consumer_evidence consumers;
		enum proof_kind expected;
		const char *text;
	} cases[] = {
		{ { 0, 0, NULL, 0 }, PROOF_PROVEN, "no consumer" },
		{ { 3, 3, NULL, 0 }, PROOF_PROVEN, "3 of 3 consumers have read revision 118" },
		{ { 3, 2, "web-1", 117 }, PROOF_MISSING, "web-1 is at 117" },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS(cases); i++) {
		struct proof proof;

		evidence_consumers(&cases[i].consumers, 118, &proof);
		assert_int_equal(proof.kind, cases[i].expected);
		assert_non_null(strstr(proof.text, cases[i].text));
	}
}

static void declared_time_is_assumed_when_it_has_passed(void **state)
{
	struct proof proof;
	uint64_t until;

	(void) state;
	evidence_external(&from_the_manual, 100 * SEC, 120 * SEC, &proof, &until);
	assert_int_equal(proof.kind, PROOF_MISSING);
	assert_int_equal(until, 167 * SEC);
	evidence_external(&from_the_manual, 100 * SEC, 167 * SEC, &proof, &until);
	assert_int_equal(proof.kind, PROOF_ASSUMED);
	evidence_external(&(struct drain_config){}, 100 * SEC, 100 * SEC, &proof, &until);
	assert_int_equal(proof.kind, PROOF_PROVEN);
}

static void quiet_is_a_span_without_a_break(void **state)
{
	struct quiet quiet = {};

	(void) state;
	assert_false(quiet_long_enough(&quiet, 0, 10));
	quiet_take(&quiet, 0, 10);
	quiet_take(&quiet, 0, 15);
	assert_false(quiet_long_enough(&quiet, 10, 15));
	quiet_take(&quiet, 1, 18);
	assert_false(quiet_long_enough(&quiet, 10, 30));
	quiet_take(&quiet, 0, 30);
	assert_true(quiet_long_enough(&quiet, 10, 40));
}

/* ---- guards ---- */

/* The one that is not chosen, and the one that is down, may be none of them. */
static struct snapshot *make_snapshot(
		const char *const *ids, size_t count, size_t not_chosen, size_t down)
{
	struct usher_endpoints *set = usher_endpoints_new();
	struct snapshot_entry entries[8] = {};
	struct snapshot *snapshot;

	for (size_t i = 0; i < count; i++) {
		struct usher_endpoint e = USHER_ENDPOINT_INIT;

		e.id = ids[i];
		e.address = "10.0.0.1";
		e.port = (uint16_t) (8080 + i);
		assert_ok(usher_endpoints_add(set, &e, NULL));
		entries[i] = (struct snapshot_entry){ .weight = 1,
			.effective = 1000,
			.stage = SNAPSHOT_NO_STAGE,
			.health = i == down ? USHER_HEALTH_DOWN : USHER_HEALTH_UNKNOWN,
			.listed = true,
			.chosen = i != not_chosen };
	}
	usher_endpoints_seal(set);
	snapshot = snapshot_new(set, entries);
	(void) usher_endpoints_unref(set);
	return snapshot;
}

static void enough_must_be_left(void **state)
{
	static const char *const ids[] = { "a", "b", "c" };
	static const struct {
		const char *id;
		size_t not_chosen, down, leaving;
		unsigned min_ready;
		int expected;
	} cases[] = {
		{ "a", 9, 9, 0, 1, 0 },
		{ "a", 9, 9, 0, 2, 0 },
		{ "a", 9, 9, 0, 3, -EPERM },
		{ "a", 1, 9, 0, 2, -EPERM },
		{ "a", 9, 9, 1, 2, -EPERM },
		{ "a", 9, 9, 1, 1, 0 },
		{ "b", 1, 9, 0, 3, 0 }, /* it is not picked anyway */
		{ "a", 9, 9, 0, 0, 0 },
		{ "a", 9, 1, 0, 2, -EPERM }, /* in panic: what is down is picked and no help */
		{ "a", 9, 1, 0, 1, 0 },
		{ "b", 9, 1, 0, 3, 0 },
	};
	static const char *const leaving[] = { "c" };

	(void) state;
	for (size_t i = 0; i < ELEMENTS(cases); i++) {
		struct snapshot *snapshot =
				make_snapshot(ids, 3, cases[i].not_chosen, cases[i].down);
		struct usher_error err = {};

		assert_int_equal(guard_min_ready(snapshot, cases[i].id, leaving, cases[i].leaving,
						 cases[i].min_ready, &err),
				cases[i].expected);
		(void) snapshot_unref(snapshot);
	}
}

static void only_a_live_directory_is_decided_upon(void **state)
{
	struct usher_error err = {};

	(void) state;
	assert_ok(guard_live("catalog", &(struct freshness){ SOURCE_LIVE, SEC, 30 * SEC, "files" },
			&err));
	assert_errno(guard_live("catalog",
				     &(struct freshness){
						     SOURCE_FAILED, 41 * SEC, 30 * SEC, "files" },
				     &err),
			EPERM);
	assert_non_null(strstr(err.text, "source files is failed, its answer 41s old"));
	assert_errno(guard_live("catalog",
				     &(struct freshness){ SOURCE_UNKNOWN, USEC_FOREVER, 0, NULL },
				     &err),
			EPERM);
	assert_non_null(strstr(err.text, "no source of catalog has answered yet"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_order_has_its_steps),
		cmocka_unit_test(the_way_back_undoes_what_was_done),
		cmocka_unit_test(what_the_directory_holds_follows_from_the_record),
		cmocka_unit_test(a_finished_drain_keeps_it_out_and_a_finished_restore_does_not),
		cmocka_unit_test(budgets_that_fit_are_as_configured),
		cmocka_unit_test(budgets_that_do_not_fit_share_what_is_left),
		cmocka_unit_test(a_deadline_below_the_windows_is_refused),
		cmocka_unit_test(a_step_leaves_the_later_ones_their_part),
		cmocka_unit_test(a_ramp_that_the_deadline_does_not_hold_is_refused),
		cmocka_unit_test(a_ramp_grows_in_equal_steps_to_one),
		cmocka_unit_test(a_removal_is_proven_by_a_newer_answer_only),
		cmocka_unit_test(an_echo_later_than_declared_is_said),
		cmocka_unit_test(an_echo_is_not_called_late_where_nothing_is_declared),
		cmocka_unit_test(consumers_prove_together),
		cmocka_unit_test(declared_time_is_assumed_when_it_has_passed),
		cmocka_unit_test(quiet_is_a_span_without_a_break),
		cmocka_unit_test(enough_must_be_left),
		cmocka_unit_test(only_a_live_directory_is_decided_upon),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
