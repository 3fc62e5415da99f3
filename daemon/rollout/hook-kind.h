#pragma once

/* The inside of hooks: what each kind of them is made of. */

#include "hook.h"

struct hook {
	hook_done done; /* NULL once it was called */
	void *userdata;
	/* Ends what runs and frees the whole. */
	void (*release)(struct hook *hook);
	/* For the log. */
	char *service, *endpoint, *drain, *step;
};

/* Takes place at the end of a callback: the hook must not be touched afterwards. */
void hook_finish(struct hook *hook, int r, const char *text);

int hook_exec_start(struct hook_host *host, const struct hook_call *call, struct hook **ret,
		struct usher_error *reterr);
int hook_http_start(struct hook_host *host, const struct hook_call *call, struct hook **ret,
		struct usher_error *reterr);
int hook_systemd_start(struct hook_host *host, const struct hook_call *call, struct hook **ret,
		struct usher_error *reterr);
