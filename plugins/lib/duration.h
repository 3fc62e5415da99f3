#pragma once

/* Whether an option that is a duration has a value that makes sense. */

#include <errno.h>
#include <stdint.h>
#include <usher/document.h>
#include <usher/error.h>

#define USEC_PER_MSEC UINT64_C(1000)
#define USEC_PER_SEC  UINT64_C(1000000)

/* Errors: ERANGE. */
static inline int duration_check(const char *name, uint64_t usec, uint64_t min_usec,
		uint64_t max_usec, struct usher_error *reterr)
{
	char least[USHER_DURATION_TEXT_MAX], most[USHER_DURATION_TEXT_MAX],
			text[USHER_DURATION_TEXT_MAX];

	if (usec >= min_usec && usec <= max_usec)
		return 0;
	return usher_error_set(reterr, -ERANGE, "%s: %s is not in %s..%s", name,
			usher_duration_format(usec, text), usher_duration_format(min_usec, least),
			usher_duration_format(max_usec, most));
}
