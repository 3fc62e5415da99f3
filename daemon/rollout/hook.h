#pragma once

/* What a person configured to be run at a step: a command, a URL, or a systemd unit's job.
 *
 * A hook may run more than once for one step, when usherd was interrupted or when it failed; its
 * token is the same every time, so that it can tell. It ends within its timeout, whatever it does.
 *
 * A command gets USHER_TOKEN, USHER_DRAIN, USHER_SERVICE, USHER_ENDPOINT, USHER_ADDRESS,
 * USHER_PORT, USHER_UID, USHER_STEP (readiness, close, open), USHER_READY (true or false: which way
 * readiness is turned), USHER_ATTEMPT in its environment, nothing on its standard input, and a
 * process group of its own, which is killed at the timeout. A URL gets the token in the header
 * Idempotency-Key and, with POST or PUT, the same values as a JSON object. A unit's job
 * replaces a conflicting one.
 *
 * Placeholders: {id} {address} {port} {service} {uid} {zone} {ready} {metadata.NAME}; other braces
 * are text. In a URL their values are percent-encoded, and an IPv6 address has its brackets. */

#include <stdbool.h>
#include <stdint.h>
#include <usher/endpoint.h>
#include <usher/error.h>

#include <systemd/sd-bus.h>
#include <systemd/sd-event.h>

#include "config.h"
#include "worker.h"

#define HOOK_OUTPUT_MAX 16384 /* bytes of a command's output that are logged */
#define HOOK_LINE_MAX   1024

/* What all hooks share. */
struct hook_host {
	sd_event *event;
	struct worker *worker;
	sd_bus *bus; /* the system's; NULL until a hook needs it */
};
void hook_host_done(struct hook_host *host);

struct hook_call {
	const struct hook_config *config;
	const char *step;
	bool ready; /* which way; systemd: start where the configuration says stop */
	const char *drain;
	const char *service;
	const char *token;
	unsigned attempt;
	struct usher_endpoints *endpoint; /* a set of one */
};

struct hook;
/* r: 0, or a negative errno; text says how it went, either way. Called once, on the core, never
 * from within hook_start(). The hook is the owner's to free, not inside the callback. */
typedef void (*hook_done)(void *userdata, int r, const char *text);

/* Everything is copied. Errors: EINVAL (a placeholder), EAGAIN, ENOMEM, and what starting it says;
 * with a message. */
int hook_start(struct hook_host *host, const struct hook_call *call, hook_done done, void *userdata,
		struct hook **ret, struct usher_error *reterr);
/* Ends what still runs. NULL is fine; returns NULL. */
struct hook *hook_free(struct hook *hook);

/* A text with its placeholders filled in; to be freed. Errors: those of placeholders_expand(). */
int hook_expand(const char *text, const struct hook_call *call, bool url, char **ret,
		struct usher_error *reterr);
