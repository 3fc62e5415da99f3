#pragma once

/* What the data of an instance's node say, and how to say it.
 *
 *   curator    {"name": "web", "id": "...", "address": "10.0.0.5", "port": 8080, "sslPort": null,
 *              "payload": ..., "registrationTimeUTC": ..., "serviceType": "DYNAMIC", ...}
 *   spring     the same with Spring Cloud's payload: its metadata, with "instance_status" in it
 *   nerve      {"host": "10.0.0.5", "port": 8080, "name": "i-1", "weight": 2, "labels": {...}}
 *   serverset  {"serviceEndpoint": {"host": "...", "port": 8080}, "additionalEndpoints": {...},
 *              "status": "ALIVE", "shard": 0}
 *
 * All are read, and told apart by their members; the first three are written. */

#include <usher/endpoint.h>

#include <jansson.h>

#define ZK_VALUE_MAX 65536 /* bytes of the data of one node */

enum zk_format {
	ZK_FORMAT_SPRING,
	ZK_FORMAT_CURATOR,
	ZK_FORMAT_NERVE
};

extern const char *const zk_format_choices[];

/* An endpoint as read; its texts live as long as this does. */
struct zk_value {
	struct usher_endpoint endpoint; /* without an id */
	json_t *root;
	struct usher_label labels[USHER_METADATA_MAX];
	char *made[USHER_METADATA_MAX + 2]; /* texts that stand for numbers and truths */
	size_t label_count, made_count;
};

/* port: which of its ports, by name or number; NULL: sslPort where there is one, else port. Errors:
 * EBADMSG (what is wrong with it), ENOENT (it says that it is no instance any more), ENOMEM. */
int zk_value_read(const char *text, size_t size, const char *port, struct zk_value *ret,
		struct usher_error *reterr);
void zk_value_done(struct zk_value *v);

/* Whether usher has written it: any usherd, for there is no more in it than that. */
bool zk_value_is_ours(const struct zk_value *v);

/* The value of an endpoint with this id, to be freed; NULL: out of memory. now_ms: the time of day.
 */
char *zk_value_write(enum zk_format format, const char *service, const char *id,
		const struct usher_endpoint *endpoint, int64_t now_ms);
/* The same value with another state, everything else as it was. Errors: EROFS (a value that has no
 * room for it), ENOMEM. */
int zk_value_set_state(const char *text, size_t size, enum usher_admin_state state, char **ret,
		struct usher_error *reterr);
