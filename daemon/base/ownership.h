#pragma once

/* Who frees what, said where it is declared. */

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define cleanup(fn) __attribute__((cleanup(fn)))
#define autofree    cleanup(freep)
#define autoclose   cleanup(closep)

/* Make xp(), which a cleanup attribute calls, from a free function x(). */
#define DEFINE_CLEANUP(type, fn)           \
	static inline void fn##p(type **p) \
	{                                  \
		if (*p)                    \
			fn(*p);            \
	}                                  \
	struct cleanup_needs_a_semicolon

/* Yields p and leaves NULL behind. */
#define take(p)                                          \
	({                                               \
		__typeof__(p) *take_from_ = &(p);        \
		__typeof__(p) take_value_ = *take_from_; \
		*take_from_ = NULL;                      \
		take_value_;                             \
	})

/* Yields a descriptor and leaves -1 behind. */
#define take_fd(fd)                            \
	({                                     \
		int *take_from_ = &(fd);       \
		int take_value_ = *take_from_; \
		*take_from_ = -1;              \
		take_value_;                   \
	})

#define ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))

static inline void freep(void *p)
{
	free(*(void **) p);
}

static inline void closep(const int *fd)
{
	if (*fd >= 0)
		(void) close(*fd);
}

static inline void fclosep(FILE **f)
{
	if (*f)
		(void) fclose(*f);
}
