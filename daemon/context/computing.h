#pragma once

/* From what is merged and decided to the next snapshot: every endpoint's entry, and the shared part
 * of the chain. Nothing of the context is changed. */

#include "chain.h"
#include "context-private.h"

struct computing {
	const struct context *context;
	struct chain *chain;
	const struct snapshot *previous;
	uint64_t now_usec;
	size_t count; /* of all */
	struct usher_view view;
	struct snapshot_entry *entries;
	uint32_t *origins; /* of each, its index in `previous`, or TALLY_NEW */
	uint32_t *weights, *before;
	uint64_t *since_usec;
	struct chain_work work;
	struct chain_counts *counts; /* of the chain's stages, for this once */
	struct tally tally;
	uint64_t *marks;           /* of the snapshot; whoever publishes has them made */
	enum pick_result why_none; /* as in the context */
	const char *why_none_stage;
};

/* For what is merged, with the chain that is wanted. computing_done() is due also when it fails.
 * Errors: ENOMEM. */
int computing_init(struct computing *k, const struct context *c, uint64_t now_usec);
void computing_done(struct computing *k);
/* The snapshot, which has no revision yet. Errors: ENOMEM. */
int computing_run(struct computing *k, struct snapshot **ret);
