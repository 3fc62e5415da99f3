/* Drains and restores, from the request to the end, on a bench whose every word the test says. */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "rollout-bench.h"

static void assert_order(const char *first, const char *then)
{
	const char *a = strstr(bench.told, first), *b = strstr(bench.told, then);

	if (!a || !b || a >= b)
		fail_msg("\"%s\" is not before \"%s\" in: %s", first, then, bench.told);
}

static enum step_state state_of(const struct drain_record *record, enum drain_step step)
{
	const struct step_record *s = drain_record_find(record, step);

	assert_non_null(s);
	return s->state;
}

static int ask(int (*what)(struct rollout *, const struct drain_request *,
			       const struct drain_record **, struct usher_error *),
		const char *endpoint, struct usher_error *reterr)
{
	const struct drain_record *record;

	return what(bench.rollout,
			&(const struct drain_request){ .service = "catalog", .endpoint = endpoint },
			&record, reterr);
}

/* ---- the way there ---- */

static void a_drain_deregisters_and_ends_with_the_endpoint_out(void **state)
{
	const struct drain_record *record = bench_drain("catalog-a");

	(void) state;
	bench_until(bench_finished(record));
	assert_int_equal(record->state, DRAIN_DONE);
	assert_false(record->forced);
	assert_false(record->partial);
	assert_true(record->removal_revision > 0);
	assert_false(bench_chosen("catalog-a"));
	assert_true(bench.endpoints[0].gone);
	assert_int_equal(state_of(record, STEP_DEREGISTER), STEP_PROVEN);
	assert_int_equal(state_of(record, STEP_PROPAGATION), STEP_PROVEN);
	assert_int_equal(state_of(record, STEP_CLOSE), STEP_SKIPPED);
	assert_int_equal(bench.asked[SOURCE_REMOVE], 1);
	assert_int_equal(bench.asked[SOURCE_SET_STATE], 0);
	assert_true(bench.changes > 0);
}

static void an_endpoint_drains_before_it_is_withdrawn_before_it_is_removed(void **state)
{
	const struct drain_record *record = bench_drain("catalog-a");

	(void) state;
	bench_until(bench_finished(record));
	assert_order("override:draining", "override:withdrawn");
	assert_order("override:withdrawn", "registry:remove");
}

static void refuse_first_shows_draining_in_the_registry_before_it_removes(void **state)
{
	const struct drain_record *record;

	(void) state;
	bench.service.drain.order = DRAIN_REFUSE_FIRST;
	record = bench_drain("catalog-a");
	bench_until(bench_finished(record));
	assert_int_equal(record->state, DRAIN_DONE);
	assert_order("registry:set_state", "registry:remove");
	assert_int_equal(state_of(record, STEP_READINESS), STEP_PROVEN);
}

static void a_timeout_that_no_clock_holds_is_refused(void **state)
{
	static const uint64_t timeouts[] = { ROLLOUT_TIMEOUT_MAX_USEC + 1,
		UINT64_C(100000000) * 3600 * USEC_PER_SEC, /* a year of five digits */
		UINT64_MAX };
	const struct drain_record *record;

	(void) state;
	for (size_t i = 0; i < ELEMENTS(timeouts); i++) {
		const struct drain_request request = { .service = "catalog",
			.endpoint = "catalog-a",
			.requested_by = "test",
			.timeout_usec = timeouts[i] };
		struct usher_error err = {};

		assert_errno(rollout_drain(bench.rollout, &request, &record, &err), EINVAL);
		assert_string_equal(
				err.text, "timeout: a drain or restore may take 7 days at most");
		assert_errno(rollout_restore(bench.rollout, &request, &record, &err), EINVAL);
	}
	assert_int_equal(rollout_count(bench.rollout), 0);
}

static void every_act_has_its_record_on_disk_before_it(void **state)
{
	const struct drain_record *record = bench_drain("catalog-a");

	(void) state;
	bench_until(bench_finished(record));
	assert_ptr_equal(strstr(bench.told,
					 "disk override:draining disk override:withdrawn "
					 "registry:remove disk"),
			bench.told);
}

static void a_disk_that_refuses_stops_every_act_and_is_named(void **state)
{
	const struct drain_record *record;

	(void) state;
	bench.disk_fails = true;
	record = bench_drain("catalog-a");
	bench_until(strstr(bench_evidence(record, STEP_REQUESTED, "disk"), "No space left"));
	bench_for(300 * USEC_PER_MSEC);
	assert_string_equal(bench.told, "");
	assert_true(bench_chosen("catalog-a"));

	bench.disk_fails = false;
	bench_until(bench_finished(record));
	assert_int_equal(record->state, DRAIN_DONE);
}

static void propagation_waits_for_the_registry_to_show_it(void **state)
{
	const struct drain_record *record;

	(void) state;
	bench.late = true;
	record = bench_drain("catalog-a");
	bench_until(bench_at(record, STEP_PROPAGATION));
	bench_for(300 * USEC_PER_MSEC);
	assert_true(bench_at(record, STEP_PROPAGATION));

	bench_show();
	bench_until(bench_finished(record));
	assert_int_equal(state_of(record, STEP_PROPAGATION), STEP_PROVEN);
	assert_string_equal(bench_evidence(record, STEP_PROPAGATION, "registry_echo"),
			"source files shows it removed");
}

static void propagation_waits_for_the_last_consumer_and_names_it(void **state)
{
	const struct drain_record *record;

	(void) state;
	bench.consumers = (struct consumer_evidence){ 3, 2, "web-1", 117 };
	record = bench_drain("catalog-a");
	bench_until(bench_at(record, STEP_PROPAGATION));
	bench_for(200 * USEC_PER_MSEC);
	assert_true(bench_at(record, STEP_PROPAGATION));
	assert_non_null(strstr(bench_evidence(record, STEP_PROPAGATION, "consumers"), "web-1"));

	bench.consumers.caught_up = 3;
	bench_until(bench_finished(record));
	assert_int_equal(record->state, DRAIN_DONE);
}

static void declared_caches_get_their_time_and_count_as_assumed(void **state)
{
	const struct drain_record *record;
	uint64_t started = clock_boot_usec();

	(void) state;
	bench.service.drain.consumer_cache_usec = 400 * USEC_PER_MSEC;
	record = bench_drain("catalog-a");
	bench_until(bench_finished(record));
	assert_true(clock_boot_usec() - started >= 400 * USEC_PER_MSEC);
	assert_int_equal(state_of(record, STEP_PROPAGATION), STEP_ASSUMED);
}

static void a_registry_that_cannot_be_written_makes_a_drain_partial(void **state)
{
	const struct drain_record *record;

	(void) state;
	bench.answer = -EROFS;
	record = bench_drain("catalog-a");
	bench_until(bench_finished(record));
	assert_int_equal(record->state, DRAIN_DONE);
	assert_true(record->partial);
	assert_false(record->forced);
	assert_int_equal(state_of(record, STEP_DEREGISTER), STEP_ASSUMED);
	assert_false(bench_chosen("catalog-a"));
}

static void a_registry_without_removal_is_told_to_show_it_draining(void **state)
{
	const struct drain_record *record;

	(void) state;
	bench.cannot[SOURCE_REMOVE] = true;
	record = bench_drain("catalog-a");
	bench_until(bench_finished(record));
	assert_false(record->partial);
	assert_string_equal(bench_evidence(record, STEP_PROPAGATION, "registry_echo"),
			"source files shows it draining");
}

static void local_consumers_hear_at_once_while_the_registry_is_away(void **state)
{
	const struct drain_record *record;

	(void) state;
	bench.answer = -ECONNREFUSED;
	bench.service.drain.deadline_usec = 5 * USEC_PER_SEC;
	bench.service.drain.in_flight_timeout_usec = USEC_PER_SEC;
	record = bench_drain("catalog-a");
	bench_until(!bench_chosen("catalog-a"));
	bench_until(bench_finished(record));
	assert_int_equal(record->state, DRAIN_DONE);
	assert_true(record->partial);
	assert_true(record->forced);
	assert_true(bench.asked[SOURCE_REMOVE] > 1);
	assert_int_equal(drain_record_find(record, STEP_DEREGISTER)->attempts,
			bench.asked[SOURCE_REMOVE]);
}

static void a_registry_that_never_answers_is_named_with_the_deadline(void **state)
{
	const struct drain_record *record;
	const struct step_record *step;

	(void) state;
	bench.silent = true;
	record = bench_drain("catalog-a");
	bench_until(bench.asked[SOURCE_REMOVE] == 1);
	step = drain_record_current(record);
	assert_int_equal(step->step, STEP_DEREGISTER);
	assert_string_equal(bench_evidence(record, STEP_DEREGISTER, "registry"),
			"waiting for source files to deregister it");
	assert_true(step->started_wall_usec > 0);
	assert_true(step->deadline_wall_usec > step->started_wall_usec);
}

static void a_late_registry_answer_is_still_evidence(void **state)
{
	const struct drain_record *record;

	(void) state;
	bench.silent = true;
	bench.consumers = (struct consumer_evidence){ 1, 0, "web-1", 1 };
	bench.service.drain.deadline_usec = 5 * USEC_PER_SEC;
	bench.service.drain.in_flight_timeout_usec = USEC_PER_SEC;
	bench.service.drain.propagation_timeout_usec = 10 * USEC_PER_SEC;
	record = bench_drain("catalog-a");
	bench_until(bench_at(record, STEP_PROPAGATION));
	assert_true(record->partial);

	assert_ok(sd_event_add_defer(bench.event, &bench.job->source, bench_on_job, bench.job));
	bench_until(!record->partial);
	bench_until(bench_finished(record));
}

/* ---- in flight ---- */

static int listen_somewhere(uint16_t *ret_port)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t size = sizeof(sa);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *) &sa, sizeof(sa)), 0);
	assert_int_equal(listen(fd, 16), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *) &sa, &size), 0);
	*ret_port = ntohs(sa.sin_port);
	return fd;
}

static int connect_to(uint16_t port)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr = { htonl(INADDR_LOOPBACK) } };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *) &sa, sizeof(sa)), 0);
	return fd;
}

static void in_flight_waits_for_the_last_open_connection(void **state)
{
	const struct drain_record *record;
	int server, client, accepted;

	(void) state;
	server = listen_somewhere(&bench.endpoints[0].port);
	client = connect_to(bench.endpoints[0].port);
	accepted = accept4(server, NULL, NULL, SOCK_CLOEXEC);
	bench_show();
	bench.service.drain.from_tcp = true;
	record = bench_drain("catalog-a");
	bench_until(strstr(bench_evidence(record, STEP_IN_FLIGHT, "tcp"), "1 open connections"));
	bench_for(200 * USEC_PER_MSEC);
	assert_true(bench_at(record, STEP_IN_FLIGHT));

	(void) close(client);
	(void) close(accepted);
	bench_until(bench_finished(record));
	assert_int_equal(state_of(record, STEP_IN_FLIGHT), STEP_PROVEN);
	(void) close(server);
}

static void a_connection_that_stays_is_forced_by_the_budget(void **state)
{
	const struct drain_record *record;
	int server, client;

	(void) state;
	server = listen_somewhere(&bench.endpoints[0].port);
	client = connect_to(bench.endpoints[0].port);
	bench_show();
	bench.service.drain.from_tcp = true;
	bench.service.drain.in_flight_timeout_usec = 3 * USEC_PER_SEC;
	record = bench_drain("catalog-a");
	bench_until(bench_finished(record));
	assert_int_equal(record->state, DRAIN_DONE);
	assert_true(record->forced);
	assert_int_equal(state_of(record, STEP_IN_FLIGHT), STEP_FORCED);
	assert_non_null(strstr(
			bench_evidence(record, STEP_IN_FLIGHT, "budget"), "1 open connections"));
	(void) close(client);
	(void) close(server);
}

static void in_flight_waits_for_the_reports_of_consumers(void **state)
{
	const struct drain_record *record;

	(void) state;
	bench.in_flight = (struct in_flight_evidence){ 2, 5 };
	record = bench_drain("catalog-a");
	bench_until(bench_at(record, STEP_IN_FLIGHT));
	bench_for(200 * USEC_PER_MSEC);
	assert_true(bench_at(record, STEP_IN_FLIGHT));
	assert_string_equal(bench_evidence(record, STEP_IN_FLIGHT, "reports"),
			"5 requests of 2 consumers");
	bench.in_flight.requests = 0;
	bench_until(bench_finished(record));
	assert_int_equal(state_of(record, STEP_IN_FLIGHT), STEP_PROVEN);
}

static const struct drain_record *watched;
static unsigned comebacks;

static unsigned busy_once_at_the_close(void)
{
	if (drain_record_current(watched)->step == STEP_CLOSE && comebacks == 0) {
		comebacks++;
		return 1;
	}
	return 0;
}

static void set_command(struct hook_config *hook, const char *script)
{
	static char *command[4];

	command[0] = (char *) (uintptr_t) "/bin/sh";
	command[1] = (char *) (uintptr_t) "-c";
	command[2] = (char *) (uintptr_t) script;
	*hook = (struct hook_config){
		.kind = HOOK_EXEC, .command = command, .timeout_usec = 40 * USEC_PER_SEC
	};
}

static void what_comes_in_right_before_the_close_is_waited_for(void **state)
{
	(void) state;
	comebacks = 0;
	set_command(&bench.service.drain.close, "exit 0");
	watched = bench_drain("catalog-a");
	bench.in_flight_now = busy_once_at_the_close;
	bench_until(bench_finished(watched));
	assert_int_equal(watched->state, DRAIN_DONE);
	assert_int_equal(comebacks, 1);
	assert_int_equal(drain_record_find(watched, STEP_IN_FLIGHT)->attempts, 2);
	assert_non_null(strstr(bench_evidence(watched, STEP_IN_FLIGHT, "recheck"), "again"));
	assert_int_equal(state_of(watched, STEP_CLOSE), STEP_PROVEN);
}

/* ---- budgets ---- */

static void a_step_that_is_held_goes_on_when_asked_again(void **state)
{
	const struct drain_record *record;

	(void) state;
	bench.in_flight = (struct in_flight_evidence){ 1, 1 };
	bench.service.drain.on_in_flight_timeout = BUDGET_HOLD;
	bench.service.drain.in_flight_timeout_usec = 100 * USEC_PER_MSEC;
	record = bench_drain("catalog-a");
	bench_until(record->state == DRAIN_HELD);
	bench.in_flight.requests = 0;
	bench_for(200 * USEC_PER_MSEC);
	assert_int_equal(record->state, DRAIN_HELD);

	assert_ptr_equal(bench_drain("catalog-a"), record);
	bench_until(bench_finished(record));
	assert_int_equal(record->state, DRAIN_DONE);
}

static void a_failed_drain_says_why_and_the_way_back(void **state)
{
	const struct drain_record *record;

	(void) state;
	bench.consumers = (struct consumer_evidence){ 1, 0, "web-1", 1 };
	bench.service.drain.propagation_timeout_usec = 100 * USEC_PER_MSEC;
	record = bench_drain("catalog-a");
	bench_until(bench_finished(record));
	assert_int_equal(record->state, DRAIN_FAILED);
	assert_non_null(strstr(record->failure, "propagation: "));
	assert_non_null(strstr(record->failure, "web-1"));
	assert_non_null(strstr(record->failure, "usherctl restore catalog/catalog-a"));
	assert_false(bench_chosen("catalog-a"));
}

static void a_deadline_that_cannot_hold_the_windows_is_refused(void **state)
{
	struct usher_error err = {};

	(void) state;
	bench.service.drain.consumer_cache_usec = 70 * USEC_PER_SEC;
	assert_errno(ask(rollout_drain, "catalog-a", &err), EPERM);
	assert_non_null(strstr(err.text, "deadline"));
}

static void budgets_that_exceed_the_deadline_are_scaled_and_it_says_so(void **state)
{
	const struct drain_record *record;
	uint64_t started = clock_boot_usec();

	(void) state;
	bench.in_flight = (struct in_flight_evidence){ 1, 1 };
	bench.service.drain.in_flight_timeout_usec = 60 * USEC_PER_SEC;
	bench.service.drain.deadline_usec = USEC_PER_SEC;
	record = bench_drain("catalog-a");
	assert_non_null(strstr(bench_evidence(record, STEP_REQUESTED, "plan"), "deadline of 1s"));
	bench_until(bench_finished(record));
	assert_true(record->forced);
	assert_true(clock_boot_usec() - started < 50 * USEC_PER_SEC); /* not as configured */
}

/* ---- guards ---- */

static void a_drain_that_would_leave_too_few_is_refused(void **state)
{
	const struct drain_record *record;
	struct usher_error err = {};

	(void) state;
	bench.service.drain.min_ready = 2;
	record = bench_drain("catalog-a");
	/* the first is not even on disk yet, and counts */
	assert_errno(ask(rollout_drain, "catalog-b", &err), EPERM);
	assert_non_null(strstr(err.text, "min_ready"));
	bench_until(bench_finished(record));
	assert_errno(ask(rollout_drain, "catalog-b", &err), EPERM);
}

static void a_drain_in_a_directory_that_is_not_live_is_refused(void **state)
{
	struct usher_error err = {};

	(void) state;
	bench.not_live = true;
	assert_errno(ask(rollout_drain, "catalog-a", &err), EPERM);
	assert_non_null(strstr(err.text, "not live"));
}

static void unknown_names_are_not_found(void **state)
{
	struct usher_error err = {};

	(void) state;
	assert_errno(ask(rollout_drain, "catalog-z", &err), ENOENT);
	assert_errno(ask(rollout_restore, "catalog-z", &err), ENOENT);
	assert_errno(rollout_cancel(bench.rollout, "d-0", &(const struct drain_record *){ NULL },
				     &err),
			ENOENT);
}

static void asking_twice_is_asking_once(void **state)
{
	const struct drain_record *record = bench_drain("catalog-a");

	(void) state;
	assert_ptr_equal(bench_drain("catalog-a"), record);
	bench_until(bench_finished(record));
	assert_ptr_equal(bench_drain("catalog-a"), record);
	assert_int_equal(rollout_count(bench.rollout), 1);
	assert_int_equal(rollout_running(bench.rollout), 0);
}

/* ---- cancel ---- */

static void cancel(const struct drain_record *record)
{
	const struct drain_record *found;
	struct usher_error err = {};

	assert_ok(rollout_cancel(bench.rollout, record->id, &found, &err));
	assert_ptr_equal(found, record);
}

static void assert_in_service(const struct drain_record *record)
{
	assert_true(bench_finished(record));
	assert_int_equal(record->state, DRAIN_CANCELLED);
	assert_true(bench_chosen("catalog-a"));
	assert_false(bench.endpoints[0].gone);
	assert_int_equal(bench.endpoints[0].admin_state, USHER_ADMIN_READY);
	assert_false(bench.override.set);
}

static void a_cancelled_drain_is_back_from_each_step(void **state)
{
	static const enum drain_step steps[] = { STEP_REQUESTED, STEP_DEREGISTER, STEP_PROPAGATION,
		STEP_READINESS, STEP_IN_FLIGHT };

	(void) state;
	bench.service.drain.consumer_cache_usec = 20 * USEC_PER_MSEC;
	bench.in_flight = (struct in_flight_evidence){ 1, 1 };
	for (size_t i = 0; i < ELEMENTS(steps); i++) {
		const struct drain_record *record = bench_drain("catalog-a");

		bench_until(drain_record_current(record)->step == steps[i]);
		cancel(record);
		bench_until(bench_finished(record));
		assert_in_service(record);
		assert_null(drain_record_find(record, STEP_PROBE));
	}
	assert_int_equal(bench.asked[SOURCE_ADD], bench.asked[SOURCE_REMOVE]);
}

static void refuse_first_is_taken_back_in_the_registry(void **state)
{
	const struct drain_record *record;

	(void) state;
	bench.service.drain.order = DRAIN_REFUSE_FIRST;
	record = bench_drain("catalog-a");
	bench_until(bench.asked[SOURCE_SET_STATE] == 1);
	cancel(record);
	bench_until(bench_finished(record));
	assert_in_service(record);
	assert_int_equal(bench.asked[SOURCE_SET_STATE], 2);
	assert_int_equal(bench.asked[SOURCE_ADD], 0);
}

static void a_hundred_quick_drains_and_cancels_leave_it_ready_and_registered(void **state)
{
	(void) state;
	for (unsigned i = 0; i < 100; i++) {
		const struct drain_record *record = bench_drain("catalog-a");

		bench_for(i % 10 * USEC_PER_MSEC / 4);
		if (!bench_finished(record))
			cancel(record);
		bench_until(bench_finished(record));
		if (record->state == DRAIN_DONE) {
			record = bench_restore("catalog-a");
			bench_until(bench_finished(record));
			assert_int_equal(record->state, DRAIN_DONE);
			assert_true(bench_chosen("catalog-a"));
			continue;
		}
		assert_in_service(record);
	}
	assert_int_equal(rollout_running(bench.rollout), 0);
}

static void cancelling_twice_is_once_and_cancelling_the_finished_is_refused(void **state)
{
	const struct drain_record *record = bench_drain("catalog-a"), *found;
	struct usher_error err = {};

	(void) state;
	bench.late = true;
	bench_until(bench_at(record, STEP_PROPAGATION));
	cancel(record);
	assert_true(rollout_cancel(bench.rollout, record->id, &found, &err) > 0);
	bench_until(bench.asked[SOURCE_ADD] == 1);
	bench_show();
	bench.late = false;
	bench_until(bench_finished(record));
	assert_errno(rollout_cancel(bench.rollout, record->id, &found, &err), EALREADY);
	assert_non_null(strstr(err.text, "cancelled"));
}

/* ---- restore ---- */

static const struct drain_record *drain_to_the_end(const char *endpoint)
{
	const struct drain_record *record = bench_drain(endpoint);

	bench_until(bench_finished(record));
	assert_int_equal(record->state, DRAIN_DONE);
	return record;
}

static void a_restore_registers_what_was_drained(void **state)
{
	const struct drain_record *record;

	(void) state;
	(void) drain_to_the_end("catalog-a");
	record = bench_restore("catalog-a");
	bench_until(bench_finished(record));
	assert_int_equal(record->state, DRAIN_DONE);
	assert_int_equal(bench.asked[SOURCE_ADD], 1);
	assert_true(bench_chosen("catalog-a"));
	assert_false(bench.override.set);
	assert_ptr_equal(bench_restore("catalog-a"), record);
}

static void nothing_is_added_to_a_registry_that_cannot_be_read(void **state)
{
	const struct drain_record *record;
	const struct evidence *told;

	(void) state;
	(void) drain_to_the_end("catalog-a");
	bench.feed.state = SOURCE_FAILED;
	bench.feed.error = (char *) (uintptr_t) "the file is gone";
	record = bench_restore("catalog-a");
	bench_until(bench_at(record, STEP_REGISTER) &&
			(told = step_record_find(drain_record_current(record), "registry")));
	assert_non_null(strstr(told->text, "while it cannot be read: the file is gone"));
	assert_int_equal(bench.asked[SOURCE_ADD], 0);
	bench.feed.state = SOURCE_LIVE;
	bench.feed.error = NULL;
	bench_until(bench_finished(record));
	assert_int_equal(record->state, DRAIN_DONE);
	assert_int_equal(bench.asked[SOURCE_ADD], 1);
}

static void a_restore_probes_until_the_instance_answers(void **state)
{
	const struct drain_record *record;
	int server, other;
	uint16_t port;

	(void) state;
	server = listen_somewhere(&port);
	bench.endpoints[0].port = port;
	bench_show();
	(void) drain_to_the_end("catalog-a");
	(void) close(server);
	bench.service.restore.probe.enabled = true;
	bench.service.restore.probe.rise = 2;
	bench.service.restore.probe.interval_usec = 20 * USEC_PER_MSEC;
	bench.service.restore.probe.timeout_usec = USEC_PER_SEC;
	record = bench_restore("catalog-a");
	bench_until(strstr(bench_evidence(record, STEP_PROBE, "probe"), "refused"));
	assert_int_equal(bench.asked[SOURCE_ADD], 0);

	other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(setsockopt(other, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int)), 0);
	assert_int_equal(bind(other,
					 (struct sockaddr *) &(struct sockaddr_in){
							 .sin_family = AF_INET,
							 .sin_port = htons(port),
							 .sin_addr = { htonl(INADDR_LOOPBACK) } },
					 sizeof(struct sockaddr_in)),
			0);
	assert_int_equal(listen(other, 16), 0);
	bench_until(bench_finished(record));
	assert_int_equal(record->state, DRAIN_DONE);
	assert_non_null(strstr(bench_evidence(record, STEP_PROBE, "probe"), "2 of 2 in a row"));
	(void) close(other);
}

static struct usher_endpoints *find_registered(
		void *userdata, const char *service, const char *endpoint)
{
	return strcmp(service, "catalog") == 0 && strcmp(endpoint, "catalog-a") == 0 ? userdata
										     : NULL;
}

static void what_this_node_registers_comes_back_as_it_is_registered_now(void **state)
{
	struct usher_endpoints *registered = usher_endpoints_new();
	struct usher_endpoint e = USHER_ENDPOINT_INIT, saved;
	const struct drain_record *record;
	int server;

	(void) state;
	(void) drain_to_the_end("catalog-a");
	e.id = "catalog-a";
	e.address = "127.0.0.1";
	server = listen_somewhere(&e.port);
	assert_ok(usher_endpoints_add(registered, &e, NULL));
	usher_endpoints_seal(registered);
	rollout_set_registered(bench.rollout, find_registered, registered);
	bench.service.restore.probe.enabled = true;
	bench.service.restore.probe.rise = 2;
	bench.service.restore.probe.interval_usec = 20 * USEC_PER_MSEC;
	bench.service.restore.probe.timeout_usec = USEC_PER_SEC;
	record = bench_restore("catalog-a");
	bench_until(bench_finished(record));
	assert_int_equal(record->state, DRAIN_DONE);
	assert_non_null(strstr(bench_evidence(record, STEP_PROBE, "probe"), "2 of 2 in a row"));
	usher_endpoints_get(record->saved, 0, &saved);
	assert_int_equal(saved.port, e.port);
	(void) usher_endpoints_unref(registered);
	(void) close(server);
}

static void a_restore_that_is_never_observed_fails_and_stays_out(void **state)
{
	const struct drain_record *record;

	(void) state;
	(void) drain_to_the_end("catalog-a");
	bench.late = true;
	bench.service.restore.observed_timeout_usec = 100 * USEC_PER_MSEC;
	record = bench_restore("catalog-a");
	bench_until(bench_finished(record));
	assert_int_equal(record->state, DRAIN_FAILED);
	assert_non_null(strstr(record->failure, "observed: waiting for source files to show it"));
	bench_show();
	assert_false(bench_chosen("catalog-a"));
}

static void a_ramp_grows_the_share_in_small_steps(void **state)
{
	const struct drain_record *record;
	double last = 0;
	unsigned steps = 0;

	(void) state;
	(void) drain_to_the_end("catalog-a");
	bench.service.restore.ramp_usec = 4 * USEC_PER_SEC;
	record = bench_restore("catalog-a");
	bench_until(bench_at(record, STEP_RAMP));
	while (!bench_finished(record)) {
		const struct override *held = &bench.override.value;

		if (bench.override.set && held->admin_state == USHER_ADMIN_READY) {
			assert_true(held->weight_share >= last);
			steps += held->weight_share > last;
			last = held->weight_share;
		}
		assert_ok(sd_event_run(bench.event, USEC_PER_SEC));
	}
	assert_true(steps >= 3);
	assert_true(bench_chosen("catalog-a"));
	assert_false(bench.override.set);
}

static void what_others_took_out_can_be_brought_back(void **state)
{
	const struct drain_record *record;

	(void) state;
	bench.endpoints[0].admin_state = USHER_ADMIN_MAINTENANCE;
	bench_show();
	record = bench_restore("catalog-a");
	bench_until(bench_finished(record));
	assert_int_equal(record->state, DRAIN_DONE);
	assert_int_equal(bench.asked[SOURCE_SET_STATE], 1);
	assert_true(bench_chosen("catalog-a"));
}

/* After a reload to other sources the snapshot is that of the old until the new have answered. */
static void what_no_source_shows_any_more_is_not_looked_for_among_the_new_ones(void **state)
{
	const struct drain_record *record;

	(void) state;
	bench.endpoints[0].admin_state = USHER_ADMIN_MAINTENANCE;
	bench_show();
	bench.feed_gone = true;
	bench.service.restore.observed_timeout_usec = 100 * USEC_PER_MSEC;
	record = bench_restore("catalog-a");
	assert_null(record->source);
	bench_until(bench_finished(record));
	assert_int_equal(record->state, DRAIN_FAILED);
	assert_int_equal(bench.asked[SOURCE_SET_STATE], 0);
}

static void what_is_in_service_is_not_brought_back(void **state)
{
	struct usher_error err = {};

	(void) state;
	assert_errno(ask(rollout_restore, "catalog-a", &err), EPERM);
	assert_non_null(strstr(err.text, "in service"));
}

static void a_restore_of_what_registered_itself_leaves_its_registration_alone(void **state)
{
	const struct drain_record *record;

	(void) state;
	(void) drain_to_the_end("catalog-a");
	bench.endpoints[0].gone = false;
	bench_show();
	assert_false(bench_chosen("catalog-a"));
	record = bench_restore("catalog-a");
	bench_until(bench_finished(record));
	assert_int_equal(bench.asked[SOURCE_ADD], 0);
	assert_true(bench_chosen("catalog-a"));
}

static void a_cancelled_restore_leaves_it_out_of_service(void **state)
{
	const struct drain_record *record;

	(void) state;
	(void) drain_to_the_end("catalog-a");
	bench.late = true;
	record = bench_restore("catalog-a");
	bench_until(bench_at(record, STEP_OBSERVED));
	cancel(record);
	bench_until(bench_finished(record));
	assert_int_equal(record->state, DRAIN_CANCELLED);
	bench_show();
	bench_for(50 * USEC_PER_MSEC);
	assert_false(bench_chosen("catalog-a"));
	bench.late = false;
	record = bench_restore("catalog-a");
	bench_until(bench_finished(record));
	assert_true(bench_chosen("catalog-a"));
}

/* ---- restarts ---- */

static const struct drain_record *find_again(const char *id)
{
	const struct drain_record *record = rollout_find(bench.rollout, id);

	assert_non_null(record);
	return record;
}

static void a_drain_goes_on_after_a_restart_at_each_step(void **state)
{
	static const enum drain_step steps[] = { STEP_REQUESTED, STEP_DEREGISTER, STEP_PROPAGATION,
		STEP_READINESS, STEP_IN_FLIGHT, STEP_CLOSE };

	(void) state;
	for (size_t i = 0; i < ELEMENTS(steps); i++) {
		const struct drain_record *record = bench_drain("catalog-a");
		char id[DRAIN_ID_MAX];

		memcpy(id, record->id, sizeof(id));
		bench_until(drain_record_current(record)->step == steps[i] &&
				drain_record_current(record)->state == STEP_ACTIVE);
		bench_for(USEC_PER_MSEC);
		bench_restart();
		record = rollout_find(bench.rollout, id);
		if (!record) /* not on disk: it has not begun */
			record = bench_drain("catalog-a");
		else if (drain_record_find(record, STEP_REQUESTED)->state != STEP_ACTIVE)
			assert_false(bench_chosen("catalog-a"));
		bench_until(bench_finished(record));
		assert_int_equal(record->state, DRAIN_DONE);
		record = bench_restore("catalog-a");
		bench_until(bench_finished(record));
		assert_true(bench_chosen("catalog-a"));
	}
}

static void what_is_drained_stays_out_after_a_restart(void **state)
{
	(void) state;
	bench.answer = -EROFS;
	(void) drain_to_the_end("catalog-a");
	bench_restart();
	assert_false(bench_chosen("catalog-a"));
	assert_int_equal(rollout_count(bench.rollout), 1);
}

static void after_a_restart_consumers_get_time_to_come_back(void **state)
{
	const struct drain_record *record;
	char id[DRAIN_ID_MAX];

	(void) state;
	bench.consumers = (struct consumer_evidence){ 1, 0, "web-1", 1 };
	record = bench_drain("catalog-a");
	memcpy(id, record->id, sizeof(id));
	bench_until(bench_at(record, STEP_PROPAGATION));
	bench_for(20 * USEC_PER_MSEC);
	bench.consumers = (struct consumer_evidence){};
	bench_restart();
	record = find_again(id);
	bench_until(strstr(bench_evidence(record, STEP_PROPAGATION, "consumers"), "come back"));
	assert_true(bench_at(record, STEP_PROPAGATION));
}

static void another_incarnation_at_the_id_is_not_bound_by_the_drain(void **state)
{
	const struct drain_record *record;
	char id[DRAIN_ID_MAX];

	(void) state;
	bench.endpoints[0].uid = "first";
	bench_show();
	bench.consumers = (struct consumer_evidence){ 1, 0, "web-1", 1 };
	bench.cannot[SOURCE_REMOVE] = bench.cannot[SOURCE_SET_STATE] = true;
	record = bench_drain("catalog-a");
	memcpy(id, record->id, sizeof(id));
	bench_until(bench_at(record, STEP_PROPAGATION));
	bench_for(20 * USEC_PER_MSEC);
	bench_stop();
	bench.endpoints[0].uid = "second";
	bench_show();
	bench_start();
	record = find_again(id);
	bench_until(bench_finished(record));
	assert_int_equal(record->state, DRAIN_FAILED);
	assert_non_null(strstr(record->failure, "another incarnation"));
	bench_until(!bench.override.set);
	assert_true(bench_chosen("catalog-a"));
}

static bool says_it_ran_again(const struct drain_record *record, enum drain_step which)
{
	const struct step_record *step = drain_record_find(record, which);

	for (size_t i = 0; i < step->evidence_count; i++)
		if (strcmp(step->evidence[i].kind, "hook") == 0 &&
				strstr(step->evidence[i].text, "ran again"))
			return true;
	return false;
}

static void a_hook_that_was_interrupted_runs_again_with_the_same_token(void **state)
{
	char script[512], path[] = "/tmp/test-rollout-XXXXXX", line[256], *first, *second;
	const struct drain_record *record;
	char id[DRAIN_ID_MAX];
	struct stat st;
	FILE *f;
	int fd;

	(void) state;
	fd = mkstemp(path);
	assert_true(fd >= 0);
	(void) close(fd);
	(void) snprintf(script, sizeof(script),
			"echo $USHER_TOKEN $USHER_STEP $USHER_ATTEMPT >>%s; "
			"[ $USHER_ATTEMPT = 2 ] || sleep 60",
			path);
	set_command(&bench.service.drain.close, script);
	record = bench_drain("catalog-a");
	memcpy(id, record->id, sizeof(id));
	bench_until(stat(path, &st) == 0 && st.st_size > 0);
	bench_restart();
	record = find_again(id);
	bench_until(bench_finished(record));
	assert_int_equal(record->state, DRAIN_DONE);
	assert_int_equal(drain_record_find(record, STEP_CLOSE)->attempts, 2);
	assert_true(says_it_ran_again(record, STEP_CLOSE));

	f = fopen(path, "re");
	assert_non_null(f);
	assert_non_null(fgets(line, sizeof(line), f));
	first = strdup(line);
	assert_non_null(fgets(line, sizeof(line), f));
	second = strdup(line);
	(void) fclose(f);
	(void) unlink(path);
	assert_int_equal(strncmp(first, second, strcspn(first, " ")), 0);
	assert_non_null(strstr(first, "close 1"));
	assert_non_null(strstr(second, "close 2"));
	free(first);
	free(second);
}

static void a_hook_that_had_finished_never_runs_again(void **state)
{
	char script[256], path[] = "/tmp/test-rollout-XXXXXX";
	const struct drain_record *record;
	char id[DRAIN_ID_MAX];
	struct stat st;
	int fd;

	(void) state;
	fd = mkstemp(path);
	assert_true(fd >= 0);
	(void) close(fd);
	bench.service.drain.order = DRAIN_REFUSE_FIRST;
	(void) snprintf(script, sizeof(script), "printf x >>%s", path);
	set_command(&bench.service.drain.readiness, script);
	bench.silent = true; /* the step goes on after its hook */
	record = bench_drain("catalog-a");
	memcpy(id, record->id, sizeof(id));
	bench_until(strstr(bench_evidence(record, STEP_READINESS, "hook"), "exit status 0"));
	bench_for(50 * USEC_PER_MSEC);
	bench.silent = false;
	bench_restart();
	record = find_again(id);
	bench_until(bench_finished(record));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 1);
	(void) unlink(path);
}

static void a_close_that_fails_is_tried_again_and_then_fails_the_drain(void **state)
{
	const struct drain_record *record;

	(void) state;
	set_command(&bench.service.drain.close, "exit 3");
	record = bench_drain("catalog-a");
	bench_until(bench_finished(record));
	assert_int_equal(record->state, DRAIN_FAILED);
	assert_int_equal(drain_record_find(record, STEP_CLOSE)->attempts, 3);
	assert_non_null(strstr(record->failure, "close: failed: exit status 3"));
}

#define bench_test(fn) cmocka_unit_test_setup_teardown(fn, bench_setup, bench_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		bench_test(a_drain_deregisters_and_ends_with_the_endpoint_out),
		bench_test(an_endpoint_drains_before_it_is_withdrawn_before_it_is_removed),
		bench_test(refuse_first_shows_draining_in_the_registry_before_it_removes),
		bench_test(a_timeout_that_no_clock_holds_is_refused),
		bench_test(every_act_has_its_record_on_disk_before_it),
		bench_test(a_disk_that_refuses_stops_every_act_and_is_named),
		bench_test(propagation_waits_for_the_registry_to_show_it),
		bench_test(propagation_waits_for_the_last_consumer_and_names_it),
		bench_test(declared_caches_get_their_time_and_count_as_assumed),
		bench_test(a_registry_that_cannot_be_written_makes_a_drain_partial),
		bench_test(a_registry_without_removal_is_told_to_show_it_draining),
		bench_test(local_consumers_hear_at_once_while_the_registry_is_away),
		bench_test(a_registry_that_never_answers_is_named_with_the_deadline),
		bench_test(a_late_registry_answer_is_still_evidence),
		bench_test(in_flight_waits_for_the_last_open_connection),
		bench_test(a_connection_that_stays_is_forced_by_the_budget),
		bench_test(in_flight_waits_for_the_reports_of_consumers),
		bench_test(what_comes_in_right_before_the_close_is_waited_for),
		bench_test(a_step_that_is_held_goes_on_when_asked_again),
		bench_test(a_failed_drain_says_why_and_the_way_back),
		bench_test(a_deadline_that_cannot_hold_the_windows_is_refused),
		bench_test(budgets_that_exceed_the_deadline_are_scaled_and_it_says_so),
		bench_test(a_drain_that_would_leave_too_few_is_refused),
		bench_test(a_drain_in_a_directory_that_is_not_live_is_refused),
		bench_test(unknown_names_are_not_found),
		bench_test(asking_twice_is_asking_once),
		bench_test(a_cancelled_drain_is_back_from_each_step),
		bench_test(refuse_first_is_taken_back_in_the_registry),
		bench_test(a_hundred_quick_drains_and_cancels_leave_it_ready_and_registered),
		bench_test(cancelling_twice_is_once_and_cancelling_the_finished_is_refused),
		bench_test(a_restore_registers_what_was_drained),
		bench_test(nothing_is_added_to_a_registry_that_cannot_be_read),
		bench_test(a_restore_probes_until_the_instance_answers),
		bench_test(what_this_node_registers_comes_back_as_it_is_registered_now),
		bench_test(a_restore_that_is_never_observed_fails_and_stays_out),
		bench_test(a_ramp_grows_the_share_in_small_steps),
		bench_test(what_others_took_out_can_be_brought_back),
		bench_test(what_no_source_shows_any_more_is_not_looked_for_among_the_new_ones),
		bench_test(what_is_in_service_is_not_brought_back),
		bench_test(a_restore_of_what_registered_itself_leaves_its_registration_alone),
		bench_test(a_cancelled_restore_leaves_it_out_of_service),
		bench_test(a_drain_goes_on_after_a_restart_at_each_step),
		bench_test(what_is_drained_stays_out_after_a_restart),
		bench_test(after_a_restart_consumers_get_time_to_come_back),
		bench_test(another_incarnation_at_the_id_is_not_bound_by_the_drain),
		bench_test(a_hook_that_was_interrupted_runs_again_with_the_same_token),
		bench_test(a_hook_that_had_finished_never_runs_again),
		bench_test(a_close_that_fails_is_tried_again_and_then_fails_the_drain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
