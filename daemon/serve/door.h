#pragma once

/* A door: one listening socket, and who comes in by it. */

#include <stdbool.h>
#include <sys/types.h>

#include <systemd/sd-event.h>

#include "listen.h"
#include "server.h"

#define DOOR_ACCEPTS_A_TURN 32
/* How long a door rests that could not accept, for the process is out of descriptors. */
#define DOOR_REST_USEC UINT64_C(100000)

struct door {
	struct server *server;
	enum server_door which;
	int fd; /* -1: closed */
	bool inherited;
	struct listen_socket made;
	char *path; /* of the socket, or what the http door was told to listen on; owned */
	uid_t uid;  /* of the socket file, for who may change things */
	gid_t gid;
	mode_t mode;
	sd_event_source *accepts;
	sd_event_source *rests;
	bool starved; /* told in the log */
	int reserve;  /* a spare descriptor, so that the admin door opens when none is left; -1 */
};

/* A closed door. */
void door_init(struct door *door, struct server *server, enum server_door which);
/* Close, and remove the socket file that it made. */
void door_done(struct door *door);

/* Open on what the configuration says (config for the Unix doors, text for http), or on an
 * inherited descriptor. Nobody is let in before door_start(). On failure it stays closed, and the
 * descriptor the caller's. */
int door_open_unix(struct door *door, const struct listen_config *config, int inherited,
		struct usher_error *reterr);
int door_open_http(struct door *door, const char *text, int inherited, struct usher_error *reterr);
/* Errors: ENOMEM and the like. */
int door_start(struct door *door);
/* Give the socket file that it made the owner, group and mode of the configuration. */
int door_permit(struct door *door, const struct listen_config *config, struct usher_error *reterr);
/* Move an opened and started door into the place of a closed one. */
void door_move(struct door *to, struct door *from);
/* Take in nobody more. The socket stays, so that nobody is turned away before it is closed. */
void door_stop(struct door *door);

/* Whether the file's owner, group and mode let a process with these ids write to it: it got in so,
 * and this looks again, at what the kernel says of the peer. */
bool door_lets(const struct door *door, uid_t uid, gid_t gid, const gid_t *groups, size_t count);

const char *server_door_to_string(enum server_door door);
