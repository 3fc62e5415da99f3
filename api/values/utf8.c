#include "utf8.h"

#include <stdint.h>

/* The length of the sequence at s and its code point, or 0 when it is malformed. */
static size_t utf8_decode(const unsigned char *s, uint32_t *ret)
{
	static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t length;
	uint32_t c;

	if (s[0] < 0x80) {
		*ret = s[0];
		return 1;
	}
	if (s[0] >= 0xc2 && s[0] <= 0xdf) {
		length = 2;
		c = s[0] & 0x1fu;
	} else if (s[0] >= 0xe0 && s[0] <= 0xef) {
		length = 3;
		c = s[0] & 0x0fu;
	} else if (s[0] >= 0xf0 && s[0] <= 0xf4) {
		length = 4;
		c = s[0] & 0x07u;
	} else {
		return 0;
	}
	for (size_t i = 1; i < length; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3fu);
	}
	if (c < smallest[length] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	*ret = c;
	return length;
}

bool utf8_is_clean(const char *text)
{
	const unsigned char *s = (const unsigned char *) text;
	uint32_t c;

	while (*s) {
		size_t length = utf8_decode(s, &c);

		if (length == 0 || c < 0x20 || (c >= 0x7f && c <= 0x9f))
			return false;
		s += length;
	}
	return true;
}

size_t utf8_length(const char *text)
{
	uint32_t c;

	return utf8_decode((const unsigned char *) text, &c);
}
