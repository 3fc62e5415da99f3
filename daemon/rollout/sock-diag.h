#pragma once

/* Open TCP connections to endpoints, as this host's kernel sees them (sock_diag(7)).
 *
 * All targets are counted in one dump, which the kernel filters by port. Both ends may be on this
 * host; a connection that is seen from both is one. Counted are connections that may still carry a
 * request or an answer:
 *
 *                     seen from the client    seen from the server
 *   SYN_SENT          yes                     -
 *   SYN_RECV          -                       yes
 *   ESTABLISHED       yes                     yes
 *   FIN_WAIT1         yes                     while bytes are unacknowledged
 *   FIN_WAIT2         while a program holds   no: it has said all it will
 *                     it: it waits for the
 *                     answer
 *   CLOSE_WAIT        no: the server has      yes: the answer may be on its way
 *                     said all it will
 *   CLOSING, LAST_ACK while bytes are unacknowledged
 *   TIME_WAIT, CLOSE  no                      no
 *
 * usherd's own health checks are not counted (probe-sockets.h), from whichever end they are seen:
 * they go on while an endpoint is drained, and wait for nobody's answer. What a check's program
 * connects to is counted.
 *
 * The calls block: for a worker thread. */

#include <stddef.h>
#include <stdint.h>
#include <usher/error.h>

#define SOCK_DIAG_TARGETS_MAX     1024
#define SOCK_DIAG_ADDRESSES_MAX   8 /* of one host name */
#define SOCK_DIAG_CONNECTIONS_MAX 2000000

struct sock_diag_address {
	uint8_t bytes[16]; /* IPv4 as ::ffff:a.b.c.d */
};

struct sock_diag_target {
	const char *address; /* IPv4, IPv6, or a host name */
	/* Where that is: found out when the count is 0, else used as it is. */
	size_t address_count;
	struct sock_diag_address addresses[SOCK_DIAG_ADDRESSES_MAX];
	uint16_t port;
	/* out: */
	char fault[122]; /* why this one could not be counted, in words */
	int code;        /* the same as a negative errno, or 0 */
	size_t open;
};

/* The connections that were open, for telling new ones apart; opaque. */
struct sock_diag_sample;
struct sock_diag_sample *sock_diag_sample_free(struct sock_diag_sample *sample);

/* Count them all. A name that does not resolve is its target's own trouble (EHOSTUNREACH). Errors:
 * EPROTONOSUPPORT (the kernel has no inet_diag), ETIMEDOUT, E2BIG, ENOMEM, and what socket says;
 * with a message. */
int sock_diag_count(struct sock_diag_target *targets, size_t count, struct sock_diag_sample **ret,
		struct usher_error *reterr);
/* How many connections of a target were not there in an earlier sample, of the same or other
 * targets, that had it at before_target. before NULL: 0. */
size_t sock_diag_count_new(const struct sock_diag_sample *sample, size_t target,
		const struct sock_diag_sample *before, size_t before_target);
