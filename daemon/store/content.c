#include "content.h"

#include <stdlib.h>
#include <string.h>

struct content *content_unref(struct content *content)
{
	if (!content || --content->refs > 0)
		return NULL;
	usher_endpoints_unref(content->endpoints);
	free(content);

	return NULL;
}

struct content *content_ref(struct content *content)
{
	if (content)
		content->refs++;

	return content;
}

struct content *content_new(struct usher_endpoints *endpoints, const char *text, bool finished)
{
	size_t size = text ? strlen(text) + 1 : 1;
	struct content *content = calloc(1, sizeof(*content) + size);

	if (!content)
		return NULL;
	content->refs = 1;
	content->finished = finished;
	content->has_text = text;
	if (endpoints)
		content->endpoints = usher_endpoints_ref(endpoints);
	if (text)
		memcpy(content->text, text, size);

	return content;
}

bool content_equal(const struct content *a, const struct content *b)
{
	return a->has_text == b->has_text && strcmp(a->text, b->text) == 0 &&
			usher_endpoints_equal(a->endpoints, b->endpoints);
}
