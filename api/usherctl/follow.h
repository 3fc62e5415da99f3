#pragma once

/* Waiting for a drain or restore to end, showing each step, through restarts of usherd, until
 * somebody interrupts or the time is over: the job goes on either way. */

#include "ctl.h"

struct follow;

/* From before the job is asked for, so that an interrupt is never lost. NULL when out of memory. */
struct follow *follow_new(struct ctl *ctl, enum door door);
struct follow *follow_free(struct follow *f); /* NULL is fine; returns NULL */
/* Follow the record to its end, which counts as done when its state is `wanted` ("done",
 * "cancelled"). Several are followed one after the other, within one time to wait. Returns the exit
 * code. */
int follow_record(struct follow *f, const json_t *record, const char *wanted);
/* Whether it was interrupted already: EXIT_INTERRUPTED or EXIT_WAITED, else EXIT_DONE. */
int follow_reason(struct follow *f);

DEFINE_CLEANUP(struct follow, follow_free);
