/* Which connections are the prober's own. */

#include "probe-sockets.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>

/* A ring without a lock: a note that is written while the ring is copied is seen or not. */
static _Atomic uint32_t notes[PROBE_SOCKETS_MAX];
static atomic_uint next_note;

void probe_socket_note(int fd)
{
	struct stat st;
	unsigned i;

	if (fstat(fd, &st) < 0)
		return;
	i = atomic_fetch_add_explicit(&next_note, 1, memory_order_relaxed) % PROBE_SOCKETS_MAX;
	atomic_store_explicit(&notes[i], (uint32_t) st.st_ino, memory_order_release);
}

static int compare(const void *a, const void *b)
{
	uint32_t left = *(const uint32_t *) a, right = *(const uint32_t *) b;

	return (left > right) - (left < right);
}

size_t probe_sockets_copy(uint32_t *ret)
{
	size_t count = 0;

	for (size_t i = 0; i < PROBE_SOCKETS_MAX; i++) {
		uint32_t inode = atomic_load_explicit(&notes[i], memory_order_acquire);

		if (inode != 0)
			ret[count++] = inode;
	}
	qsort(ret, count, sizeof(*ret), compare);
	return count;
}

bool probe_sockets_have(const uint32_t *sorted, size_t count, uint32_t inode)
{
	return bsearch(&inode, sorted, count, sizeof(*sorted), compare) != NULL;
}
