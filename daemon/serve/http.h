#pragma once

/* libmicrohttpd behind one door, nested into the core's loop: its epoll descriptor is one event
 * source, and what it has left to do is asked after every run.
 *
 * This header and http.c are all that drives libmicrohttpd; the others make responses with it. It
 * accepts by itself, for only then it knows that a socket is none of TCP's, and does without two
 * failing setsockopt() calls an answer. What it makes of running out of descriptors is mended here:
 * it would spin, or let nobody in until somebody leaves. */

#include <stdbool.h>
#include <stddef.h>

#include <systemd/sd-event.h>

/* libmicrohttpd hands its own structs out only by pointer. */
struct MHD_Connection;
struct MHD_Daemon;

#define HTTP_CONNECTION_MEMORY \
	6144 /* bytes: request head, and a piece of a stream; cleared for each request */
#define HTTP_CONSUMER_MAX 4096 /* connections to the consumer door; over it 429 */
#define HTTP_ADMIN_MAX    256
#define HTTP_OPEN_MAX     64  /* http door */
#define HTTP_OVER_MAX     64  /* connections over a door's limit that are told so */
#define HTTP_OPEN_TIMEOUT 30u /* seconds of silence on the http door */
/* How long a door rests that could not accept, for the process is out of descriptors. */
#define HTTP_REST_USEC UINT64_C(100000)

struct door;

struct http {
	struct door *door;
	struct MHD_Daemon *daemon;
	size_t connections;
	sd_event_source *ready, *again, *later, *rested;
	bool starved; /* could not accept; told in the log */
	bool starved_again;
	bool nudging;
	int reserve; /* a spare descriptor, so that the admin door opens when none is left; -1 */
};

void http_init(struct http *http);
/* Serve the door's descriptor, which stays the door's. Errors: ENOMEM and the like. */
int http_start(struct http *http, struct door *door);
/* Accept nobody more. */
void http_quiesce(struct http *http);
/* Cut off who is still there, and stop. */
void http_stop(struct http *http);
/* Let libmicrohttpd work when the loop turns: it has no way of its own to say that a connection was
 * resumed. */
void http_run_soon(struct http *http);
