#pragma once

/* The instance: what its users say, and what the plug-in's two sides share. */

#include <usher/plugin.h>

#include "value.h"

#define ETCD_CONNECTIONS_MIN 4

struct etcd_registrations;

struct etcd {
	struct usher_http_options http;
	const char *layout;
	int format; /* enum etcd_format: of what is written */
	uint64_t probe_usec;
	uint64_t ttl_usec;
	/* Of the thread that registers, made when it is needed. */
	struct etcd_registrations *registrations;
};

/* ---- watch.c ---- */
int etcd_run(void *instance, struct usher_source *source);

/* ---- registration.c ---- */
struct etcd_registrations *etcd_registrations_free(struct etcd_registrations *r);
int etcd_registration_add(void *instance, const struct usher_wanted *service,
		const struct usher_endpoint *endpoint, struct usher_error *reterr);
int etcd_registration_renew(void *instance, const struct usher_wanted *service, const char *id,
		struct usher_error *reterr);
int etcd_registration_set_state(void *instance, const struct usher_wanted *service, const char *id,
		enum usher_admin_state state, struct usher_error *reterr);
int etcd_registration_remove(void *instance, const struct usher_wanted *service, const char *id,
		struct usher_error *reterr);
uint64_t etcd_registration_renew_after_usec(const void *instance);
