#pragma once

/* How a thread of ours gets at the servers: over which API, and with which token.
 *
 * Servers up to 3.1 have the API v1, which says more and pushes; those from 3.0 have v3. Where
 * nobody says which, v1 is asked for, then v3; who answers that there is no such path is asked over
 * the other one. A token comes from a login and is renewed after four fifths of its time. */

#include "form.h"
#include "nacos.h"

struct access {
	const struct nacos *nacos;
	struct usher_http *http;
	enum nacos_api api;
	const char *agent; /* as which we ask; NULL: as usherd */
	/* Of the login; token is NULL before the first. */
	char *token;
	unsigned serial; /* of the token */
	uint64_t since_usec, renew_usec, expires_usec;
	bool old_path;     /* of servers before 3.0 */
	uint64_t request;  /* under way; 0: none */
	uint64_t due_usec; /* not to log in before */
	unsigned failures;
};

/* source: as in usher_http_new(). */
int access_init(struct access *a, const struct nacos *n, struct usher_source *source,
		struct usher_error *reterr);
void access_done(struct access *a);

/* Whether a request may be sent: with a token, or where none is needed. */
bool access_is_open(const struct access *a, uint64_t now_usec);
bool access_wants_login(const struct access *a, uint64_t now_usec);
/* When it will want one; 0: not before something else happens. */
uint64_t access_next_login_usec(const struct access *a);
/* Begin a login; its event has the tag `a`. EACCES: the password cannot be read; ENOMEM. */
int access_login(struct access *a, struct usher_error *reterr);
/* What came of it. EACCES: denied. */
int access_take_login(struct access *a, const struct usher_http_event *event, uint64_t now_usec,
		uint64_t *random, struct usher_error *reterr);
/* A login that is waited for. */
int access_login_now(struct access *a, uint64_t now_usec, struct usher_error *reterr);
/* A server has denied what the token of that serial should allow: ask again with another one.
 * False: there is no use. */
bool access_was_denied(struct access *a, unsigned serial, uint64_t now_usec);
/* Whether the answer says that the server has no such path, and not that it has no such thing. */
bool access_is_no_path(const struct usher_http_event *event);
/* A server does not have that API: ask over the other one. False: it was said which to use. */
bool access_lacks_api(struct access *a, enum nacos_api api);

/* A path of the API in force: "/nacos/v1/ns/instance/list" for "instance/list". */
void access_path(const struct access *a, struct form *f, const char *v1, const char *v3);
/* Which namespace, group and service; name is "SERVICE" or "GROUP@@SERVICE". */
void access_add_service(const struct access *a, struct form *f, const char *name);
/* Begin, with the token. body: NULL for none. */
int access_start(struct access *a, struct usher_http_request *request, const struct form *path,
		const struct form *body, uint64_t *ret_id);
int access_do(struct access *a, struct usher_http_request *request, const struct form *path,
		const struct form *body, struct usher_http_event *ret, struct usher_error *reterr);
