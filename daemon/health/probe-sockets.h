#pragma once

/* Which connections are the prober's own: a drain that waits until nobody is connected to an
 * endpoint does not wait for usherd's checks of it.
 *
 * A socket is noted before it connects, by its inode, which the kernel also tells of every
 * connection and does not give again. Only the last PROBE_SOCKETS_MAX notes are kept, so who
 * uses a connection again notes it again. Thread: any. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROBE_SOCKETS_MAX 32768

void probe_socket_note(int fd);

/* The inodes of those that were noted last, sorted; ret needs room for PROBE_SOCKETS_MAX. Returns
 * how many there are. */
size_t probe_sockets_copy(uint32_t *ret);
bool probe_sockets_have(const uint32_t *sorted, size_t count, uint32_t inode);
