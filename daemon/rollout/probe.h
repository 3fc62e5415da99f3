#pragma once

/* Whether an instance answers, before a restore shows it to anybody: a TCP connection, or an HTTP
 * GET that answers 200..299 (a redirect is not followed). A certificate is not verified: the
 * question is whether the instance is up. */

#include <stdbool.h>
#include <stdint.h>

#include "worker.h"

enum probe_result {
	PROBE_UP,
	PROBE_REFUSED,
	PROBE_TIMEOUT,
	PROBE_UNREACHABLE, /* no route, or the name does not resolve */
	PROBE_HTTP_STATUS, /* it answered something else */
	PROBE_FAULT,       /* TLS, nonsense, or our own: see the text */
};

struct probe_target {
	const char *address;
	uint16_t port;
	bool secure;
	const char *http_path; /* NULL: TCP */
	uint64_t timeout_usec;
};

struct probe_outcome {
	enum probe_result result;
	char text[256]; /* "GET http://10.0.0.5:8080/health answered 503" */
};

/* Blocks: for a worker thread. */
void probe_run(const struct probe_target *target, struct probe_outcome *ret);

struct probe;
typedef void (*probe_done)(void *userdata, const struct probe_outcome *outcome);
/* The same in a worker thread; done is called on the core, and the probe is gone afterwards.
 * Errors: EAGAIN, ENOMEM. */
int probe_start(struct worker *worker, const struct probe_target *target, probe_done done,
		void *userdata, struct probe **ret);
/* done will not be called. NULL is fine; returns NULL. */
struct probe *probe_forget(struct probe *probe);
