#pragma once

/* What the value of an instance's key says, and how to say it.
 *
 *   usher   {"address": "10.0.0.5", "port": 8080, "zone": "east", "metadata": {...}}
 *   grpc    {"Op": 0, "Addr": "10.0.0.5:8080", "Metadata": {...}}: the naming of etcd's Go client
 *   plain   10.0.0.5:8080, or http://10.0.0.5:8080
 *
 * All three are read; the first two are written. */

#include <usher/endpoint.h>

#include <jansson.h>

/* Added to the metadata of what is read, and never written: the lease that the key is under, 0 for
 * none. Whoever takes the key out knows by it how to put it back. */
#define ETCD_LABEL_LEASE "etcd.lease"

enum etcd_format {
	ETCD_FORMAT_USHER,
	ETCD_FORMAT_GRPC
};

extern const char *const etcd_format_choices[];

/* An endpoint as read; its texts live as long as this does. */
struct etcd_value {
	struct usher_endpoint endpoint; /* without an id */
	json_t *root;
	char address[USHER_TEXT_MAX];
	char lease[24];
	struct usher_label labels[USHER_METADATA_MAX];
	char *made[USHER_METADATA_MAX]; /* texts that stand for numbers and truths */
	size_t label_count, made_count;
};

/* port: which of its ports, by name or number; NULL: the only one. Errors: EBADMSG (what is wrong
 * with it), ENOENT (it says that it is no instance any more), ENOMEM. */
int etcd_value_read(const char *text, size_t size, const char *port, struct etcd_value *ret,
		struct usher_error *reterr);
void etcd_value_done(struct etcd_value *v);
/* The lease of its key, as one label more; where there is no room for it, none. */
void etcd_value_set_lease(struct etcd_value *v, int64_t lease);
/* What an endpoint's label says of it; -1: there is no such label. */
int64_t etcd_value_lease(const struct usher_endpoint *endpoint);

/* The value of an endpoint, to be freed; NULL: out of memory. */
char *etcd_value_write(enum etcd_format format, const struct usher_endpoint *endpoint);
/* The same value with another state, everything else as it was. Errors: EROFS (a value that has no
 * room for it), ENOMEM. */
int etcd_value_set_state(const char *text, enum usher_admin_state state, char **ret,
		struct usher_error *reterr);
