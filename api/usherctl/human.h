#pragma once

/* Numbers and texts as people read them. */

#include <stdint.h>

#include <jansson.h>

#define HUMAN_TEXT_MAX 64

/* "5s", "3m12s", "47m", "5h12m", "3d": the two units that matter, rounded up, for an age is an
 * upper bound. "-" for UINT64_MAX. ret needs HUMAN_TEXT_MAX bytes; returns ret. */
const char *human_age(uint64_t msec, char *ret);
/* "12.3s", "3m12s": since when, for what is going on. */
const char *human_elapsed(uint64_t msec, char *ret);
/* A time of day as in RFC 3339, UTC; -1 when it is none. Milliseconds since the epoch. */
int64_t human_time_parse(const char *text);
int64_t human_now_msec(void); /* since the epoch */
/* Cut the control characters out of what others wrote, so that a terminal does not obey them. In
 * place; returns text. */
char *human_printable(char *text);

/* A field as a text, or "-" when it is missing or null. Borrowed. */
const char *field_text(const json_t *object, const char *name);
uint64_t field_number(const json_t *object, const char *name); /* 0 when missing */
/* The milliseconds of a field, or UINT64_MAX when it is missing or null. */
uint64_t field_msec(const json_t *object, const char *name);
/* The age of a time of day until now, UINT64_MAX when missing. */
uint64_t field_age_msec(const json_t *object, const char *name);
