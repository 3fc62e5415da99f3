#include "door.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "clock.h"
#include "http.h"
#include "log.h"
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

void door_init(struct door *door, struct server *server, enum server_door which)
{
	*door = (struct door){ .server = server, .which = which, .fd = -1, .reserve = -1 };
}

static int spare_descriptor(void)
{
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

void door_stop(struct door *door)
{
	door->accepts = sd_event_source_disable_unref(door->accepts);
	door->rests = sd_event_source_disable_unref(door->rests);
}

void door_done(struct door *door)
{
	door_stop(door);
	if (door->fd >= 0 && !door->inherited && door->which != DOOR_HTTP)
		listen_unix_remove(door->path, &door->made);
	if (door->fd >= 0)
		(void) close(door->fd);
	if (door->reserve >= 0)
		(void) close(door->reserve);
	free(door->path);
	door_init(door, door->server, door->which);
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
	autofree char *copy = NULL;

	if (!listen_is_listening(fd))
		return usher_error_set(reterr, -EINVAL,
				"descriptor %d for the %s door is no listening stream socket; look at the socket unit",
				fd, server_door_to_string(door->which));
	copy = door->which == DOOR_HTTP ? NULL : path_of(fd);
	if (!copy)
		copy = strdup(path);
	if (!copy)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0)
		return usher_error_set(reterr, -errno, "descriptor %d: %s", fd, strerror(errno));
	(void) fcntl(fd, F_SETFD, FD_CLOEXEC);
	door->path = take(copy);
	door->fd = fd;
	door->inherited = true;
	return 0;
}

int door_open_unix(struct door *door, const struct listen_config *config, int inherited,
		struct usher_error *reterr)
{
	autofree char *copy = NULL;
	int r;

	assert(door->fd < 0);
	if (inherited >= 0) {
		r = take_inherited(door, config->socket, inherited, reterr);
		if (r < 0)
			return r;
	} else {
		copy = strdup(config->socket);
		if (!copy)
			return usher_error_set(reterr, -ENOMEM, "out of memory");
		r = listen_unix(config, &door->made, reterr);
		if (r < 0)
			return usher_error_prefix(
					reterr, r, "api.%s", server_door_to_string(door->which));
		door->path = take(copy);
		door->fd = door->made.fd;
	}
	note_permissions(door);
	if (door->which == DOOR_ADMIN)
		door->reserve = spare_descriptor();
	return 0;
}

int door_open_http(struct door *door, const char *text, int inherited, struct usher_error *reterr)
{
	autofree char *copy = NULL;
	int r;

	assert(door->fd < 0);
	if (inherited >= 0)
		return take_inherited(door, text ? text : "http", inherited, reterr);
	copy = strdup(text);
	if (!copy)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	r = listen_tcp(text, &door->fd, reterr);
	if (r < 0)
		return r;
	door->path = take(copy);
	return 0;
}

int door_permit(struct door *door, const struct listen_config *config, struct usher_error *reterr)
{
	int r = listen_unix_permit(config, reterr);

	note_permissions(door);
	return r;
}

void door_move(struct door *to, struct door *from)
{
	assert(to->fd < 0);
	*to = *from;
	if (to->accepts)
		(void) sd_event_source_set_userdata(to->accepts, to);
	if (to->rests)
		(void) sd_event_source_set_userdata(to->rests, to);
	door_init(from, from->server, from->which);
}

static int door_on_rested(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct door *door = userdata;

	(void) source;
	(void) usec;
	(void) sd_event_source_set_enabled(door->accepts, SD_EVENT_ON);
	return 0;
}

/* Out of descriptors: say so once, and try again soon rather than spin. */
static void door_rest(struct door *door, int code)
{
	if (!door->starved)
		log_warning(NULL,
				"Cannot accept connections on %s: %s; trying again every %u ms until it works",
				door->path, strerror(code),
				(unsigned) (DOOR_REST_USEC / USEC_PER_MSEC));
	door->starved = true;
	(void) sd_event_source_set_enabled(door->accepts, SD_EVENT_OFF);
	(void) sd_event_source_set_time_relative(door->rests, DOOR_REST_USEC);
	(void) sd_event_source_set_enabled(door->rests, SD_EVENT_ONESHOT);
}

static int accept_one(struct door *door)
{
	int fd = accept4(door->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0 && (errno == EMFILE || errno == ENFILE) && door->reserve >= 0) {
		(void) close(take_fd(door->reserve));
		fd = accept4(door->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	}
	return fd < 0 ? -errno : fd;
}

static int door_on_accept(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct door *door = userdata;

	(void) source;
	(void) fd;
	(void) events;
	for (unsigned i = 0; i < DOOR_ACCEPTS_A_TURN; i++) {
		int connection = accept_one(door);

		if (connection == -EAGAIN)
			break;
		if (connection == -ECONNABORTED || connection == -EINTR)
			continue;
		if (connection < 0) {
			door_rest(door, -connection);
			return 0;
		}
		http_admit(door->server, door, connection);
	}
	if (door->which == DOOR_ADMIN && door->reserve < 0)
		door->reserve = spare_descriptor();
	if (door->starved)
		log_info(NULL, "Accepting connections on %s again", door->path);
	door->starved = false;
	return 0;
}

int door_start(struct door *door)
{
	sd_event *event = http_event(door->server);
	int r;

	r = sd_event_add_time_relative(
			event, &door->rests, CLOCK_BOOTTIME, 0, 0, door_on_rested, door);
	if (r < 0)
		return r;
	(void) sd_event_source_set_enabled(door->rests, SD_EVENT_OFF);
	r = sd_event_add_io(event, &door->accepts, door->fd, EPOLLIN, door_on_accept, door);
	if (r < 0)
		door_stop(door);
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
