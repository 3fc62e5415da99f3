#pragma once

/* The facet of registration: see registration.c for what becomes of it in a cluster. */

#include <usher/plugin.h>

int registration_add(void *instance, const struct usher_wanted *service,
		const struct usher_endpoint *endpoint, struct usher_error *reterr);
int registration_set_state(void *instance, const struct usher_wanted *service, const char *id,
		enum usher_admin_state state, struct usher_error *reterr);
int registration_remove(void *instance, const struct usher_wanted *service, const char *id,
		struct usher_error *reterr);
int registration_progress(void *instance, const struct usher_wanted *service, const char *id,
		const struct usher_drain_progress *progress, struct usher_error *reterr);
