#pragma once

/* Calls of the registration's thread, which waits for each. */

#include "access.h"

/* One call, as each API has it. Whether the fields go as a body is the servers' wish: they read
 * none of a PUT or DELETE. */
struct call {
	const char *method_1, *path_1;
	const char *method_3, *path_3;
	const char *name; /* of the service */
	bool body;
	bool either; /* over whichever API has it, whatever lists are asked for over */
	void (*write)(struct form *f, const struct access *a, const void *what);
	const void *what;
};

/* The event of an answer, whatever its status; its data are borrowed until the next call. Asked
 * again where that helps: over the other API, at another server, with a new token. */
int call_ask(struct nacos *n, const struct call *call, struct usher_http_event *ret,
		struct usher_error *reterr);
/* Whether an answer says that it is done, or in words why not. */
int call_done(const struct usher_http_event *event, struct usher_error *reterr);
/* Both. ENOENT: the server does not know what a sign of life is of. */
int call_do(struct nacos *n, const struct call *c, struct usher_error *reterr);
