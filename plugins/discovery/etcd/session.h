#pragma once

/* Being let in: one usher_http to the members, and the token that a user's password was changed
 * for. etcd wants the bare token in Authorization, without a word before it. */

#include <usher/plugin.h>

#include <jansson.h>

#include "etcd.h"
#include "gateway.h"

struct etcd_session {
	const struct etcd *etcd;
	struct usher_http *http;
	char *authorization; /* "Authorization: TOKEN"; NULL: none yet, or none needed */
};

#define ETCD_LINEAR_USEC UINT64_C(3000000) /* for what a healthy member answers at once */
#define ETCD_WRITE_USEC  UINT64_C(8000000) /* longer than a member itself tries without a leader */

int etcd_session_open(struct etcd_session *s, const struct etcd *etcd, struct usher_source *source,
		struct usher_error *reterr);
void etcd_session_close(struct etcd_session *s);

/* Whether a user is configured for whom there is no token now. */
bool etcd_session_needs_token(const struct etcd_session *s);
void etcd_session_forget_token(struct etcd_session *s);
/* Change the password for a token. Errors: EACCES, those of the password's file, of HTTP. */
int etcd_session_authenticate(struct etcd_session *s, struct usher_error *reterr);

/* Begin a POST of the body, which is freed; NULL is taken for a lack of memory. watch: a stream. */
int etcd_session_start(struct etcd_session *s, const char *path, char *body, bool watch, void *tag,
		uint64_t *ret_id);
/* A POST that is waited for, once more with a new token where the old one has run out. Takes the
 * body. Errors: those of etcd_answer_read(). */
int etcd_session_do(struct etcd_session *s, const char *path, char *body, json_t **ret,
		struct usher_error *reterr);
