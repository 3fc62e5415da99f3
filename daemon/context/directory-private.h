#pragma once

/* What the files of this floor share about the directory as a whole. */

#include "context-private.h"
#include "health.h"
#include "random.h"
#include "report.h"

/* Contexts that one dispatch of the clock looks at; the rest come in the next turn. */
#define DIRECTORY_DUE_MAX 1000

/* A configured source. Stays where it is while its configuration stays the same. */
struct origin {
	const struct source_config *config; /* in the directory's configuration */
	struct plugin_instance *instance;
	struct source *source; /* NULL: its thread could not be started, which is tried again */
	bool wants_changed;
	struct report report;
};

struct leaving_source {
	struct source *source;
	uint64_t until_usec;
};

/* What the disk remembers and nobody has asked for yet. */
struct restored_feed {
	char *service, *source;
	struct observation *observation;
	uint64_t age_usec; /* when it was restored */
	uint64_t restored_usec;
};
struct restored_cursor {
	char *service;
	uint64_t cursor;
};
struct restored {
	struct restored_feed *feeds;
	size_t feed_count, feed_capacity;
	struct restored_cursor *cursors;
	size_t cursor_count, cursor_capacity;
	bool sorted;
	uint64_t until_usec; /* then the disk forgets what nobody has asked for; 0: not yet set */
};

struct directory {
	sd_event *event;
	struct inbox *inbox;
	struct plugins *plugins;
	struct store *store;
	struct worker *worker; /* for what is computed beside the loop; NULL: nothing is */
	struct config *config;
	struct chain *lazy_chain;     /* NULL: no lazy contexts */
	struct check *lazy_check;     /* of the defaults; NULL: they have none */
	struct health_office *office; /* NULL before the first configuration */

	struct origin **origins;
	size_t origin_count;
	struct leaving_source *leaving; /* asked to stop, not waited for */
	size_t leaving_count;

	struct context **contexts; /* in the order of names */
	size_t count, capacity;
	size_t lazy_count;
	struct context **heap; /* by deadline; capacity as above */
	size_t heap_count;

	struct restored restored;
	uint64_t revision;
	struct random random;

	uint32_t *candidates, *scratch; /* for picks: as large as the largest snapshot */
	size_t scratch_capacity;
	struct snapshot **retired; /* borrowed by somebody until the loop turns */
	size_t retired_count, retired_capacity;

	sd_event_source *timer, *turn;
	uint64_t armed_usec;

	struct directory_subscriber {
		const struct directory_events *events;
		void *userdata;
	} subscribers[DIRECTORY_SUBSCRIBERS_MAX];
	size_t subscriber_count;
	const struct directory_renderer *renderer; /* NULL: nothing is rendered ahead */
	void *renderer_userdata;
};

/* ---- directory.c ---- */
const char *directory_zone(const struct directory *d);
const char *directory_node(const struct directory *d);
uint64_t directory_next_revision(struct directory *d);
/* Room for picks among count endpoints, and to retire one snapshot. ENOMEM. */
int directory_reserve(struct directory *d, size_t count);
/* Let go of a snapshot when the loop has turned. */
void directory_retire(struct directory *d, struct snapshot *s);
void directory_tell_published(
		struct directory *d, struct context *c, const struct snapshot *previous);
void directory_tell_renewed(struct directory *d, struct context *c);
void directory_tell_removed(struct directory *d, struct context *c);
void directory_tell_drain(
		struct directory *d, const struct source *source, const struct source_drain *drain);
/* Room for more contexts. ENOMEM. */
int directory_grow(struct directory *d, size_t capacity);
void directory_insert(struct directory *d, struct context *c); /* there must be room */
/* Take it out, tell everybody, free it; `forget` also on disk. */
void directory_remove(struct directory *d, struct context *c, bool forget);
/* Feeds and configuration of a lazy context for other defaults; the feeds are the caller's to put
 * in place. ENOMEM. */
int context_reconfigure_lazy(
		struct context *c, const struct config *config, struct feed_state **ret_feeds);
/* The index of a service, or where it would be inserted. */
bool directory_search(const struct directory *d, const char *service, size_t *ret_index);

/* ---- origins.c ---- */
struct origin *origin_free(struct origin *o);
struct origin *directory_find_origin(const struct directory *d, const char *name);
/* Start its thread; when that fails it is said, and tried again later. */
void origin_start(struct directory *d, struct origin *o, uint64_t now_usec);
/* Have the source stop without waiting for it. */
void directory_let_go(struct directory *d, struct source *source, uint64_t now_usec);
/* Connect the context's feeds with the sources that run. */
void context_connect(struct context *c);
void context_wants_changed(struct context *c);
/* Say what is wanted to every source where that has changed. */
void directory_tell_wants(struct directory *d);
void origins_on_deadline(struct directory *d, uint64_t now_usec);
uint64_t origins_deadline(const struct directory *d);
void directory_stop_sources(struct directory *d);

/* ---- deadlines.c ---- */
int deadlines_init(struct directory *d);
void deadlines_done(struct directory *d);
void deadlines_set(struct directory *d, struct context *c, uint64_t usec);
void deadlines_remove(struct directory *d, struct context *c);
/* Be called back at this time, or earlier. */
void directory_wake_at(struct directory *d, uint64_t usec);
/* Do what is due by now. */
void directory_do_due(struct directory *d, uint64_t now_usec);
void directory_end_turn(struct directory *d);
/* Do what waits for the end of this turn: wants, retired snapshots. */
void directory_at_end_of_turn(struct directory *d);

/* ---- restored.c ---- */
void restored_done(struct restored *r);
/* Give a new context what the disk remembers of it. */
void restored_give(struct directory *d, struct context *c, uint64_t now_usec);
/* Forget, here and on disk, what cannot be asked for any more; all of it once the time is over. */
void restored_prune(struct directory *d, uint64_t now_usec);
