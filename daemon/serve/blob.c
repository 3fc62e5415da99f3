#include "blob.h"

#include <assert.h>

struct blob *blob_new(char *data, size_t length)
{
	struct blob *b = data ? malloc(sizeof(*b)) : NULL;

	if (!b) {
		free(data);
		return NULL;
	}
	*b = (struct blob){ .refs = 1, .length = length, .data = data };
	return b;
}

struct blob *blob_take(struct text *text)
{
	size_t length = text->length;

	return blob_new(text_take(text), length);
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
