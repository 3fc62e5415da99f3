#pragma once

/* From method and path to the route: a table with patterns such as "/v1/services/{s}/endpoints".
 * Pure; decodes the path's parameters in place. */

#include <stdbool.h>
#include <stddef.h>

#define ROUTE_PARAMS_MAX   2
#define ROUTE_SEGMENTS_MAX 8

enum method {
	METHOD_GET, /* and HEAD */
	METHOD_POST,
	METHOD_PUT,
	METHOD_DELETE,
	METHOD_MAX,
	METHOD_UNKNOWN = METHOD_MAX,
};

struct request;

/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): in the order that its table reads in */
struct route {
	enum method method;
	const char *pattern;
	int (*handle)(struct request *q); /* 0: answered; or a negative errno that nobody foresaw */
	bool changes;                     /* needs the admin door */
	bool open;                        /* the http door has it, too */
};

struct route_match {
	const struct route *route;
	const char *params[ROUTE_PARAMS_MAX]; /* in the order of the pattern; inside the path */
	unsigned allowed; /* when the method does not fit: bits 1 << METHOD_... */
};

/* "GET" and so on; HEAD is METHOD_GET. */
enum method method_from_string(const char *text);
const char *method_to_string(enum method method);

/* path is cut up and decoded in place. Errors: ENOENT (no such path), EOPNOTSUPP (ret->allowed says
 * what is), EINVAL (a malformed escape). */
int router_find(const struct route *routes, size_t count, enum method method, char *path,
		struct route_match *ret);

/* Decode %XX in place and return the new length. EINVAL: malformed, or a NUL. */
int url_decode(char *text, size_t *ret_length);
