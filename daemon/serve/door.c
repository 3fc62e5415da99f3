#include "door.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "ownership.h"

const char *server_door_to_string(enum server_door door)
{
	static const char *const names[] = {
		[DOOR_CONSUMER] = "consumer",
		[DOOR_ADMIN] = "admin",
		[DOOR_HTTP] = "http",
	};

	return door < DOOR_MAX ? names[door] : "?";
}

/* The path of a socket from outside. */
static char *path_of(int fd)
{
	struct sockaddr_un address = {};
	socklen_t length = sizeof(address);

	if (getsockname(fd, (struct sockaddr *) &address, &length) < 0 ||
			address.sun_family != AF_UNIX || address.sun_path[0] != '/')
		return NULL;
	return strndup(address.sun_path, sizeof(address.sun_path));
}

/* Who may write to the socket file. An inherited socket without a file in sight is its owner's
 * alone. */
static void note_permissions(struct door *door)
{
	struct stat st = { .st_uid = geteuid(), .st_gid = getegid(), .st_mode = 0600 };

	if (door->path)
		(void) stat(door->path, &st);
	door->uid = st.st_uid;
	door->gid = st.st_gid;
	door->mode = st.st_mode & 0777;
}

static int take_inherited(struct door *door, const char *path, int fd, struct usher_error *reterr)
{
	if (!listen_is_listening(fd))
		return usher_error_set(reterr, -EINVAL,
				"descriptor %d for the %s door is no listening stream socket; look at the socket unit",
				fd, server_door_to_string(door->which));
	door->path = door->which == DOOR_HTTP ? NULL : path_of(fd);
	if (!door->path)
		door->path = strdup(path);
	if (!door->path)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0)
		return usher_error_set(
				reterr, -errno, "descriptor %d: %s", fd, strerrordesc_np(errno));
	(void) fcntl(fd, F_SETFD, FD_CLOEXEC);
	door->inherited = true;
	door->fd = fd;
	return 0;
}

static int open_unix(struct door *door, const struct listen_config *config, int inherited,
		struct usher_error *reterr)
{
	int r;

	if (inherited >= 0)
		return take_inherited(door, config->socket, inherited, reterr);
	door->path = strdup(config->socket);
	if (!door->path)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	r = listen_unix(config, &door->made, reterr);
	if (r < 0)
		return usher_error_prefix(reterr, r, "api.%s", server_door_to_string(door->which));
	door->fd = door->made.fd;
	return 0;
}

static int open_http(struct door *door, const char *text, int inherited, struct usher_error *reterr)
{
	if (inherited >= 0)
		return take_inherited(door, text ? text : "http", inherited, reterr);
	door->path = strdup(text);
	if (!door->path)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	return listen_tcp(text, &door->fd, reterr);
}

static int start(struct door *door, struct usher_error *reterr)
{
	int r;

	note_permissions(door);
	r = http_start(&door->http, door);
	if (r < 0)
		return usher_error_set(reterr, r, "cannot serve the %s door: %s",
				server_door_to_string(door->which), strerrordesc_np(-r));
	return 0;
}

static struct door *door_new(struct server *s, enum server_door which)
{
	struct door *door = calloc(1, sizeof(*door));

	if (!door)
		return NULL;
	door->server = s;
	door->which = which;
	door->fd = -1;
	http_init(&door->http);
	return door;
}

/* opened: how opening it went. */
static int start_or_abandon(
		struct door *door, int opened, struct door **ret, struct usher_error *reterr)
{
	int r = opened < 0 ? opened : start(door, reterr);

	if (r < 0) {
		door_abandon(door);
		return r;
	}
	*ret = door;
	return 0;
}

int door_new_unix(struct server *s, enum server_door which, const struct listen_config *config,
		int inherited, struct door **ret, struct usher_error *reterr)
{
	struct door *door = door_new(s, which);
	int r;

	if (!door)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	r = open_unix(door, config, inherited, reterr);
	return start_or_abandon(door, r, ret, reterr);
}

int door_new_http(struct server *s, const char *text, int inherited, struct door **ret,
		struct usher_error *reterr)
{
	struct door *door = door_new(s, DOOR_HTTP);
	int r;

	if (!door)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	r = open_http(door, text, inherited, reterr);
	return start_or_abandon(door, r, ret, reterr);
}

void door_leave(struct door *door)
{
	http_quiesce(&door->http);
	if (door->fd < 0)
		return;
	if (!door->inherited && door->which != DOOR_HTTP)
		listen_unix_remove(door->path, &door->made);
	(void) close(take_fd(door->fd));
}

struct door *door_free(struct door *door)
{
	if (!door)
		return NULL;
	door_leave(door);
	http_stop(&door->http);
	free(door->path);
	free(door);
	return NULL;
}

struct door *door_abandon(struct door *door)
{
	if (door && door->inherited) {
		http_quiesce(&door->http);
		door->fd = -1;
	}
	return door_free(door);
}

int door_permit(struct door *door, const struct listen_config *config, struct usher_error *reterr)
{
	int r = listen_unix_permit(config, reterr);

	note_permissions(door);
	return r;
}

bool door_lets(const struct door *door, uid_t uid, gid_t gid, const gid_t *groups, size_t count)
{
	if (uid == 0 || uid == geteuid())
		return true;
	if (uid == door->uid)
		return door->mode & S_IWUSR;
	if (gid == door->gid)
		return door->mode & S_IWGRP;
	for (size_t i = 0; i < count; i++)
		if (groups[i] == door->gid)
			return door->mode & S_IWGRP;
	return door->mode & S_IWOTH;
}
