#include "line-splitter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CAPACITY_FIRST 4096

static int line_splitter_append(struct line_splitter *splitter, const char *data, size_t length)
{
	size_t needed = splitter->length + length + 1;

	if (splitter->length + length > splitter->maximum)
		return -E2BIG;
	if (needed > splitter->capacity) {
		size_t capacity = splitter->capacity ? splitter->capacity : CAPACITY_FIRST;
		char *grown;

		while (capacity < needed)
			capacity *= 2;
		grown = realloc(splitter->data, capacity);
		if (!grown)
			return -ENOMEM;
		splitter->data = grown;
		splitter->capacity = capacity;
	}
	memcpy(splitter->data + splitter->length, data, length);
	splitter->length += length;
	splitter->data[splitter->length] = 0;
	return 0;
}

static int line_splitter_finish(
		struct line_splitter *splitter, usher_client_line line, void *userdata)
{
	size_t length = splitter->length;

	if (length > 0 && splitter->data[length - 1] == '\r')
		splitter->data[--length] = 0;
	splitter->length = 0;
	return length > 0 ? line(userdata, splitter->data, length) : 0;
}

int line_splitter_add(struct line_splitter *splitter, const char *data, size_t length,
		usher_client_line line, void *userdata)
{
	int r;

	while (length > 0) {
		const char *end = memchr(data, '\n', length);
		size_t part = end ? (size_t) (end - data) : length;

		r = line_splitter_append(splitter, data, part);
		if (r < 0)
			return r;
		if (!end)
			return 0;
		r = line_splitter_finish(splitter, line, userdata);
		if (r != 0)
			return r;
		data = end + 1;
		length -= part + 1;
	}
	return 0;
}

void line_splitter_done(struct line_splitter *splitter)
{
	free(splitter->data);
	splitter->data = NULL;
	splitter->length = splitter->capacity = 0;
}
