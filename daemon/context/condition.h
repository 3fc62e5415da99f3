#pragma once

/* When a rule applies to a request: all its conditions must hold. Pure. */

#include <stdbool.h>
#include <stddef.h>
#include <usher/plugin.h>

#include "config.h"

/* An empty text is none, but for a header, which is there even when it says nothing. request may be
 * NULL: it says nothing. */
bool conditions_hold(const struct condition *conditions, size_t count,
		const struct usher_request *request);
