#pragma once

/* Who frees what, said where it is declared: a plug-in brings its own. */

#include <stdlib.h>
#include <usher/endpoint.h>

#include <jansson.h>

#define cleanup(fn) __attribute__((cleanup(fn)))
#define autofree    cleanup(own_free)

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

static inline void own_unref_endpoints(struct usher_endpoints **e)
{
	(void) usher_endpoints_unref(*e);
}

static inline void own_unref_json(json_t **j)
{
	json_decref(*j);
}
