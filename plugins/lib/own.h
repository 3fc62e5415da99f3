#pragma once

/* Who frees what, said where it is declared. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <usher/document.h>
#include <usher/endpoint.h>

#define cleanup(fn) __attribute__((cleanup(fn)))
#define autofree    cleanup(own_free)
#define autoclose   cleanup(own_close)

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

/* What may be a secret is wiped. */
static inline void own_free_secret(char **text)
{
	if (*text)
		explicit_bzero(*text, strlen(*text));
	free(*text);
	*text = NULL;
}

static inline void own_close(const int *fd)
{
	if (*fd >= 0)
		(void) close(*fd);
}

static inline void own_unref_document(struct usher_document **d)
{
	(void) usher_document_unref(*d);
}

static inline void own_unref_endpoints(struct usher_endpoints **e)
{
	(void) usher_endpoints_unref(*e);
}
