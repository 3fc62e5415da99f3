#pragma once

/* Who frees what, said where it is declared: a plug-in brings its own. */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <usher/endpoint.h>

#include <jansson.h>

#define cleanup(fn) __attribute__((cleanup(fn)))
#define autofree    cleanup(own_free)
#define autoclose   cleanup(own_close)
#define autojson    cleanup(own_json)

/* Yields p and leaves NULL behind. */
#define take(p)                                          \
	({                                               \
		__typeof__(p) *take_from_ = &(p);        \
		__typeof__(p) take_value_ = *take_from_; \
		*take_from_ = NULL;                      \
		take_value_;                             \
	})

#define ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))

static inline void own_free(void *p)
{
	free(*(void **) p);
}

static inline void own_close(const int *fd)
{
	if (*fd >= 0)
		(void) close(*fd);
}

static inline void own_json(json_t **json)
{
	json_decref(*json);
}

/* What may be a secret is wiped. */
static inline void own_free_secret(char **text)
{
	if (*text)
		explicit_bzero(*text, strlen(*text));
	free(*text);
	*text = NULL;
}
