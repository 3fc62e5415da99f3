#pragma once

/* JSON as servers of Nacos write it: bare, or in an envelope of code, message and data. */

#include "own-json.h"

/* Errors: EBADMSG (no JSON), ENOMEM. */
int envelope_load(const char *text, size_t size, json_t **ret, struct usher_error *reterr);
/* What is in the envelope, where there is one; borrowed. EBADMSG: its code says no. */
int envelope_open(const json_t *answer, const json_t **ret, struct usher_error *reterr);
/* What its code says, in words; returns `code`. */
int envelope_fault(const json_t *envelope, int code, struct usher_error *reterr);
int envelope_no_memory(struct usher_error *reterr);

/* Of an object, or of what is none. NULL: no text, or an empty one. */
const char *json_text_at(const json_t *object, const char *key);
bool json_bool_at(const json_t *object, const char *key, bool otherwise);
json_int_t json_integer_at(const json_t *object, const char *key, json_int_t otherwise);
