#pragma once

/* Following one drain or restore: its record, whenever it changes, until it is finished. Each
 * version is rendered once, for all who follow it. */

#include <stdint.h>

#include "rollout.h"

#define DRAIN_LINES_MAX 32 /* kept for a follower that is behind; then it skips to the newest */

struct request;
struct server;
struct followed_drain;

struct drain_watches {
	struct followed_drain *by_id; /* only those that somebody follows */
};

/* Answer with a stream of the record. Returns 0, or a negative errno. */
int drain_watch_start(struct request *q, const struct drain_record *record);
void drain_watch_on_changed(struct server *s, const struct drain_record *record);
