#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Whether a text is valid UTF-8 (RFC 3629: no surrogates, nothing overlong) without control
 * characters. */
bool utf8_is_clean(const char *text);
/* The bytes of the character that begins here; 0: they are none, or cut short. */
size_t utf8_length(const char *text);
