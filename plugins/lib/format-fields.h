#pragma once

/* Reading fields of documents that people and programs write, with errors that name the place, the
 * field, what is wrong and what to do. */

#include <stdbool.h>
#include <usher/document.h>
#include <usher/endpoint.h>

/* "FILE:LINE:COLUMN: FIELD: why", whether or not cause begins with that place; returns r. */
int format_field_error(struct usher_error *reterr, const struct usher_node *n, const char *field,
		int r, const struct usher_error *cause);
/* "FIELD is nothing; ..." and the like, for a node of a wrong kind. */
int format_expect(const struct usher_node *n, const char *field, enum usher_node_kind kind,
		struct usher_error *reterr);

/* As usher_node_text and usher_node_count, of a node that may be NULL. */
const char *format_text(const struct usher_node *n);
size_t format_count(const struct usher_node *n);

/* Fields of a map, or of NULL. An absent key and an explicit null leave *ret as it is, and return
 * 0; 1: read. Errors: EINVAL, ERANGE, with the place and the field. */
int format_get_text(const struct usher_node *map, const char *key, const char **ret,
		struct usher_error *reterr);
int format_get_bool(const struct usher_node *map, const char *key, bool *ret,
		struct usher_error *reterr);
int format_get_port(const struct usher_node *map, const char *key, uint16_t *ret,
		struct usher_error *reterr);
/* A map of texts as labels; *count is in and out, at most USHER_METADATA_MAX. keep: which names, or
 * NULL for all. Borrowed from the document. */
int format_get_labels(const struct usher_node *map, const char *key, bool (*keep)(const char *name),
		struct usher_label *labels, size_t *count, struct usher_error *reterr);
/* Add an endpoint that stands at n. Errors: as usher_endpoints_add, with the place. */
int format_add(struct usher_endpoints *set, const struct usher_endpoint *endpoint,
		const struct usher_node *n, struct usher_error *reterr);
