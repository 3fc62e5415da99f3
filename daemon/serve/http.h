#pragma once

/* libmicrohttpd, nested into the core's loop: its epoll descriptor is one event source, connections
 * are accepted by our doors and handed to it, and what it has left to do is asked after every run.
 *
 * This header and http.c are all that drives libmicrohttpd; the others make responses with it. */

#include <systemd/sd-event.h>

/* MHD hands out its own structs only by pointer. */
struct MHD_Connection;
struct MHD_Daemon;

#define HTTP_CONNECTION_MEMORY 16384 /* bytes: request head, and a piece of a stream */
#define HTTP_CONNECTIONS_MAX   4096  /* consumer door; over it 429 */
#define HTTP_ADMIN_MAX         256
#define HTTP_OPEN_MAX          64  /* http door */
#define HTTP_OVER_MAX          64  /* connections over a door's limit that are told so */
#define HTTP_OPEN_TIMEOUT      30u /* seconds of silence on the http door */

struct door;
struct server;

int http_start(struct server *s);
/* Every stream has to be over or told to end. */
void http_stop(struct server *s);
/* A connection that a door has accepted; takes the descriptor. */
void http_admit(struct server *s, struct door *door, int fd);
/* Let libmicrohttpd do what is ready now. */
void http_run(struct server *s);
/* Do so when the loop turns: libmicrohttpd has no way of its own to say that a connection was resumed. */
void http_run_soon(struct server *s);
sd_event *http_event(struct server *s);
