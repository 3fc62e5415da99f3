#pragma once

/* The keys of one service as the registry has them, and the set of endpoints that they say.
 *
 * Also keys that are none of an instance are kept: how many keys there are and which was changed
 * last is what the registry is asked to prove. A value that cannot be read leaves the endpoint as
 * it was: one writer's mistake takes nothing out of service. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <usher/endpoint.h>

#include "gateway.h"

#define ETCD_KEYS_MAX (2 * (size_t) USHER_ENDPOINTS_MAX) /* of one service */

struct etcd_entry;

struct etcd_table {
	struct etcd_entry *entries; /* in the order of their keys */
	size_t count, capacity;
};

void etcd_table_done(struct etcd_table *t);

/* Take over what one key says now; kv's key and value are taken, or freed. `prefix_size` bytes of
 * the key are the service's. Errors: EBADMSG (the key is not the service's), E2BIG, ENOMEM. */
int etcd_table_put(struct etcd_table *t, size_t prefix_size, struct etcd_kv *kv);
/* A key that is gone; one that is not there is fine. */
void etcd_table_remove(struct etcd_table *t, size_t prefix_size, const struct etcd_kv *kv);
/* What was good in the table before stays known for the keys whose value cannot be read now. */
void etcd_table_inherit(struct etcd_table *t, struct etcd_table *before);

/* The revision in which the youngest of the keys was changed; 0: there is none. */
int64_t etcd_table_newest(const struct etcd_table *t);

/* What the keys say. `service` is for the log. Errors: EBADMSG (there are keys, and none can be
 * read), E2BIG, ENOMEM. */
int etcd_table_build(struct etcd_table *t, const char *service, const char *port,
		struct usher_endpoints **ret, struct usher_error *reterr);
