#pragma once

/* The record of a drain or restore, found, described, and told step by step. */

#include "output.h"

/* By id, or by SERVICE/ENDPOINT: the newest of that endpoint, or only one that is not finished.
 * name is cut. Returns an exit code. */
int record_find(struct ctl *ctl, char *name, bool unfinished, json_t **ret);
bool record_finished(const json_t *record);
bool record_is(const json_t *record, const char *state);
/* "drain" or "restore" */
const char *record_kind(const json_t *record);
/* Milliseconds from its request until a time of day of it, or until now where that is missing. */
uint64_t record_elapsed_msec(const json_t *record, const json_t *object, const char *name);

void record_describe(const struct ctl *ctl, const json_t *record);

/* What happened between two states of a record, a line each: steps that began, ended, or have new
 * evidence. before may be NULL. */
void record_tell(const struct ctl *ctl, FILE *stream, const json_t *before, const json_t *now);
/* The step that it waits in, as one line without its end; empty when it waits in none. */
void record_waiting(const json_t *record, char *ret, size_t size);

struct record_counts {
	unsigned proven, assumed, skipped, forced;
};
/* How its steps have ended. */
struct record_counts record_count(const json_t *record);
