#pragma once

#include <string.h>
#include <usher/client.h>

/* `panic` stands in what was padding, so the first version is as long as this one. */
_Static_assert(sizeof(struct usher_choice) == offsetof(struct usher_choice, stale) + 8,
		"a size of 0 stands for the first version");

/* Copy what the caller's struct has room for. */
static inline void choice_copy(const struct usher_choice *choice, struct usher_choice *ret)
{
	size_t size = ret->size && ret->size < sizeof(*choice) ? ret->size : sizeof(*choice);
	size_t start = sizeof(choice->size);

	if (size > start)
		memcpy((char *) ret + start, (const char *) choice + start, size - start);
}
