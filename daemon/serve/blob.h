#pragma once

/* A text that was rendered once and is shared by everybody who is still sending it. */

#include <stddef.h>

#include "ownership.h"
#include "text.h"

struct blob {
	unsigned refs;
	size_t length;
	char *data;
};

/* The text's bytes, which empties it. NULL when the text has failed or memory is out. */
struct blob *blob_take(struct text *text);
/* Takes the data, also when it fails. NULL when out of memory. */
struct blob *blob_new(char *data, size_t length);
struct blob *blob_ref(struct blob *b);
struct blob *blob_unref(struct blob *b); /* NULL is fine; returns NULL */

DEFINE_CLEANUP(struct blob, blob_unref);
