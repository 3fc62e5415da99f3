#pragma once

/* Selectors of labels in the words of Kubernetes, for the metadata of endpoints.
 *
 *   a=b  a==b      the label a is b
 *   a!=b           it is not, or there is no such label
 *   a in (x, y)    it is one of these
 *   a notin (x, y) it is none of these, or there is no such label
 *   a              there is such a label, whatever it says
 *   !a             there is none
 *
 * A text may hold several, separated by commas; all must hold. The grammar is that of
 * https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/; names and values are
 * any text without blanks, quotes and the signs of the grammar, for metadata of other registries
 * know no stricter rule. A match is immutable; thread: any. */

#include <stdbool.h>
#include <stddef.h>
#include <usher/endpoint.h>
#include <usher/error.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define USHER_MATCH_SELECTORS_MAX 64  /* of all texts */
#define USHER_MATCH_VALUES_MAX    256 /* of one selector */

struct usher_match; /* opaque */

/* Parse a NULL-terminated list of texts, all of which must hold; nothing of it is kept. Errors:
 * EINVAL (no text; where it goes wrong and what was expected), E2BIG (a maximum above), ENOMEM. */
int usher_match_new(const char *const *texts, struct usher_match **ret, struct usher_error *reterr);
struct usher_match *usher_match_free(struct usher_match *m); /* NULL is fine; returns NULL */

/* Whether the metadata of the i-th endpoint, i < count, match. */
bool usher_match_holds(const struct usher_match *m, const struct usher_endpoints *e, size_t i);
/* Why they do not: "label tier is silver, asked for is tier in (gold)"; for one that matches,
 * "matches". */
void usher_match_explain(const struct usher_match *m, const struct usher_endpoints *e, size_t i,
		char *ret_text, size_t size);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
