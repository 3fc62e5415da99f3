#pragma once

/* A door: a listening socket with a libmicrohttpd of its own behind it, and who may change things
 * by it. A door that the configuration no longer wants lets nobody in, and stays for those inside
 * until the last has left. */

#include <stdbool.h>
#include <sys/types.h>

#include "http.h"
#include "listen.h"
#include "server.h"

struct door {
	struct server *server;
	enum server_door which;
	int fd;
	bool inherited;
	struct listen_socket made;
	char *path; /* of the socket, or what the http door was told to listen on; owned */
	uid_t uid;  /* of the socket file */
	gid_t gid;
	mode_t mode;
	struct http http;
	struct door *next; /* of those that are leaving */
};

/* Open on what the configuration says, or on an inherited descriptor (-1: none). Errors: as for
 * listen_unix() and listen_tcp(), EINVAL (the descriptor does not listen); with a message; the
 * descriptor stays the caller's then. */
int door_new_unix(struct server *s, enum server_door which, const struct listen_config *config,
		int inherited, struct door **ret, struct usher_error *reterr);
int door_new_http(struct server *s, const char *text, int inherited, struct door **ret,
		struct usher_error *reterr);
/* Close, cut everybody off, and remove the socket file that it made. NULL is fine. */
struct door *door_free(struct door *door);
/* The same, but an inherited descriptor is left open. */
struct door *door_abandon(struct door *door);
/* Let nobody in any more, and remove the socket file; those inside stay. */
void door_leave(struct door *door);

/* Give the socket file that it made the owner, group and mode of the configuration. */
int door_permit(struct door *door, const struct listen_config *config, struct usher_error *reterr);
/* Whether the file's owner, group and mode let a process with these ids write to it: it got in so,
 * and this looks again, at what the kernel says of the peer. */
bool door_lets(const struct door *door, uid_t uid, gid_t gid, const gid_t *groups, size_t count);

const char *server_door_to_string(enum server_door door);
