#pragma once

/* The names of the services of the group, for people and completion: that it fails is no news
 * beside the services' own failures. */

#include "access.h"

struct names {
	char **items; /* of the pages so far */
	size_t count;
	unsigned page;
	uint64_t request, due_usec;
	unsigned failures;
};

/* 1: a request is under way, with the tag `names`; 0: not. */
size_t names_ask(struct names *names, struct access *a, uint64_t now_usec);
void names_take(struct names *names, struct usher_source *source,
		const struct usher_http_event *event, uint64_t now_usec, uint64_t *random);
void names_done(struct names *names);
