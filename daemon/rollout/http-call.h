#pragma once

/* One HTTP request that blocks, by libcurl: for worker threads. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <usher/error.h>

#define HTTP_CALL_ANSWER_MAX 65536 /* bytes of a body that are read before we hang up */

struct http_call {
	const char *method; /* NULL: GET */
	const char *url;    /* http or https */
	const char *header; /* one more line, "Name: value"; NULL */
	const char *body;   /* JSON; NULL */
	uint64_t timeout_usec;
	bool any_certificate; /* do not verify the peer's */
};

/* The status, 100..599; redirects are not followed. Errors: ECONNREFUSED, ETIMEDOUT, EHOSTUNREACH
 * (also a name that does not resolve), EPROTO (TLS, nonsense), EINVAL (the URL), EIO, ENOMEM; with
 * a message. */
int http_call(const struct http_call *call, struct usher_error *reterr);

/* The URL without what may be secret: user, password, query. ret gets at most size bytes. */
const char *http_call_show(const char *url, char *ret, size_t size);
