#pragma once

/* The instance of the plug-in: its options, and what its registration keeps. */

#include <usher/plugin.h>

enum consistency {
	CONSISTENCY_STALE,      /* any server, as far behind as max_stale */
	CONSISTENCY_DEFAULT,    /* the leader, from memory */
	CONSISTENCY_CONSISTENT, /* the leader, once a majority has agreed that it is */
};

struct registered; /* registration.c */

struct consul {
	struct usher_http_options http;
	const char *datacenter, *namespace_name, *partition;
	const char *const *tags;
	const char *tagged_address, *canary;
	int consistency; /* enum consistency */
	uint64_t max_stale_usec, wait_usec, poll_usec, hold_usec;
	uint64_t ttl_usec, deregister_after_usec;

	/* Of the registration's thread alone. */
	struct usher_http *agent;
	struct registered *registered;
	size_t registered_count;
};

int consul_open(const struct consul *c, struct usher_source *source, struct usher_http **ret,
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
void registration_done(struct consul *c);
