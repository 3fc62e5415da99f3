/* A source against plug-ins that live in the test: each test writes the body of `run`. */

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "loop.h"
#include "registrar.h"
#include "scripted-server.h"
#include "source-backoff.h"
#include "source.h"

#define LINES_MAX 64

/* What the core was told, a line an event. */
struct core {
	sd_event *event;
	struct inbox *inbox;
	struct source *source;
	unsigned count;
	char lines[LINES_MAX][256];
	unsigned expected;
	struct observation *last;
	bool stop_in_callback;
};

struct fake {
	int (*body)(struct fake *fake, struct usher_source *source);
	struct core *core;
	sem_t step;   /* the plug-in has done something */
	sem_t go;     /* it may go on */
	atomic_int r; /* what its last call returned */
	atomic_int runs;
	atomic_bool ended;
	atomic_bool *freed;
	char path[128];
	int fd;
	char heard[512]; /* by its registration */
	int answer;
	uint64_t renew_after_usec;
};

static void say(struct core *core, const char *what, const char *service, const char *rest)
{
	assert_true(core->count < LINES_MAX);
	(void) snprintf(core->lines[core->count++], sizeof(core->lines[0]), "%s %s%s%s", what,
			service, rest[0] ? " " : "", rest);
	if (core->stop_in_callback)
		core->source = source_stop(core->source, clock_boot_usec() + LOOP_DEADLINE_USEC);
}

static void on_offered(void *userdata, struct source *source, const char *service,
		struct observation *observation)
{
	struct core *core = userdata;
	size_t count = usher_endpoints_count(observation->endpoints);
	char text[64];

	(void) source;
	(void) snprintf(text, sizeof(text), "%s%s",
			count ? usher_endpoints_id(observation->endpoints, 0) : "nothing",
			observation->verdict == USHER_SUSPECT ? " suspect" : "");
	observation_unref(core->last);
	core->last = observation;
	say(core, "offered", service, text);
}

static void on_confirmed(
		void *userdata, struct source *source, const char *service, uint64_t observed_usec)
{
	(void) source;
	assert_true(observed_usec <= clock_boot_usec());
	say(userdata, "confirmed", service, "");
}

static void on_failed(void *userdata, struct source *source, const char *service, int code,
		const char *reason)
{
	char text[192];

	(void) source;
	(void) snprintf(text, sizeof(text), "%s: %s", strerrorname_np(-code), reason);
	say(userdata, "failed", service, text);
}

static void on_drain(void *userdata, struct source *source, const struct source_drain *drain)
{
	char text[192];

	(void) source;
	(void) snprintf(text, sizeof(text), "%s %s %s %llu", drain->id,
			drain->uid ? drain->uid : "-", drain->reason ? drain->reason : "-",
			(unsigned long long) drain->deadline_usec);
	say(userdata, drain->wanted ? "drain" : "undrain", drain->service, text);
}

static const struct source_events events = { on_offered, on_confirmed, on_failed, on_drain };

static int fake_run(void *instance, struct usher_source *source)
{
	struct fake *fake = instance;
	int r;

	atomic_fetch_add(&fake->runs, 1);
	r = fake->body(fake, source);
	fake->ended = true;
	return r;
}

static void fake_done(void *instance)
{
	struct fake *fake = instance;

	if (fake->freed)
		*fake->freed = true;
}

static int hear(struct fake *fake, const char *what, const struct usher_wanted *service,
		const char *rest)
{
	(void) snprintf(fake->heard, sizeof(fake->heard), "%s %s as %s: %s", what, service->service,
			service->name, rest);
	return fake->answer;
}

static int fake_add(void *instance, const struct usher_wanted *service,
		const struct usher_endpoint *endpoint, struct usher_error *reterr)
{
	char text[256];

	(void) reterr;
	(void) snprintf(text, sizeof(text), "%s %s:%u %s=%s", endpoint->id, endpoint->address,
			endpoint->port, endpoint->metadata[0].name, endpoint->metadata[0].value);
	return hear(instance, "add", service, text);
}

static int fake_progress(void *instance, const struct usher_wanted *service, const char *id,
		const struct usher_drain_progress *progress, struct usher_error *reterr)
{
	char text[256];

	(void) reterr;
	(void) snprintf(text, sizeof(text), "%s %d %s %s %s", id, (int) progress->state,
			progress->drain, progress->step, progress->text);
	return hear(instance, "progress", service, text);
}

static int fake_set_state(void *instance, const struct usher_wanted *service, const char *id,
		enum usher_admin_state state, struct usher_error *reterr)
{
	struct fake *fake = instance;

	(void) state;
	(void) hear(fake, "set_state", service, id);
	sem_post(&fake->step);
	sem_wait(&fake->go);
	return fake->answer < 0 ? usher_error_set(reterr, fake->answer, "the registry says no") : 0;
}

static int fake_renew(void *instance, const struct usher_wanted *service, const char *id,
		struct usher_error *reterr)
{
	struct fake *fake = instance;

	(void) hear(fake, "renew", service, id);
	fake->renew_after_usec *= 2;
	return fake->answer < 0 ? usher_error_set(reterr, fake->answer, "it is gone") : 0;
}

static uint64_t fake_renew_after(const void *instance)
{
	return ((const struct fake *) instance)->renew_after_usec;
}

static const struct usher_plugin fake_plugin = {
	.size = sizeof(fake_plugin),
	.name = "fake",
	.instance_size = sizeof(struct fake),
	.done = fake_done,
	.discovery = &(const struct usher_discovery){ .size = sizeof(struct usher_discovery),
			.run = fake_run },
	.registration =
			&(const struct usher_registration){
					.size = sizeof(struct usher_registration),
					.add = fake_add,
					.renew = fake_renew,
					.set_state = fake_set_state,
					.renew_after_usec = fake_renew_after,
					.progress = fake_progress,
			},
};

static int core_setup(void **state)
{
	struct core *core = calloc(1, sizeof(*core));

	assert_ok(sd_event_new(&core->event));
	assert_ok(inbox_new(core->event, &core->inbox));
	*state = core;
	return 0;
}

static int core_teardown(void **state)
{
	struct core *core = *state;

	source_stop(core->source, clock_boot_usec() + LOOP_DEADLINE_USEC);
	inbox_free(core->inbox);
	sd_event_unref(core->event);
	observation_unref(core->last);
	free(core);
	return 0;
}

static struct plugin_instance *instance_new(struct core *core,
		int (*body)(struct fake *, struct usher_source *), struct fake **ret)
{
	struct plugin_instance *instance = calloc(1, sizeof(*instance));
	struct fake *fake = calloc(1, sizeof(*fake));

	fake->body = body;
	fake->core = core;
	sem_init(&fake->step, 0, 0);
	sem_init(&fake->go, 0, 0);
	atomic_init(&instance->refs, 1);
	instance->plugin = &fake_plugin;
	instance->data = fake;
	*ret = fake;
	return instance;
}

static struct fake *start(struct core *core, int (*body)(struct fake *, struct usher_source *))
{
	struct plugin_instance *instance;
	struct fake *fake;

	instance = instance_new(core, body, &fake);
	assert_ok(source_start("files", instance, core->inbox, &events, core, &core->source));
	plugin_instance_unref(instance);
	return fake;
}

static void want(struct core *core, const char *service, const char *name)
{
	const struct usher_wanted wanted = { .service = service, .name = name };

	assert_ok(source_want(core->source, &wanted, 1));
}

static void await_step(struct fake *fake)
{
	struct timespec end;

	(void) clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += (time_t) (LOOP_DEADLINE_USEC / 1000000);
	assert_int_equal(sem_timedwait(&fake->step, &end), 0);
}

static bool has_expected(void *userdata)
{
	struct core *core = userdata;

	return core->count >= core->expected;
}

/* More may come. */
static void await_lines_at_least(struct core *core, unsigned expected)
{
	core->expected = expected;
	loop_until(core->event, has_expected, core);
}

/* For a plug-in that says nothing more before the test lets it. */
static void await_lines(struct core *core, unsigned expected)
{
	await_lines_at_least(core, expected);
	loop_drain(core->event);
	assert_int_equal(core->count, expected);
}

#define assert_line(core, i, text) assert_string_equal((core)->lines[i], text)

/* ---- what a plug-in does ---- */

static struct usher_endpoints *set_of(const char *id)
{
	struct usher_endpoints *set = usher_endpoints_new();
	struct usher_endpoint endpoint = USHER_ENDPOINT_INIT;

	endpoint.id = id;
	endpoint.address = "10.0.0.1";
	endpoint.port = 80;
	if (id)
		(void) usher_endpoints_add(set, &endpoint, NULL);
	return set;
}

static int offer(struct usher_source *source, const char *service, const char *id)
{
	return usher_source_offer(source, service, set_of(id), USHER_FRESH, NULL, 0);
}

static int await_stop(struct usher_source *source)
{
	int r;

	do
		r = usher_source_wait(source, NULL);
	while (r > 0);
	return r;
}

/* Until something is wanted. Returns the first. */
static const struct usher_wanted *await_wanted(struct usher_source *source)
{
	const struct usher_wanted *wanted;
	size_t count;

	for (;;) {
		wanted = usher_source_wanted(source, &count);
		if (count > 0)
			return wanted;
		if (usher_source_wait(source, NULL) <= 0)
			return NULL;
	}
}

/* ---- offers, confirms, failures ---- */

static int offer_once(struct fake *fake, struct usher_source *source)
{
	const struct usher_wanted *wanted = await_wanted(source);

	if (wanted)
		fake->r = usher_source_offer(
				source, wanted->service, set_of("a"), USHER_FRESH, "rev 7", 0);
	return await_stop(source);
}

static void an_offer_reaches_the_core(void **state)
{
	struct core *core = *state;
	struct source_status status;

	start(core, offer_once);
	source_get_status(core->source, &status);
	assert_int_equal(status.state, SOURCE_UNKNOWN);
	want(core, "catalog", "catalog-svc");
	await_lines(core, 1);
	assert_line(core, 0, "offered catalog a");
	assert_string_equal(core->last->revision, "rev 7");

	source_get_status(core->source, &status);
	assert_int_equal(status.state, SOURCE_LIVE);
	assert_int_equal(status.wanted, 1);
	assert_true(status.last_contact_usec > 0);
	assert_int_equal(status.last_contact_usec, status.last_change_usec);
	assert_true(status.running);
	assert_int_equal(status.restarts, 0);
	assert_null(status.error);
	assert_null(status.known);
}

/* Body of several steps: each waits for the test to let it go on. */
static void step(struct fake *fake)
{
	sem_post(&fake->step);
	sem_wait(&fake->go);
}

static int offer_twice(struct fake *fake, struct usher_source *source)
{
	(void) await_wanted(source);
	(void) offer(source, "catalog", "a");
	step(fake);
	(void) offer(source, "catalog", "a");
	step(fake);
	(void) usher_source_offer(source, "catalog", set_of("a"), USHER_SUSPECT, NULL, 0);
	return await_stop(source);
}

static void an_equal_offer_is_a_confirm_and_a_suspect_one_is_not_equal(void **state)
{
	struct core *core = *state;
	struct fake *fake = start(core, offer_twice);

	want(core, "catalog", "catalog");
	await_lines(core, 1);
	sem_post(&fake->go);
	await_lines(core, 2);
	assert_line(core, 1, "confirmed catalog");
	sem_post(&fake->go);
	await_lines(core, 3);
	assert_line(core, 2, "offered catalog a suspect");
}

static int flood(struct fake *fake, struct usher_source *source)
{
	(void) await_wanted(source);
	for (int i = 0; i < 10000; i++) {
		char id[16];

		(void) snprintf(id, sizeof(id), "e%d", i);
		(void) offer(source, "catalog", id);
		usher_source_fail(source, "catalog", -EIO, NULL);
	}
	(void) offer(source, "catalog", "last");
	sem_post(&fake->step);
	return await_stop(source);
}

static void a_flood_of_offers_is_one_event(void **state)
{
	struct core *core = *state;
	struct fake *fake = start(core, flood);

	want(core, "catalog", "catalog");
	await_step(fake);
	await_lines(core, 1);
	assert_line(core, 0, "offered catalog last");
}

static int there_and_back(struct fake *fake, struct usher_source *source)
{
	(void) await_wanted(source);
	(void) offer(source, "catalog", "a");
	step(fake);
	(void) offer(source, "catalog", "b");
	(void) offer(source, "catalog", "a");
	sem_post(&fake->step);
	return await_stop(source);
}

static void a_change_that_is_undone_before_the_core_looks_is_a_confirm(void **state)
{
	struct core *core = *state;
	struct fake *fake = start(core, there_and_back);

	want(core, "catalog", "catalog");
	await_step(fake);
	await_lines(core, 1);
	sem_post(&fake->go);
	await_step(fake);
	await_lines(core, 2);
	assert_line(core, 1, "confirmed catalog");
}

static int offer_confirm_fail(struct fake *fake, struct usher_source *source)
{
	struct usher_error err = {};

	(void) await_wanted(source);
	usher_source_confirm(source, NULL, 0); /* nothing to confirm yet */
	usher_source_confirm(source, "catalog", 0);
	(void) offer(source, "catalog", "a");
	usher_source_confirm(source, NULL, UINT64_MAX);
	(void) usher_error_set(&err, -EACCES, "403 permission denied");
	usher_source_fail(source, NULL, -EACCES, &err);
	sem_post(&fake->step);
	return await_stop(source);
}

static void what_was_said_arrives_in_its_order(void **state)
{
	struct core *core = *state;
	struct fake *fake = start(core, offer_confirm_fail);
	struct source_status status;

	want(core, "catalog", "catalog");
	await_step(fake);
	await_lines(core, 3);
	assert_line(core, 0, "offered catalog a");
	assert_line(core, 1, "confirmed catalog");
	assert_line(core, 2, "failed catalog EACCES: 403 permission denied");
	source_get_status(core->source, &status);
	assert_int_equal(status.state, SOURCE_DENIED);
	assert_string_equal(status.error, "403 permission denied");
}

static int fail_positive(struct fake *fake, struct usher_source *source)
{
	(void) fake;
	(void) await_wanted(source);
	usher_source_fail(source, "catalog", ETIMEDOUT, NULL);
	return await_stop(source);
}

static void a_failure_without_words_gets_the_systems(void **state)
{
	struct core *core = *state;
	struct source_status status;

	start(core, fail_positive);
	want(core, "catalog", "catalog");
	await_lines(core, 1);
	assert_line(core, 0, "failed catalog ETIMEDOUT: Connection timed out");
	source_get_status(core->source, &status);
	assert_int_equal(status.state, SOURCE_FAILED);
}

static int offer_one_and_miss_the_other(struct fake *fake, struct usher_source *source)
{
	(void) fake;
	(void) await_wanted(source);
	(void) offer(source, "catalog", "a");
	usher_source_fail(source, "nosuch", -ENOENT, NULL);
	return await_stop(source);
}

static void a_service_that_the_source_lacks_does_not_make_the_source_fail(void **state)
{
	const struct usher_wanted wanted[] = { { .service = "catalog", .name = "catalog" },
		{ .service = "nosuch", .name = "nosuch" } };
	struct core *core = *state;
	struct source_status status;

	start(core, offer_one_and_miss_the_other);
	assert_ok(source_want(core->source, wanted, 2));
	await_lines(core, 2);
	assert_line(core, 1, "failed nosuch ENOENT: No such file or directory");
	source_get_status(core->source, &status);
	assert_int_equal(status.state, SOURCE_LIVE);
	assert_null(status.error);
}

static int offer_unwanted(struct fake *fake, struct usher_source *source)
{
	(void) await_wanted(source);
	fake->r = offer(source, "nobody-wants-this", "a");
	sem_post(&fake->step);
	return await_stop(source);
}

static void an_offer_that_nobody_wants_is_refused(void **state)
{
	struct core *core = *state;
	struct fake *fake = start(core, offer_unwanted);

	want(core, "catalog", "catalog");
	await_step(fake);
	assert_int_equal(fake->r, -ENOENT);
	loop_drain(core->event);
	assert_int_equal(core->count, 0);
}

/* ---- what is wanted ---- */

static int follow_wanted(struct fake *fake, struct usher_source *source)
{
	for (;;) {
		const struct usher_wanted *wanted;
		size_t count;
		int r;

		wanted = usher_source_wanted(source, &count);
		for (size_t i = 0; i < count; i++)
			(void) offer(source, wanted[i].service, wanted[i].name);
		r = usher_source_wait(source, NULL);
		fake->r = r;
		if (r <= 0)
			return r;
	}
}

static void a_change_of_what_is_wanted_ends_the_wait(void **state)
{
	const struct usher_wanted both[] = { { "search", "search", NULL },
		{ "catalog", "cat", NULL } };
	struct core *core = *state;
	struct fake *fake = start(core, follow_wanted);

	want(core, "catalog", "cat");
	await_lines(core, 1);
	assert_line(core, 0, "offered catalog cat");
	assert_ok(source_want(core->source, both, 2));
	await_lines(core, 3);
	assert_line(core, 1, "confirmed catalog");
	assert_line(core, 2, "offered search search");
	assert_int_equal(fake->r, USHER_WAIT_WANTED);
	/* Whoever has not noticed that it was not wanted meanwhile says it again, as a confirm. */
	assert_ok(source_want(core->source, NULL, 0));
	assert_ok(source_want(core->source, both, 1));
	await_lines_at_least(core, 4);
	assert_line(core, 3, "offered search search");
}

/* The plug-in keeps to the list that it has and does not look again. */
static int stubborn(struct fake *fake, struct usher_source *source)
{
	(void) await_wanted(source);
	(void) offer(source, "catalog", "a");
	step(fake);
	fake->r = offer(source, "catalog", "b");
	sem_post(&fake->step);
	return await_stop(source);
}

static void an_answer_for_the_old_name_is_none_for_the_new(void **state)
{
	struct core *core = *state;
	struct fake *fake = start(core, stubborn);

	want(core, "catalog", "old-name");
	await_lines(core, 1);
	await_step(fake);
	want(core, "catalog", "new-name");
	sem_post(&fake->go);
	await_step(fake);
	assert_int_equal(fake->r, -ENOENT);
	loop_drain(core->event);
	assert_int_equal(core->count, 1);
}

static void what_is_wanted_again_unnoticed_is_delivered_again(void **state)
{
	struct core *core = *state;
	struct fake *fake = start(core, stubborn);

	want(core, "catalog", "catalog");
	await_lines(core, 1);
	await_step(fake);
	assert_ok(source_want(core->source, NULL, 0));
	want(core, "catalog", "catalog");
	await_lines(core, 2);
	assert_line(core, 1, "offered catalog a");
	sem_post(&fake->go);
	await_lines(core, 3);
	assert_line(core, 2, "offered catalog b");
}

static void what_is_not_wanted_any_more_is_not_delivered(void **state)
{
	struct core *core = *state;
	struct fake *fake = start(core, stubborn);

	want(core, "catalog", "catalog");
	await_step(fake);
	assert_ok(source_want(core->source, NULL, 0));
	loop_drain(core->event);
	assert_int_equal(core->count, 0);
	sem_post(&fake->go);
}

static int just_wait(struct fake *fake, struct usher_source *source)
{
	(void) fake;
	return await_stop(source);
}

static int want_two(void *userdata)
{
	const struct usher_wanted both[] = { { "search", "search", "http" },
		{ "catalog", "cat", NULL } };
	struct core *core = userdata;

	return source_want(core->source, both, 2);
}

static void running_out_of_memory_leaves_what_is_wanted(void **state)
{
	struct core *core = *state;
	struct source_status status;

	start(core, just_wait);
	want(core, "catalog", "catalog");
	assert_survives_oom(want_two, core);
	source_get_status(core->source, &status);
	assert_int_equal(status.wanted, 2);
}

/* ---- faults ---- */

static int give_up_once(struct fake *fake, struct usher_source *source)
{
	(void) await_wanted(source);
	if (fake->runs == 1)
		return -ECONNRESET;
	sem_wait(&fake->go); /* an offer before the core has looked would be all that it sees */
	(void) offer(source, "catalog", "a");
	return await_stop(source);
}

static void a_plug_in_that_gives_up_is_run_again(void **state)
{
	struct core *core = *state;
	struct fake *fake = start(core, give_up_once);
	struct source_status status;

	want(core, "catalog", "catalog");
	await_lines(core, 1);
	assert_line(core, 0,
			"failed catalog ECONNRESET: plug-in fake gave up: Connection reset by "
			"peer");
	sem_post(&fake->go);
	await_lines(core, 2);
	assert_line(core, 1, "offered catalog a");
	assert_int_equal(fake->runs, 2);
	source_get_status(core->source, &status);
	assert_int_equal(status.restarts, 1);
	assert_int_equal(status.state, SOURCE_LIVE);
	assert_null(status.error);
}

static int say_why_and_give_up(struct fake *fake, struct usher_source *source)
{
	struct usher_error err = {};

	(void) await_wanted(source);
	if (fake->runs > 1)
		return await_stop(source);
	(void) usher_error_set(&err, -EACCES, "the token has expired");
	usher_source_fail(source, NULL, -EACCES, &err);
	return 0;
}

static bool has_run_twice(void *userdata)
{
	struct fake *fake = userdata;

	return fake->runs == 2;
}

static void the_reason_that_the_plug_in_gave_outlives_its_end(void **state)
{
	struct core *core = *state;
	struct fake *fake = start(core, say_why_and_give_up);
	struct source_status status;

	want(core, "catalog", "catalog");
	loop_until(core->event, has_run_twice, fake);
	await_lines(core, 1);
	assert_line(core, 0, "failed catalog EACCES: the token has expired");
	source_get_status(core->source, &status);
	assert_string_equal(status.error, "the token has expired");
	assert_int_equal(status.state, SOURCE_DENIED);
}

/* ---- stopping ---- */

static void a_waiting_plug_in_is_stopped_at_once(void **state)
{
	struct core *core = *state;
	struct fake *fake = start(core, just_wait);
	struct plugin_instance *instance = (void *) (uintptr_t) source_instance(core->source);

	plugin_instance_ref(instance);
	core->source = source_stop(core->source, clock_boot_usec() + LOOP_DEADLINE_USEC);
	assert_true(fake->ended || fake->runs == 0);
	plugin_instance_unref(instance);
}

static int ignore_stop(struct fake *fake, struct usher_source *source)
{
	(void) await_wanted(source);
	step(fake);
	fake->r = offer(source, "catalog", "late");
	usher_source_confirm(source, NULL, 0);
	usher_source_fail(source, NULL, -EIO, NULL);
	usher_source_known(source, &(const char *){ "catalog" }, 1);
	assert_int_equal(usher_source_wait(source, &(const struct usher_wait){ .backoff = true }),
			0);
	sem_post(&fake->step);
	sem_wait(&fake->go);
	return 0;
}

static void a_plug_in_that_does_not_stop_is_left_behind_and_harmless(void **state)
{
	struct core *core = *state;
	struct fake *fake = start(core, ignore_stop);
	atomic_bool freed = false;

	fake->freed = &freed;
	want(core, "catalog", "catalog");
	await_step(fake);
	core->source = source_stop(core->source, 0);
	core->inbox = inbox_free(core->inbox);
	assert_false(freed);

	sem_post(&fake->go);
	await_step(fake);
	assert_int_equal(fake->r, -ENOENT);
	assert_int_equal(core->count, 0);
	sem_post(&fake->go); /* it ends, and takes with it what it held */
	while (!freed)
		(void) sched_yield();
	assert_ok(inbox_new(core->event, &core->inbox));
}

static void a_source_may_be_stopped_inside_its_own_event(void **state)
{
	struct core *core = *state;
	struct fake *fake = start(core, offer_confirm_fail);

	core->stop_in_callback = true;
	want(core, "catalog", "catalog");
	await_step(fake);
	await_lines(core, 1);
	assert_null(core->source);
}

static void a_message_under_way_is_dropped_with_the_source(void **state)
{
	struct core *core = *state;
	struct fake *fake = start(core, offer_confirm_fail);

	want(core, "catalog", "catalog");
	await_step(fake);
	core->source = source_stop(core->source, clock_boot_usec() + LOOP_DEADLINE_USEC);
	loop_drain(core->event);
	assert_int_equal(core->count, 0);
}

static int look_at_thread(struct fake *fake, struct usher_source *source)
{
	char name[16];
	sigset_t blocked;

	(void) pthread_getname_np(pthread_self(), name, sizeof(name));
	(void) pthread_sigmask(SIG_BLOCK, NULL, &blocked);
	fake->r = strcmp(usher_source_name(source), "files") == 0 &&
			sigismember(&blocked, SIGTERM) == 1 && sigismember(&blocked, SIGHUP) == 1;
	sem_post(&fake->step);
	return await_stop(source);
}

static void the_thread_leaves_signals_to_the_core(void **state)
{
	struct core *core = *state;
	struct fake *fake = start(core, look_at_thread);

	await_step(fake);
	assert_int_equal(fake->r, 1);
}

/* ---- known ---- */

static int know_some(struct fake *fake, struct usher_source *source)
{
	const char *const names[] = { "search", "catalog", "", NULL, "search" };

	(void) fake;
	usher_source_known(source, names, 5);
	return await_stop(source);
}

static bool knows(void *userdata)
{
	struct core *core = userdata;
	struct source_status status;

	source_get_status(core->source, &status);
	return status.known;
}

static void known_names_are_sorted_and_listed_once(void **state)
{
	struct core *core = *state;
	struct source_status status;

	start(core, know_some);
	loop_until(core->event, knows, core);
	source_get_status(core->source, &status);
	assert_int_equal(status.known_count, 2);
	assert_string_equal(status.known[0], "catalog");
	assert_string_equal(status.known[1], "search");
	assert_null(status.known[2]);
}

static int know_too_many(struct fake *fake, struct usher_source *source)
{
	size_t count = SOURCE_KNOWN_MAX + 10;
	char **names = calloc(count, sizeof(*names));

	(void) fake;
	for (size_t i = 0; i < count; i++)
		assert_true(asprintf(&names[i], "s%06zu", i) > 0);
	usher_source_known(source, (const char *const *) names, count);
	for (size_t i = 0; i < count; i++)
		free(names[i]);
	free(names);
	return await_stop(source);
}

static void known_names_have_a_maximum(void **state)
{
	struct core *core = *state;
	struct source_status status;

	start(core, know_too_many);
	loop_until(core->event, knows, core);
	source_get_status(core->source, &status);
	assert_int_equal(status.known_count, SOURCE_KNOWN_MAX);
}

/* ---- waiting ---- */

static int wait_for_everything(struct fake *fake, struct usher_source *source)
{
	struct usher_wait wait = { .size = sizeof(wait), .path = fake->path };
	int r;

	fake->r = usher_source_wait(source, &(const struct usher_wait){ .events = 1, .fd = -1 }) ==
					-EINVAL &&
			usher_source_wait(
					source, &(const struct usher_wait){ .path = "relative" }) ==
					-EINVAL &&
			usher_source_wait(source, &(const struct usher_wait){ .size = 4096 }) ==
					-EINVAL;
	step(fake);
	fake->r = usher_source_wait(source, &(const struct usher_wait){ .timeout_usec = 1 });
	step(fake);
	fake->r = usher_source_wait(source, &(const struct usher_wait){ .backoff = true });
	step(fake);
	fake->r = usher_source_wait(
			source, &(const struct usher_wait){ .fd = fake->fd, .events = 1 });
	step(fake);
	fake->r = usher_source_wait(source, &wait); /* it may have changed since it was read */
	step(fake);
	do
		r = usher_source_wait(source, &wait);
	while (r == USHER_WAIT_WANTED);
	fake->r = r;
	step(fake);
	return await_stop(source);
}

static int next_result(struct fake *fake)
{
	await_step(fake);
	return fake->r;
}

static void the_wait_ends_with_whatever_comes_first(void **state)
{
	struct core *core = *state;
	struct plugin_instance *instance;
	struct fake *fake;
	int ends[2], file;

	instance = instance_new(core, wait_for_everything, &fake);
	assert_int_equal(pipe(ends), 0);
	fake->fd = ends[0];
	(void) snprintf(fake->path, sizeof(fake->path), "/tmp/usher-source-XXXXXX");
	file = mkstemp(fake->path);
	assert_true(file >= 0);
	assert_ok(source_start("files", instance, core->inbox, &events, core, &core->source));
	plugin_instance_unref(instance);

	assert_int_equal(next_result(fake), 1);
	sem_post(&fake->go);
	assert_int_equal(next_result(fake), USHER_WAIT_TIMEOUT);
	sem_post(&fake->go);
	assert_int_equal(next_result(fake), USHER_WAIT_TIMEOUT);
	sem_post(&fake->go);
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_int_equal(next_result(fake), USHER_WAIT_FD);
	sem_post(&fake->go);
	assert_int_equal(next_result(fake), USHER_WAIT_PATH);
	assert_int_equal(write(file, "x", 1), 1);
	assert_int_equal(close(file), 0);
	sem_post(&fake->go);
	assert_int_equal(next_result(fake), USHER_WAIT_PATH);
	(void) unlink(fake->path);
	sem_post(&fake->go);
	(void) close(ends[0]);
	(void) close(ends[1]);
}

static void back_off_doubles_to_its_maximum_with_full_jitter(void **state)
{
	(void) state;
	assert_int_equal(source_backoff_ceiling_usec(0), 200000);
	assert_int_equal(source_backoff_ceiling_usec(1), 400000);
	assert_int_equal(source_backoff_ceiling_usec(7), 25600000);
	assert_int_equal(source_backoff_ceiling_usec(8), SOURCE_BACKOFF_MAX_USEC);
	assert_int_equal(source_backoff_ceiling_usec(UINT32_MAX), SOURCE_BACKOFF_MAX_USEC);
	assert_int_equal(source_backoff_usec(0, 0), 1);
	assert_int_equal(source_backoff_usec(0, 199999), 200000);
	assert_int_equal(source_backoff_usec(20, SOURCE_BACKOFF_MAX_USEC - 1),
			SOURCE_BACKOFF_MAX_USEC);
}

/* ---- HTTP ---- */

static struct scripted_server server;

static bool answer_with_an_id(struct scripted_connection *c)
{
	return scripted_reply(c, "200 OK", "", "from-http");
}

static struct usher_http *open_http(struct usher_source *source)
{
	static const char *servers[] = { server.url, NULL };
	static const struct usher_http_options options = {
		.servers = servers, .connections = 4, .connect_timeout_usec = LOOP_DEADLINE_USEC
	};
	const struct usher_http_config config = { .size = sizeof(config), .options = &options };
	struct usher_http *h = NULL;

	assert_ok(usher_http_new(source, &config, &h, NULL));
	return h;
}

/* Ask once, offer what the answer says. */
static int offer_what_http_says(struct fake *fake, struct usher_source *source)
{
	struct usher_http *h = open_http(source);
	const struct usher_http_request request = {
		.size = sizeof(request), .path = "/", .timeout_usec = LOOP_DEADLINE_USEC
	};
	struct usher_http_event event = USHER_HTTP_EVENT_INIT;
	const struct usher_wanted *wanted = await_wanted(source);

	(void) fake;
	assert_ok(usher_http_start(h, &request, NULL));
	while (usher_source_wait(source, NULL) > 0)
		while (usher_http_next(h, &event))
			(void) usher_source_offer(source, wanted[0].service, set_of(event.data),
					USHER_FRESH, NULL, event.started_usec);
	usher_http_free(h);
	return 0;
}

static void an_http_answer_ends_the_wait(void **state)
{
	struct core *core = *state;

	scripted_server_start(&server, answer_with_an_id, NULL);
	start(core, offer_what_http_says);
	want(core, "catalog", "catalog");
	await_lines(core, 1);
	assert_string_equal(core->lines[0], "offered catalog from-http");
	core->source = source_stop(core->source, clock_boot_usec() + LOOP_DEADLINE_USEC);
	scripted_server_stop(&server);
}

static int call_who_never_answers(struct fake *fake, struct usher_source *source)
{
	struct usher_http *h = open_http(source);
	const struct usher_http_request request = {
		.size = sizeof(request), .path = "/", .timeout_usec = UINT64_C(3600000000)
	};
	struct usher_http_event event = USHER_HTTP_EVENT_INIT;

	sem_post(&fake->step);
	fake->r = usher_http_do(h, &request, &event, NULL);
	usher_http_free(h);
	return await_stop(source);
}

static void the_order_to_stop_breaks_a_call_off(void **state)
{
	struct core *core = *state;
	struct plugin_instance *instance;
	struct fake *fake;

	scripted_server_start(&server, scripted_hang, NULL);
	fake = start(core, call_who_never_answers);
	instance = (void *) (uintptr_t) source_instance(core->source);
	plugin_instance_ref(instance);
	await_step(fake);
	core->source = source_stop(core->source, clock_boot_usec() + LOOP_DEADLINE_USEC);
	assert_errno(fake->r, ECANCELED);
	plugin_instance_unref(instance);
	scripted_server_stop(&server);
}

/* ---- registration ---- */

struct answer {
	bool given;
	unsigned times;
	int r;
	char reason[128];
};

static void on_registered(void *userdata, int r, const char *reason)
{
	struct answer *answer = userdata;

	answer->given = true;
	answer->times++;
	answer->r = r;
	(void) snprintf(answer->reason, sizeof(answer->reason), "%s", reason);
}

static bool is_answered(void *userdata)
{
	struct answer *answer = userdata;

	return answer->given;
}

static const struct usher_wanted catalog = { .service = "catalog", .name = "catalog-svc" };

static void registering_hands_the_whole_endpoint_over(void **state)
{
	const struct usher_label labels[] = { { "color", "blue" } };
	struct usher_endpoint endpoint = USHER_ENDPOINT_INIT;
	struct core *core = *state;
	struct fake *fake = start(core, just_wait);
	struct answer answer = {};

	endpoint.id = "a";
	endpoint.address = "10.0.0.1";
	endpoint.port = 80;
	endpoint.metadata = labels;
	endpoint.metadata_count = 1;
	assert_true(source_can(core->source, SOURCE_ADD));
	assert_non_null(source_register(core->source, SOURCE_ADD, &catalog, &endpoint, NULL,
			USHER_ADMIN_READY, on_registered, &answer));
	assert_false(answer.given);
	loop_until(core->event, is_answered, &answer);
	assert_int_equal(answer.r, 0);
	assert_string_equal(fake->heard, "add catalog as catalog-svc: a 10.0.0.1:80 color=blue");
}

static void renew(struct core *core, struct answer *ret)
{
	*ret = (struct answer){};
	assert_non_null(source_register(core->source, SOURCE_RENEW, &catalog, NULL, "a",
			USHER_ADMIN_READY, on_registered, ret));
	loop_until(core->event, is_answered, ret);
}

static void when_to_renew_is_what_the_plug_in_said_after_the_last_that_succeeded(void **state)
{
	struct core *core = *state;
	struct fake *fake = start(core, just_wait);
	struct answer answer;

	assert_int_equal(source_renew_after_usec(core->source), 0);
	fake->renew_after_usec = 50;
	renew(core, &answer);
	assert_int_equal(source_renew_after_usec(core->source), 100);
	renew(core, &answer);
	assert_int_equal(source_renew_after_usec(core->source), 200);
	fake->answer = -ENOENT;
	renew(core, &answer);
	assert_int_equal(answer.r, -ENOENT);
	assert_int_equal(source_renew_after_usec(core->source), 200);
}

static struct registration_job *set_state(
		struct core *core, const char *id, source_registered done, void *userdata)
{
	return source_register(core->source, SOURCE_SET_STATE, &catalog, NULL, id,
			USHER_ADMIN_DRAINING, done, userdata);
}

static void the_registrys_refusal_arrives_with_its_words(void **state)
{
	struct core *core = *state;
	struct fake *fake = start(core, just_wait);
	struct answer answer = {};

	fake->answer = -EROFS;
	sem_post(&fake->go);
	assert_non_null(set_state(core, "a", on_registered, &answer));
	loop_until(core->event, is_answered, &answer);
	assert_int_equal(answer.r, -EROFS);
	assert_string_equal(answer.reason, "the registry says no");
}

static void what_a_plug_in_cannot_do_is_said(void **state)
{
	struct core *core = *state;
	struct answer answer = {};

	start(core, just_wait);
	assert_false(source_can(core->source, SOURCE_REMOVE));
	assert_non_null(source_register(core->source, SOURCE_REMOVE, &catalog, NULL, "a",
			USHER_ADMIN_READY, on_registered, &answer));
	assert_false(answer.given);
	loop_until(core->event, is_answered, &answer);
	assert_int_equal(answer.r, -EOPNOTSUPP);
	assert_string_equal(answer.reason,
			"plug-in fake of source files cannot deregister an endpoint");
}

static void an_endpoint_that_cannot_be_is_refused_before_the_registry_hears_of_it(void **state)
{
	struct usher_endpoint endpoint = USHER_ENDPOINT_INIT;
	struct core *core = *state;
	struct fake *fake = start(core, just_wait);
	struct answer answer = {};

	endpoint.address = "10.0.0.1"; /* and no port */
	assert_non_null(source_register(core->source, SOURCE_ADD, &catalog, &endpoint, NULL,
			USHER_ADMIN_READY, on_registered, &answer));
	loop_until(core->event, is_answered, &answer);
	assert_int_equal(answer.r, -EINVAL);
	assert_string_equal(fake->heard, "");
}

static void stopping_cancels_what_waits_for_the_registry(void **state)
{
	struct core *core = *state;
	struct fake *fake = start(core, just_wait);
	struct answer first = {}, second = {};
	atomic_bool freed = false;

	fake->freed = &freed;
	assert_non_null(set_state(core, "a", on_registered, &first));
	assert_non_null(set_state(core, "b", on_registered, &second));
	await_step(fake); /* the first is with the registry, and hangs there */
	core->source = source_stop(core->source, clock_boot_usec() + 1000);
	assert_int_equal(first.r, -ECANCELED);
	assert_int_equal(second.r, -ECANCELED);
	sem_post(&fake->go);
	while (!freed)
		(void) sched_yield();
	loop_drain(core->event);
	assert_int_equal(first.times, 1);
	assert_int_equal(second.times, 1);
}

static void a_forgotten_job_answers_nobody(void **state)
{
	struct core *core = *state;
	struct fake *fake = start(core, just_wait);
	struct answer forgotten = {}, next = {};

	source_forget(set_state(core, "a", on_registered, &forgotten));
	assert_non_null(set_state(core, "b", on_registered, &next));
	sem_post(&fake->go);
	sem_post(&fake->go);
	loop_until(core->event, is_answered, &next);
	assert_false(forgotten.given);
}

static void jobs_that_wait_have_a_maximum(void **state)
{
	struct core *core = *state;
	struct fake *fake = start(core, just_wait);
	struct answer answer = {};

	for (int i = 0; i < SOURCE_REGISTRATIONS_MAX; i++)
		assert_non_null(set_state(core, "a", on_registered, &answer));
	assert_null(set_state(core, "a", on_registered, &answer));
	for (int i = 0; i < SOURCE_REGISTRATIONS_MAX; i++)
		sem_post(&fake->go);
	core->source = source_stop(core->source, clock_boot_usec() + LOOP_DEADLINE_USEC);
	assert_int_equal(answer.times, SOURCE_REGISTRATIONS_MAX);
}

static int ask_for_drains(struct fake *fake, struct usher_source *source)
{
	const struct usher_drain_request request = { .size = sizeof(request),
		.service = "catalog",
		.id = "a",
		.uid = "u1",
		.reason = "it goes",
		.deadline_usec = 7 };
	struct usher_drain_request other = { .size = offsetof(struct usher_drain_request, uid),
		.service = "catalog",
		.id = "b",
		.uid = "beyond the size" };
	struct usher_drain_request nobodys = { .service = "search", .id = "a" };
	int r;

	(void) await_wanted(source);
	r = usher_source_drain(source, &nobodys);
	if (r == -ENOENT)
		r = usher_source_drain(source, &other);
	if (r == 0)
		r = usher_source_undrain(source, "catalog", "a");
	if (r == 0)
		r = usher_source_drain(source, &request);
	fake->r = r;
	sem_post(&fake->step);
	return just_wait(fake, source);
}

static void of_each_endpoints_drain_the_last_word_reaches_the_core(void **state)
{
	struct core *core = *state;
	struct fake *fake = start(core, ask_for_drains);

	want(core, "catalog", "there");
	sem_wait(&fake->step);
	assert_ok(fake->r);
	await_lines(core, 2);
	assert_string_equal(core->lines[0], "drain catalog b - - 0");
	assert_string_equal(core->lines[1], "drain catalog a u1 it goes 7");
}

static int ask_for_too_many_drains(struct fake *fake, struct usher_source *source)
{
	char id[32];
	int r = 0;

	(void) await_wanted(source);
	for (int i = 0; i < SOURCE_DRAINS_MAX && r == 0; i++) {
		(void) snprintf(id, sizeof(id), "%d", i);
		r = usher_source_undrain(source, "catalog", id);
	}
	fake->r = r < 0 ? 1 : usher_source_undrain(source, "catalog", "one more");
	sem_post(&fake->step);
	return just_wait(fake, source);
}

static void drains_that_the_core_has_not_heard_of_have_a_maximum(void **state)
{
	struct core *core = *state;
	struct fake *fake = start(core, ask_for_too_many_drains);

	want(core, "catalog", "there");
	sem_wait(&fake->step);
	assert_errno(fake->r, E2BIG);
	core->source = source_stop(core->source, clock_boot_usec() + LOOP_DEADLINE_USEC);
}

static void the_plug_in_is_told_how_its_drain_goes(void **state)
{
	struct core *core = *state;
	struct fake *fake = start(core, just_wait);
	struct answer answer = {};

	assert_non_null(source_tell_progress(core->source,
			&(const struct usher_wanted){ .service = "catalog", .name = "there" }, "a",
			&(const struct usher_drain_progress){ .state = USHER_DRAIN_RUNNING,
					.drain = "d-1",
					.step = "propagation",
					.text = "waits" },
			on_registered, &answer));
	loop_until(core->event, is_answered, &answer);
	assert_ok(answer.r);
	assert_string_equal(fake->heard, "progress catalog as there: a 1 d-1 propagation waits");
}

#define source_test(f) cmocka_unit_test_setup_teardown(f, core_setup, core_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		source_test(an_offer_reaches_the_core),
		source_test(an_equal_offer_is_a_confirm_and_a_suspect_one_is_not_equal),
		source_test(a_flood_of_offers_is_one_event),
		source_test(a_change_that_is_undone_before_the_core_looks_is_a_confirm),
		source_test(what_was_said_arrives_in_its_order),
		source_test(a_failure_without_words_gets_the_systems),
		source_test(a_service_that_the_source_lacks_does_not_make_the_source_fail),
		source_test(an_offer_that_nobody_wants_is_refused),
		source_test(a_change_of_what_is_wanted_ends_the_wait),
		source_test(an_answer_for_the_old_name_is_none_for_the_new),
		source_test(what_is_wanted_again_unnoticed_is_delivered_again),
		source_test(what_is_not_wanted_any_more_is_not_delivered),
		source_test(running_out_of_memory_leaves_what_is_wanted),
		source_test(a_plug_in_that_gives_up_is_run_again),
		source_test(the_reason_that_the_plug_in_gave_outlives_its_end),
		source_test(a_waiting_plug_in_is_stopped_at_once),
		source_test(a_plug_in_that_does_not_stop_is_left_behind_and_harmless),
		source_test(a_source_may_be_stopped_inside_its_own_event),
		source_test(a_message_under_way_is_dropped_with_the_source),
		source_test(the_thread_leaves_signals_to_the_core),
		source_test(known_names_are_sorted_and_listed_once),
		source_test(known_names_have_a_maximum),
		source_test(the_wait_ends_with_whatever_comes_first),
		source_test(an_http_answer_ends_the_wait),
		source_test(the_order_to_stop_breaks_a_call_off),
		source_test(registering_hands_the_whole_endpoint_over),
		source_test(when_to_renew_is_what_the_plug_in_said_after_the_last_that_succeeded),
		source_test(the_registrys_refusal_arrives_with_its_words),
		source_test(what_a_plug_in_cannot_do_is_said),
		source_test(an_endpoint_that_cannot_be_is_refused_before_the_registry_hears_of_it),
		source_test(stopping_cancels_what_waits_for_the_registry),
		source_test(a_forgotten_job_answers_nobody),
		source_test(jobs_that_wait_have_a_maximum),
		source_test(of_each_endpoints_drain_the_last_word_reaches_the_core),
		source_test(drains_that_the_core_has_not_heard_of_have_a_maximum),
		source_test(the_plug_in_is_told_how_its_drain_goes),
		cmocka_unit_test(back_off_doubles_to_its_maximum_with_full_jitter),
	};

	return cmocka_run_group_tests_name("source", tests, NULL, NULL);
}
