#include "listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pwd.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <usher/endpoint.h>

#include "ownership.h"

#define LISTEN_BACKLOG  1024
#define SELINUX_ENFORCE "/sys/fs/selinux/enforce"
#define ID_TEXT_MAX     10 /* digits of a uid or gid */

static bool selinux_enforces(void)
{
	autoclose int fd = open(SELINUX_ENFORCE, O_RDONLY | O_CLOEXEC);
	char flag = '0';

	return fd >= 0 && read(fd, &flag, 1) == 1 && flag == '1';
}

static int listen_failed(int code, const char *what, const char *path, struct usher_error *reterr)
{
	const char *hint = "";

	if ((code == -EACCES || code == -EPERM) && selinux_enforces())
		hint = "; SELinux is enforcing: look for a denial with 'ausearch -m avc -ts recent'";
	return usher_error_set(reterr, code, "%s: cannot %s: %s%s", path, what,
			strerrordesc_np(-code), hint);
}

/* Who listens at the path, as the kernel noted when it began to. */
static void name_of_listener(int fd, char *ret, size_t size)
{
	struct ucred cred;
	socklen_t length = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &length) == 0 && cred.pid > 0)
		(void) snprintf(ret, size, "pid %d", (int) cred.pid);
	else
		(void) snprintf(ret, size, "a process that cannot be seen from here");
}

/* Remove what is at the path if it is a socket that nobody listens on. */
static int remove_leftover(const struct sockaddr_un *address, struct usher_error *reterr)
{
	const char *path = address->sun_path;
	autoclose int probe = -1;
	struct stat st;
	char who[64];

	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0
				       : listen_failed(-errno, "look at the file", path, reterr);
	if (!S_ISSOCK(st.st_mode))
		return usher_error_set(reterr, -EEXIST,
				"%s: is there and is no socket; move it away or choose another path",
				path);
	probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (probe < 0)
		return listen_failed(-errno, "make a socket", path, reterr);
	if (connect(probe, (const struct sockaddr *) address, sizeof(*address)) == 0 ||
			errno == EAGAIN) {
		name_of_listener(probe, who, sizeof(who));
		return usher_error_set(reterr, -EADDRINUSE,
				"%s: another usherd answers there (%s); stop it, or choose another path",
				path, who);
	}
	if (errno != ECONNREFUSED && errno != EPROTOTYPE)
		return listen_failed(-errno, "find out whether anybody listens", path, reterr);
	if (errno == EPROTOTYPE)
		return usher_error_set(reterr, -EADDRINUSE,
				"%s: another program's socket is there; choose another path", path);
	if (unlink(path) < 0 && errno != ENOENT)
		return listen_failed(-errno, "remove the dead socket", path, reterr);
	return 0;
}

static int make_folder(const char *path, struct usher_error *reterr)
{
	const char *slash = strrchr(path, '/');
	char folder[sizeof(((struct sockaddr_un *) NULL)->sun_path)];

	if (!slash || slash == path)
		return 0;
	(void) snprintf(folder, sizeof(folder), "%.*s", (int) (slash - path), path);
	if (mkdir(folder, 0755) < 0 && errno != EEXIST)
		return listen_failed(-errno, "make the folder", folder, reterr);
	return 0;
}

/* A name, or the number itself. */
static bool id_from_text(const char *text, unsigned *ret)
{
	size_t length = strlen(text);
	unsigned long value;

	if (length == 0 || length > ID_TEXT_MAX || strspn(text, "0123456789") != length)
		return false;
	value = strtoul(text, NULL, 10);
	if (value >= UINT32_MAX)
		return false;
	*ret = (unsigned) value;
	return true;
}

static int find_owner(const struct listen_config *config, uid_t *ret_uid, gid_t *ret_gid,
		struct usher_error *reterr)
{
	uid_t uid = (uid_t) -1;
	gid_t gid = (gid_t) -1;

	if (config->owner && !id_from_text(config->owner, &uid)) {
		const struct passwd *user =
				getpwnam(config->owner); // NOLINT(concurrency-mt-unsafe)

		if (!user)
			return usher_error_set(reterr, -ENOENT,
					"%s: there is no user %s; create it, or name another owner",
					config->socket, config->owner);
		uid = user->pw_uid;
	}
	if (config->group && !id_from_text(config->group, &gid)) {
		const struct group *group =
				getgrnam(config->group); // NOLINT(concurrency-mt-unsafe)

		if (!group)
			return usher_error_set(reterr, -ENOENT,
					"%s: there is no group %s; create it ('groupadd --system %s'), or name another group",
					config->socket, config->group, config->group);
		gid = group->gr_gid;
	}
	*ret_uid = uid;
	*ret_gid = gid;
	return 0;
}

int listen_unix_permit(const struct listen_config *config, struct usher_error *reterr)
{
	uid_t uid = (uid_t) -1;
	gid_t gid = (gid_t) -1;
	int r;

	r = find_owner(config, &uid, &gid, reterr);
	if (r < 0)
		return r;
	if ((uid != (uid_t) -1 || gid != (gid_t) -1) && chown(config->socket, uid, gid) < 0)
		return listen_failed(-errno, "give the socket its owner and group", config->socket,
				reterr);
	if (chmod(config->socket, config->mode) < 0)
		return listen_failed(-errno, "give the socket its mode", config->socket, reterr);
	return 0;
}

int listen_unix(const struct listen_config *config, struct listen_socket *ret,
		struct usher_error *reterr)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	autoclose int fd = -1;
	struct stat st;
	int r;

	if (strlen(config->socket) >= sizeof(address.sun_path))
		return usher_error_set(reterr, -ENAMETOOLONG,
				"%s: the path of a socket has at most %zu bytes", config->socket,
				sizeof(address.sun_path) - 1);
	memcpy(address.sun_path, config->socket, strlen(config->socket) + 1);

	r = make_folder(config->socket, reterr);
	if (r < 0)
		return r;
	r = remove_leftover(&address, reterr);
	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return listen_failed(-errno, "make a socket", config->socket, reterr);
	if (bind(fd, (const struct sockaddr *) &address, sizeof(address)) < 0)
		return listen_failed(-errno, "bind the socket", config->socket, reterr);
	if (stat(config->socket, &st) < 0)
		return listen_failed(-errno, "look at the socket", config->socket, reterr);
	*ret = (struct listen_socket){ .fd = -1, .device = st.st_dev, .inode = st.st_ino };

	/* Until listen() nobody gets in, so the mode is right from the first connection on. */
	r = listen_unix_permit(config, reterr);
	if (r >= 0 && listen(fd, LISTEN_BACKLOG) < 0)
		r = listen_failed(-errno, "listen", config->socket, reterr);
	if (r < 0) {
		listen_unix_remove(config->socket, ret);
		return r;
	}
	ret->fd = take_fd(fd);
	return 0;
}

void listen_unix_remove(const char *path, const struct listen_socket *made)
{
	struct stat st;

	if (lstat(path, &st) == 0 && st.st_dev == made->device && st.st_ino == made->inode)
		(void) unlink(path);
}

static int parse_tcp(const char *text, struct sockaddr_storage *ret, socklen_t *ret_length,
		struct usher_error *reterr)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
		.ai_socktype = SOCK_STREAM };
	struct addrinfo *found = NULL;
	char host[USHER_TEXT_MAX], service[8];
	uint16_t port;
	int r;

	r = usher_authority_parse(text, 0, host, &port, reterr);
	if (r < 0)
		return usher_error_prefix(reterr, r, "api.http.listen");
	(void) snprintf(service, sizeof(service), "%u", (unsigned) port);
	r = getaddrinfo(strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, service, &hints,
			&found);
	if (r != 0)
		return usher_error_set(reterr, -EINVAL,
				"api.http.listen: %s is no IP address; write for example 127.0.0.1:%u",
				host, (unsigned) port);
	memcpy(ret, found->ai_addr, found->ai_addrlen);
	*ret_length = found->ai_addrlen;
	freeaddrinfo(found);
	return 0;
}

int listen_tcp(const char *text, int *ret_fd, struct usher_error *reterr)
{
	struct sockaddr_storage address = {};
	autoclose int fd = -1;
	socklen_t length = 0;
	int r;

	r = parse_tcp(text, &address, &length, reterr);
	if (r < 0)
		return r;
	fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return listen_failed(-errno, "make a socket", text, reterr);
	(void) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
	if (bind(fd, (const struct sockaddr *) &address, length) < 0)
		return listen_failed(-errno, "bind", text, reterr);
	if (listen(fd, LISTEN_BACKLOG) < 0)
		return listen_failed(-errno, "listen", text, reterr);
	*ret_fd = take_fd(fd);
	return 0;
}

bool listen_is_listening(int fd)
{
	int accepts = 0, type = 0;
	socklen_t length = sizeof(int);

	return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &length) == 0 && accepts &&
			getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 &&
			type == SOCK_STREAM;
}
