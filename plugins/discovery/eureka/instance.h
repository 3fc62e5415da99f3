#pragma once

/* One instance as a Eureka server describes it: in the list of all, in what has changed, or alone.
 *
 * Servers differ in how they write it: numbers and booleans may be texts, and a port a number or an
 * object. All of that is read. What cannot be used as an endpoint is an instance all the same, for
 * the server counts it in its hash. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <usher/endpoint.h>

/* Of the metadata that are not the instance's own. */
#define INSTANCE_LABEL_PREFIX "eureka."

/* In the metadata of what usher has registered: what others have is theirs to describe. */
#define INSTANCE_OWNER_LABEL "registered-by"
#define INSTANCE_OWNER       "usher"

enum instance_status {
	INSTANCE_DOWN, /* in the order of their names, as in the hash */
	INSTANCE_OUT_OF_SERVICE,
	INSTANCE_STARTING,
	INSTANCE_UNKNOWN,
	INSTANCE_UP,
};

#define INSTANCE_STATUSES (INSTANCE_UP + 1)

/* By what a service is looked up. */
enum instance_by {
	INSTANCE_BY_APP,
	INSTANCE_BY_VIP,
	INSTANCE_BY_SECURE_VIP,
};

/* In one block. A text that is not there is NULL. */
struct instance {
	const char *app, *id;
	const char *host, *ip, *vip, *secure_vip, *zone, *datacenter;
	int64_t updated_msec, registered_msec, dirty_msec; /* the server's clock, the client's */
	int64_t renewed_msec; /* when it gave a sign of life last; 0: not said */
	int64_t lease_msec;
	uint64_t missing_usec; /* since when the server lists it no more without having said that it
				  was taken out; 0: it is listed */
	uint64_t seen_usec;    /* of one that is missing: when it was listed last */
	enum instance_status status, overridden;
	uint16_t port, secure_port; /* 0: there is none, or it is not enabled */
	bool deleted;               /* what has changed is that it was taken out */
	bool overdue;               /* its lease is over, and the server keeps it */
	size_t label_count;
	struct usher_label labels[];
};

const char *instance_status_to_string(enum instance_status status); /* "DOWN", ... */
enum instance_status instance_status_from_string(const char *text); /* else UNKNOWN */

/* The object alone, or in an object as its "instance". Free it. Errors: EBADMSG (no JSON, no
 * object, or without app or id), ENOMEM. */
int instance_parse(
		const char *text, size_t size, struct instance **ret, struct usher_error *reterr);

/* Which instances belong to a service is told by the hashes of their keys: the app, or each of the
 * comma-separated vips, whatever the case of their letters. */
uint64_t instance_key(const char *name, size_t size);
/* Writes the k-th key. False: there are not so many. */
bool instance_key_at(const struct instance *i, enum instance_by by, size_t k, uint64_t *ret);

struct instance_options {
	enum instance_by by;
	bool hostname;    /* the address is the host name, not the IP */
	const char *port; /* which is wanted: http, https, management, or a number; NULL: the secure
			     one where it is enabled, else the other */
};

/* As an endpoint, whose texts are the instance's and whose metadata are in `labels`. Errors: ENOENT
 * (it has no such port). */
int instance_to_endpoint(const struct instance *i, const struct instance_options *options,
		struct usher_label labels[USHER_METADATA_MAX], struct usher_endpoint *ret,
		struct usher_error *reterr);
/* Add that to a set. Errors: the same, and those of usher_endpoints_add(). */
int instance_add_to(const struct instance *i, const struct instance_options *options,
		struct usher_endpoints *set, struct usher_error *reterr);
