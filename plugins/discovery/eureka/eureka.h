#pragma once

/* The instance of the plug-in: its options, and what its registration keeps. */

#include <usher/plugin.h>

#include "instance.h"
#include "taken-out.h"

struct registered; /* registration.c */

struct eureka {
	struct usher_http_options http;
	int by;      /* enum instance_by */
	int address; /* 1: the host name */
	uint64_t interval_usec, resync_usec, cache_usec, settle_usec;
	uint64_t lease_usec;

	/* Of the registration's thread alone. */
	struct usher_http *server;
	struct registered *registered;
	struct taken_out taken_out;
	int64_t dirty_msec; /* the last timestamp that was given out */
};

int eureka_open(const struct eureka *e, struct usher_source *source, struct usher_http **ret,
		struct usher_error *reterr);

int registration_add(void *instance, const struct usher_wanted *service,
		const struct usher_endpoint *endpoint, struct usher_error *reterr);
int registration_renew(void *instance, const struct usher_wanted *service, const char *id,
		struct usher_error *reterr);
int registration_set_state(void *instance, const struct usher_wanted *service, const char *id,
		enum usher_admin_state state, struct usher_error *reterr);
int registration_remove(void *instance, const struct usher_wanted *service, const char *id,
		struct usher_error *reterr);
uint64_t registration_renew_after_usec(const void *instance);
void registration_done(struct eureka *e);
