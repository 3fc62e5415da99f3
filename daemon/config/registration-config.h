#pragma once

/* What a registration says: an instance of this node that registries are told about, declared in
 * the configuration or asked for over the API. Both are read by the same tables. */

#include "config.h"

#define CONFIG_REGISTRATIONS_MAX 1000

/* When its checks fail after it was registered. */
enum unhealthy_policy {
	UNHEALTHY_KEEP,       /* the registry is not told */
	UNHEALTHY_UNREADY,    /* shown as not ready, where the registry can */
	UNHEALTHY_DEREGISTER, /* taken out until it is well again */
};

/* When usherd stops. */
enum stop_policy {
	STOP_KEEP,
	STOP_DEREGISTER
};

struct registration_config {
	char *service;
	char *id;        /* with placeholders */
	bool is_literal; /* the id is what it is */
	char *address;   /* NULL: chosen by address_from */
	struct address_config address_from;
	uint16_t port;
	bool secure;
	char *zone; /* NULL: the node's */
	unsigned weight;
	struct usher_label *metadata; /* texts are owned */
	size_t metadata_count;
	struct feed_config *feeds; /* the registries; none: the first of the service's that can */
	size_t feed_count;
	struct health_config health; /* of its own and of the service, key by key */
	enum unhealthy_policy on_unhealthy;
	enum stop_policy on_stop;
	const struct usher_node *place;
	struct usher_document *document; /* what place is in; NULL: the configuration's */
};

/* As the API takes it: a JSON object with the keys of an item of `registrations` but service and
 * id. Errors: EBADMSG, EINVAL, ERANGE, EEXIST, E2BIG, ENOMEM; with a message that begins with
 * "body:LINE:COLUMN". */
int registration_config_parse(const struct config *c, const char *service, const char *id,
		const char *json, struct registration_config **ret, struct usher_error *reterr);
/* Of one that was parsed; NULL is fine. */
struct registration_config *registration_config_free(struct registration_config *r);

/* The id with its placeholders filled in, to be freed. Errors: EADDRNOTAVAIL (it takes an address,
 * and there is none yet), EINVAL (no such placeholder; not a name), ENOMEM; with a message. */
int registration_config_id(const struct registration_config *r, const struct config *c,
		const char *address, char **ret, struct usher_error *reterr);
/* The zone that it is in; NULL. */
const char *registration_config_zone(const struct registration_config *r, const struct config *c);
/* Whether both were asked for in the same words. */
bool registration_config_equal(
		const struct registration_config *a, const struct registration_config *b);

const char *unhealthy_policy_to_string(enum unhealthy_policy policy);
const char *stop_policy_to_string(enum stop_policy policy);
