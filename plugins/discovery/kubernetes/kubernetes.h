#pragma once

/* The plug-in: a watcher has a feed for each namespace (or one for all), and an answer for each
 * service that is wanted. Thread: that of `run`; the options never change. */

#include <usher/plugin.h>

#include "access.h"

enum scope {
	SCOPE_WANTED,    /* of each namespace in question, only the services that are wanted */
	SCOPE_NAMESPACE, /* of each namespace in question, all */
	SCOPE_CLUSTER,   /* all of all namespaces, in one stream */
};

struct pod_drains;

struct kubernetes {
	struct access_options access;
	const char *space;    /* of services that are named without one; NULL: as access says */
	const char *selector; /* of labels; NULL: none */
	int scope;            /* enum scope */
	uint64_t prove_usec, silence_usec, settle_usec;
	bool pods;                 /* follow those of this node, and write their conditions */
	const char *node_name;     /* NULL: as the environment says, else the host */
	struct pod_drains *drains; /* of both threads */
};

struct answer;
struct feed;

struct watcher {
	const struct kubernetes *options;
	struct usher_source *source;
	struct access *access;
	struct usher_http *http;
	struct feed **feeds;
	size_t feed_count;
	struct feed *pods; /* NULL: not followed */
	bool pods_have_failed;
	struct answer *answers;
	size_t answer_count;
	uint64_t random; /* state of retry_random() */
	uint64_t known;  /* hash of the names that were told as known */
	bool known_has_changed;
	bool polls; /* what connections cannot be spared to watch, as was said */
};
