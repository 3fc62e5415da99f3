#pragma once

/* How the endpoints of a service are asked whether they are well, made ready from the
 * configuration: immutable, reference counted, read by every thread of the prober.
 *
 * A check and an endpoint make a target: everything that one probe needs, resolved once. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <usher/endpoint.h>

#include "config.h"

struct check;

#define CHECK_COMMAND_MAX 64 /* arguments of an exec check */

/* What check_new cannot refuse because the configuration's tables already have it (types, ranges),
 * is assumed. Errors: EINVAL (a JSON pointer that is none, both match forms, a path or host that
 * would break the request apart, ...), ENOENT or EACCES (the CA file, the command), E2BIG, ENOMEM;
 * with a message. The configuration is copied; where it names no statuses, 200 is what is expected.
 */
int check_new(const struct check_config *config, struct check **ret, struct usher_error *reterr);
struct check *check_ref(struct check *c);
struct check *check_unref(struct check *c);
const struct check_config *check_config(const struct check *c);
/* Whether both ask alike. */
bool check_config_equal(const struct check_config *a, const struct check_config *b);
/* Whether a connection serves one attempt after the other. Over TCP it must be asked for an answer:
 * what a server says first it says once. */
bool check_config_keeps_alive(const struct check_config *config);

/* One endpoint, as the check asks it. Owned by whoever made it; immutable while a probe uses it. */
struct target {
	struct check *check; /* a reference */
	char *service, *id;  /* for messages, and for exec */
	char *address;       /* IP or host name */
	uint16_t port;       /* the check's, the label's or the endpoint's */
	char *path;          /* http */
	bool tls;
	bool is_numeric; /* sockaddr is filled in; else the name must be resolved */
	struct sockaddr_storage sockaddr;
	socklen_t sockaddr_size;
	char *request; /* http that the plain engine asks: the whole request, ready to be sent */
	size_t request_size;
	char *url;        /* curl's; its host is the name that TLS is to verify */
	char *connect_to; /* curl's CONNECT_TO, where that is not the address; else NULL */
	char *host;       /* the value of the Host header */
	char **command;   /* exec: with the endpoint's own filled in */
};

/* Errors: EINVAL (a label that is no port or path; which then counts as down with that reason),
 * ENOMEM. */
int target_new(struct check *check, const char *service, const struct usher_endpoints *set,
		size_t i, struct target **ret, struct usher_error *reterr);
struct target *target_free(struct target *t);
/* Whether both are the same endpoint, asked the same question at the same place, so that what was
 * found of one holds for the other. (Of its incarnation, the uid, a target knows nothing.) */
bool target_same(const struct target *a, const struct target *b);
