#include "observation.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct observation *observation_new(struct usher_endpoints *endpoints, enum usher_verdict verdict,
		const char *revision, uint64_t observed_usec)
{
	struct observation *o = calloc(1, sizeof(*o));

	if (!o) {
		usher_endpoints_unref(endpoints);
		return NULL;
	}
	usher_endpoints_seal(endpoints);
	atomic_init(&o->refs, 1);
	o->endpoints = endpoints;
	o->verdict = verdict;
	o->observed_usec = observed_usec;
	if (revision) {
		o->revision = strdup(revision);
		if (!o->revision)
			return observation_unref(o);
	}
	return o;
}

struct observation *observation_ref(struct observation *o)
{
	if (o)
		atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed);
	return o;
}

struct observation *observation_unref(struct observation *o)
{
	if (!o || atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel) != 1)
		return NULL;
	usher_endpoints_unref(o->endpoints);
	free(o->revision);
	free(o);
	return NULL;
}
