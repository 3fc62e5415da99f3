#pragma once

/* The instance: what its users say, and what the plug-in's two sides share. */

#include <usher/plugin.h>

#include "protocol.h"
#include "value.h"

struct zk_keeper;

struct zookeeper {
	const char *const *servers;
	const char *chroot;
	const char *layout;
	int format; /* enum zk_format: of what is written */
	int acl;    /* enum zk_acl */
	bool read_only;
	uint64_t session_timeout_usec, ttl_usec, probe_usec, connect_timeout_usec;
	const char *user, *password, *password_file;
	/* Of the thread that registers, made when it is needed. */
	struct zk_keeper *keeper;
};

/* "USER:PASSWORD", to be wiped and freed; NULL with 0: nobody. Errors: EACCES, ENOMEM. */
int zookeeper_read_secret(const struct zookeeper *z, char **ret, struct usher_error *reterr);

/* ---- watch.c ---- */
int zookeeper_run(void *instance, struct usher_source *source);

/* ---- registration.c ---- */
int zookeeper_add(void *instance, const struct usher_wanted *service,
		const struct usher_endpoint *endpoint, struct usher_error *reterr);
int zookeeper_renew(void *instance, const struct usher_wanted *service, const char *id,
		struct usher_error *reterr);
int zookeeper_set_state(void *instance, const struct usher_wanted *service, const char *id,
		enum usher_admin_state state, struct usher_error *reterr);
uint64_t zookeeper_renew_after_usec(const void *instance);
int zookeeper_remove(void *instance, const struct usher_wanted *service, const char *id,
		struct usher_error *reterr);
