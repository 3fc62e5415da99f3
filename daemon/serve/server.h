#pragma once

/* The API of usher on its sockets: HTTP/1.1 and JSON by libmicrohttpd, nested into the core's loop.
 *
 * Reads the directory and the rollouts; what it changes goes through them. Knows its consumers: who
 * they are (socket credentials, Usher-Consumer), what they follow, what they have read and
 * acknowledged. */

#include "registrations.h"
#include "rollout.h"

struct server;

/* r: 0, or a negative errno with its reason. */
typedef void (*server_reloaded)(void *userdata, int r, const char *reason);

/* What the room above does on request and knows. */
struct server_above {
	/* Validate and swap. The file is read off the loop: done is called once, from a later turn.
	 */
	void (*reload)(void *userdata, server_reloaded done, void *done_userdata);
	/* "starting", "ready", "reloading", "stopping" */
	const char *(*state)(void *userdata);
	/* The last reload's error, or NULL. */
	const char *(*reload_error)(void *userdata);
	uint64_t (*loaded_wall_usec)(void *userdata);
	/* Why the disk last failed, or NULL while it works. */
	const char *(*store_error)(void *userdata);
};

int server_new(sd_event *event, struct directory *directory, struct rollout *rollout,
		struct server **ret);
/* Before the directory and the rollouts go. */
struct server *server_free(struct server *s);
/* They outlive the server; without, nothing is registered. */
void server_set_registrations(struct server *s, struct registrations *registrations);
void server_set_above(struct server *s, const struct server_above *above, void *userdata);

enum server_door {
	DOOR_CONSUMER,
	DOOR_ADMIN,
	DOOR_HTTP,
	DOOR_MAX
};

/* Open the doors of the configuration: a socket that systemd passed is used as it is, another is
 * made with owner, group and mode; a dead leftover is replaced, a live one is refused. Doors that
 * are open and unchanged stay open, with their connections. inherited[door] is -1 or a listening
 * descriptor, taken on success. Errors: EADDRINUSE (another usherd answers there), EACCES (with a
 * word on SELinux where it enforces), ...; with a message; on failure the doors are as before. */
int server_listen(struct server *s, const struct config *config, int inherited[DOOR_MAX],
		struct usher_error *reterr);
/* Take no new connections, end the watches, and let answers under way go out. */
void server_quiesce(struct server *s);

const struct rollout_above *server_rollout_above(void); /* userdata: the server */
