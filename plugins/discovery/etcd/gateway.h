#pragma once

/* What etcd's JSON gateway says and is told. It comes in two dialects, that of grpc-gateway v1
 * (etcd 3.4) and v2 (Debian's 3.5, 3.6 and later), which differ in how errors look; both are read.
 *
 * What is zero is left out by etcd, 64-bit numbers come as texts, keys and values as base64. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <usher/http.h>

#include <jansson.h>

#define ETCD_PAGE_KEYS    500
#define ETCD_DOCUMENT_MAX ((size_t) 16 << 20) /* one message of a watch */
#define ETCD_CLUSTER_MAX  24
#define ETCD_WATCHES_MAX  10000 /* in one stream */

/* ---- answers ---- */

/* The gRPC codes that etcd answers with. */
enum etcd_code {
	ETCD_OK = 0,
	ETCD_INVALID_ARGUMENT = 3,
	ETCD_NOT_FOUND = 5,
	ETCD_PERMISSION_DENIED = 7,
	ETCD_OUT_OF_RANGE = 11, /* compacted, or in the future */
	ETCD_UNAVAILABLE = 14,
	ETCD_UNAUTHENTICATED = 16,
};

struct etcd_header {
	char cluster[ETCD_CLUSTER_MAX];
	int64_t revision; /* at least 1 */
};

/* A number that may be written as a text; 0 where there is none. */
int64_t etcd_integer(const json_t *value);

/* EBADMSG: this is no answer of etcd's. */
int etcd_header_read(const json_t *answer, struct etcd_header *ret, struct usher_error *reterr);

/* The object of an answer with status 200, or why there is none. *ret_code is etcd's own word for
 * it, 0 where it did not say. Errors: EACCES (it does not let us in, or not there), ENOENT, ERANGE
 * (ETCD_OUT_OF_RANGE), EBADMSG (not etcd), EAGAIN (it cannot answer now), EIO, ENOMEM. */
int etcd_answer_read(const struct usher_http_event *event, json_t **ret, int *ret_code,
		struct usher_error *reterr);

/* The error that an object says, whichever dialect it is in: its code and text. False: it says
 * none. The text is borrowed from the object. */
bool etcd_error_of(const json_t *object, int *ret_code, const char **ret_text);
/* etcd's code as an errno. */
int etcd_code_to_errno(int code, const char *text);
/* Whether it means that the token is none, or none any more. */
bool etcd_wants_token(int code, const char *text);

struct etcd_kv {
	char *key; /* owned; ended by a zero byte that does not count */
	size_t key_size;
	char *value; /* NULL: none was sent */
	size_t value_size;
	int64_t mod_revision, lease;
};

/* Errors: EBADMSG, ENOMEM. */
int etcd_kv_read(const json_t *object, struct etcd_kv *ret, struct usher_error *reterr);
void etcd_kv_done(struct etcd_kv *kv);

/* ---- requests: each a text to be freed, or NULL: out of memory ---- */

/* Every key from `from` (NULL: the first) on that has the prefix, one page of it, as of the
 * revision (0: now). */
char *etcd_range_request(const char *prefix, const char *from, size_t from_size, int64_t revision);
char *etcd_get_request(const char *key);
/* Of each prefix how many keys there are, and which was changed last: in one transaction, which
 * only a member that knows the leader answers. */
char *etcd_probe_request(const char *const *prefixes, size_t count);
/* One watch of a stream; a body holds several behind each other. */
char *etcd_watch_request(const char *prefix, int64_t start_revision, int64_t watch_id);
/* expected_revision 0: whatever is there; else only if the key was not changed since. */
#define ETCD_NO_LEASE   INT64_C(0)
#define ETCD_SAME_LEASE INT64_C(-1) /* the key stays under the one it has */
char *etcd_put_request(
		const char *key, const char *value, int64_t lease, int64_t expected_revision);
char *etcd_delete_request(const char *key);
char *etcd_grant_request(uint64_t ttl_s);
char *etcd_lease_request(int64_t lease); /* to keep alive and to revoke */
char *etcd_authenticate_request(const char *user, const char *password);
