#pragma once

/* One call: what was asked, and the ways to answer it. Handlers answer exactly once. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "directory.h"
#include "fields.h"
#include "router.h"
#include "text.h"

#define REQUEST_BODY_MAX 65536
#define REQUEST_SWALLOW_MAX                                          \
	1048576 /* of a body that is too large; then the line is cut \
		 */

#define JSON_TYPE   "application/json"
#define NDJSON_TYPE "application/x-ndjson"

struct MHD_Response;
struct peer;
struct server;

struct request {
	struct server *server;
	struct peer *peer;
	enum method method;
	bool head;
	const struct route *route;
	const char *params[ROUTE_PARAMS_MAX];
	struct text path;
	struct text body;
	size_t swallowed;
	bool begun;
	bool malformed; /* an escape in path or query */
	bool too_large;
	bool suspended;
	bool deferred;                  /* the answer comes from `then` */
	int (*then)(struct request *q); /* when it is resumed */
	void (*forget)(void *waiting);  /* in its place when the peer has gone */
	void *waiting;                  /* what for */
	bool waited;                    /* for a first answer */
	bool answered;
	bool queued; /* and libmicrohttpd took it */
	unsigned status;
	uint64_t now_usec;
	bool listed; /* answered with a list: its reading is flushed once it is sent */
	/* What a problem tells beside its text, as far as it is known. */
	const char *service;
	const char *stage;
	struct freshness freshness;
	bool has_freshness;
};

/* For the next request on the connection. */
void request_reset(struct request *q);
void request_done(struct request *q);
/* Find the route, check the rights, call the handler; whatever happens, it is answered. */
void request_dispatch(struct request *q);

/* Take the query or the body apart. false: it was refused, and that is answered. */
bool request_query(
		struct request *q, const struct field *fields, void *ret, fields_given *ret_given);
bool request_body(
		struct request *q, const struct field *fields, void *ret, fields_given *ret_given);
/* For calls that take neither query. */
bool request_no_query(struct request *q);
/* A header, or NULL. */
const char *request_header(struct request *q, const char *name);
/* Who asks, by the name that it gives itself or that of its program. NULL when out of memory. */
const char *request_consumer(struct request *q);

/* The context of the first parameter. NULL: there is none, and that is answered. */
struct context *request_known_context(struct request *q);
/* The same, made where that is allowed. For one that has just been made the call may be put off
 * until its first answer: NULL, too; the handler runs again then. */
struct context *request_context(struct request *q);
/* The same, without waiting. */
struct context *request_context_at_once(struct request *q);
/* Note the freshness of the context for the answer, and refuse what is older than the caller
 * accepts (max_age_usec, 0: it did not say) or the service's policy. false: refused, and answered.
 */
bool request_is_fresh(struct request *q, struct context *context, uint64_t max_age_usec);

/* Answer later: after request_resume() `then` is called, to answer, or `forget`, where the peer has
 * gone. Its leaving is not noticed before, so it should not be long. */
void request_suspend(struct request *q, int (*then)(struct request *q),
		void (*forget)(void *waiting), void *waiting);
void request_resume(struct request *q);
/* Nobody is there to be answered. */
void request_abandon(struct request *q);

/* Each returns 0 for the handler to return. respond_text takes the text's data. */
int respond_text(struct request *q, unsigned status, const char *content_type, struct text *text);
int respond_json(struct request *q, unsigned status, struct text *text);
int respond_nothing(struct request *q, unsigned status);
/* Borrows a response that others may share. */
int respond_with(struct request *q, unsigned status, struct MHD_Response *response);

/* A response of the text's data, which it takes; NULL when out of memory. */
struct MHD_Response *response_new(struct text *text, const char *content_type);
