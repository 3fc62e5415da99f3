#pragma once

/* Calls that start or cancel a rollout are answered when the disk has what they asked for: only
 * then a crash cannot forget it. They wait no longer than DRAIN_WAIT_USEC. */

#include <stdint.h>

#include "rollout.h"

#define DRAIN_WAIT_USEC UINT64_C(5000000)

struct request;
struct server;

/* Answer with the record now. Returns 0, or a negative errno. */
int respond_drain(struct request *q, unsigned status, const struct drain_record *record);
/* Answer with the record and the status once it is on disk as it is now. Returns 0, or a negative
 * errno. */
int drain_wait(struct request *q, const struct drain_record *record, unsigned status);
void drain_wait_on_recorded(struct server *s, const struct drain_record *record);
