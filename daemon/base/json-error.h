#pragma once

/* What jansson says of a text that it does not take, in words for people. */

#include <jansson.h>

static inline const char *json_error_words(const json_error_t *error)
{
	if (json_error_code(error) == json_error_null_character ||
			json_error_code(error) == json_error_null_byte_in_key)
		return "a text has \\u0000 in it, which usher does not take; leave it out";
	return error->text;
}
