#pragma once

/* What the API server says, read: pages of a list, events of a watch, versions.
 *
 * Unknown fields are passed over. A slice that contradicts the API's own types is kept with its
 * fault, so that its Service can say what is wrong while all others go on. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <usher/error.h>

#include "slices.h"

#define READING_VERSION_MAX  64   /* bytes of a resourceVersion */
#define READING_CONTINUE_MAX 4096 /* bytes of the token for the next page */

/* A resourceVersion: opaque, but for whether it went backwards. number: 0 where it is no number. */
struct version {
	char text[READING_VERSION_MAX];
	uint64_t number;
};

struct reading_page {
	struct slice **slices; /* the reader's to free, each and all */
	size_t count;
	struct version version;
	char next[READING_CONTINUE_MAX]; /* "": it is the last page */
};

/* A page of an EndpointSliceList. Errors: EBADMSG (no such list), E2BIG, ENOMEM. */
int reading_page(const char *text, size_t size, struct reading_page *ret,
		struct usher_error *reterr);
void reading_page_done(struct reading_page *page);

enum reading_kind {
	READING_PUT,      /* ADDED, MODIFIED: slice is the reader's to free */
	READING_REMOVE,   /* DELETED: slice, too; its uid and service say which */
	READING_BOOKMARK, /* version alone */
	READING_ERROR,    /* status and message */
};

struct reading_event {
	enum reading_kind kind;
	struct slice *slice;
	struct version version; /* empty: none */
	int status;             /* of an error: 410 and the like */
	char message[256];
};

/* An event of a watch. Errors: EBADMSG, ENOMEM. */
int reading_event(const char *text, size_t size, struct reading_event *ret,
		struct usher_error *reterr);
