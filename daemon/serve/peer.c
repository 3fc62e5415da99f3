#include "peer.h"

#include <errno.h>
#include <pwd.h>
#include <string.h>
#include <sys/socket.h>

#include "clock.h"
#include "door.h"
#include "inside.h"
#include "ownership.h"

#define PEER_GROUPS_MAX 256

/* The peer's supplementary groups, as the kernel knows them: no look-up that could wait for a
 * directory service. */
static size_t peer_groups(int fd, gid_t ret[PEER_GROUPS_MAX])
{
	socklen_t size = PEER_GROUPS_MAX * sizeof(gid_t);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, ret, &size) < 0)
		return 0;
	return size / sizeof(gid_t);
}

static void look_at_credentials(struct peer *peer, const struct door *door)
{
	gid_t groups[PEER_GROUPS_MAX];
	struct ucred cred;
	socklen_t length = sizeof(cred);

	peer->uid = (uid_t) -1;
	if (door->which == DOOR_HTTP)
		return;
	if (getsockopt(peer->fd, SOL_SOCKET, SO_PEERCRED, &cred, &length) < 0)
		return;
	peer->pid = cred.pid;
	peer->uid = cred.uid;
	if (door->which == DOOR_ADMIN)
		peer->may_change = door_lets(
				door, cred.uid, cred.gid, groups, peer_groups(peer->fd, groups));
}

struct peer *peer_new(struct door *door, struct MHD_Connection *connection, int fd, bool over_limit)
{
	struct peer *peer = calloc(1, sizeof(*peer));

	if (!peer)
		return NULL;
	peer->server = door->server;
	peer->door = door;
	peer->connection = connection;
	peer->fd = fd;
	peer->over_limit = over_limit;
	look_at_credentials(peer, door);
	return peer;
}

struct peer *peer_free(struct peer *peer)
{
	if (!peer)
		return NULL;
	reading_stop(&peer->list);
	in_flight_forget(peer->server->in_flight, &peer->in_flight);
	consumers_leave(peer->consumer);
	request_done(&peer->request);
	free(peer);
	return NULL;
}

struct consumer *peer_consumer(struct peer *peer, const char *name)
{
	struct consumer *consumer;

	/* A request without the header is the connection's all the same. */
	if (peer->consumer && (!name || consumer_is_named(peer->consumer, name)))
		return peer->consumer;
	consumer = consumers_enter(peer->server->consumers, peer->door->which, peer->pid, peer->uid,
			name, clock_boot_usec());
	if (!consumer)
		return NULL;
	if (peer->consumer) {
		reading_stop(&peer->list);
		consumers_leave(peer->consumer);
	}
	peer->consumer = consumer;
	return consumer;
}

/* The name of a local account. Only /etc/passwd is asked: a directory service could keep the loop
 * waiting. */
static bool user_name(uid_t uid, char *ret, size_t size)
{
	cleanup(fclosep) FILE *file = fopen("/etc/passwd", "re");
	struct passwd entry = {}, *found = NULL;
	char buffer[1024];

	if (!file)
		return false;
	while (fgetpwent_r(file, &entry, buffer, sizeof(buffer), &found) == 0 && found)
		if (entry.pw_uid == uid) {
			(void) snprintf(ret, size, "%s", entry.pw_name);
			return true;
		}
	return false;
}

const char *peer_describe(const struct peer *peer, char ret[PEER_TEXT_MAX])
{
	char name[64];

	if (user_name(peer->uid, name, sizeof(name)))
		(void) snprintf(ret, PEER_TEXT_MAX, "%s (uid %u, pid %d)", name,
				(unsigned) peer->uid, (int) peer->pid);
	else
		(void) snprintf(ret, PEER_TEXT_MAX, "uid %u, pid %d", (unsigned) peer->uid,
				(int) peer->pid);
	return ret;
}
