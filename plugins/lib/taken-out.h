#pragma once

/* What this run of usherd has taken out of a registry last.
 *
 * Servers that tell each other later, or answer from a cache, may show it for a while. It is not to
 * be taken for what an earlier run has registered, and kept alive. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <usher/hash.h>

#define TAKEN_OUT_MAX 256 /* more at one moment: the oldest is forgotten */

struct taken_out {
	uint64_t keys[TAKEN_OUT_MAX]; /* 0: none */
	size_t next;
};

static inline uint64_t taken_out_key(const char *service, const char *id)
{
	return usher_hash_text(id, usher_hash_text(service, 0));
}

static inline bool taken_out_has(const struct taken_out *t, const char *service, const char *id)
{
	uint64_t key = taken_out_key(service, id);
	size_t i = 0;

	while (i < TAKEN_OUT_MAX && t->keys[i] != key)
		i++;
	return i < TAKEN_OUT_MAX;
}

static inline void taken_out_add(struct taken_out *t, const char *service, const char *id)
{
	if (!taken_out_has(t, service, id))
		t->keys[t->next++ % TAKEN_OUT_MAX] = taken_out_key(service, id);
}

/* It is registered again. */
static inline void taken_out_remove(struct taken_out *t, const char *service, const char *id)
{
	uint64_t key = taken_out_key(service, id);

	for (size_t i = 0; i < TAKEN_OUT_MAX; i++)
		if (t->keys[i] == key)
			t->keys[i] = 0;
}
