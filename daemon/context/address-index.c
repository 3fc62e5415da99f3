#include "address-index.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

int address_index_init(struct address_index *index, size_t count)
{
	size_t capacity = 8;

	while (capacity < 2 * count)
		capacity *= 2;
	index->slots = calloc(capacity, sizeof(*index->slots));
	if (!index->slots)
		return -ENOMEM;
	index->capacity = capacity;
	return 0;
}

void address_index_done(struct address_index *index)
{
	free(index->slots);
	*index = (struct address_index){};
}

/* The slot of the address, or the free one where it belongs. */
static struct address_slot *slot_of(
		const struct address_index *index, const char *address, uint16_t port)
{
	size_t mask = index->capacity - 1;
	size_t i = XXH3_64bits_withSeed(address, strlen(address), port) & mask;

	while (index->slots[i].address &&
			(index->slots[i].port != port ||
					strcmp(index->slots[i].address, address) != 0))
		i = (i + 1) & mask;
	return &index->slots[i];
}

ssize_t address_index_put(
		struct address_index *index, const char *address, uint16_t port, uint32_t value)
{
	struct address_slot *slot = slot_of(index, address, port);

	if (slot->address)
		return (ssize_t) slot->value;
	*slot = (struct address_slot){ .address = address, .port = port, .value = value };
	return -ENOENT;
}

ssize_t address_index_find(const struct address_index *index, const char *address, uint16_t port)
{
	const struct address_slot *slot = slot_of(index, address, port);

	return slot->address ? (ssize_t) slot->value : -ENOENT;
}
