#pragma once

/* A request's path, put together piece by piece; usher_http_escape() adds what may have any
 * letters. */

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* False: no room. */
static inline bool path_append(char *path, size_t size, const char *text)
{
	size_t length = strlen(path);

	return (size_t) snprintf(path + length, size - length, "%s", text) < size - length;
}
