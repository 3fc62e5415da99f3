#pragma once

/* From what is merged and decided to the next snapshot: every endpoint's entry, the shared part of
 * the chain, and what picks will need. It sees its input and nothing else, and changes nothing, so
 * that it runs on the core or beside it. */

#include "chain.h"
#include "context-private.h"

/* All of it is borrowed, and stays as it is meanwhile. */
struct computing_input {
	const char *service, *zone, *node;
	struct chain *chain;
	bool same_chain;                 /* as that of the previous */
	const struct snapshot *previous; /* NULL */
	const struct merged *merged;
	const uint8_t *health; /* enum usher_health of each endpoint that is merged; NULL: unknown
				*/
	const struct override_entry *overrides;
	size_t override_count;
	const struct tally *tally;  /* of the previous */
	enum pick_result emptiness; /* which of the facts it is if there are no endpoints */
	double panic_threshold;
	uint64_t now_usec;
};

/* Faults and changes of single endpoints, each when it begins: what is to be said of them. */
#define COMPUTING_NOTES_MAX 10
struct computing_notes {
	size_t invalid, incarnations; /* how many there are */
	uint32_t invalid_at[COMPUTING_NOTES_MAX], incarnation_at[COMPUTING_NOTES_MAX];
};

struct computing {
	struct computing_input in;
	size_t count; /* of all */
	struct usher_view view;
	struct snapshot_entry *entries;
	uint32_t *origins; /* of each, its index in the previous, or TALLY_NEW */
	uint32_t *weights, *before;
	uint64_t *since_usec;
	struct chain_work work;
	struct chain_counts *counts; /* of the chain's stages, for this once */
	struct tally tally;
	/* the result */
	struct snapshot *snapshot; /* without a revision yet */
	uint64_t *marks;           /* of the snapshot */
	void *prepared;            /* the selector's */
	bool differs;              /* consumers see something else than before */
	struct computing_notes notes;
	enum pick_result why_none; /* as in the context */
	const char *why_none_stage;
};

/* What a context would be computed from now, with this merged. */
void computing_gather(const struct context *c, const struct merged *merged, uint64_t now_usec,
		struct computing_input *ret);
/* computing_done() is due also when it fails. Errors: ENOMEM. */
int computing_run(struct computing *k, const struct computing_input *input);
void computing_done(struct computing *k);
