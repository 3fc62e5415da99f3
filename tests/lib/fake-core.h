#pragma once

/* A directory and rollouts made by hand, for tests of the floor above: they say what a test puts
 * into them. Defines every function of directory.h, context.h, rollout.h and record.h that serve/
 * calls, so include it in one file of a test only. */

#include "clock.h"
#include "directory.h"
#include "fake-registrations.h"
#include "health.h"
#include "rollout.h"
#include "test.h"

struct context {
	char name[64];
	const char *service;
	struct service_config config;
	struct chain *chain;
	struct snapshot *snapshot;
	struct feed feed;
	struct feed_config feed_config;
	struct freshness freshness;
	enum pick_result why_none;
	const char *why_none_stage;
	enum pick_result pick_result; /* PICK_OK: the chosen in turn */
	size_t turn;
	unsigned holds;
	struct usher_report report; /* the last */
	unsigned reports;
	uint64_t in_flight; /* as told last, of whichever endpoint */
};

#define FAKE_CONTEXTS_MAX 8

struct directory {
	struct context contexts[FAKE_CONTEXTS_MAX];
	size_t count;
	uint64_t revision;
	bool lazy;
	const struct directory_events *events;
	void *userdata;
	struct config config;
};

static struct directory fake_directory;
static const struct usher_plugin fake_stage_plugin = { .name = "zone" };
static const struct usher_plugin fake_selector_plugin = { .name = "round_robin" };
static struct plugin_instance fake_stage = { .plugin = &fake_stage_plugin };
static struct plugin_instance fake_selector = { .plugin = &fake_selector_plugin };
static struct chain_rule fake_rule = { .instance = &fake_stage, .on_empty = EMPTY_PASS };
static struct chain_stage fake_stages[] = {
	{ .plugin = &fake_stage_plugin, .rules = &fake_rule, .rule_count = 1 }
};
static struct chain fake_chain = {
	.stages = fake_stages, .stage_count = 1, .shared_count = 1, .selector = &fake_selector
};

/* ---- what a test says ---- */

static inline struct context *fake_add_context(const char *service)
{
	static char files[] = "files";
	struct directory *d = &fake_directory;
	struct context *c = &d->contexts[d->count++];

	assert_true(d->count <= FAKE_CONTEXTS_MAX);
	(void) snprintf(c->name, sizeof(c->name), "%s", service);
	c->service = c->name;
	c->chain = &fake_chain;
	c->config.max_age_usec = 30 * USEC_PER_SEC;
	c->config.drain.registry_usec = 5 * USEC_PER_SEC;
	c->config.drain.consumer_refresh_usec = 30 * USEC_PER_SEC;
	c->config.drain.consumer_cache_usec = 35 * USEC_PER_SEC;
	c->config.drain.margin_usec = 2 * USEC_PER_SEC;
	c->feed_config.source = files;
	c->feed_config.name = files;
	c->feed.config = &c->feed_config;
	c->freshness = (struct freshness){ .state = SOURCE_UNKNOWN,
		.age_usec = USEC_FOREVER,
		.max_age_usec = c->config.max_age_usec };
	return c;
}

struct fake_endpoint {
	const char *id;
	enum usher_admin_state admin_state;
	uint32_t weight;
	bool withdrawn;
};

/* Publish these, in the order of their ids, as the next revision. */
static inline void fake_publish(struct context *c, const struct fake_endpoint *list, size_t count)
{
	struct usher_endpoints *set = usher_endpoints_new();
	struct snapshot_entry entries[16] = {};
	struct snapshot *previous = c->snapshot;

	assert_true(count <= 16);
	for (size_t i = 0; i < count; i++) {
		const struct usher_label labels[] = { { "API_VERSION", "1.0" } };
		struct usher_endpoint e = USHER_ENDPOINT_INIT;

		e.id = list[i].id;
		e.address = "10.0.0.5";
		e.port = 8080;
		e.zone = "east";
		e.metadata = labels;
		e.metadata_count = 1;
		assert_ok(usher_endpoints_add(set, &e, NULL));
		entries[i] = (struct snapshot_entry){ .weight = list[i].weight,
			.effective = list[i].weight * USHER_WEIGHT_UNIT,
			.admin_state = (uint8_t) list[i].admin_state,
			.stage = SNAPSHOT_NO_STAGE,
			.listed = !list[i].withdrawn,
			.withdrawn = list[i].withdrawn,
			.chosen = !list[i].withdrawn && list[i].admin_state == USHER_ADMIN_READY };
	}
	usher_endpoints_seal(set);
	c->snapshot = snapshot_new(set, entries);
	assert_non_null(c->snapshot);
	usher_endpoints_unref(set);
	c->snapshot->revision = ++fake_directory.revision;
	c->freshness = (struct freshness){ .state = SOURCE_LIVE,
		.age_usec = 812000,
		.max_age_usec = c->config.max_age_usec,
		.source = "files" };
	if (fake_directory.events)
		fake_directory.events->published(fake_directory.userdata, c, previous);
	snapshot_unref(previous);
}

static inline void fake_remove_context(struct context *c)
{
	if (fake_directory.events)
		fake_directory.events->removed(fake_directory.userdata, c);
	snapshot_unref(c->snapshot);
	c->snapshot = NULL;
	c->service = "";
}

static inline void fake_clear(void)
{
	for (size_t i = 0; i < fake_directory.count; i++)
		assert_int_equal(fake_directory.contexts[i].holds, 0);
	for (size_t i = 0; i < fake_directory.count; i++)
		snapshot_unref(fake_directory.contexts[i].snapshot);
	fake_directory = (struct directory){};
}

/* ---- directory.h ---- */

int directory_subscribe(struct directory *d, const struct directory_events *events, void *userdata)
{
	d->events = events;
	d->userdata = userdata;
	return 0;
}

const struct config *directory_config(const struct directory *d)
{
	return &d->config;
}

struct context *directory_find(struct directory *d, const char *service)
{
	for (size_t i = 0; i < d->count; i++)
		if (strcmp(d->contexts[i].service, service) == 0)
			return &d->contexts[i];
	return NULL;
}

int directory_get(struct directory *d, const char *service, struct context **ret,
		struct usher_error *reterr)
{
	*ret = directory_find(d, service);
	if (!*ret && d->lazy)
		*ret = fake_add_context(service);
	if (*ret)
		return 0;
	return usher_error_set(reterr, -ENOENT, "nobody declared %s", service);
}

size_t directory_count(const struct directory *d)
{
	return d->count;
}

struct context *directory_at(const struct directory *d, size_t i)
{
	(void) d;
	return &fake_directory.contexts[i];
}

size_t directory_source_count(const struct directory *d)
{
	(void) d;
	return 0;
}

struct source *directory_source_at(const struct directory *d, size_t i)
{
	(void) d;
	(void) i;
	return NULL;
}

void directory_set_renderer(
		struct directory *d, const struct directory_renderer *renderer, void *userdata)
{
	(void) d;
	(void) renderer;
	(void) userdata;
}

void directory_view_source(
		const struct directory *d, const struct source *source, struct source_view *ret)
{
	(void) d;
	(void) source;
	*ret = (struct source_view){};
}

static struct plugins *fake_plugins;

struct plugins *directory_plugins(struct directory *d)
{
	(void) d;
	return fake_plugins;
}

uint64_t directory_revision(const struct directory *d)
{
	return d->revision;
}

const struct override *directory_find_override(
		const struct directory *d, const char *service, const char *id)
{
	(void) d;
	(void) service;
	(void) id;
	return NULL;
}

/* ---- context.h ---- */

const char *pick_result_to_string(enum pick_result result)
{
	static const char *const names[] = { "ok", "source_unknown", "source_failed", "stale",
		"empty", "all_unhealthy", "filtered" };

	return names[result];
}

const char *context_service(const struct context *c)
{
	return c->service;
}

bool context_is_eager(const struct context *c)
{
	(void) c;
	return true;
}

const struct service_config *context_config(const struct context *c)
{
	return &c->config;
}

const struct chain *context_chain(const struct context *c)
{
	return c->chain;
}

struct snapshot *context_snapshot(const struct context *c)
{
	return c->snapshot;
}

enum pick_result context_why_none(const struct context *c, const char **ret_stage)
{
	*ret_stage = c->why_none_stage;
	return c->why_none;
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

const char *context_source_of(const struct context *c, const struct snapshot *snapshot, size_t i)
{
	return snapshot->entries[i].source == 0 ? c->feed.config->source : NULL;
}

const char *context_field_source(const struct context *c, const struct snapshot *snapshot, size_t i,
		enum merge_field field)
{
	(void) c;
	(void) snapshot;
	(void) i;
	(void) field;
	return NULL;
}

const char *context_shown_by(
		const struct context *c, const struct snapshot *snapshot, size_t i, size_t feed)
{
	(void) c;
	(void) snapshot;
	(void) i;
	(void) feed;
	return NULL;
}

void context_freshness(const struct context *c, uint64_t now_usec, struct freshness *ret)
{
	(void) now_usec;
	*ret = c->freshness;
}

uint64_t feed_age(const struct feed *feed, uint64_t now_usec)
{
	(void) feed;
	(void) now_usec;
	return 0;
}

void context_hold(struct context *c)
{
	c->holds++;
}

void context_release(struct context *c)
{
	assert_true(c->holds > 0);
	c->holds--;
}

bool context_has_answer(const struct context *c)
{
	return c->snapshot;
}

void context_pick(struct context *c, struct usher_request *request, uint64_t now_usec,
		struct pick *ret)
{
	(void) request;
	(void) now_usec;
	*ret = (struct pick){ .result = c->pick_result, .freshness = c->freshness };
	if (!c->snapshot) {
		ret->result = PICK_SOURCE_UNKNOWN;
		return;
	}
	ret->snapshot = c->snapshot;
	if (ret->result == PICK_FILTERED)
		ret->stage = "zone";
	if (ret->result == PICK_OK)
		ret->endpoint = c->snapshot->chosen[c->turn++ % c->snapshot->chosen_count];
}

int context_report(struct context *c, const char *id, const struct usher_report *report)
{
	c->report = *report;
	c->reports++;
	return c->snapshot && usher_endpoints_find(c->snapshot->all, id) >= 0 ? 0 : -ENOENT;
}

void directory_prober_stats(const struct directory *d, struct prober_stats *ret)
{
	(void) d;
	*ret = (struct prober_stats){ .probes = 41, .stretch = 1 };
}

int context_set_in_flight(struct context *c, const char *id, uint64_t count)
{
	(void) id;
	c->in_flight = count;
	return 0;
}

struct health *context_health(const struct context *c)
{
	(void) c;
	return NULL;
}

void context_stage_counts(const struct context *c, size_t i, struct chain_counts *ret)
{
	(void) c;
	(void) i;
	*ret = (struct chain_counts){ .passed = 7 };
}

int context_explain(struct context *c, struct usher_request *request, uint64_t now_usec,
		struct explanation *ret)
{
	*ret = (struct explanation){ .selector = "round_robin" };
	context_pick(c, request, now_usec, &ret->pick);
	ret->candidate_count = c->snapshot ? c->snapshot->chosen_count : 0;
	ret->share = ret->candidate_count ? 1.0 / (double) ret->candidate_count : 0;
	return 0;
}

void explanation_done(struct explanation *e)
{
	*e = (struct explanation){};
}

void context_explain_left_out(struct context *c, uint32_t endpoint, char *ret, size_t size)
{
	(void) c;
	(void) endpoint;
	(void) snprintf(ret, size, "because");
}

/* ---- rollout.h and record.h ---- */

struct rollout {
	struct drain_record record;
	bool exists;
	bool disk_waits; /* for fake_record() */
	int result;      /* of the next call */
	char requested_by[128];
};

static struct rollout fake_rollout;

const char *drain_state_to_string(enum drain_state state)
{
	static const char *const names[] = { "running", "held", "cancelling", "done", "cancelled",
		"failed" };

	return names[state];
}

bool drain_record_finished(const struct drain_record *record)
{
	return record->state == DRAIN_DONE || record->state == DRAIN_CANCELLED ||
			record->state == DRAIN_FAILED;
}

json_t *drain_record_to_json(const struct drain_record *record)
{
	return json_pack("{s:s, s:s}", "id", record->id, "state",
			drain_state_to_string(record->state));
}

static int fake_answer(const struct drain_record **ret, struct usher_error *reterr)
{
	if (fake_rollout.result < 0)
		return usher_error_set(reterr, fake_rollout.result, "the rollout says no");
	*ret = &fake_rollout.record;
	return fake_rollout.result;
}

int rollout_drain(struct rollout *r, const struct drain_request *request,
		const struct drain_record **ret, struct usher_error *reterr)
{
	(void) snprintf(r->requested_by, sizeof(r->requested_by), "%s", request->requested_by);
	return fake_answer(ret, reterr);
}

int rollout_restore(struct rollout *r, const struct drain_request *request,
		const struct drain_record **ret, struct usher_error *reterr)
{
	return rollout_drain(r, request, ret, reterr);
}

int rollout_cancel(struct rollout *r, const char *id, const struct drain_record **ret,
		struct usher_error *reterr)
{
	(void) r;
	(void) id;
	return fake_answer(ret, reterr);
}

uint64_t rollout_version(struct rollout *r, const char *id, uint64_t *ret_on_disk)
{
	(void) id;
	*ret_on_disk = r->disk_waits ? 6 : 7;
	return 7;
}

void rollout_note_stale_pick(
		struct rollout *r, const char *service, const char *endpoint, uint64_t wall_usec)
{
	(void) service;
	(void) endpoint;
	r->record.last_stale_pick_wall_usec = wall_usec;
}

const struct drain_record *rollout_find(struct rollout *r, const char *id)
{
	return r->exists && strcmp(r->record.id, id) == 0 ? &r->record : NULL;
}

size_t rollout_count(const struct rollout *r)
{
	return r->exists;
}

const struct drain_record *rollout_at(const struct rollout *r, size_t i)
{
	(void) i;
	return &r->record;
}

size_t rollout_running(const struct rollout *r)
{
	return r->exists && r->record.state == DRAIN_RUNNING;
}
