#pragma once

/* The instance: the options, which never change. So the thread of `run` and that of the
 * registrations share nothing that needs a lock; they meet on the disk. */

#include <stdint.h>
#include <usher/plugin.h>

struct file_plugin {
	const char *path;
	int format; /* enum format_choice */
	uint64_t poll_usec;
	const char *kubernetes_namespace;
	const char *service_label;
};

int registration_add(void *instance, const struct usher_wanted *service,
		const struct usher_endpoint *endpoint, struct usher_error *reterr);
int registration_renew(void *instance, const struct usher_wanted *service, const char *id,
		struct usher_error *reterr);
int registration_set_state(void *instance, const struct usher_wanted *service, const char *id,
		enum usher_admin_state state, struct usher_error *reterr);
int registration_remove(void *instance, const struct usher_wanted *service, const char *id,
		struct usher_error *reterr);
