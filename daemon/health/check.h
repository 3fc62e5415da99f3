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

/* What check_new cannot refuse because the configuration's tables already have it (types, ranges),
 * is assumed. Errors: EINVAL (a JSON pointer that is none, both match forms, ...), ENOENT or EACCES
 * (the CA file, the command), ENOMEM; with a message. The configuration is copied. */
int check_new(const struct check_config *config, struct check **ret, struct usher_error *reterr);
struct check *check_ref(struct check *c);
struct check *check_unref(struct check *c);
const struct check_config *check_config(const struct check *c);

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
	char *request; /* http without TLS: the whole request, ready to be sent */
	size_t request_size;
	char **command; /* exec: with the endpoint's own filled in */
};

/* Errors: EINVAL (a label that is no port or path; which then counts as down with that reason),
 * ENOMEM. */
int target_new(struct check *check, const char *service, const struct usher_endpoints *set,
		size_t i, struct target **ret, struct usher_error *reterr);
struct target *target_free(struct target *t);
