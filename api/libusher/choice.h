#pragma once

#include <string.h>
#include <usher/client.h>

/* Copy what the caller's struct has room for. */
static inline void choice_copy(const struct usher_choice *choice, struct usher_choice *ret)
{
	size_t size = ret->size && ret->size < sizeof(*choice) ? ret->size : sizeof(*choice);
	size_t start = sizeof(choice->size);

	if (size > start)
		memcpy((char *) ret + start, (const char *) choice + start, size - start);
}
