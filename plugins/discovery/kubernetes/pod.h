#pragma once

/* A Pod, as far as it matters here: whether it is to be drained. */

#include <stdbool.h>
#include <stdint.h>

#include "kind.h"

#define POD_DRAIN_ANNOTATION "usher.dev/drain"

struct pod {
	char *space, *name;
	char *uid;        /* NULL: not told */
	char *annotation; /* what people want it drained for; NULL: they do not */
	bool is_deleted;
	uint64_t deleted_by_usec; /* CLOCK_REALTIME: when it is to be gone; 0: not known */
};

int pod_read(const json_t *j, bool content, const struct version *version, void **ret,
		struct usher_error *reterr);
void pod_free(void *object);
struct object_key pod_key(const void *object);

static inline bool pod_is_to_be_drained(const struct pod *p)
{
	return p->is_deleted || p->annotation;
}
