#pragma once

/* JSON that servers say: one answer about many instances, each of which somebody else has written.
 *
 * RFC 8259 allows what jansson cannot hold, such as a text with U+0000 in it; and it refuses the
 * whole document for it. So that one instance cannot keep all others from being read, the place is
 * altered, and only where the document is refused as it stands:
 *
 * - U+0000, half a surrogate pair, or a byte that is no UTF-8 becomes U+007F, which no text in
 *   usher may have;
 * - a number that neither an integer nor a double holds becomes null;
 * - what is nested deeper than JSON_READ_DEPTH_MAX becomes empty.
 *
 * So whoever takes a text without looking loses the instance or the label that it is of, and not
 * what stands beside it. Thread: any one. */

#include <stdbool.h>
#include <usher/plugin.h>

#include "own-json.h"

#define JSON_READ_DEPTH_MAX 1000
#define JSON_READ_MARK      0x7f /* in place of what a text cannot hold */

/* 0: read as it stands; 1: altered. flags: of jansson. Errors: EBADMSG ("line 1, column 3: ..."),
 * ENOMEM. */
int json_read(const char *text, size_t size, size_t flags, json_t **ret,
		struct usher_error *reterr);
/* The same for a whole answer, in which no key may stand twice; 0 also where it was altered.
 * EBADMSG asks whether it is of that server: "an agent of Consul". */
int json_read_answer(const char *text, size_t size, const char *server, json_t **ret,
		struct usher_error *reterr);
/* Whether a text or a key of the value, or of what is in it, was altered; one that has such a
 * character of itself counts, too. */
bool json_read_is_marked(json_t *value);
/* EROFS: what was altered cannot be written back as it is. */
int json_read_refuse(struct usher_error *reterr);
