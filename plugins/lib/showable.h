#pragma once

/* Texts that a registry's servers say, and whether usher can hold them as a label. */

#include <stdbool.h>
#include <usher/endpoint.h>

/* text: UTF-8. Short enough, and without the control characters of ASCII and of Latin-1, which
 * usher_endpoints_add() refuses together with their endpoint. */
static inline bool is_showable(const char *text)
{
	const unsigned char *c = (const unsigned char *) text;
	size_t size = 0;

	for (; c[size]; size++)
		if (c[size] < 0x20 || c[size] == 0x7f ||
				(c[size] == 0xc2 && c[size + 1] >= 0x80 && c[size + 1] < 0xa0))
			return false;
	return size < USHER_TEXT_MAX;
}
