#pragma once

/* What refuses a rollout before it starts. Pure: looks at a snapshot and at what runs. */

#include <stdint.h>
#include <usher/error.h>

#include "config.h"
#include "freshness.h"
#include "snapshot.h"

/* Whether the source's directory is good enough to decide upon. EPERM, with the remedy. */
int guard_live(const char *service, const struct freshness *freshness, struct usher_error *reterr);

/* Whether at least min_ready endpoints can be picked without this one and without those that are
 * on their way out already (ids; their overrides may not be in the snapshot yet). One that is not
 * picked anyway may always go. EPERM, with the counts. */
int guard_min_ready(const struct snapshot *snapshot, const char *id, const char *const *leaving,
		size_t leaving_count, unsigned min_ready, struct usher_error *reterr);
