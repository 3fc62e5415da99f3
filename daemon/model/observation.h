#pragma once

/* What a source last said of one service: immutable, reference counted, handed between threads. */

#include <stdatomic.h>
#include <stdint.h>
#include <usher/plugin.h>

struct observation {
	atomic_uint refs;
	struct usher_endpoints *endpoints; /* sealed */
	enum usher_verdict verdict;
	char *revision;         /* the registry's own word; NULL: none */
	uint64_t observed_usec; /* CLOCK_BOOTTIME: when the authority was asked */
};

/* Takes the set, also when it fails. revision is copied. NULL when out of memory. */
struct observation *observation_new(struct usher_endpoints *endpoints, enum usher_verdict verdict,
		const char *revision, uint64_t observed_usec);
struct observation *observation_ref(struct observation *o);
struct observation *observation_unref(struct observation *o); /* NULL is fine; returns NULL */
