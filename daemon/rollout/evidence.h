#pragma once

/* What proves a step. Pure: each takes what was seen and says what it is worth, in words.
 *
 * Proven: somebody who knows has said so. Assumed: a declared time has passed, or there is nobody
 * to ask. Missing: not yet. */

#include <stdbool.h>
#include <stdint.h>

#include "context.h"
#include "record.h"
#include "rollout.h"

enum proof_kind {
	PROOF_MISSING,
	PROOF_PROVEN,
	PROOF_ASSUMED
};

struct proof {
	enum proof_kind kind;
	char text[DRAIN_TEXT_MAX / 4];
};

/* What a feed's source says of one endpoint. */
struct echo {
	const char *source; /* NULL: no source of the service runs that knows it */
	bool answered;      /* since usherd started */
	bool present;
	bool ready; /* present, and neither draining, in maintenance, terminating nor unready */
	const char *uid;        /* of the one that is there; NULL */
	uint64_t observed_usec; /* when the registry was asked */
};
/* The latest word, also one that is held back. feed NULL: none. Borrowed from the feed. */
void evidence_look(const struct feed *feed, const char *id, struct echo *ret);

/* The registry shows it gone or on its way out, by an answer asked for after since_usec. told: the
 * registry was told, waited_usec ago; window_usec: how long it may take by declaration. */
void evidence_removed(const struct echo *echo, bool told, uint64_t since_usec, uint64_t waited_usec,
		uint64_t window_usec, struct proof *ret);
/* The registry shows it ready, by an answer asked for after since_usec. */
void evidence_ready(const struct echo *echo, uint64_t since_usec, struct proof *ret);
/* Every consumer has read and acknowledged the revision. */
void evidence_consumers(
		const struct consumer_evidence *consumers, uint64_t revision, struct proof *ret);
/* The declared caches outside have had their time. */
void evidence_external(const struct drain_config *drain, uint64_t since_usec, uint64_t now_usec,
		struct proof *ret, uint64_t *ret_until_usec);

/* Nothing has been open for a while. Starts as `= {}`. */
struct quiet {
	bool quiet;
	uint64_t since_usec;
};
/* Take in a sample that was true at sample_usec. */
void quiet_take(struct quiet *quiet, uint64_t open, uint64_t sample_usec);
/* Whether a sample at that time or later closes the span. */
bool quiet_long_enough(const struct quiet *quiet, uint64_t quiet_usec, uint64_t sample_usec);

/* What a step ends as: assumed when any part was, else proven. */
enum step_state evidence_state(enum proof_kind a, enum proof_kind b, enum proof_kind c);
