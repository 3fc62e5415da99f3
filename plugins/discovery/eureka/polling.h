#pragma once

/* What is asked of the servers, one request at a time, for all services together: the list of all
 * instances once, and then what has changed in the last minutes, every `interval`. The server says
 * with it how many instances it has in each status; where ours are others, and every `resync`, the
 * list of all is asked for again. */

#include "eureka.h"

/* Until the order to stop: 0, or what stands in the way of going on. */
int polling_run(const struct eureka *eureka, struct usher_source *source);
