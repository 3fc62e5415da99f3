#pragma once

/* Sources that say what a test has them say, a clock that goes when a test winds it, and a disk
 * that only writes down what it is told. Defines what source.h, clock.h and store.h declare, so
 * include it in one file of a test. */

#include "clock.h"
#include "endpoint-sets.h"
#include "source.h"
#include "store.h"

/* ---- the clock ---- */

static uint64_t fake_boot_usec = 1000 * USEC_PER_SEC;
static uint64_t fake_wall_usec = 1700000000 * USEC_PER_SEC;

uint64_t clock_boot_usec(void)
{
	return fake_boot_usec;
}

uint64_t clock_wall_usec(void)
{
	return fake_wall_usec;
}

uint64_t clock_monotonic_usec(void)
{
	return fake_boot_usec;
}

const char *clock_wall_format(uint64_t wall_usec, char *ret)
{
	(void) snprintf(ret, CLOCK_TEXT_MAX, "%llu", (unsigned long long) wall_usec);
	return ret;
}

/* ---- sources ---- */

#define FAKE_SOURCES_MAX 32

struct source {
	char name[64];
	struct plugin_instance *instance;
	const struct source_events *events;
	void *userdata;
	char wanted[65536]; /* "service=name:port ..." */
	size_t wanted_count;
	unsigned wants; /* how often it was told */
	bool asked_to_stop;
};

static struct source *fake_sources[FAKE_SOURCES_MAX]; /* that run, and were started last first */
static size_t fake_source_count;
static unsigned fake_starts, fake_stops;
static int fake_start_result;

int source_start(const char *name, struct plugin_instance *instance, struct inbox *inbox,
		const struct source_events *events, void *userdata, struct source **ret)
{
	struct source *s;

	(void) inbox;
	if (fake_start_result < 0)
		return fake_start_result;
	s = calloc(1, sizeof(*s));
	assert_non_null(s);
	(void) snprintf(s->name, sizeof(s->name), "%s", name);
	s->instance = plugin_instance_ref(instance);
	s->events = events;
	s->userdata = userdata;
	fake_sources[fake_source_count++] = s;
	fake_starts++;
	*ret = s;
	return 0;
}

void source_ask_to_stop(struct source *source)
{
	source->asked_to_stop = true;
}

struct source *source_stop(struct source *source, uint64_t until_usec)
{
	size_t i = 0;

	(void) until_usec;
	if (!source)
		return NULL;
	while (fake_sources[i] != source)
		i++;
	fake_sources[i] = fake_sources[--fake_source_count];
	(void) plugin_instance_unref(source->instance);
	free(source);
	fake_stops++;
	return NULL;
}

const char *source_name(const struct source *source)
{
	return source->name;
}

const struct plugin_instance *source_instance(const struct source *source)
{
	return source->instance;
}

int source_want(struct source *source, const struct usher_wanted *wanted, size_t count)
{
	size_t length = 0;

	source->wanted[0] = '\0';
	for (size_t i = 0; i < count && length + 600 < sizeof(source->wanted); i++)
		length += (size_t) snprintf(source->wanted + length,
				sizeof(source->wanted) - length, "%s%s=%s%s%s", i ? " " : "",
				wanted[i].service, wanted[i].name, wanted[i].port ? ":" : "",
				wanted[i].port ? wanted[i].port : "");
	source->wanted_count = count;
	source->wants++;
	return 0;
}

void source_hold(struct source *source, const char *service)
{
	(void) source;
	(void) service;
}

void source_go_on(struct source *source, const char *service)
{
	(void) source;
	(void) service;
}

void source_get_status(const struct source *source, struct source_status *ret)
{
	*ret = (struct source_status){ .wanted = (unsigned) source->wanted_count };
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
	return 0;
}

struct registration_job *source_register(struct source *source, enum source_registration what,
		const struct usher_wanted *service, const struct usher_endpoint *endpoint,
		const char *id, enum usher_admin_state state, source_registered done,
		void *userdata)
{
	(void) source;
	(void) what;
	(void) service;
	(void) endpoint;
	(void) id;
	(void) state;
	(void) done;
	(void) userdata;
	return NULL;
}

void source_forget(struct registration_job *job)
{
	(void) job;
}

/* The one that was started last under this name, and was not asked to stop. */
__attribute__((unused)) static struct source *fake_source(const char *name)
{
	for (size_t i = fake_source_count; i > 0; i--)
		if (strcmp(fake_sources[i - 1]->name, name) == 0 &&
				!fake_sources[i - 1]->asked_to_stop)
			return fake_sources[i - 1];
	return NULL;
}

static void fake_say(const char *name, const char *service, const char *endpoints,
		enum usher_verdict verdict)
{
	struct source *s = fake_source(name);
	struct observation *o;

	assert_non_null(s);
	o = observation_new(set_of(endpoints), verdict, "r1", fake_boot_usec);
	assert_non_null(o);
	s->events->offered(s->userdata, s, service, o);
}

__attribute__((unused)) static void fake_offer(
		const char *name, const char *service, const char *endpoints)
{
	fake_say(name, service, endpoints, USHER_FRESH);
}

__attribute__((unused)) static void fake_suspect(
		const char *name, const char *service, const char *endpoints)
{
	fake_say(name, service, endpoints, USHER_SUSPECT);
}

__attribute__((unused)) static void fake_confirm(const char *name, const char *service)
{
	struct source *s = fake_source(name);

	s->events->confirmed(s->userdata, s, service, fake_boot_usec);
}

__attribute__((unused)) static void fake_fail(
		const char *name, const char *service, int code, const char *reason)
{
	struct source *s = fake_source(name);

	s->events->failed(s->userdata, s, service, code, reason);
}

/* ---- the disk ---- */

struct store {
	char told[65536]; /* "put catalog/one 3; touch ...; " */
	size_t length;
	uint64_t revision;
};

static struct store fake_store = { .revision = 1000 };

__attribute__((format(printf, 2, 3))) static void fake_store_write(
		struct store *store, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	store->length += (size_t) vsnprintf(store->told + store->length,
			sizeof(store->told) - store->length, format, args);
	va_end(args);
}

/* What it was told since it was last asked. */
__attribute__((unused)) static const char *fake_store_told(void)
{
	static char told[65536];

	memcpy(told, fake_store.told, fake_store.length + 1);
	fake_store.length = 0;
	fake_store.told[0] = '\0';
	return told;
}

int store_put_feed(struct store *store, const char *service, const char *source,
		struct usher_endpoints *endpoints, const char *revision,
		uint64_t observed_wall_usec, store_done done, void *userdata)
{
	(void) revision;
	(void) done;
	(void) userdata;
	fake_store_write(store, "put %s/%s %s @-%llu; ", service, source, ids_of(endpoints),
			(unsigned long long) ((fake_wall_usec - observed_wall_usec) /
					USEC_PER_SEC));
	return 0;
}

int store_touch_feed(struct store *store, const char *service, const char *source,
		uint64_t observed_wall_usec)
{
	fake_store_write(store, "touch %s/%s @-%llu; ", service, source,
			(unsigned long long) ((fake_wall_usec - observed_wall_usec) /
					USEC_PER_SEC));
	return 0;
}

int store_remove_feed(struct store *store, const char *service, const char *source)
{
	fake_store_write(store, "remove %s/%s; ", service, source);
	return 0;
}

int store_put_cursor(struct store *store, const char *service, uint64_t cursor)
{
	(void) cursor;
	fake_store_write(store, "cursor %s; ", service);
	return 0;
}

uint64_t store_next_revision(struct store *store)
{
	return store->revision++;
}
