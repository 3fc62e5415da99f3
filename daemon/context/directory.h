#pragma once

/* Every context, the sources that feed them, and the one sequence of revisions.
 *
 * Configuration comes in whole (directory_apply), observations come from the sources, decisions
 * from the rollouts (overrides); snapshots go out to whoever subscribed. Thread: the core's. */

#include <stdint.h>
#include <string.h>

#include <systemd/sd-event.h>

#include "context.h"
#include "loader.h"
#include "store.h"
#include "worker.h"

struct health_office;
struct prober_stats;

struct directory_events {
	/* A new snapshot is in force; previous may be NULL. */
	void (*published)(void *userdata, struct context *context, const struct snapshot *previous);
	/* The age was renewed without a new revision, or freshness changed state. */
	void (*renewed)(void *userdata, struct context *context);
	/* The context goes: its service is not declared any more, or it was lazy and long unused.
	 */
	void (*removed)(void *userdata, struct context *context);
	/* A source wants an endpoint drained, or not any more. */
	void (*drain)(void *userdata, const struct source *source,
			const struct source_drain *drain);
};

/* The loader fills restored observations, cursors before directory_apply: see directory_restore_*.
 */
int directory_new(sd_event *event, struct inbox *inbox, struct plugins *plugins,
		struct directory **ret);
struct directory *directory_free(struct directory *d); /* stops the sources; NULL is fine */
void directory_set_store(struct directory *d, struct store *store);
void directory_restore_feed(struct directory *d, const struct stored_feed *feed);
void directory_restore_cursor(struct directory *d, const char *service, uint64_t cursor);
/* Write cursors and times of observation to the store, before a stop. */
void directory_save(struct directory *d);

/* Up to DIRECTORY_SUBSCRIBERS_MAX. The struct is borrowed for the directory's life. */
#define DIRECTORY_SUBSCRIBERS_MAX 8
int directory_subscribe(struct directory *d, const struct directory_events *events, void *userdata);

/* What is told of a large service's changes is rendered where they are computed: beside the loop.
 */
struct snapshot_names {
	const char *sources[CONFIG_FEEDS_MAX];  /* by an entry's source */
	const uint8_t (*origins)[MERGE_FIELDS]; /* of each endpoint, the source of each field; NULL:
						   that of the endpoint */
};
struct directory_renderer {
	/* On the core: whether somebody wants to hear of the service's changes. */
	bool (*wanted)(void *userdata, const struct context *context);
	/* On any thread, from nothing but its arguments. To be freed; NULL: out of memory, then
	 * whoever tells it renders it himself. */
	char *(*difference)(const struct snapshot *before, const struct snapshot *after,
			const struct snapshot_names *names, size_t *ret_length);
};
/* The struct is borrowed for the directory's life. */
void directory_set_renderer(
		struct directory *d, const struct directory_renderer *renderer, void *userdata);

/* Everything that can be refused is refused here (chains that do not build, plug-ins that are not
 * there), so that applying cannot fail half way. */
struct directory_plan;
int directory_prepare(struct directory *d, struct config *config, struct directory_plan **ret,
		struct usher_error *reterr);
struct directory_plan *directory_plan_free(struct directory_plan *plan);
/* Swap. Sources, feeds, cursors and overrides of what did not change go on untouched. Takes the
 * plan. */
void directory_apply(struct directory *d, struct directory_plan *plan);
const struct config *directory_config(const struct directory *d);

/* Declared or already created; NULL. */
struct context *directory_find(struct directory *d, const char *service);
/* The same, and create it if lazy contexts are allowed. Errors: ENOENT (unknown, lazy not allowed),
 * E2BIG (the limit), EINVAL (the name), ENOMEM; with a message. */
int directory_get(struct directory *d, const char *service, struct context **ret,
		struct usher_error *reterr);
/* A lazy context goes after this long without a pick, a directory_get() or a hold. */
#define DIRECTORY_IDLE_USEC UINT64_C(600000000)
size_t directory_count(const struct directory *d);
struct context *directory_at(const struct directory *d, size_t i); /* in the order of names */
size_t directory_source_count(const struct directory *d);
struct source *directory_source_at(const struct directory *d, size_t i);
/* The one of that name, or NULL. */
static inline struct source *directory_find_source(const struct directory *d, const char *name)
{
	for (size_t i = 0; i < directory_source_count(d); i++) {
		struct source *source = directory_source_at(d, i);

		if (source && strcmp(source_name(source), name) == 0)
			return source;
	}
	return NULL;
}
/* A source as a whole, with what its services know of it. It is stale when none of them has an
 * answer of it that is live, though some have one, and it does not fail. */
struct source_view {
	struct source_status status;          /* state: with that */
	unsigned services[SOURCE_DENIED + 1]; /* how many there are in each state */
};
/* Borrowed until the loop turns. */
void directory_view_source(
		const struct directory *d, const struct source *source, struct source_view *ret);
struct plugins *directory_plugins(struct directory *d);
/* The healths of all services, for who checks more by the same prober; NULL before the first
 * configuration. */
struct health_office *directory_health_office(const struct directory *d);
/* What the node's one prober does, for all services. */
void directory_prober_stats(const struct directory *d, struct prober_stats *ret);
/* The highest revision published. */
uint64_t directory_revision(const struct directory *d);

/* Say what a rollout decided about an endpoint; recomputes, and returns the revision in which it is
 * in force (the current one when nothing changed; 0 before the first answer). Errors: ENOENT (no
 * such service), ENOMEM. */
int directory_set_override(struct directory *d, const char *service,
		const struct override *override, uint64_t *ret_revision);
int directory_clear_override(
		struct directory *d, const char *service, const char *id, uint64_t *ret_revision);
const struct override *directory_find_override(
		const struct directory *d, const char *service, const char *id);
