#include "arena.h"

#include <stdalign.h>
#include <stdlib.h>

#define BLOCK_FIRST 4096
#define BLOCK_MAX   (1024u * 1024)

struct arena_block {
	struct arena_block *next;
	alignas(max_align_t) char data[];
};

void *arena_allocate(struct arena *arena, size_t size)
{
	void *p;

	size = (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
	if (size > arena->size - arena->used) {
		size_t wanted = arena->size ? arena->size * 2 : BLOCK_FIRST;
		struct arena_block *block;

		if (wanted > BLOCK_MAX)
			wanted = BLOCK_MAX;
		if (wanted < size)
			wanted = size;
		block = malloc(sizeof(*block) + wanted);
		if (!block)
			return NULL;
		block->next = arena->blocks;
		arena->blocks = block;
		arena->size = wanted;
		arena->used = 0;
	}
	p = arena->blocks->data + arena->used;
	arena->used += size;
	return p;
}

void arena_done(struct arena *arena)
{
	while (arena->blocks) {
		struct arena_block *next = arena->blocks->next;

		free(arena->blocks);
		arena->blocks = next;
	}
	*arena = (struct arena){};
}
