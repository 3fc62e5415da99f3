#pragma once

/* A rollout on a bench: the real reconciler, loop, worker and hooks, between a directory, a
 * registry and a disk that do what the test says. One service, catalog, with one source, files.
 *
 * The functions of directory.h, context.h, source.h and store.h that a rollout calls are defined
 * here, in place of the daemon's own. */

#include <inttypes.h>
#include <unistd.h>

#include "clock.h"
#include "directory.h"
#include "ownership.h"
#include "rollout.h"
#include "store.h"
#include "test.h"
#include "worker.h"

#define BENCH_ENDPOINTS 8
#define BENCH_LOG       4096
#define BENCH_WHATS     (SOURCE_PROGRESS + 1)
#define BENCH_PATIENCE  (120 * USEC_PER_SEC)

struct bench_endpoint {
	const char *id, *uid;
	uint16_t port;
	enum usher_admin_state admin_state;
	bool gone;
};

struct bench_override {
	bool set;
	char id[64], uid[64];
	struct override value;
};

struct registration_job {
	source_registered done;
	void *userdata;
	enum source_registration what;
	enum usher_admin_state state;
	char id[64];
	bool forgotten;
	sd_event_source *source;
};

struct bench_post {
	store_done done;
	void *userdata;
	sd_event_source *source;
	char id[64], *json;
	bool finished;
};

static struct bench {
	sd_event *event;
	struct inbox *inbox;
	struct worker *worker;
	struct rollout *rollout;

	/* the registry */
	struct bench_endpoint endpoints[BENCH_ENDPOINTS];
	size_t count;
	bool cannot[BENCH_WHATS];    /* by enum source_registration */
	int answer;                  /* to every registration; 0: it is done */
	bool silent;                 /* it never answers */
	bool late;                   /* it shows nothing new until bench_show() */
	unsigned asked[BENCH_WHATS]; /* how often */
	struct registration_job *job;

	/* what the source is told of its drains */
	struct registration_job *telling;
	char progress[BENCH_LOG]; /* "catalog-a running requested; ..." */
	char progress_text[512];  /* of the last */
	int progress_answer;
	uint64_t serial; /* of the source */

	/* the directory */
	struct config config;
	struct service_config service;
	struct feed_config feed_config;
	struct feed feed;
	struct snapshot *snapshot;
	struct bench_override override;
	uint64_t revision;
	bool not_live;
	bool feed_gone; /* nobody shows what the snapshot still has */
	const struct directory_events *events;
	void *events_userdata;

	/* the disk */
	struct bench_post posts[64];
	size_t post_count;
	bool disk_fails;
	struct {
		char id[64], *json;
		bool finished;
	} disk[256];
	size_t disk_count;

	/* above */
	struct consumer_evidence consumers;
	struct in_flight_evidence in_flight;
	unsigned (*in_flight_now)(void);
	unsigned changes;
	char told[BENCH_LOG]; /* what has happened, in order, a word each */
} bench;

struct context {
	int unused;
};
struct store {
	int unused;
};
struct directory {
	int unused;
};
struct source {
	int unused;
};
static struct context bench_context;
static struct store bench_store;
static struct directory bench_directory;
static struct source bench_source;

static void bench_tell(const char *word)
{
	size_t used = strlen(bench.told);

	(void) snprintf(bench.told + used, sizeof(bench.told) - used, "%s%s", used ? " " : "",
			word);
}

/* ---- the directory ---- */

static bool bench_binds(const struct usher_endpoint *e)
{
	const struct bench_override *o = &bench.override;

	return o->set && strcmp(o->id, e->id) == 0 &&
			(!o->value.uid || (e->uid && strcmp(o->uid, e->uid) == 0));
}

static void bench_publish(void)
{
	struct usher_endpoints *all = bench.feed.observation->endpoints;
	struct snapshot_entry entries[BENCH_ENDPOINTS] = {};
	struct snapshot *next;

	for (size_t i = 0; i < usher_endpoints_count(all); i++) {
		struct usher_endpoint e;
		bool bound;

		usher_endpoints_get(all, i, &e);
		bound = bench_binds(&e);
		entries[i] = (struct snapshot_entry){ .weight = 1,
			.effective = 1000,
			.stage = SNAPSHOT_NO_STAGE,
			.admin_state = (uint8_t) e.admin_state,
			.listed = true };
		if (bound && bench.override.value.admin_state > e.admin_state)
			entries[i].admin_state = (uint8_t) bench.override.value.admin_state;
		if (bound && bench.override.value.withdrawn) {
			entries[i].withdrawn = true;
			entries[i].listed = false;
		}
		entries[i].chosen =
				entries[i].listed && entries[i].admin_state == USHER_ADMIN_READY;
	}
	next = snapshot_new(all, entries);
	assert_non_null(next);
	if (bench.snapshot && snapshot_equal(bench.snapshot, next)) {
		(void) snapshot_unref(next);
		return;
	}
	next->revision = ++bench.revision;
	(void) snapshot_unref(bench.snapshot);
	bench.snapshot = next;
	if (bench.events)
		bench.events->published(bench.events_userdata, &bench_context, NULL);
}

/* The source says what the registry holds. */
static void bench_show(void)
{
	struct usher_endpoints *set = usher_endpoints_new();

	for (size_t i = 0; i < bench.count; i++) {
		const struct bench_endpoint *b = &bench.endpoints[i];
		struct usher_endpoint e = USHER_ENDPOINT_INIT;

		if (b->gone)
			continue;
		e.id = b->id;
		e.uid = b->uid;
		e.address = "127.0.0.1";
		e.port = b->port;
		e.admin_state = b->admin_state;
		assert_ok(usher_endpoints_add(set, &e, NULL));
	}
	usher_endpoints_seal(set);
	(void) observation_unref(bench.feed.observation);
	bench.feed.observation = observation_new(set, USHER_FRESH, NULL, clock_boot_usec());
	bench.feed.observed_usec = clock_boot_usec();
	bench.feed.restored = false;
	bench_publish();
	if (bench.events)
		bench.events->renewed(bench.events_userdata, &bench_context);
}

int directory_subscribe(struct directory *d, const struct directory_events *events, void *userdata)
{
	(void) d;
	bench.events = events;
	bench.events_userdata = userdata;
	return 0;
}

struct context *directory_find(struct directory *d, const char *service)
{
	(void) d;
	return strcmp(service, "catalog") == 0 ? &bench_context : NULL;
}

int directory_get(struct directory *d, const char *service, struct context **ret,
		struct usher_error *reterr)
{
	*ret = directory_find(d, service);
	return *ret ? 0 : usher_error_set(reterr, -ENOENT, "unknown service %s", service);
}

const struct config *directory_config(const struct directory *d)
{
	(void) d;
	return &bench.config;
}

uint64_t directory_revision(const struct directory *d)
{
	(void) d;
	return bench.revision;
}

const struct override *directory_find_override(
		const struct directory *d, const char *service, const char *id)
{
	(void) d;
	(void) service;
	return bench.override.set && strcmp(bench.override.id, id) == 0 ? &bench.override.value
									: NULL;
}

int directory_set_override(struct directory *d, const char *service,
		const struct override *override, uint64_t *ret_revision)
{
	struct bench_override *o = &bench.override;
	char word[64];

	(void) d;
	(void) service;
	(void) snprintf(o->id, sizeof(o->id), "%s", override->id);
	if (override->uid)
		(void) snprintf(o->uid, sizeof(o->uid), "%s", override->uid);
	o->value = *override;
	o->value.id = o->id;
	o->value.uid = override->uid ? o->uid : NULL;
	o->set = true;
	(void) snprintf(word, sizeof(word), "override:%s",
			override->withdrawn ? "withdrawn"
					: override->admin_state == USHER_ADMIN_DRAINING ? "draining"
											: "ready");
	bench_tell(word);
	bench_publish();
	*ret_revision = bench.revision;
	return 0;
}

int directory_clear_override(
		struct directory *d, const char *service, const char *id, uint64_t *ret_revision)
{
	(void) d;
	(void) service;
	(void) id;
	bench.override.set = false;
	bench_tell("override:none");
	bench_publish();
	*ret_revision = bench.revision;
	return 0;
}

const char *context_service(const struct context *c)
{
	(void) c;
	return "catalog";
}

const struct service_config *context_config(const struct context *c)
{
	(void) c;
	return &bench.service;
}

struct snapshot *context_snapshot(const struct context *c)
{
	(void) c;
	return bench.snapshot;
}

size_t context_feed_count(const struct context *c)
{
	(void) c;
	return 1;
}

const struct feed *context_feed(const struct context *c, size_t i)
{
	(void) c;
	(void) i;
	return &bench.feed;
}

const char *context_source_of(const struct context *c, const struct snapshot *snapshot, size_t i)
{
	(void) c;
	(void) snapshot;
	(void) i;
	return bench.feed_gone ? NULL : bench.feed_config.source;
}

void context_freshness(const struct context *c, uint64_t now_usec, struct freshness *ret)
{
	(void) c;
	(void) now_usec;
	*ret = (struct freshness){ bench.not_live ? SOURCE_FAILED : SOURCE_LIVE, 7 * USEC_PER_SEC,
		30 * USEC_PER_SEC, "files" };
}

/* ---- the source, and what it asks for ---- */

size_t directory_source_count(const struct directory *d)
{
	(void) d;
	return 1;
}

struct source *directory_source_at(const struct directory *d, size_t i)
{
	(void) d;
	(void) i;
	return &bench_source;
}

const char *source_name(const struct source *source)
{
	(void) source;
	return "files";
}

uint64_t source_serial(const struct source *source)
{
	(void) source;
	return 1 + bench.serial;
}

static int bench_on_told(sd_event_source *source, void *userdata)
{
	struct registration_job *job = userdata;
	struct registration_job copy = *job;

	(void) sd_event_source_disable_unref(source);
	free(job);
	bench.telling = NULL;
	if (!copy.forgotten)
		copy.done(copy.userdata, bench.progress_answer,
				bench.progress_answer < 0 ? "says no" : NULL);
	return 0;
}

static const char *bench_state_word(enum usher_drain_state state)
{
	static const char *const words[] = {
		[USHER_DRAIN_REFUSED] = "refused",
		[USHER_DRAIN_RUNNING] = "running",
		[USHER_DRAIN_HELD] = "held",
		[USHER_DRAIN_DONE] = "done",
		[USHER_DRAIN_FAILED] = "failed",
		[USHER_DRAIN_RETURNING] = "returning",
		[USHER_DRAIN_CANCELLED] = "cancelled",
	};

	return words[state];
}

struct registration_job *source_tell_progress(struct source *source,
		const struct usher_wanted *service, const char *id,
		const struct usher_drain_progress *progress, source_registered done, void *userdata)
{
	size_t used = strlen(bench.progress);

	(void) source;
	assert_string_equal(service->service, "catalog");
	assert_true(progress->since_usec > 0);
	assert_null(bench.telling); /* one at a time */
	(void) snprintf(bench.progress + used, sizeof(bench.progress) - used, "%s %s %s; ", id,
			bench_state_word(progress->state), progress->step ? progress->step : "-");
	(void) snprintf(bench.progress_text, sizeof(bench.progress_text), "%s", progress->text);
	bench.telling = calloc(1, sizeof(*bench.telling));
	*bench.telling = (struct registration_job){ .done = done, .userdata = userdata };
	assert_ok(sd_event_add_defer(
			bench.event, &bench.telling->source, bench_on_told, bench.telling));
	return bench.telling;
}

/* As the core hears it from the plug-in. */
static inline void bench_asks(bool wanted, const char *id, const char *uid)
{
	bench.events->drain(bench.events_userdata, &bench_source,
			&(const struct source_drain){ .wanted = wanted,
					.service = "catalog",
					.id = id,
					.uid = uid,
					.reason = "it is to go" });
}

/* ---- the registry ---- */

bool source_can(const struct source *source, enum source_registration what)
{
	(void) source;
	return !bench.cannot[what];
}

static void bench_apply(const struct registration_job *job)
{
	for (size_t i = 0; i < bench.count; i++) {
		struct bench_endpoint *e = &bench.endpoints[i];

		if (strcmp(e->id, job->id) != 0)
			continue;
		if (job->what == SOURCE_REMOVE)
			e->gone = true;
		else if (job->what == SOURCE_ADD)
			e->gone = false;
		e->admin_state = job->what == SOURCE_SET_STATE ? job->state : USHER_ADMIN_READY;
	}
}

static void bench_job_free(struct registration_job *job)
{
	(void) sd_event_source_disable_unref(job->source);
	free(job);
	bench.job = NULL;
}

static int bench_on_job(sd_event_source *source, void *userdata)
{
	struct registration_job *job = userdata;
	struct registration_job copy = *job;

	(void) source;
	if (bench.answer == 0)
		bench_apply(job);
	bench_job_free(job);
	if (bench.answer == 0 && !bench.late)
		bench_show();
	if (!copy.forgotten)
		copy.done(copy.userdata, bench.answer, bench.answer < 0 ? "says no" : NULL);
	return 0;
}

struct registration_job *source_register(struct source *source, enum source_registration what,
		const struct usher_wanted *service, const struct usher_endpoint *endpoint,
		const char *id, enum usher_admin_state state, source_registered done,
		void *userdata)
{
	static const char *const words[] = { [SOURCE_ADD] = "registry:add",
		[SOURCE_RENEW] = "registry:renew",
		[SOURCE_SET_STATE] = "registry:set_state",
		[SOURCE_REMOVE] = "registry:remove" };
	struct registration_job *job = calloc(1, sizeof(*job));

	(void) source;
	(void) service;
	assert_null(bench.job); /* one at a time */
	bench.asked[what]++;
	bench_tell(words[what]);
	*job = (struct registration_job){
		.done = done, .userdata = userdata, .what = what, .state = state
	};
	(void) snprintf(job->id, sizeof(job->id), "%s", endpoint ? endpoint->id : id);
	bench.job = job;
	if (!bench.silent)
		assert_ok(sd_event_add_defer(bench.event, &job->source, bench_on_job, job));
	return job;
}

void source_forget(struct registration_job *job)
{
	job->forgotten = true;
	if (job != bench.telling && !job->source)
		bench_job_free(job);
}

/* ---- the disk ---- */

static void bench_write(const struct bench_post *post)
{
	size_t i = 0;

	while (i < bench.disk_count && strcmp(bench.disk[i].id, post->id) != 0)
		i++;
	assert_true(i < ELEMENTS(bench.disk));
	if (i == bench.disk_count)
		bench.disk_count++;
	free(bench.disk[i].json);
	(void) snprintf(bench.disk[i].id, sizeof(bench.disk[i].id), "%s", post->id);
	bench.disk[i].json = strdup(post->json);
	bench.disk[i].finished = post->finished;
}

static void bench_post_done(struct bench_post *post)
{
	(void) sd_event_source_disable_unref(post->source);
	free(post->json);
	*post = (struct bench_post){};
}

static int bench_on_post(sd_event_source *source, void *userdata)
{
	struct bench_post *post = userdata;
	store_done done = post->done;
	void *whom = post->userdata;
	bool fails = bench.disk_fails;

	(void) source;
	if (!fails) {
		bench_write(post);
		bench_tell("disk");
	}
	bench_post_done(post);
	done(whom, fails ? -ENOSPC : 0, fails ? "No space left on device" : NULL);
	return 0;
}

int store_put_drain(struct store *store, const char *id, const char *json, bool finished,
		store_done done, void *userdata)
{
	struct bench_post *post = bench.posts;

	(void) store;
	while (post->done)
		post++;
	assert_true(post < bench.posts + ELEMENTS(bench.posts));
	*post = (struct bench_post){
		.done = done, .userdata = userdata, .json = strdup(json), .finished = finished
	};
	(void) snprintf(post->id, sizeof(post->id), "%s", id);
	assert_ok(sd_event_add_defer(bench.event, &post->source, bench_on_post, post));
	return 0;
}

int store_remove_drain(struct store *store, const char *id, store_done done, void *userdata)
{
	(void) store;
	(void) done;
	(void) userdata;
	for (size_t i = 0; i < bench.disk_count; i++)
		if (strcmp(bench.disk[i].id, id) == 0)
			bench.disk[i].id[0] = '\0';
	return 0;
}

const char *store_trouble(struct store *store)
{
	(void) store;
	return NULL;
}

/* ---- above ---- */

static void bench_consumers(void *userdata, const char *service, uint64_t revision,
		struct consumer_evidence *ret)
{
	(void) userdata;
	(void) service;
	(void) revision;
	*ret = bench.consumers;
}

static void bench_in_flight(void *userdata, const char *service, const char *endpoint,
		struct in_flight_evidence *ret)
{
	(void) userdata;
	(void) service;
	(void) endpoint;
	*ret = bench.in_flight;
	if (bench.in_flight_now)
		*ret = (struct in_flight_evidence){ 1, bench.in_flight_now() };
}

static void bench_changed(void *userdata, const struct drain_record *record)
{
	(void) userdata;
	(void) record;
	bench.changes++;
}

/* ---- life ---- */

static void bench_start(void)
{
	static const struct rollout_above above = { bench_consumers, bench_in_flight,
		bench_changed };

	assert_ok(inbox_new(bench.event, &bench.inbox));
	assert_ok(worker_new(bench.inbox, "bench", 2, &bench.worker));
	assert_ok(rollout_new(bench.event, &bench_directory, bench.worker, &bench.rollout));
	rollout_set_store(bench.rollout, &bench_store);
	rollout_set_above(bench.rollout, &above, NULL);
	for (size_t i = 0; i < bench.disk_count; i++)
		if (bench.disk[i].id[0])
			rollout_restore_drain(bench.rollout,
					&(const struct stored_drain){ bench.disk[i].id,
							bench.disk[i].json,
							bench.disk[i].finished });
	rollout_start(bench.rollout);
}

/* As kill -9 does: what is not on disk is lost, what the registry was asked for goes on. */
static void bench_stop(void)
{
	bench.rollout = rollout_free(bench.rollout);
	bench.worker = worker_free(bench.worker);
	bench.inbox = inbox_free(bench.inbox);
	for (size_t i = 0; i < ELEMENTS(bench.posts); i++)
		if (bench.posts[i].done)
			bench_post_done(&bench.posts[i]);
	bench.events = NULL;
	bench.override.set = false;
}

static void bench_restart(void)
{
	bench_stop();
	bench_start();
}

static void bench_add(const char *id, const char *uid, uint16_t port)
{
	bench.endpoints[bench.count++] =
			(struct bench_endpoint){ .id = id, .uid = uid, .port = port };
}

static int bench_setup(void **state)
{
	(void) state;
	bench = (struct bench){};
	assert_ok(sd_event_new(&bench.event));
	bench.feed_config = (struct feed_config){ .source = (char *) (uintptr_t) "files",
		.name = (char *) (uintptr_t) "catalog" };
	bench.feed = (struct feed){
		.config = &bench.feed_config, .source = &bench_source, .state = SOURCE_LIVE
	};
	bench.service = (struct service_config){ .name = (char *) (uintptr_t) "catalog",
		.feeds = &bench.feed_config,
		.feed_count = 1,
		.drain = { .on_propagation_timeout = BUDGET_FAIL,
				.in_flight_timeout_usec = 40 * USEC_PER_SEC,
				.quiet_usec = 10 * USEC_PER_MSEC,
				.from_consumers = true,
				.on_in_flight_timeout = BUDGET_CONTINUE,
				.deadline_usec = 60 * USEC_PER_SEC,
				.min_ready = 1 },
		.restore = { .observed_timeout_usec = 40 * USEC_PER_SEC,
				.deadline_usec = 60 * USEC_PER_SEC } };
	bench_add("catalog-a", NULL, 18081);
	bench_add("catalog-b", NULL, 18082);
	bench_add("catalog-c", NULL, 18083);
	bench_show();
	bench_start();
	return 0;
}

static int bench_teardown(void **state)
{
	(void) state;
	bench_stop();
	if (bench.job)
		bench_job_free(bench.job);
	if (bench.telling)
		(void) sd_event_source_disable_unref(bench.telling->source);
	free(bench.telling);
	(void) snapshot_unref(bench.snapshot);
	(void) observation_unref(bench.feed.observation);
	for (size_t i = 0; i < bench.disk_count; i++)
		free(bench.disk[i].json);
	bench.event = sd_event_unref(bench.event);
	return 0;
}

/* Turn the loop until it is so. */
#define bench_until(condition)                                                               \
	do {                                                                                 \
		uint64_t until_ = clock_boot_usec() + BENCH_PATIENCE;                        \
		while (!(condition)) {                                                       \
			if (clock_boot_usec() > until_)                                      \
				fail_msg("never came true: %s; %s", #condition, bench.told); \
			assert_ok(sd_event_run(bench.event, 100 * USEC_PER_MSEC));           \
		}                                                                            \
	} while (0)

/* Turn it for a while, in which nothing is expected. */
static inline void bench_for(uint64_t usec)
{
	uint64_t until = clock_boot_usec() + usec;

	while (clock_boot_usec() < until)
		assert_ok(sd_event_run(bench.event, until - clock_boot_usec()));
}

static inline const struct drain_record *bench_ask(
		int (*ask)(struct rollout *, const struct drain_request *,
				const struct drain_record **, struct usher_error *),
		const char *endpoint)
{
	const struct drain_record *record = NULL;
	struct usher_error err = {};
	int r = ask(bench.rollout,
			&(const struct drain_request){ .service = "catalog",
					.endpoint = endpoint,
					.requested_by = "test" },
			&record, &err);

	if (r < 0)
		fail_msg("refused: %s", err.text);
	return record;
}

static inline const struct drain_record *bench_drain(const char *endpoint)
{
	return bench_ask(rollout_drain, endpoint);
}

static inline const struct drain_record *bench_restore(const char *endpoint)
{
	return bench_ask(rollout_restore, endpoint);
}

static inline bool bench_finished(const struct drain_record *record)
{
	return drain_record_finished(record);
}

static inline bool bench_at(const struct drain_record *record, enum drain_step step)
{
	const struct step_record *s = drain_record_current(record);

	return s->step == step && s->state == STEP_ACTIVE;
}

static inline const char *bench_evidence(
		const struct drain_record *record, enum drain_step step, const char *kind)
{
	const struct step_record *s = drain_record_find(record, step);
	const struct evidence *e = s ? step_record_find(s, kind) : NULL;

	return e ? e->text : "";
}

/* What a pick would return. */
static inline bool bench_chosen(const char *id)
{
	ssize_t i = usher_endpoints_find(bench.snapshot->all, id);

	return i >= 0 && bench.snapshot->entries[i].chosen;
}
