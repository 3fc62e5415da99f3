#pragma once

/* Listening sockets: made with owner, group and mode, put in the place of a dead leftover, and
 * never in the place of a live one. */

#include <stdbool.h>
#include <sys/types.h>
#include <usher/error.h>

#include "config.h"

/* A Unix socket, as it stands in the file system. */
struct listen_socket {
	int fd;
	dev_t device; /* of the file, to recognise it again */
	ino_t inode;
};

/* Bind and listen. A missing folder is made (0755). Errors: EADDRINUSE (somebody answers there:
 * who), EEXIST (the path is no socket), ENAMETOOLONG, EACCES, ENOENT (the folder's folder, the
 * owner or the group), ...: with a message. */
int listen_unix(const struct listen_config *config, struct listen_socket *ret,
		struct usher_error *reterr);
/* Give the socket file the owner, group and mode of the configuration. */
int listen_unix_permit(const struct listen_config *config, struct usher_error *reterr);
/* Remove the socket file if it is still the one that was made. */
void listen_unix_remove(const char *path, const struct listen_socket *made);

/* "127.0.0.1:9180", "[::1]:9180" or "localhost:9180". */
int listen_tcp(const char *text, int *ret_fd, struct usher_error *reterr);

/* Whether fd is a listening stream socket: what a descriptor from outside has to be. */
bool listen_is_listening(int fd);
