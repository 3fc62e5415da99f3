#include "freshness.h"

static const char *const state_names[] = {
	[SOURCE_UNKNOWN] = "unknown",
	[SOURCE_LIVE] = "live",
	[SOURCE_STALE] = "stale",
	[SOURCE_FAILED] = "failed",
	[SOURCE_DENIED] = "denied",
};

const char *source_state_to_string(enum source_state state)
{
	return state_names[state];
}
