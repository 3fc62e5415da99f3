#pragma once

/* A large service is computed beside the loop, so that nobody waits for it: an offer is compared,
 * merged with what the other sources say, run through the shared part of the chain and prepared for
 * picks in a thread, from values that do not change; the core puts the result in force.
 *
 * Until then the context is as if the offer had not come, its age included, and the sources keep
 * what else they have to say of the service. Whoever needs the context as it will be, for another
 * configuration or another decision, takes the offer in at once instead: background_finish().
 *
 * A service whose endpoints' health is observed is computed on the core, whatever its size, and so
 * is an offer that may change who leads a race. */

#include "context-private.h"
#include "guard.h"

/* Endpoints from which on it is worth the way. */
#define BACKGROUND_MIN 4000
/* What it was computed from may change meanwhile; after so many attempts the core does it. */
#define BACKGROUND_ATTEMPTS_MAX 3

struct background;

/* What became of an offer that was compared. */
struct judgement {
	bool held;
	struct removal removal;
	struct observation *retained; /* in force while it is held; NULL: no memory for that */
	bool same;                    /* as what is in force */
};

/* Whether it is worth it: offer is what comes in, NULL: nothing. */
bool background_wants(const struct context *c, const struct observation *offer);
/* Take the offer (NULL: none) of the feed in, and compute. Errors: ENOMEM, EAGAIN; then nothing was
 * taken. */
int background_start(struct context *c, struct feed_state *f, struct observation *offer,
		uint64_t now_usec);
/* Do at once, on the core, what is under way. */
void background_finish(struct context *c, uint64_t now_usec);
/* Forget it, with the offer: the context goes. */
void background_abandon(struct context *c);
