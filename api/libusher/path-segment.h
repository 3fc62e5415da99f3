#pragma once

/* A name as one segment of a path or one value of a query (RFC 3986: everything but the unreserved
 * characters as %XX). */

#include <stddef.h>

#define PATH_SEGMENT_MAX (3 * 1024 + 1) /* of the longest name there is */

/* Write the escaped text and return true, or false when it does not fit. */
static inline _Bool path_segment_write(const char *text, char *ret, size_t size)
{
	static const char digits[] = "0123456789ABCDEF";
	size_t used = 0;

	for (const unsigned char *c = (const unsigned char *) text; *c; c++) {
		_Bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
				(*c >= '0' && *c <= '9') || *c == '-' || *c == '.' || *c == '_' ||
				*c == '~';

		if (used + (plain ? 1 : 3) >= size)
			return 0;
		if (plain) {
			ret[used++] = (char) *c;
			continue;
		}
		ret[used++] = '%';
		ret[used++] = digits[*c >> 4];
		ret[used++] = digits[*c & 15];
	}
	ret[used] = 0;
	return 1;
}
