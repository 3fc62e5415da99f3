#pragma once

/* Memory that is given back all at once: what a document's nodes and texts live in. */

#include <stddef.h>

struct arena_block;

struct arena {
	struct arena_block *blocks;
	size_t used, size; /* of the newest block */
};

/* Aligned for any object; NULL when out of memory. */
void *arena_allocate(struct arena *arena, size_t size);
void arena_done(struct arena *arena);
