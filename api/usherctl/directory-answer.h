#pragma once

/* What answers about services and endpoints say, in the words of tables. */

#include "ctl.h"

/* "ready", "draining", "left out by zone": what became of an endpoint of ?all=true. ret needs
 * ENDPOINT_STATE_MAX bytes; returns ret. */
#define ENDPOINT_STATE_MAX 256
const char *endpoint_state(const json_t *endpoint, char *ret);
/* "10.0.0.5:8080"; ret needs USHER_AUTHORITY_MAX bytes. */
const char *endpoint_authority(const json_t *endpoint, char *ret);
/* "no endpoint is chosen: all are unhealthy", of a list or a line of a watch; NULL: some are. ret
 * needs ENDPOINT_STATE_MAX bytes; returns ret. */
const char *answer_why_none(const json_t *answer, char *ret);
/* "live", or "live, holding 12 back, in panic" */
const char *summary_state(const json_t *summary, char *ret);
uint64_t answer_age_msec(const json_t *answer);
