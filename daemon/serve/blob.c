#include "blob.h"

#include <assert.h>

struct blob *blob_take(struct text *text)
{
	size_t length = text->length;
	struct blob *b;
	char *data;

	data = text_take(text);
	if (!data)
		return NULL;
	b = malloc(sizeof(*b));
	if (!b) {
		free(data);
		return NULL;
	}
	*b = (struct blob){ .refs = 1, .length = length, .data = data };
	return b;
}

struct blob *blob_ref(struct blob *b)
{
	if (b)
		b->refs++;
	return b;
}

struct blob *blob_unref(struct blob *b)
{
	if (!b)
		return NULL;
	assert(b->refs > 0);
	if (--b->refs == 0) {
		free(b->data);
		free(b);
	}
	return NULL;
}
