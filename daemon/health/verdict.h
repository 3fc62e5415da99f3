#pragma once

/* What one probe found: an outcome, why, and the words for people. A probe that finds a host down
 * has succeeded. */

#include <stdint.h>

enum probe_reason {
	PROBE_OK,
	PROBE_DEGRADED, /* it says so itself: a status of `degraded` */
	PROBE_TIMEOUT,
	PROBE_REFUSED,     /* connection refused */
	PROBE_UNREACHABLE, /* no route, network or host down */
	PROBE_RESET,       /* the connection ended before the answer was whole */
	PROBE_NO_ADDRESS,  /* the name does not resolve */
	PROBE_TLS,         /* handshake or verification */
	PROBE_PROTOCOL,    /* the answer is not of the protocol */
	PROBE_STATUS,      /* HTTP status, gRPC status or exit status other than expected */
	PROBE_BODY,        /* the body or the bytes do not match */
	PROBE_NOT_SERVING, /* gRPC: NOT_SERVING, SERVICE_UNKNOWN */
	PROBE_TARGET,      /* the endpoint cannot be asked: a label says no port */
	PROBE_LOCAL,       /* this node's fault (descriptors, memory, ports): proves nothing */
};

const char *probe_reason_to_string(enum probe_reason reason); /* "ok", "timeout", "refused", ... */

/* Up, degraded, down; or nothing, for PROBE_LOCAL. */
enum probe_outcome {
	PROBE_IS_UP,
	PROBE_IS_DEGRADED,
	PROBE_IS_DOWN,
	PROBE_IS_NOTHING
};
enum probe_outcome probe_reason_outcome(enum probe_reason reason);

#define VERDICT_TEXT_MAX 120

struct verdict {
	enum probe_reason reason;
	int code; /* the status, exit status or errno that belongs to it; 0: none */
	char text[VERDICT_TEXT_MAX]; /* one line without control characters: "HTTP 503, expected
					200" */
};

/* The text is cut to fit; what is no printable character of ASCII or UTF-8's becomes "." in it. */
__attribute__((format(printf, 4, 5))) void verdict_set(struct verdict *verdict,
		enum probe_reason reason, int code, const char *format, ...);

/* From the errno (positive) of a system call that `doing` names: "cannot connect: Connection
 * refused". Descriptors, memory, buffers and local ports that are used up are PROBE_LOCAL. */
void verdict_set_errno(struct verdict *verdict, int error, const char *doing);
enum probe_reason probe_reason_of_errno(int error);
