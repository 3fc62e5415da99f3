#pragma once

/* A kind of the API's objects: how a feed asks for them and reads them, and whom it tells. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <usher/error.h>

#include <jansson.h>

#define VERSION_MAX 64 /* bytes of a resourceVersion */

/* A resourceVersion: opaque, but for whether it went backwards. number: 0 where it is no number. */
struct version {
	char text[VERSION_MAX];
	uint64_t number;
};

/* Which one an object is; what is not told is NULL, but for the name. */
struct object_key {
	const char *uid, *space, *name;
};

struct watcher;
struct feed;

struct kind {
	const char *name;     /* for people: "EndpointSlices" */
	const char *api;      /* "/apis/discovery.k8s.io/v1/" */
	const char *resource; /* "endpointslices" */
	const char *selector; /* how the query calls what they are chosen by: "labelSelector" */

	/* content: also what it says, not only which one it is. Errors: EBADMSG, ENOMEM; with a
	 * message. */
	int (*read)(const json_t *j, bool content, const struct version *version, void **ret,
			struct usher_error *reterr);
	void (*free)(void *object); /* NULL is fine */
	struct object_key (*key)(const void *object);

	/* All of them are known anew. */
	void (*listed)(struct watcher *w, struct feed *f);
	/* One has changed; or it is new, or gone. */
	void (*changed)(struct watcher *w, struct feed *f, const void *object, bool came_or_went);
	void (*failed)(struct watcher *w, struct feed *f, int code, const struct usher_error *why);
	/* What is known was right at that time. */
	void (*proven)(struct watcher *w, struct feed *f, uint64_t observed_usec);
};

extern const struct kind kind_slices; /* of Services: struct slice */
extern const struct kind kind_pods;   /* of this node: struct pod */
