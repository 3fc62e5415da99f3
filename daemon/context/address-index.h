#pragma once

/* Which endpoint of a set is at an address and port: two names for one place are one endpoint. */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <usher/endpoint.h>

struct address_index {
	struct address_slot {
		const char *address; /* borrowed from the set; NULL: free */
		uint16_t port;
		uint32_t value;
	} * slots;
	size_t capacity; /* a power of two, at least twice what is in it */
};

/* Room for `count` addresses. ENOMEM. */
int address_index_init(struct address_index *index, size_t count);
void address_index_done(struct address_index *index);
/* The value that is there already, or -ENOENT and now `value` is. The address is borrowed. */
ssize_t address_index_put(
		struct address_index *index, const char *address, uint16_t port, uint32_t value);
/* The value, or -ENOENT. */
ssize_t address_index_find(const struct address_index *index, const char *address, uint16_t port);
