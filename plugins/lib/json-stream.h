#pragma once

/* JSON documents out of a stream that comes in pieces: several in one piece, one in several pieces,
 * with or without a line end between them.
 *
 * Only objects and arrays are found; whether what stands in them is JSON, their parser says. Each
 * byte is looked at once. */

#include <stdbool.h>
#include <stddef.h>

struct json_stream {
	size_t max_bytes; /* of one document; set by the user */
	char *bytes;
	size_t size, space;
	size_t start, at; /* of the document that is being read; up to where it was looked at */
	size_t depth;
	bool is_in_text, is_escaped;
};

/* Add a piece. Documents that were handed out are gone. Errors: ENOMEM. */
int json_stream_add(struct json_stream *s, const char *piece, size_t size);
/* The next whole document, in order. 1: ret and ret_size, borrowed until the next piece; 0: there
 * is none yet. Errors: EBADMSG (what stands there begins no document), EMSGSIZE (it is larger than
 * the maximum). */
int json_stream_next(struct json_stream *s, const char **ret, size_t *ret_size);
/* Whether the beginning of a document is there, which is lost when the stream ends now. */
bool json_stream_is_amid(const struct json_stream *s);
/* Forget what came, for another stream. */
void json_stream_reset(struct json_stream *s);
void json_stream_done(struct json_stream *s);
