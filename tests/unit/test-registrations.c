/* Registrations against a registry, a disk and a directory that are played: what is told, in which
 * order, and what a crash at any moment leaves. */

#include <systemd/sd-event.h>

#include "clock.h"
#include "config-texts.h"
#include "directory.h"
#include "loop.h"
#include "ownership.h"
#include "registrations.h"

#define HUB \
	"sources: [{name: hub, plugin: good}, {name: spare, plugin: good}, {name: dumb, plugin: dumb}]\n"
#define ITEM  "{service: catalog, id: a, port: 80, address: 10.0.0.5, sources: [hub]"
#define ITEMS "registrations:\n"
#define BODY  "{\"port\": 80, \"address\": \"10.0.0.5\", \"sources\": [\"hub\"]}"

struct directory {
	int unused;
};
struct source {
	const char *name;
};
struct context {
	const char *service;
	struct feed_config feed_config;
	struct feed feed;
};

struct registration_job {
	struct source *source;
	enum source_registration what;
	char key[64], content[128];
	source_registered done;
	void *userdata;
	sd_event_source *event;
};

struct entry {
	char key[64], content[128];
};

struct post {
	sd_event_source *event;
	char key[64], *json;
	store_done done;
	void *userdata;
};

#define MOST 1024

static struct bench {
	sd_event *event;
	struct registrations *registrations;
	struct directory directory;
	struct source sources[3];
	struct context context;
	bool has_context;
	struct override override; /* id NULL: none */
	const struct directory_events *events;
	void *events_userdata;

	struct registration_job *jobs[3]; /* of each source: one at a time */
	struct entry entries[MOST];       /* in the registries: "hub catalog/a" */
	size_t entry_count;
	int answer;  /* of every call from now on */
	bool silent; /* calls are not answered */
	uint64_t renew_after_usec;
	unsigned calls, looks; /* of registries, at registrations */
	bool cannot_remove;

	struct post posts[MOST];
	struct entry disk[MOST]; /* key only; the texts are in records */
	char *records[MOST];
	size_t disk_count;
	bool disk_fails;

	unsigned events_so_far, crash_after; /* 0: never */
	bool crashed;

	char told[4096];
	uint64_t ticket;
	int decided;
	bool is_decided, stopped;
} bench;

/* ---- what happens, one thing after the other ---- */

static void tell(const char *what, const char *key)
{
	size_t used = strlen(bench.told);

	(void) snprintf(bench.told + used, sizeof(bench.told) - used, "%s%s%s%s", used ? ", " : "",
			what, key[0] ? " " : "", key);
}

/* True: usherd is killed right now. */
static bool crash_point(void)
{
	if (bench.crash_after && ++bench.events_so_far >= bench.crash_after)
		bench.crashed = true;
	return bench.crashed;
}

/* ---- the registry ---- */

static struct entry *find_entry(const char *key)
{
	for (size_t i = 0; i < bench.entry_count; i++)
		if (strcmp(bench.entries[i].key, key) == 0)
			return &bench.entries[i];
	return NULL;
}

static void apply_job(const struct registration_job *job)
{
	struct entry *entry = find_entry(job->key);

	if (job->what == SOURCE_ADD) {
		if (!entry)
			entry = &bench.entries[bench.entry_count++];
		(void) snprintf(entry->key, sizeof(entry->key), "%s", job->key);
		(void) snprintf(entry->content, sizeof(entry->content), "%s", job->content);
	} else if (job->what == SOURCE_REMOVE && entry) {
		*entry = bench.entries[--bench.entry_count];
	}
}

static void job_free(struct registration_job *job)
{
	bench.jobs[job->source - bench.sources] = NULL;
	(void) sd_event_source_disable_unref(job->event);
	free(job);
}

static int on_job(sd_event_source *source, void *userdata)
{
	struct registration_job *job = userdata, copy = *job;
	int r = bench.answer;

	(void) source;
	if (crash_point())
		return 0;
	if (r == 0 && job->what == SOURCE_RENEW && !find_entry(job->key))
		r = -ENOENT;
	if (r == 0 && job->what == SOURCE_REMOVE && bench.cannot_remove)
		r = -EOPNOTSUPP;
	if (r == 0)
		apply_job(job);
	job_free(job);
	copy.done(copy.userdata, r, r < 0 ? "the registry says no" : "");
	return 0;
}

struct registration_job *source_register(struct source *source, enum source_registration what,
		const struct usher_wanted *service, const struct usher_endpoint *endpoint,
		const char *id, enum usher_admin_state state, source_registered done,
		void *userdata)
{
	static const char *const words[] = { "add", "renew", "set_state", "remove" };
	struct registration_job *job = calloc(1, sizeof(*job));

	(void) state;
	assert_null(bench.jobs[source - bench.sources]); /* one at a time */
	bench.calls++;
	bench.jobs[source - bench.sources] = job;
	*job = (struct registration_job){
		.source = source, .what = what, .done = done, .userdata = userdata
	};
	(void) snprintf(job->key, sizeof(job->key), "%s %s/%s", source->name, service->name, id);
	if (endpoint)
		(void) snprintf(job->content, sizeof(job->content), "%s:%u%s w%u",
				endpoint->address, endpoint->port,
				endpoint->ready ? "" : " unready", endpoint->weight);
	tell(words[what], job->key);
	if (!bench.silent)
		assert_ok(sd_event_add_defer(bench.event, &job->event, on_job, job));
	return job;
}

void source_forget(struct registration_job *job)
{
	if (job)
		job_free(job);
}

const char *source_name(const struct source *source)
{
	return source->name;
}

bool source_can(const struct source *source, enum source_registration what)
{
	(void) source;
	(void) what;
	return true;
}

uint64_t source_renew_after_usec(const struct source *source)
{
	(void) source;
	return bench.renew_after_usec;
}

/* ---- the disk ---- */

static size_t find_record(const char *key)
{
	size_t i = 0;

	while (i < bench.disk_count && strcmp(bench.disk[i].key, key) != 0)
		i++;
	return i;
}

static void apply_post(struct post *post)
{
	size_t i = find_record(post->key);

	if (i < bench.disk_count)
		free(bench.records[i]);
	if (!post->json && i < bench.disk_count) {
		bench.disk_count--;
		bench.disk[i] = bench.disk[bench.disk_count];
		bench.records[i] = bench.records[bench.disk_count];
	} else if (post->json) {
		if (i == bench.disk_count)
			bench.disk_count++;
		(void) snprintf(bench.disk[i].key, sizeof(bench.disk[i].key), "%s", post->key);
		bench.records[i] = take(post->json);
	}
}

static void post_done(struct post *post)
{
	(void) sd_event_source_disable_unref(post->event);
	free(post->json);
	*post = (struct post){};
}

static int on_post(sd_event_source *source, void *userdata)
{
	struct post *post = userdata;
	store_done done = post->done;
	void *whom = post->userdata;

	(void) source;
	if (crash_point())
		return 0;
	if (!bench.disk_fails)
		apply_post(post);
	tell(bench.disk_fails ? "disk full" : "disk", post->key);
	post_done(post);
	done(whom, bench.disk_fails ? -ENOSPC : 0, bench.disk_fails ? "No space left" : NULL);
	return 0;
}

static int post(const char *service, const char *id, const char *json, store_done done,
		void *userdata)
{
	struct post *p = bench.posts;

	while (p->event)
		p++;
	assert_true(p < bench.posts + MOST);
	*p = (struct post){
		.json = json ? strdup(json) : NULL, .done = done, .userdata = userdata
	};
	(void) snprintf(p->key, sizeof(p->key), "%s/%s", service, id);
	assert_ok(sd_event_add_defer(bench.event, &p->event, on_post, p));
	return 0;
}

int store_put_registration(struct store *store, const char *service, const char *id,
		const char *json, store_done done, void *userdata)
{
	(void) store;
	return post(service, id, json, done, userdata);
}

int store_remove_registration(struct store *store, const char *service, const char *id,
		store_done done, void *userdata)
{
	(void) store;
	return post(service, id, NULL, done, userdata);
}

/* ---- the directory ---- */

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
	return bench.has_context && strcmp(service, bench.context.service) == 0 ? &bench.context
										: NULL;
}

const struct override *directory_find_override(
		const struct directory *d, const char *service, const char *id)
{
	(void) d;
	(void) service;
	bench.looks++;
	return bench.override.id && strcmp(bench.override.id, id) == 0 ? &bench.override : NULL;
}

struct health_office *directory_health_office(const struct directory *d)
{
	(void) d;
	return NULL;
}

struct plugins *directory_plugins(struct directory *d)
{
	return (struct plugins *) (void *) d;
}

size_t directory_source_count(const struct directory *d)
{
	(void) d;
	return ELEMENTS(bench.sources);
}

struct source *directory_source_at(const struct directory *d, size_t i)
{
	(void) d;
	return &bench.sources[i];
}

const char *context_service(const struct context *c)
{
	return c->service;
}

size_t context_feed_count(const struct context *c)
{
	(void) c;
	return 1;
}

const struct feed *context_feed(const struct context *c, size_t i)
{
	(void) i;
	return &c->feed;
}

static int some_add(void *instance, const struct usher_wanted *service,
		const struct usher_endpoint *endpoint, struct usher_error *reterr)
{
	(void) instance;
	(void) service;
	(void) endpoint;
	(void) reterr;
	return 0;
}

int plugins_find(struct plugins *p, const char *name, const struct usher_plugin **ret,
		struct usher_error *reterr)
{
	static const struct usher_registration registration = { .size = sizeof(registration),
		.add = some_add };
	static const struct usher_plugin good = { .name = "good", .registration = &registration };
	static const struct usher_plugin dumb = { .name = "dumb" };

	(void) p;
	(void) reterr;
	*ret = strcmp(name, "good") == 0 ? &good : &dumb;
	return 0;
}

/* ---- life ---- */

static void on_decided(void *userdata, uint64_t ticket, int r, const char *reason)
{
	(void) userdata;
	(void) reason;
	assert_int_equal(ticket, bench.ticket);
	bench.decided = r;
	bench.is_decided = true;
}

static void configure(const char *text)
{
	struct registrations_plan *plan = NULL;
	struct config *config = parse(text);
	struct usher_error err = {};

	if (registrations_prepare(bench.registrations, config, &plan, &err) < 0)
		fail_msg("%s", err.text);
	registrations_apply(bench.registrations, plan);
	config_unref(config);
}

static void start(const char *text)
{
	assert_ok(registrations_new(bench.event, &bench.directory, &bench.registrations));
	registrations_set_store(bench.registrations, (struct store *) (void *) &bench);
	registrations_set_above(bench.registrations, on_decided, NULL);
	for (size_t i = 0; i < bench.disk_count; i++) {
		char key[64];
		char *slash;

		(void) snprintf(key, sizeof(key), "%s", bench.disk[i].key);
		slash = strchr(key, '/');
		*slash = '\0';
		registrations_restore(bench.registrations,
				&(const struct stored_registration){
						key, slash + 1, bench.records[i] });
	}
	configure(text);
}

/* As kill -9 does. What was on its way to the disk or the registry gets there, or not. */
static void crash(bool disk_gets_it, bool registry_gets_it)
{
	for (size_t i = 0; i < ELEMENTS(bench.jobs); i++)
		if (bench.jobs[i] && registry_gets_it)
			apply_job(bench.jobs[i]);
	bench.registrations = registrations_free(bench.registrations);
	for (size_t i = 0; i < ELEMENTS(bench.posts); i++) {
		if (!bench.posts[i].event)
			continue;
		if (disk_gets_it)
			apply_post(&bench.posts[i]);
		post_done(&bench.posts[i]);
	}
	bench.crash_after = bench.events_so_far = 0;
	bench.crashed = false;
}

static int setup(void **state)
{
	static char hub[] = "hub";

	(void) state;
	memset(&bench, 0, sizeof(bench));
	bench.sources[0].name = "hub";
	bench.sources[1].name = "spare";
	bench.sources[2].name = "dumb";
	bench.renew_after_usec = 3600 * USEC_PER_SEC;
	bench.context.service = "catalog";
	bench.context.feed_config.source = hub;
	bench.context.feed.config = &bench.context.feed_config;
	assert_ok(sd_event_new(&bench.event));
	return 0;
}

static int teardown(void **state)
{
	(void) state;
	crash(false, false);
	for (size_t i = 0; i < bench.disk_count; i++)
		free(bench.records[i]);
	(void) observation_unref(bench.context.feed.observation);
	bench.event = sd_event_unref(bench.event);
	return 0;
}

/* Until there is nothing to do at once. */
static void settle(void)
{
	while (!bench.crashed && sd_event_run(bench.event, 2000) > 0)
		;
}

static bool is_true(void *userdata)
{
	return *(const bool *) userdata;
}

static struct registration_view view(const char *id)
{
	struct registration_view v = {};
	ssize_t i = registrations_find(bench.registrations, "catalog", id);

	assert_true(i >= 0);
	registrations_get(bench.registrations, (size_t) i, &v);
	return v;
}

#define assert_state(id, expected)                                        \
	assert_string_equal(registration_state_to_string(view(id).state), \
			registration_state_to_string(expected))

static int put(const char *id, const char *json, struct usher_error *reterr)
{
	struct registrations_change change = {};
	int r = registrations_put(bench.registrations, "catalog", id, json, "me", &change, reterr);

	bench.ticket = change.ticket;
	bench.is_decided = false;
	return r;
}

static int take_out(const char *id)
{
	struct registrations_change change = {};
	int r = registrations_remove(bench.registrations, "catalog", id, &change, NULL);

	bench.ticket = change.ticket;
	bench.is_decided = false;
	return r;
}

/* ---- the order of things ---- */

static void the_disk_knows_before_the_registry_is_told(void **state)
{
	(void) state;
	start(HUB ITEMS "- " ITEM "}\n");
	settle();
	assert_string_equal(bench.told, "disk catalog/a, add hub catalog/a");
	assert_string_equal(find_entry("hub catalog/a")->content, "10.0.0.5:80 w1");
	assert_state("a", REGISTRATION_REGISTERED);
}

static void what_leaves_is_forgotten_on_disk_after_it_is_out(void **state)
{
	(void) state;
	start(HUB ITEMS "- " ITEM "}\n");
	settle();
	bench.told[0] = '\0';
	configure(HUB);
	settle();
	assert_string_equal(bench.told, "remove hub catalog/a, disk catalog/a, disk catalog/a");
	assert_int_equal(bench.disk_count, 0);
	assert_state("a", REGISTRATION_REMOVED);
}

static void another_name_there_is_another_place_and_the_old_one_is_left(void **state)
{
	(void) state;
	start(HUB ITEMS "- " ITEM "}\n");
	settle();
	configure(HUB ITEMS
			"- {service: catalog, id: a, port: 80, address: 10.0.0.5, sources: [{source: hub, name: other}]}\n");
	settle();
	assert_non_null(find_entry("hub other/a"));
	assert_null(find_entry("hub catalog/a"));
}

static void each_registry_is_told_one_thing_at_a_time(void **state)
{
	char text[2048] = HUB ITEMS, id[8];

	(void) state;
	for (int i = 0; i < 10; i++)
		(void) snprintf(text + strlen(text), sizeof(text) - strlen(text),
				"- {service: catalog, id: i%d, port: 80, address: 10.0.0.5, sources: [hub, spare]}\n",
				i);
	start(text); /* source_register() asserts it */
	settle();
	assert_int_equal(bench.entry_count, 20);
	for (int i = 0; i < 10; i++) {
		(void) snprintf(id, sizeof(id), "i%d", i);
		assert_state(id, REGISTRATION_REGISTERED);
	}
}

static void while_a_registry_is_away_one_of_them_tries(void **state)
{
	(void) state;
	bench.answer = -ECONNREFUSED;
	start(HUB ITEMS "- " ITEM "}\n"
			"- {service: catalog, id: b, port: 80, address: 10.0.0.5, sources: [hub]}\n");
	settle();
	assert_state("a", REGISTRATION_FAILING);
	assert_state("b", REGISTRATION_FAILING);
	assert_string_equal(view("a").why, "the registry says no");
	assert_string_equal(view("b").why, "the registry says no");
	assert_null(strstr(bench.told, "add hub catalog/b"));
}

static void what_one_may_not_the_next_may(void **state)
{
	(void) state;
	bench.answer = -EACCES;
	start(HUB ITEMS "- " ITEM "}\n"
			"- {service: catalog, id: b, port: 80, address: 10.0.0.5, sources: [hub]}\n");
	settle();
	assert_non_null(strstr(bench.told, "add hub catalog/b"));
	assert_string_equal(view("a").why,
			"the registry says no; give the credentials of the source the right to register");
}

static void what_cannot_be_taken_out_is_left_and_said(void **state)
{
	(void) state;
	start(HUB ITEMS "- " ITEM "}\n");
	settle();
	bench.cannot_remove = true;
	configure(HUB);
	settle();
	assert_state("a", REGISTRATION_REMOVED);
	assert_int_equal(bench.disk_count, 0);
}

/* ---- turns ---- */

/* The call that hangs is answered, and so are those after it. */
static void answer_all(void)
{
	bench.silent = false;
	for (size_t i = 0; i < ELEMENTS(bench.jobs); i++)
		if (bench.jobs[i] && !bench.jobs[i]->event)
			assert_ok(sd_event_add_defer(
					bench.event, &bench.jobs[i]->event, on_job, bench.jobs[i]));
}

static void assert_order(const char *first, const char *second)
{
	const char *a = strstr(bench.told, first), *b = strstr(bench.told, second);

	assert_non_null(a);
	assert_non_null(b);
	assert_true(a < b);
}

static void what_waits_for_a_registry_is_told_in_the_order_in_which_it_came(void **state)
{
	(void) state;
	start(HUB);
	bench.silent = true;
	for (int i = 9; i > 0; i--) {
		const char id[] = { (char) ('a' + i), '\0' };

		assert_ok(put(id, BODY, NULL));
		settle();
	}
	answer_all();
	settle();
	assert_order("add hub catalog/j", "add hub catalog/i");
	assert_order("add hub catalog/i", "add hub catalog/h");
	assert_order("add hub catalog/c", "add hub catalog/b");
	assert_int_equal(bench.entry_count, 9);
}

static void what_goes_does_not_wait_for_what_comes(void **state)
{
	(void) state;
	start(HUB ITEMS "- " ITEM "}\n");
	settle();
	bench.silent = true;
	assert_ok(put("x", BODY, NULL));
	settle();
	assert_ok(put("y", BODY, NULL));
	settle();
	bench.told[0] = '\0';
	configure(HUB);
	settle();
	answer_all();
	settle();
	assert_order("remove hub catalog/a", "add hub catalog/y");
}

static void what_does_not_want_its_turn_any_more_passes_it_on(void **state)
{
	(void) state;
	start(HUB);
	bench.silent = true;
	assert_ok(put("x", BODY, NULL));
	settle();
	assert_ok(put("y", BODY, NULL));
	settle();
	assert_ok(put("z", BODY, NULL));
	settle();
	bench.has_context = true;
	bench.override = (struct override){ .id = "y", .admin_state = USHER_ADMIN_DRAINING };
	bench.events->published(bench.events_userdata, &bench.context, NULL);
	settle();
	answer_all();
	settle();
	assert_null(strstr(bench.told, "add hub catalog/y"));
	assert_state("y", REGISTRATION_HELD);
	assert_state("z", REGISTRATION_REGISTERED);
}

static bool has_told_b(void *userdata)
{
	(void) userdata;
	return strstr(bench.told, "add hub catalog/b");
}

static void one_that_a_registry_does_not_answer_lets_the_others_try(void **state)
{
	(void) state;
	bench.answer = -ETIMEDOUT;
	start(HUB ITEMS "- " ITEM "}\n"
			"- {service: catalog, id: b, port: 80, address: 10.0.0.5, sources: [hub]}\n");
	loop_until(bench.event, has_told_b, NULL);
}

static bool are_told(void *userdata)
{
	return bench.calls == *(const unsigned *) userdata;
}

static void start_many(unsigned count, uint64_t renew_after_usec)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	assert_non_null(f);
	(void) fputs(HUB ITEMS, f);
	for (unsigned i = 0; i < count; i++)
		(void) fprintf(f,
				"- {service: catalog, id: i%u, port: %u, address: 10.0.0.5, sources: [hub]}\n",
				i, i + 1);
	assert_int_equal(fclose(f), 0);
	bench.renew_after_usec = renew_after_usec;
	start(text);
	free(text);
	loop_until(bench.event, are_told, &count);
}

static void what_a_call_costs_does_not_grow_with_how_many_wait(void **state)
{
	(void) state;
	start_many(1000, 3600 * USEC_PER_SEC);
	settle();
	assert_int_equal(bench.entry_count, 1000);
	assert_in_range(bench.looks, 1000, 10 * 1000);
}

/* All of them are due again and again meanwhile. */
static void nor_does_what_a_renewal_costs(void **state)
{
	unsigned looks, calls, wanted;

	(void) state;
	start_many(1000, PLACEMENT_RENEW_MIN_USEC);
	looks = bench.looks;
	calls = bench.calls;
	wanted = calls + 3000;
	loop_until(bench.event, are_told, &wanted);
	assert_in_range(bench.looks - looks, 1, 10 * (wanted - calls));
}

static void a_publication_wakes_only_what_it_concerns(void **state)
{
	unsigned looks;

	(void) state;
	bench.has_context = true;
	start_many(1000, 3600 * USEC_PER_SEC);
	settle();
	looks = bench.looks;
	bench.override = (struct override){ .id = "i7", .admin_state = USHER_ADMIN_DRAINING };
	bench.events->published(bench.events_userdata, &bench.context, NULL);
	settle();
	assert_in_range(bench.looks - looks, 1000, 1010);
	assert_state("i7", REGISTRATION_HELD);
	assert_state("i8", REGISTRATION_REGISTERED);
}

/* ---- leases ---- */

static bool b_is(void *userdata)
{
	return view("b").state == *(const enum registration_state *) userdata;
}

static void what_is_not_renewed_within_its_lease_is_not_called_registered(void **state)
{
	static const enum registration_state failing = REGISTRATION_FAILING;
	static const enum registration_state registered = REGISTRATION_REGISTERED;
	struct registry_view place = {};
	ssize_t i;

	(void) state;
	bench.renew_after_usec = PLACEMENT_RENEW_MIN_USEC;
	start(HUB ITEMS "- " ITEM "}\n"
			"- {service: catalog, id: b, port: 80, address: 10.0.0.5, sources: [hub]}\n");
	loop_until(bench.event, b_is, (void *) (uintptr_t) &registered);
	bench.silent = true;
	loop_until(bench.event, b_is, (void *) (uintptr_t) &failing);
	assert_non_null(strstr(view("b").why, "its lease of 5.0 s is over"));
	i = registrations_find(bench.registrations, "catalog", "b");
	registrations_get_place(bench.registrations, (size_t) i, 0, &place);
	assert_string_equal(place.error, view("b").why);
	answer_all();
	loop_until(bench.event, b_is, (void *) (uintptr_t) &registered);
	assert_null(view("b").why);
}

/* ---- the disk ---- */

static void a_full_disk_keeps_nobody_from_being_registered(void **state)
{
	(void) state;
	bench.disk_fails = true;
	start(HUB ITEMS "- " ITEM "}\n");
	settle();
	assert_state("a", REGISTRATION_REGISTERED);
	bench.disk_fails = false;
	while (bench.disk_count == 0)
		assert_ok(sd_event_run(bench.event, 100000));
}

static void what_the_disk_does_not_take_is_not_promised(void **state)
{
	(void) state;
	start(HUB);
	bench.disk_fails = true;
	assert_ok(put("a", BODY, NULL));
	loop_until(bench.event, is_true, &bench.is_decided);
	assert_int_equal(bench.decided, -ENOSPC);
	/* Its record may still have to go: nobody is shown that. */
	assert_int_equal(registrations_find(bench.registrations, "catalog", "a"), -ENOENT);
	assert_errno(take_out("a"), ENOENT);
	bench.disk_fails = false;
	while (registrations_count(bench.registrations) > 0)
		assert_ok(sd_event_run(bench.event, 100000));
	assert_null(strstr(bench.told, "add"));
	assert_int_equal(bench.disk_count, 0);
}

static void a_change_that_the_disk_does_not_take_leaves_what_was(void **state)
{
	(void) state;
	start(HUB);
	assert_ok(put("a", BODY, NULL));
	settle();
	bench.disk_fails = true;
	assert_ok(put("a", "{\"port\": 81, \"address\": \"10.0.0.5\", \"sources\": [\"hub\"]}",
			NULL));
	loop_until(bench.event, is_true, &bench.is_decided);
	assert_int_equal(bench.decided, -ENOSPC);
	settle();
	assert_string_equal(find_entry("hub catalog/a")->content, "10.0.0.5:80 w1");
	assert_ok(take_out("a"));
	loop_until(bench.event, is_true, &bench.is_decided);
	assert_int_equal(bench.decided, -ENOSPC);
	settle();
	assert_state("a", REGISTRATION_REGISTERED);
}

static void a_second_change_waits_for_the_first(void **state)
{
	struct usher_error err = {};

	(void) state;
	start(HUB);
	assert_ok(put("a", BODY, NULL));
	assert_errno(put("a", BODY, &err), EBUSY);
	assert_string_equal(err.text,
			"another change of a of catalog is on its way to the disk; try again");
}

static void a_record_that_cannot_be_read_harms_no_other(void **state)
{
	static const char *const records[] = { "nonsense", "{}", "{\"registries\": []}",
		"{\"configured\": true, \"registries\": [{\"source\": 1}]}" };

	(void) state;
	for (size_t i = 0; i < ELEMENTS(records); i++) {
		(void) snprintf(bench.disk[i].key, sizeof(bench.disk[i].key), "catalog/r%zu", i);
		bench.records[i] = strdup(records[i]);
	}
	bench.disk_count = ELEMENTS(records);
	start(HUB ITEMS "- " ITEM "}\n");
	settle();
	assert_state("a", REGISTRATION_REGISTERED);
	assert_int_equal(registrations_count(bench.registrations), 1);
}

/* ---- drains ---- */

static void hold(const char *id)
{
	bench.override = (struct override){
		.id = id, .admin_state = USHER_ADMIN_DRAINING, .weight_share = 1
	};
	bench.events->published(bench.events_userdata, &bench.context, NULL);
}

static void a_drain_holds_it_and_its_end_tells_it_anew(void **state)
{
	(void) state;
	bench.has_context = true;
	start(HUB ITEMS "- " ITEM "}\n");
	settle();
	hold("a");
	settle();
	assert_state("a", REGISTRATION_HELD);
	bench.entry_count = 0; /* the drain took it out */
	bench.told[0] = '\0';
	configure(HUB ITEMS "- " ITEM ", weight: 5}\n");
	settle();
	assert_string_equal(bench.told, "");
	bench.override.id = NULL;
	bench.events->published(bench.events_userdata, &bench.context, NULL);
	settle();
	assert_string_equal(bench.told, "add hub catalog/a");
	assert_string_equal(find_entry("hub catalog/a")->content, "10.0.0.5:80 w5");
}

static void a_ramp_holds_nothing(void **state)
{
	(void) state;
	bench.has_context = true;
	start(HUB ITEMS "- " ITEM "}\n");
	settle();
	bench.override = (struct override){
		.id = "a", .admin_state = USHER_ADMIN_READY, .weight_share = 0.3
	};
	bench.events->published(bench.events_userdata, &bench.context, NULL);
	settle();
	assert_state("a", REGISTRATION_REGISTERED);
}

/* The registry shows what is registered here under an id of its own. */
static void start_with_another_id(void)
{
	struct usher_endpoints *set = usher_endpoints_new();
	struct usher_endpoint e = USHER_ENDPOINT_INIT;

	e.id = "a@node";
	e.address = "10.0.0.5";
	e.port = 80;
	assert_ok(usher_endpoints_add(set, &e, NULL));
	usher_endpoints_seal(set);
	bench.context.feed.observation = observation_new(set, USHER_FRESH, NULL, 1);
	bench.has_context = true;
	start(HUB ITEMS "- " ITEM "}\n");
	settle();
	assert_state("a", REGISTRATION_REGISTERED);
}

static void a_drain_by_the_id_that_the_registry_gives_it_holds_it_too(void **state)
{
	(void) state;
	start_with_another_id();
	hold("a@node");
	settle();
	assert_state("a", REGISTRATION_HELD);
	configure(HUB ITEMS "- " ITEM ", weight: 5}\n");
	settle();
	assert_state("a", REGISTRATION_HELD);
}

static void a_drain_of_who_has_its_former_address_does_not_hold_it(void **state)
{
	(void) state;
	start_with_another_id();
	configure(HUB ITEMS "- {service: catalog, id: a, port: 80, address: 10.0.0.9}\n");
	settle();
	hold("a@node");
	settle();
	assert_state("a", REGISTRATION_REGISTERED);
}

/* A template may give a name that is too long with the address of the day, and not with another. */
static void what_has_no_name_yet_takes_nobody_out(void **state)
{
	char text[1024];

	(void) state;
	start(HUB ITEMS "- " ITEM "}\n");
	settle();
	(void) snprintf(text, sizeof(text),
			HUB ITEMS
			"- {service: catalog, id: \"%0*d-{address}\", port: 80, address: \"2001:db8::1234:5678\", sources: [hub]}\n",
			CONFIG_NAME_MAX - 10, 0);
	configure(text);
	settle();
	assert_state("a", REGISTRATION_REGISTERED);
	assert_non_null(find_entry("hub catalog/a"));
	configure(HUB);
	settle();
	assert_null(find_entry("hub catalog/a"));
}

/* ---- stops ---- */

static void on_stopped(void *userdata)
{
	(void) userdata;
	bench.stopped = true;
}

static void a_stop_takes_out_only_what_is_to_go(void **state)
{
	(void) state;
	start(HUB ITEMS "- " ITEM ", on_stop: deregister}\n"
			"- {service: catalog, id: b, port: 80, address: 10.0.0.5, sources: [hub]}\n");
	settle();
	bench.told[0] = '\0';
	registrations_stop(bench.registrations, on_stopped, NULL);
	assert_false(bench.stopped);
	loop_until(bench.event, is_true, &bench.stopped);
	assert_non_null(strstr(bench.told, "remove hub catalog/a"));
	assert_null(strstr(bench.told, "catalog/b"));
	assert_non_null(find_entry("hub catalog/b"));
	/* The next run does not take it for registered. */
	settle();
	crash(true, true);
	start(HUB ITEMS "- " ITEM ", on_stop: deregister}\n");
	settle();
	assert_state("a", REGISTRATION_REGISTERED);
}

static void a_stop_with_nothing_to_take_out_is_over_at_once(void **state)
{
	(void) state;
	start(HUB);
	registrations_stop(bench.registrations, on_stopped, NULL);
	settle();
	assert_true(bench.stopped);
}

/* ---- a crash at any moment ---- */

/* Declared, changed, asked for over the API, and then nobody wants any of it: killed after the
 * n-th thing that happened, usherd ends with what its configuration and the answered calls say. */
static bool runs_through(unsigned crash_after, bool disk_gets_it, bool registry_gets_it)
{
	bool was_answered, crashed;

	bench.crash_after = crash_after;
	start(HUB ITEMS "- " ITEM "}\n");
	settle();
	if (!bench.crashed)
		configure(HUB ITEMS "- " ITEM ", weight: 7}\n");
	settle();
	if (!bench.crashed)
		assert_ok(put("b", BODY, NULL));
	settle();
	was_answered = bench.is_decided && bench.decided == 0;
	crashed = bench.crashed;
	crash(disk_gets_it, registry_gets_it);

	start(HUB ITEMS "- " ITEM ", weight: 7}\n");
	settle();
	assert_string_equal(find_entry("hub catalog/a")->content, "10.0.0.5:80 w7");
	if (was_answered)
		assert_non_null(find_entry("hub catalog/b"));
	if (find_entry("hub catalog/b"))
		assert_ok(take_out("b"));
	configure(HUB);
	settle();
	assert_int_equal(bench.entry_count, 0);
	assert_int_equal(bench.disk_count, 0);
	return crashed;
}

static bool goes_away(unsigned crash_after, bool disk_gets_it, bool registry_gets_it)
{
	bool crashed;

	start(HUB ITEMS "- " ITEM "}\n");
	assert_ok(put("b", BODY, NULL));
	settle();
	assert_int_equal(bench.entry_count, 2);
	bench.events_so_far = 0;
	bench.crash_after = crash_after;
	configure(HUB);
	settle();
	if (!bench.crashed)
		assert_ok(take_out("b"));
	settle();
	crashed = bench.crashed;
	crash(disk_gets_it, registry_gets_it);

	start(HUB);
	settle();
	if (crashed && registrations_find(bench.registrations, "catalog", "b") >= 0 &&
			view("b").state == REGISTRATION_REGISTERED)
		assert_ok(take_out("b")); /* nobody was told that it is out */
	settle();
	assert_int_equal(bench.entry_count, 0);
	assert_int_equal(bench.disk_count, 0);
	return crashed;
}

static void at_every_moment(bool (*story)(unsigned, bool, bool))
{
	void *state = NULL;

	for (unsigned variant = 0; variant < 4; variant++) {
		unsigned moment = 1;
		bool crashed;

		do {
			(void) teardown(&state);
			(void) setup(&state);
			crashed = story(moment++, variant & 1, variant & 2);
		} while (crashed);
		assert_true(moment > 4);
	}
}

static void a_crash_while_it_comes_loses_and_leaves_nothing(void **state)
{
	(void) state;
	start(HUB);
	at_every_moment(runs_through);
}

static void a_crash_while_it_goes_leaves_nothing(void **state)
{
	(void) state;
	start(HUB);
	at_every_moment(goes_away);
}

/* ---- the rest ---- */

static void a_plug_in_that_cannot_register_is_refused_by_name(void **state)
{
	struct registrations_plan *plan = NULL;
	struct config *config = parse(HUB ITEMS "- {service: a, port: 1, sources: [dumb]}\n");
	struct usher_error err = {};

	(void) state;
	start(HUB);
	assert_errno(registrations_prepare(bench.registrations, config, &plan, &err), EINVAL);
	assert_string_equal(err.text,
			MAIN
			":3:35: registrations[0].sources[0]: plug-in dumb of source dumb cannot register an endpoint; sources that can: hub, spare");
	config_unref(config);
	config = parse("sources: [{name: dumb, plugin: dumb}]\n" ITEMS "- {service: a, port: 1}\n");
	err = (struct usher_error){};
	assert_errno(registrations_prepare(bench.registrations, config, &plan, &err), EINVAL);
	assert_string_equal(err.text,
			MAIN
			":3:3: registrations[0]: no source that a is looked up in can register; name one in sources (those that can: none)");
	config_unref(config);
}

static void the_first_of_the_services_sources_that_can_is_the_default(void **state)
{
	(void) state;
	start(HUB "services: {catalog: {sources: [dumb, {source: spare, name: svc}, hub]}}\n" ITEMS
		  "- {service: catalog, id: a, port: 80, address: 10.0.0.5}\n");
	settle();
	assert_non_null(find_entry("spare svc/a"));
	assert_int_equal(bench.entry_count, 1);
}

static void registrations_have_a_maximum(void **state)
{
	struct usher_error err = {};
	char id[16];
	int r = 0;

	(void) state;
	start(HUB);
	for (int i = 0; i < REGISTRATIONS_API_MAX && r >= 0; i++) {
		(void) snprintf(id, sizeof(id), "i%d", i);
		r = put(id, BODY, NULL);
	}
	assert_ok(r);
	assert_errno(put("one-more", BODY, &err), EUSERS);
	assert_string_equal(err.text, "there are 1000 registrations over the API already");
}

static void await_decision(void)
{
	while (!bench.is_decided)
		assert_true(sd_event_run(bench.event, LOOP_DEADLINE_USEC) > 0);
}

static void await_removed(const char *id)
{
	ssize_t i = registrations_find(bench.registrations, "catalog", id);
	struct registration_view view = {};

	while (i >= 0 && view.state != REGISTRATION_REMOVED) {
		assert_true(sd_event_run(bench.event, LOOP_DEADLINE_USEC) > 0);
		i = registrations_find(bench.registrations, "catalog", id);
		if (i >= 0)
			registrations_get(bench.registrations, (size_t) i, &view);
	}
}

/* Each is shown for ten minutes after it has gone. */
static void those_that_are_gone_make_room(void **state)
{
	char id[16];

	(void) state;
	start(HUB);
	for (unsigned i = 0; i < REGISTRATIONS_MAX; i++) {
		(void) snprintf(id, sizeof(id), "i%u", i);
		assert_ok(put(id, BODY, NULL));
		await_decision();
		assert_ok(take_out(id));
		await_decision();
		await_removed(id);
	}
	assert_int_equal(registrations_count(bench.registrations), REGISTRATIONS_MAX);
	assert_ok(put("one-more", BODY, NULL));
	await_decision();
	assert_ok(bench.decided);
	assert_true(registrations_find(bench.registrations, "catalog", "one-more") >= 0);
	assert_int_equal(registrations_count(bench.registrations), REGISTRATIONS_MAX);
}

#define bench_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		bench_test(the_disk_knows_before_the_registry_is_told),
		bench_test(what_leaves_is_forgotten_on_disk_after_it_is_out),
		bench_test(another_name_there_is_another_place_and_the_old_one_is_left),
		bench_test(each_registry_is_told_one_thing_at_a_time),
		bench_test(while_a_registry_is_away_one_of_them_tries),
		bench_test(what_one_may_not_the_next_may),
		bench_test(what_cannot_be_taken_out_is_left_and_said),
		bench_test(what_waits_for_a_registry_is_told_in_the_order_in_which_it_came),
		bench_test(what_goes_does_not_wait_for_what_comes),
		bench_test(what_does_not_want_its_turn_any_more_passes_it_on),
		bench_test(one_that_a_registry_does_not_answer_lets_the_others_try),
		bench_test(what_a_call_costs_does_not_grow_with_how_many_wait),
		bench_test(nor_does_what_a_renewal_costs),
		bench_test(a_publication_wakes_only_what_it_concerns),
		bench_test(what_is_not_renewed_within_its_lease_is_not_called_registered),
		bench_test(a_full_disk_keeps_nobody_from_being_registered),
		bench_test(what_the_disk_does_not_take_is_not_promised),
		bench_test(a_change_that_the_disk_does_not_take_leaves_what_was),
		bench_test(a_second_change_waits_for_the_first),
		bench_test(a_record_that_cannot_be_read_harms_no_other),
		bench_test(a_drain_holds_it_and_its_end_tells_it_anew),
		bench_test(a_ramp_holds_nothing),
		bench_test(a_drain_by_the_id_that_the_registry_gives_it_holds_it_too),
		bench_test(a_drain_of_who_has_its_former_address_does_not_hold_it),
		bench_test(what_has_no_name_yet_takes_nobody_out),
		bench_test(a_stop_takes_out_only_what_is_to_go),
		bench_test(a_stop_with_nothing_to_take_out_is_over_at_once),
		bench_test(a_crash_while_it_comes_loses_and_leaves_nothing),
		bench_test(a_crash_while_it_goes_leaves_nothing),
		bench_test(a_plug_in_that_cannot_register_is_refused_by_name),
		bench_test(the_first_of_the_services_sources_that_can_is_the_default),
		bench_test(registrations_have_a_maximum),
		bench_test(those_that_are_gone_make_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
