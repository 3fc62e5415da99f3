#include "json-stream.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void forget_read(struct json_stream *s)
{
	if (s->start == 0)
		return;
	memmove(s->bytes, s->bytes + s->start, s->size - s->start);
	s->size -= s->start;
	s->at -= s->start;
	s->start = 0;
}

int json_stream_add(struct json_stream *s, const char *piece, size_t size)
{
	assert(s->max_bytes > 0);

	if (size == 0)
		return 0;
	forget_read(s);
	if (s->size + size > s->space) {
		size_t space = s->space ? s->space : 4096;
		char *bytes;

		while (space < s->size + size)
			space *= 2;
		bytes = realloc(s->bytes, space);
		if (!bytes)
			return -ENOMEM;
		s->bytes = bytes;
		s->space = space;
	}
	memcpy(s->bytes + s->size, piece, size);
	s->size += size;
	return 0;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Look at one byte of a document. Returns whether it is the last. */
static bool is_last(struct json_stream *s, char c)
{
	if (s->is_in_text) {
		if (s->is_escaped)
			s->is_escaped = false;
		else if (c == '\\')
			s->is_escaped = true;
		else if (c == '"')
			s->is_in_text = false;
		return false;
	}
	if (c == '"')
		s->is_in_text = true;
	else if (c == '{' || c == '[')
		s->depth++;
	else if (c == '}' || c == ']')
		return --s->depth == 0;
	return false;
}

int json_stream_next(struct json_stream *s, const char **ret, size_t *ret_size)
{
	if (s->depth == 0) {
		while (s->at < s->size && is_blank(s->bytes[s->at]))
			s->at++;
		s->start = s->at;
		if (s->at == s->size)
			return 0;
		if (s->bytes[s->at] != '{' && s->bytes[s->at] != '[')
			return -EBADMSG;
	}
	while (s->at < s->size) {
		if (!is_last(s, s->bytes[s->at++]))
			continue;
		if (s->at - s->start > s->max_bytes)
			return -EMSGSIZE;
		*ret = s->bytes + s->start;
		*ret_size = s->at - s->start;
		s->start = s->at;
		return 1;
	}
	return s->at - s->start > s->max_bytes ? -EMSGSIZE : 0;
}

bool json_stream_is_amid(const struct json_stream *s)
{
	return s->depth > 0;
}

void json_stream_reset(struct json_stream *s)
{
	char *bytes = s->bytes;

	*s = (struct json_stream){ .max_bytes = s->max_bytes, .bytes = bytes, .space = s->space };
}

void json_stream_done(struct json_stream *s)
{
	free(s->bytes);
	*s = (struct json_stream){ .max_bytes = s->max_bytes };
}
