#include "inherited.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <systemd/sd-daemon.h>

#include "log.h"

static enum server_door door_of(const struct config *config, int fd)
{
	if (sd_is_socket_unix(fd, SOCK_STREAM, 1, config->consumer.socket, 0) > 0)
		return DOOR_CONSUMER;
	if (sd_is_socket_unix(fd, SOCK_STREAM, 1, config->admin.socket, 0) > 0)
		return DOOR_ADMIN;
	if (config->http_listen && sd_is_socket_inet(fd, AF_UNSPEC, SOCK_STREAM, 1, 0) > 0)
		return DOOR_HTTP;
	return DOOR_MAX;
}

void inherited_sockets(const struct config *config, int ret_doors[DOOR_MAX])
{
	int count = sd_listen_fds(1);

	for (int door = 0; door < DOOR_MAX; door++)
		ret_doors[door] = -1;
	if (count < 0)
		log_warning(NULL,
				"Cannot take the sockets that systemd passed: %s; making them anew",
				strerrordesc_np(-count));
	for (int fd = SD_LISTEN_FDS_START; fd < SD_LISTEN_FDS_START + count; fd++) {
		enum server_door door = door_of(config, fd);

		if (door == DOOR_MAX || ret_doors[door] >= 0) {
			log_warning(NULL,
					"Socket %d that systemd passed is none of those in %s; closing it",
					fd, config->path);
			(void) close(fd);
			continue;
		}
		ret_doors[door] = fd;
	}
}
