#pragma once

/* What the API server says, read: pages of a list, events of a watch, failures.
 *
 * Unknown fields are passed over. What the objects hold is the matter of their kind. */

#include <usher/http.h>

#include "kind.h"

#define READING_CONTINUE_MAX 4096 /* bytes of the token for the next page */

struct reading_page {
	const struct kind *kind;
	void **objects; /* the reader's to free, each and all */
	size_t count;
	struct version version;
	char next[READING_CONTINUE_MAX]; /* "": it is the last page */
};

/* A page of a list of that kind. Errors: EBADMSG (no such list), E2BIG, ENOMEM. */
int reading_page(const struct kind *kind, const char *text, size_t size, struct reading_page *ret,
		struct usher_error *reterr);
void reading_page_done(struct reading_page *page);

enum reading_kind {
	READING_PUT,      /* ADDED, MODIFIED: the object is the reader's to free */
	READING_REMOVE,   /* DELETED: the object, too; it says only which it is */
	READING_BOOKMARK, /* version alone */
	READING_ERROR,    /* status and message */
};

struct reading_event {
	enum reading_kind kind;
	void *object;
	struct version version; /* empty: none */
	int status;             /* of an error: 410 and the like */
	char message[256];
};

/* An event of a watch. Errors: EBADMSG, ENOMEM. */
int reading_event(const struct kind *kind, const char *text, size_t size, struct reading_event *ret,
		struct usher_error *reterr);

/* As usher_http_status_error(), but with the message alone where the answer is a Status. */
int reading_failure(const struct usher_http_event *event, struct usher_error *reterr);

/* ---- for kinds ---- */

/* A member; absent and null are the same. */
json_t *reading_get(const json_t *object, const char *key);
const char *reading_text(const json_t *object, const char *key); /* NULL: none, or no text */
