#pragma once

/* A growing text, with what rendering JSON needs: for bodies on hot paths. Failing to grow marks
 * the text as failed and drops what follows, so that the caller asks once, at the end. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ownership.h"

struct text {
	char *data; /* terminated; NULL while empty */
	size_t length;
	size_t capacity;
	bool failed;
};

void text_done(struct text *text); /* frees the data and empties */
/* The text's data, now the caller's, or NULL when it failed. Empties. */
char *text_take(struct text *text);
void text_add(struct text *text, const char *data, size_t length);
void text_add_string(struct text *text, const char *string);
void text_add_unsigned(struct text *text, uint64_t value);
__attribute__((format(printf, 2, 3))) void text_add_format(
		struct text *text, const char *format, ...);
/* "..." with JSON's escapes; NULL gives null. */
void text_add_json(struct text *text, const char *string);
