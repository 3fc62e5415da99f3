/* What refuses a rollout before it starts. */

#include "drain-guard.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <usher/document.h>

#include "clock.h"

int guard_live(const char *service, const struct freshness *freshness, struct usher_error *reterr)
{
	const char *source = freshness->source ? freshness->source : "(none)";
	char age[USHER_DURATION_TEXT_MAX];

	if (freshness->state == SOURCE_LIVE)
		return 0;
	if (freshness->age_usec == USEC_FOREVER)
		return usher_error_set(reterr, -EPERM,
				"no source of %s has answered yet, so nobody knows what would be "
				"left: wait for it, see `usherctl get sources`",
				service);
	return usher_error_set(reterr, -EPERM,
			"the directory of %s is not live: source %s is %s, its answer %s old, so "
			"nobody knows what would be left: mend the source first, see `usherctl get "
			"sources`",
			service, source, source_state_to_string(freshness->state),
			usher_duration_format(
					freshness->age_usec - freshness->age_usec % USEC_PER_MSEC,
					age));
}

static bool is_leaving(const char *id, const char *const *leaving, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(leaving[i], id) == 0)
			return true;
	return false;
}

/* Whether picks may return it for its own sake. In a panic they return what is down, too, which
 * leaves nobody to rely on. */
static bool is_ready(const struct snapshot_entry *entry)
{
	return entry->chosen && entry->effective > 0 && entry->health != USHER_HEALTH_DOWN &&
			entry->health != USHER_HEALTH_EJECTED;
}

int guard_min_ready(const struct snapshot *snapshot, const char *id, const char *const *leaving,
		size_t leaving_count, unsigned min_ready, struct usher_error *reterr)
{
	unsigned left = 0;
	bool picked = false;

	for (size_t i = 0; i < snapshot->count; i++) {
		const char *other = usher_endpoints_id(snapshot->all, i);

		if (!is_ready(&snapshot->entries[i]))
			continue;
		if (strcmp(other, id) == 0)
			picked = true;
		else if (!is_leaving(other, leaving, leaving_count))
			left++;
	}

	if (!picked || left >= min_ready)
		return 0;
	return usher_error_set(reterr, -EPERM,
			"that would leave %u ready endpoint%s, and drain.min_ready is %u: bring "
			"another one up first, or lower min_ready",
			left, left == 1 ? "" : "s", min_ready);
}
