#include "arena.h"

#include <assert.h>
#include <stdalign.h>
#include <stdlib.h>
#include <sys/mman.h>

#define BLOCK_FIRST  4096
#define BLOCK_MAX    (1024ul * 1024)
#define BLOCK_MAPPED (256ul * 1024)

struct arena_block {
	struct arena_block *next;
	size_t mapped; /* bytes; 0: from the heap */
	alignas(max_align_t) char data[];
};

/* Large ones do not come from the heap: between them would stand what outlives the document, and
 * keep from the system a hundred times its own size. */
static struct arena_block *block_new(size_t size)
{
	struct arena_block *block;

	assert(size >= sizeof(*block));
	if (size < BLOCK_MAPPED) {
		block = malloc(size);
		if (block)
			block->mapped = 0;
		return block;
	}
	/* cppcheck-suppress invalidFunctionArg ; without a file mmap(2) asks for -1 */
	block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (block == MAP_FAILED)
		return NULL;
	block->mapped = size;
	return block;
}

static void block_free(struct arena_block *block)
{
	if (block->mapped)
		(void) munmap(block, block->mapped);
	else
		free(block);
}

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
		block = block_new(sizeof(*block) + wanted);
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

		block_free(arena->blocks);
		arena->blocks = next;
	}
	*arena = (struct arena){};
}
