#pragma once

/* What --hint, --version-label, --sticky, --key, --exclude and --header say, as pick and explain
 * want it. */

#include "ctl.h"

/* A body for pick, or NULL when out of memory. */
json_t *request_body(const struct ctl *ctl);
/* path with the query for explain; takes path. NULL when out of memory. */
char *request_query(const struct ctl *ctl, char *path);
