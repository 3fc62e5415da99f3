/* The health of a service's endpoints: who is asked, what stays when the endpoints change, and what
 * is told. The prober is played. */

#include <math.h>

#include "check-bench.h"
#include "clock.h"
#include "endpoint-sets.h"
#include "fake-prober.h"
#include "health-private.h"
#include "loop.h"

#define SECOND USEC_PER_SEC

struct bench {
	sd_event *event;
	struct health_office *office;
	struct health_config config;
	struct check *check;
	struct health *health;
	unsigned changes;
	bool free_when_told;
	uint64_t takes_usec; /* to be told */
};

static void bench_on_changed(void *userdata, struct health *health)
{
	struct bench *b = userdata;

	assert_ptr_equal(health, b->health);
	b->changes++;
	for (uint64_t end_usec = clock_boot_usec() + b->takes_usec; clock_boot_usec() < end_usec;)
		;
	if (b->free_when_told)
		b->health = health_free(b->health);
}

static const struct health_events bench_events = { .changed = bench_on_changed };

static struct health_config config_of_http(const char *path)
{
	return (struct health_config){ .check = { .kind = CHECK_HTTP, .path = T(path) },
		.interval_usec = 5 * SECOND,
		.interval_down_usec = SECOND,
		.timeout_usec = SECOND,
		.jitter = 0.1,
		.rise = 2,
		.fall = 3,
		.flap_changes = 5,
		.flap_window_usec = 60 * SECOND,
		.flap_hold_usec = 30 * SECOND,
		.outlier = { .consecutive = 5,
				.failure_share = 1,
				.minimum_calls = 20,
				.interval_usec = 10 * SECOND,
				.minimum_endpoints = 3,
				.max_ejected = 0.1,
				.ejection_usec = 30 * SECOND,
				.max_ejection_usec = 300 * SECOND } };
}

static void bench_init(struct bench *b, const struct health_config *config)
{
	static const struct prober_config prober = { .threads = 1 };

	*b = (struct bench){ .config = *config };
	assert_ok(sd_event_new(&b->event));
	assert_ok(health_office_new(b->event, NULL, &prober, &b->office));
	if (config->check.kind != CHECK_NONE)
		b->check = check_of(&config->check);
	b->health = health_new(b->office, "catalog", config, b->check, &bench_events, b);
	assert_non_null(b->health);
}

static void bench_done(struct bench *b)
{
	(void) health_free(b->health);
	(void) check_unref(b->check);
	(void) health_office_free(b->office);
	(void) sd_event_unref(b->event);
}

static void follow(struct bench *b, const char *text)
{
	struct usher_endpoints *set = set_of(text);

	assert_ok(health_follow(b->health, set));
	usher_endpoints_unref(set);
}

/* "a:up b:down" of what is followed. */
static const char *states_of(const struct bench *b)
{
	const struct usher_endpoints *set = health_set(b->health);
	static char text[1024];
	size_t length = 0;

	text[0] = '\0';
	for (size_t i = 0; i < usher_endpoints_count(set); i++)
		length += (size_t) snprintf(text + length, sizeof(text) - length, "%s%s:%s",
				i ? " " : "", usher_endpoints_id(set, i),
				usher_health_to_string(
						(enum usher_health) health_states(b->health)[i]));
	return text;
}

static struct health_detail detail_of(const struct bench *b, const char *id)
{
	struct health_detail detail;
	ssize_t i = usher_endpoints_find(health_set(b->health), id);

	assert_true(i >= 0);
	health_detail(b->health, (size_t) i, &detail);
	return detail;
}

/* Until what has changed has been told. */
static void settle(struct bench *b)
{
	loop_drain(b->event);
	while (b->health && b->health->is_dirty)
		assert_ok(sd_event_run(b->event, UINT64_MAX));
}

/* ---- who is asked ---- */

static void every_endpoint_is_asked_as_long_as_it_is_there(void **state)
{
	const struct health_config config = config_of_http("/health");
	struct bench b;

	(void) state;
	bench_init(&b, &config);
	follow(&b, "a b- c!");
	assert_int_equal(fake_prober->count, 3);
	assert_string_equal(fake_probe_of("a")->target->path, "/health");
	assert_int_equal(fake_probe_of("a")->timing.timeout_usec, SECOND);
	assert_string_equal(states_of(&b), "a:unknown b:unknown c:unknown");
	follow(&b, "b");
	assert_int_equal(fake_prober->count, 1);
	assert_null(fake_probe_of("a"));
	follow(&b, "");
	assert_int_equal(fake_prober->count, 0);
	bench_done(&b);
}

static void what_stays_the_same_keeps_state_and_probe(void **state)
{
	const struct health_config config = config_of_http("/health");
	struct bench b;

	(void) state;
	bench_init(&b, &config);
	follow(&b, "a#1 b c/east");
	fake_results("a b c", PROBE_REFUSED);
	assert_string_equal(states_of(&b), "a:down b:down c:down");
	follow(&b, "a#1 b! c/west 0");
	assert_string_equal(states_of(&b), "0:unknown a:down b:down c:down");
	assert_int_equal(fake_prober->added, 4);
	fake_results("a", PROBE_OK);
	fake_results("a", PROBE_OK);
	assert_string_equal(states_of(&b), "0:unknown a:up b:down c:down");
	bench_done(&b);
}

static void another_instance_at_the_same_id_starts_anew(void **state)
{
	const struct health_config config = config_of_http("/health");
	struct bench b;

	(void) state;
	bench_init(&b, &config);
	follow(&b, "a#1 b@10.0.0.1:80 c@10.0.0.2:8082");
	fake_results("a b c", PROBE_REFUSED);
	/* another uid, another address, another port */
	follow(&b, "a#2 b@10.0.0.9:80 c@10.0.0.2:8083");
	assert_string_equal(states_of(&b), "a:unknown b:unknown c:unknown");
	assert_int_equal(fake_prober->count, 3);
	assert_int_equal(fake_probe_of("c")->target->port, 8083);
	bench_done(&b);
}

static void a_label_that_the_check_reads_makes_another_of_it(void **state)
{
	struct health_config config = config_of_http("/health");
	struct usher_label label = { "health_port", "8081" };
	struct usher_endpoints *set;
	struct bench b;

	(void) state;
	config.check.port_label = T("health_port");
	bench_init(&b, &config);
	set = one_endpoint("10.0.0.1", 80, false, &label, 1);
	assert_ok(health_follow(b.health, set));
	usher_endpoints_unref(set);
	assert_int_equal(fake_probe_of("id")->target->port, 8081);
	fake_results("id", PROBE_REFUSED);

	label.value = "8082";
	set = one_endpoint("10.0.0.1", 80, false, &label, 1);
	assert_ok(health_follow(b.health, set));
	usher_endpoints_unref(set);
	assert_int_equal(fake_probe_of("id")->target->port, 8082);
	assert_string_equal(states_of(&b), "id:unknown");

	label.value = "no port";
	set = one_endpoint("10.0.0.1", 80, false, &label, 1);
	assert_ok(health_follow(b.health, set));
	usher_endpoints_unref(set);
	assert_null(fake_probe_of("id"));
	assert_string_equal(states_of(&b), "id:down");
	assert_int_equal(detail_of(&b, "id").verdict->reason, PROBE_TARGET);
	assert_non_null(strstr(detail_of(&b, "id").verdict->text, "health_port"));
	bench_done(&b);
}

static void what_is_not_up_is_asked_at_its_own_pace(void **state)
{
	const struct health_config config = config_of_http("/");
	struct bench b;

	(void) state;
	bench_init(&b, &config);
	follow(&b, "a");
	assert_int_equal(fake_probe_of("a")->timing.interval_usec, SECOND);
	fake_results("a", PROBE_OK);
	assert_int_equal(fake_probe_of("a")->timing.interval_usec, 5 * SECOND);
	fake_results("a", PROBE_STATUS);
	assert_int_equal(fake_probe_of("a")->timing.interval_usec, 5 * SECOND);
	fake_results("a", PROBE_STATUS);
	fake_results("a", PROBE_STATUS);
	assert_int_equal(fake_probe_of("a")->timing.interval_usec, SECOND);
	bench_done(&b);
}

static void what_cannot_be_asked_yet_is_tried_again(void **state)
{
	const struct health_config config = config_of_http("/");
	struct bench b;

	(void) state;
	bench_init(&b, &config);
	fake_prober->add_error = -EAGAIN;
	follow(&b, "a");
	assert_string_equal(states_of(&b), "a:unknown");
	assert_int_equal(detail_of(&b, "a").verdict->reason, PROBE_LOCAL);
	fake_prober->add_error = 0;
	while (fake_prober->count == 0)
		assert_ok(sd_event_run(b.event, UINT64_MAX));
	fake_results("a", PROBE_OK);
	assert_string_equal(states_of(&b), "a:up");
	bench_done(&b);
}

/* ---- what is told ---- */

static void changes_of_one_turn_are_told_once(void **state)
{
	const struct health_config config = config_of_http("/");
	struct bench b;

	(void) state;
	bench_init(&b, &config);
	follow(&b, "a b c");
	fake_results("a b", PROBE_OK);
	fake_results("c", PROBE_STATUS);
	settle(&b);
	assert_int_equal(b.changes, 1);
	fake_results("a b c", PROBE_OK);
	settle(&b);
	assert_int_equal(b.changes, 1);
	fake_results("c", PROBE_OK);
	settle(&b);
	assert_int_equal(b.changes, 2);
	bench_done(&b);
}

static void what_takes_long_to_tell_is_not_told_all_the_time(void **state)
{
	const struct health_config config = config_of_http("/");
	struct bench b;
	uint64_t began_usec = clock_boot_usec(), until_usec;

	(void) state;
	bench_init(&b, &config);
	b.takes_usec = 20000;
	follow(&b, "a b c");
	fake_results("a", PROBE_OK);
	settle(&b);
	assert_int_equal(b.changes, 1);
	until_usec = b.health->quiet_until_usec;
	assert_true(until_usec >= began_usec + (1 + HEALTH_QUIET_FACTOR) * b.takes_usec);
	/* Longer than a busy machine keeps a test waiting. */
	until_usec = b.health->quiet_until_usec = clock_boot_usec() + 2 * SECOND;
	fake_results("b", PROBE_OK);
	loop_drain(b.event);
	fake_results("c", PROBE_OK);
	settle(&b);
	assert_int_equal(b.changes, 2);
	assert_true(clock_boot_usec() >= until_usec);
	/* one that goes while it waits, is told no more */
	fake_results("a b c", PROBE_STATUS);
	fake_results("a b c", PROBE_STATUS);
	fake_results("a b c", PROBE_STATUS);
	assert_true(b.health->is_quiet);
	bench_done(&b);
}

static void whoever_is_told_may_let_go(void **state)
{
	const struct health_config config = config_of_http("/");
	struct bench b;

	(void) state;
	bench_init(&b, &config);
	b.free_when_told = true;
	follow(&b, "a");
	fake_results("a", PROBE_OK);
	settle(&b);
	assert_null(b.health);
	assert_int_equal(fake_prober->count, 0);
	bench_done(&b);
}

static void details_have_the_last_result_and_the_last_failure(void **state)
{
	const struct health_config config = config_of_http("/");
	struct health_detail detail;
	struct bench b;

	(void) state;
	bench_init(&b, &config);
	follow(&b, "a");
	detail = detail_of(&b, "a");
	assert_null(detail.verdict);
	assert_null(detail.failure);
	assert_int_equal(detail.checked_usec, 0);
	fake_results("a", PROBE_STATUS);
	fake_results("a", PROBE_OK);
	detail = detail_of(&b, "a");
	assert_int_equal(detail.state, USHER_HEALTH_DOWN);
	assert_int_equal(detail.verdict->reason, PROBE_OK);
	assert_string_equal(detail.failure->text, "HTTP 503, expected 200");
	assert_int_equal(detail.failure->code, 503);
	assert_true(detail.failed_usec > 0 && detail.checked_usec >= detail.failed_usec);
	assert_int_equal(detail.good, 1);
	assert_int_equal(detail.took_usec, 1000);
	bench_done(&b);
}

/* ---- reports ---- */

static void report_failures(struct bench *b, const char *id, unsigned count)
{
	const struct usher_report report = {
		.size = sizeof(report), .outcome = USHER_OUTCOME_ERROR, .count = count
	};

	assert_ok(health_report(b->health, id, &report));
}

static void reports_eject_no_more_than_the_cap_allows(void **state)
{
	struct health_config config = config_of_http("/");
	struct bench b;

	(void) state;
	config.check = (struct check_config){ .kind = CHECK_NONE };
	config.outlier.enabled = true;
	bench_init(&b, &config);
	follow(&b, "a b c");
	assert_int_equal(fake_prober->count, 0);
	report_failures(&b, "a", 5);
	report_failures(&b, "b", 50);
	assert_string_equal(states_of(&b), "a:ejected b:unknown c:unknown");
	settle(&b);
	assert_int_equal(b.changes, 1);
	assert_int_equal(detail_of(&b, "a").ejections, 1);
	assert_true(detail_of(&b, "a").ejected_until_usec > clock_boot_usec());
	/* the one that was ejected goes: there is room for another */
	follow(&b, "b c d");
	report_failures(&b, "b", 1);
	assert_string_equal(states_of(&b), "b:ejected c:unknown d:unknown");
	bench_done(&b);
}

static void reports_of_strangers_are_refused(void **state)
{
	const struct usher_report report = { .size = sizeof(report), .count = 1 };
	const struct health_config config = config_of_http("/");
	struct bench b;

	(void) state;
	bench_init(&b, &config);
	assert_errno(health_report(b.health, "a", &report), ENOENT);
	follow(&b, "a");
	assert_errno(health_report(b.health, "b", &report), ENOENT);
	bench_done(&b);
}

static bool is_not_ejected(void *userdata)
{
	return strcmp(states_of(userdata), "a:unknown b:unknown c:unknown") == 0;
}

static void an_ejection_ends_without_anybody_asking(void **state)
{
	struct health_config config = config_of_http("/");
	struct bench b;

	(void) state;
	config.check = (struct check_config){ .kind = CHECK_NONE };
	config.outlier.enabled = true;
	config.outlier.ejection_usec = 2 * SECOND;
	bench_init(&b, &config);
	follow(&b, "a b c");
	report_failures(&b, "a", 5);
	assert_false(is_not_ejected(&b));
	settle(&b);
	assert_int_equal(b.changes, 1);
	loop_until(b.event, is_not_ejected, &b);
	settle(&b);
	assert_int_equal(b.changes, 2);
	bench_done(&b);
}

static bool is_told(void *userdata)
{
	const struct bench *b = userdata;

	return !b->health->is_dirty;
}

static void what_time_changes_while_it_is_not_to_be_told_is_told_after_that(void **state)
{
	struct health_config config = config_of_http("/");
	struct bench b;

	(void) state;
	config.check = (struct check_config){ .kind = CHECK_NONE };
	config.outlier.enabled = true;
	config.outlier.ejection_usec = SECOND / 10;
	bench_init(&b, &config);
	follow(&b, "a b c");
	report_failures(&b, "a", 5);
	settle(&b);
	b.health->quiet_until_usec = clock_boot_usec() + 2 * SECOND;
	loop_until(b.event, is_not_ejected, &b);
	loop_until(b.event, is_told, &b);
	assert_true(clock_boot_usec() >= b.health->quiet_until_usec);
	bench_done(&b);
}

static void a_cap_does_not_hold_for_what_checks_find_down(void **state)
{
	struct health_config config = config_of_http("/");
	struct bench b;

	(void) state;
	config.outlier.enabled = true;
	bench_init(&b, &config);
	follow(&b, "a b c");
	fake_results("a b c", PROBE_OK);
	report_failures(&b, "a", 5);
	for (unsigned i = 0; i < 3; i++)
		fake_results("b", PROBE_REFUSED);
	assert_string_equal(states_of(&b), "a:ejected b:down c:up");
	bench_done(&b);
}

/* ---- another configuration ---- */

static void reconfigure(struct bench *b, const struct health_config *config)
{
	struct usher_endpoints *set = (struct usher_endpoints *) (uintptr_t) health_set(b->health);
	struct check *check = config->check.kind == CHECK_NONE ? NULL : check_of(&config->check);

	(void) health_configure(b->health, config, check);
	(void) check_unref(check);
	assert_ok(health_follow(b->health, set));
}

static void a_reload_keeps_what_is_judged_where_the_check_stays(void **state)
{
	struct health_config config = config_of_http("/health");
	struct bench b;

	(void) state;
	bench_init(&b, &config);
	follow(&b, "a b");
	fake_results("a", PROBE_STATUS);
	fake_results("b", PROBE_OK);
	config.rise = 1;
	config.interval_usec = 7 * SECOND;
	reconfigure(&b, &config);
	assert_string_equal(states_of(&b), "a:down b:up");
	assert_int_equal(fake_prober->added, 2);
	assert_int_equal(fake_probe_of("b")->timing.interval_usec, 7 * SECOND);
	assert_int_equal(fake_probe_of("a")->timing.interval_usec, SECOND);
	fake_results("a", PROBE_OK);
	assert_string_equal(states_of(&b), "a:up b:up");
	bench_done(&b);
}

static void another_timeout_keeps_what_is_judged(void **state)
{
	struct health_config config = config_of_http("/health");
	struct bench b;

	(void) state;
	bench_init(&b, &config);
	follow(&b, "a");
	fake_results("a", PROBE_STATUS);
	config.timeout_usec = 2 * SECOND;
	reconfigure(&b, &config);
	assert_string_equal(states_of(&b), "a:down");
	assert_int_equal(fake_prober->count, 1);
	assert_int_equal(fake_probe_of("a")->timing.timeout_usec, 2 * SECOND);
	fake_results("a", PROBE_OK);
	fake_results("a", PROBE_OK);
	assert_string_equal(states_of(&b), "a:up");
	bench_done(&b);
}

static void another_check_starts_anew(void **state)
{
	struct health_config config = config_of_http("/health");
	struct bench b;

	(void) state;
	bench_init(&b, &config);
	follow(&b, "a");
	fake_results("a", PROBE_STATUS);
	config.check.path = T("/ready");
	reconfigure(&b, &config);
	assert_string_equal(states_of(&b), "a:unknown");
	assert_string_equal(fake_probe_of("a")->target->path, "/ready");
	fake_results("a", PROBE_STATUS);
	config.check = (struct check_config){ .kind = CHECK_NONE };
	config.outlier.enabled = true;
	reconfigure(&b, &config);
	assert_string_equal(states_of(&b), "a:unknown");
	assert_int_equal(fake_prober->count, 0);
	bench_done(&b);
}

static void outliers_that_are_judged_no_more_end_ejections(void **state)
{
	struct health_config config = config_of_http("/");
	struct bench b;

	(void) state;
	config.outlier.enabled = true;
	bench_init(&b, &config);
	follow(&b, "a b c");
	report_failures(&b, "a", 5);
	config.outlier.enabled = false;
	reconfigure(&b, &config);
	loop_until(b.event, is_not_ejected, &b);
	bench_done(&b);
}

static void configurations_are_equal_when_they_ask_and_judge_alike(void **state)
{
	struct health_config a = config_of_http("/health"), b = config_of_http("/health");

	(void) state;
	assert_true(health_config_equal(&a, &b));
	b.outlier.max_ejected = 0.2;
	assert_false(health_config_equal(&a, &b));
	b = a;
	b.check.path = T("/ready");
	assert_false(health_config_equal(&a, &b));
	b = a;
	b.jitter = 0;
	assert_false(health_config_equal(&a, &b));
}

/* ---- cost ---- */

static bool nearly(double a, double b)
{
	return fabs(a - b) < 1e-6;
}

static void costs_are_known_before_and_measured_after(void **state)
{
	struct health_config config = config_of_http("/health");
	struct health_cost before, after;
	struct bench b;

	(void) state;
	config.interval_down_usec = 0;
	health_cost_estimate(&config, 100, &before);
	assert_true(nearly(before.probes_per_second, 20));
	assert_true(nearly(before.connections_per_second, 20));
	assert_true(before.bytes_per_second > 20 * 100 && before.bytes_per_second < 20 * 1000);
	config.check.keep_alive = true;
	health_cost_estimate(&config, 100, &before);
	assert_true(nearly(before.connections_per_second, 0));

	bench_init(&b, &config);
	follow(&b, "a b c d e");
	fake_results("a b c d e", PROBE_OK);
	health_cost(b.health, &after);
	assert_int_equal(after.endpoints, 5);
	assert_int_equal(after.probes, 5);
	assert_int_equal(after.bytes, 1500);
	/* what has happened, whatever the interval asks for */
	assert_true(after.probes_per_second > 0.1 && after.probes_per_second <= 5);
	assert_true(fabs(after.connections_per_second / after.probes_per_second - 1) < 0.1);
	assert_true(fabs(after.bytes_per_second / after.probes_per_second - 300) < 30);
	/* what has been spent stays spent */
	follow(&b, "a");
	health_cost(b.health, &after);
	assert_int_equal(after.probes, 5);
	assert_int_equal(after.connections, 5);
	assert_true(after.probes_per_second > 0.1);
	bench_done(&b);
}

/* ---- memory ---- */

static int follow_with_failing_memory(void *userdata)
{
	struct bench *b = userdata;
	struct usher_endpoints *other = usher_endpoints_ref(
			(struct usher_endpoints *) (uintptr_t) health_set(b->health));
	struct usher_endpoints *set = usher_endpoints_new();
	struct usher_error err = {};
	int r = set ? 0 : -ENOMEM;

	for (char id[2] = "b"; r >= 0 && id[0] < 'e'; id[0]++) {
		struct usher_endpoint e = USHER_ENDPOINT_INIT;

		e.id = id;
		e.address = "10.0.0.1";
		e.port = 80;
		r = usher_endpoints_add(set, &e, &err);
	}
	if (r >= 0) {
		usher_endpoints_seal(set);
		r = health_follow(b->health, set);
	}
	assert_ptr_equal(health_set(b->health), r < 0 ? other : set);
	usher_endpoints_unref(set);
	usher_endpoints_unref(other);
	/* a probe that could not be made is tried again, and no failure */
	return r >= 0 && memory_is_short() ? -ENOMEM : r;
}

static void without_memory_the_last_set_stays_in_force(void **state)
{
	const struct health_config config = config_of_http("/health");
	struct bench b;

	(void) state;
	bench_init(&b, &config);
	follow(&b, "a b@10.0.0.1:80");
	assert_survives_oom(follow_with_failing_memory, &b);
	bench_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_endpoint_is_asked_as_long_as_it_is_there),
		cmocka_unit_test(what_stays_the_same_keeps_state_and_probe),
		cmocka_unit_test(another_instance_at_the_same_id_starts_anew),
		cmocka_unit_test(a_label_that_the_check_reads_makes_another_of_it),
		cmocka_unit_test(what_is_not_up_is_asked_at_its_own_pace),
		cmocka_unit_test(what_cannot_be_asked_yet_is_tried_again),
		cmocka_unit_test(changes_of_one_turn_are_told_once),
		cmocka_unit_test(what_takes_long_to_tell_is_not_told_all_the_time),
		cmocka_unit_test(whoever_is_told_may_let_go),
		cmocka_unit_test(details_have_the_last_result_and_the_last_failure),
		cmocka_unit_test(reports_eject_no_more_than_the_cap_allows),
		cmocka_unit_test(reports_of_strangers_are_refused),
		cmocka_unit_test(an_ejection_ends_without_anybody_asking),
		cmocka_unit_test(what_time_changes_while_it_is_not_to_be_told_is_told_after_that),
		cmocka_unit_test(a_cap_does_not_hold_for_what_checks_find_down),
		cmocka_unit_test(a_reload_keeps_what_is_judged_where_the_check_stays),
		cmocka_unit_test(another_timeout_keeps_what_is_judged),
		cmocka_unit_test(another_check_starts_anew),
		cmocka_unit_test(outliers_that_are_judged_no_more_end_ejections),
		cmocka_unit_test(configurations_are_equal_when_they_ask_and_judge_alike),
		cmocka_unit_test(costs_are_known_before_and_measured_after),
		cmocka_unit_test(without_memory_the_last_set_stays_in_force),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
