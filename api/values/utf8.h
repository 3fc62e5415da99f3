#pragma once

#include <stdbool.h>

/* Whether a text is valid UTF-8 (RFC 3629: no surrogates, nothing overlong) without control
 * characters. */
bool utf8_is_clean(const char *text);
