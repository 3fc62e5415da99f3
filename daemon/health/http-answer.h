#pragma once

/* The answer to one HTTP/1.1 request (RFC 9112), read as its bytes come, in pieces of any size,
 * without memory of its own: what is remembered between two pieces is one short line.
 *
 *     while ((event = http_answer_read(&a, &at, &size, &body, &body_size)) > HTTP_ANSWER_MORE)
 *
 * Only what a health check needs is looked at: the status, where the body ends, whether the
 * connection can be used again. Interim answers (1xx) are skipped, but for 101: nobody asked for
 * that. Pure. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of status lines, headers and trailers, with interim answers. */
#define HTTP_ANSWER_HEAD_MAX 65536
#define HTTP_ANSWER_LINE_MAX 256 /* of one line that are looked at */

enum http_answer_event {
	HTTP_ANSWER_MORE, /* all bytes are used up, and the answer is not at its end */
	HTTP_ANSWER_HEAD, /* status and headers are there */
	HTTP_ANSWER_BODY, /* some of the body */
	HTTP_ANSWER_END,  /* what follows belongs to no answer */
};

struct http_answer {
	unsigned status;
	bool has_head; /* the status is final, and the headers are there */
	bool reusable; /* at its end the connection may be used again; known with the head */

	/* its own */
	enum http_answer_state {
		ANSWER_STATUS_LINE,
		ANSWER_HEADERS,
		ANSWER_LENGTH_BODY,
		ANSWER_CHUNK_SIZE,
		ANSWER_CHUNK,
		ANSWER_CHUNK_END,
		ANSWER_TRAILERS,
		ANSWER_ENDLESS_BODY, /* until the connection ends */
		ANSWER_COMPLETE,
	} state;
	bool is_head; /* of a HEAD request: there is no body, whatever the headers say */
	bool has_length, is_chunked, has_coding, wants_close;
	bool line_is_cut;
	uint16_t line_length;
	uint32_t head_bytes;
	uint64_t left; /* of the body or the chunk */
	char line[HTTP_ANSWER_LINE_MAX];
	const char *fault; /* static: why it is no HTTP answer; set with -EPROTO */
};

void http_answer_init(struct http_answer *a, bool is_head);
/* The next thing in the bytes at *data, of which it takes what it needs. HTTP_ANSWER_BODY sets
 * ret_body and ret_size, which point into them. Errors: EPROTO. */
int http_answer_read(struct http_answer *a, const char **data, size_t *size, const char **ret_body,
		size_t *ret_size);
/* The connection has ended. 0: so has the answer. Errors: ECONNRESET (it was not whole). */
int http_answer_close(struct http_answer *a);
/* Whether nothing has come yet. */
bool http_answer_is_untouched(const struct http_answer *a);
