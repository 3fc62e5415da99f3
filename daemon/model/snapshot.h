#pragma once

/* The immutable, numbered result of a context, ready for consumers.
 *
 * It holds every endpoint that the sources know (`all`) and says of each what became of it. Indexes
 * into `all` everywhere. Listed: what consumers see, which is the chosen ones and those that drain.
 * Chosen: what a pick may return before the stages that look at a request. Reference counted; the
 * arrays live in the snapshot's own block. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <usher/endpoint.h>

#define SNAPSHOT_NO_STAGE UINT8_MAX
#define SNAPSHOT_NO_RULE  UINT8_MAX

/* What became of one endpoint. */
struct snapshot_entry {
	uint64_t since_usec; /* since when it may be used without interruption; 0: since before
				usher looked */
	uint32_t weight;     /* its own */
	uint32_t ramped;     /* in thousandths (USHER_WEIGHT_UNIT): its own, scaled by a restore's
				ramp */
	uint32_t effective;  /* and by the chain: what picks go by */
	uint8_t health;      /* enum usher_health */
	uint8_t admin_state; /* enum usher_admin_state: the source's or ours, whichever is further
				out */
	uint8_t source;      /* index into the context's sources, of the one it was taken from */
	uint8_t stage;       /* index into the chain of the static stage that dropped it, or
				SNAPSHOT_NO_STAGE */
	uint8_t rule;        /* of that stage, or SNAPSHOT_NO_RULE: the stage is at fault */
	bool listed;
	bool chosen;
	bool withdrawn;      /* taken out by a drain */
	bool usable;         /* nothing that is known of the endpoint itself speaks against its use
			      */
	bool conflict;       /* sources disagree about it */
	bool weight_invalid; /* what the registry wrote is no weight */
};

struct snapshot {
	atomic_uint refs;
	uint64_t revision;
	uint64_t serial; /* another for each snapshot: two of one revision list the same, but an
			    index into one says nothing about the other */
	uint64_t published_wall_usec;
	uint64_t computed_usec;      /* the time that the chain was told */
	struct usher_endpoints *all; /* sealed */
	size_t count;                /* of all, and of entries */
	size_t chosen_count;
	size_t listed_count;
	size_t draining_count;
	size_t conflict_count;
	size_t weight_invalid_count;
	bool panic;      /* a stage let through what it should not, for too little would be left */
	bool has_health; /* the service has checks, or judges reports */
	const struct snapshot_entry *entries;
	/* Of each endpoint, for the view of stages and selectors; weights are the effective ones.
	 */
	const uint64_t *since_usec;
	const uint32_t *weights;
	const uint8_t *admin_states, *ranks, *health;
	/* Indexes. */
	const uint32_t *chosen;
	const uint32_t *listed;
	/* What is told of how it differs from the snapshot before it, where that was rendered
	 * ahead; whoever tells it takes it. */
	uint64_t before_serial;
	char *difference; /* NULL: it was not */
	size_t difference_length;
};

/* Counts and arrays follow from the entries. Takes a reference to all. NULL when out of memory.
 * Revision, times, panic and has_health are set by whoever publishes. Thread: any, as references.
 */
struct snapshot *snapshot_new(struct usher_endpoints *all, const struct snapshot_entry *entries);
struct snapshot *snapshot_ref(struct snapshot *s);
struct snapshot *snapshot_unref(struct snapshot *s); /* NULL is fine; returns NULL */
/* The part of its own weight that an endpoint is given, in thousandths; USHER_WEIGHT_UNIT: all of
 * it. */
uint32_t snapshot_entry_ramp(const struct snapshot_entry *entry);
/* Two snapshots, endpoints of which are compared. */
struct snapshot_pair {
	const struct snapshot *before, *after;
	size_t common; /* of what their texts have in common */
};

struct snapshot_pair snapshot_pair(const struct snapshot *before, const struct snapshot *after);
/* Whether the i-th of the one and the k-th of the other are the same to a consumer. */
bool snapshot_pair_same(const struct snapshot_pair *pair, uint32_t i, uint32_t k);
/* Whether a consumer could tell them apart: the same listed endpoints with the same fields, states,
 * weights, health, sources and marks, in panic or not. */
bool snapshot_equal(const struct snapshot *a, const struct snapshot *b);
