#pragma once

/* What was observed of endpoints, in words. */

#include "ctl.h"

#define HEALTH_TEXT_MAX 512

/* "down for 12s", "up for 3d, flapping", "ejected for another 30s"; "-" where nothing is observed.
 */
const char *health_brief(const json_t *health, char ret[HEALTH_TEXT_MAX]);
/* "HTTP 503, expected 200, 1s ago": the last error; empty when there is none. */
const char *health_error(const json_t *health, char ret[HEALTH_TEXT_MAX]);
/* "3 up, 1 down"; "-" where nothing is observed. */
const char *health_counts(const json_t *counts, char ret[HEALTH_TEXT_MAX]);
/* All of it, as a section. */
void health_describe(const struct ctl *ctl, const json_t *health);
