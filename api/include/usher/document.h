#pragma once

/* A YAML or JSON text as a tree that knows where each value stands, for messages that name file,
 * line and column.
 *
 * One document per text. Refused: anchors and aliases (they can make a small file huge), a key
 * twice in one map, more than one document, and what exceeds the maxima below. A document is
 * immutable and reference counted; its nodes and texts live as long as it does. Thread: any. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <usher/error.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define USHER_DOCUMENT_SIZE_MAX  ((size_t) 64 * 1024 * 1024) /* bytes of text */
#define USHER_DOCUMENT_DEPTH_MAX 64
#define USHER_DOCUMENT_NODES_MAX 8000000

enum usher_node_kind {
	USHER_NODE_NULL,   /* nothing, ~ or a plain null */
	USHER_NODE_SCALAR, /* a text */
	USHER_NODE_LIST,
	USHER_NODE_MAP,
};

struct usher_document;
struct usher_node;

/* Parse text; name stands in messages ("/etc/usher/usher.yaml"). An empty text has a root of kind
 * NULL. Errors: EBADMSG (not YAML, or one of the refusals above), E2BIG, ENOMEM; the message starts
 * with NAME:LINE:COLUMN. */
int usher_document_parse(const char *name, const char *text, size_t size,
		struct usher_document **ret, struct usher_error *reterr);
/* Read a file and parse it. Errors: as above, and what open and read say; EAGAIN when the file
 * changed while it was read. */
int usher_document_load(const char *path, struct usher_document **ret, struct usher_error *reterr);
struct usher_document *usher_document_ref(struct usher_document *d);
struct usher_document *usher_document_unref(
		struct usher_document *d); /* NULL is fine; returns NULL */
const struct usher_node *usher_document_root(const struct usher_document *d);
const char *usher_document_name(const struct usher_document *d);

enum usher_node_kind usher_node_kind(const struct usher_node *n);
/* "a map", "a list", "a text", "nothing": for messages. */
const char *usher_node_kind_name(const struct usher_node *n);
const struct usher_document *usher_node_document(const struct usher_node *n);
unsigned usher_node_line(const struct usher_node *n);   /* from 1 */
unsigned usher_node_column(const struct usher_node *n); /* from 1 */
/* The text of a scalar; NULL for other kinds. No embedded NUL: those are refused. */
const char *usher_node_text(const struct usher_node *n);
/* Whether the scalar stood in quotes (then it is never a number, a bool or null). */
bool usher_node_quoted(const struct usher_node *n);
/* Items of a list, pairs of a map; 0 for other kinds. */
size_t usher_node_count(const struct usher_node *n);
/* The i-th item of a list, or the value of the i-th pair of a map. */
const struct usher_node *usher_node_at(const struct usher_node *n, size_t i);
/* The key of the i-th pair, and the node of that key (for its position). */
const char *usher_node_key(const struct usher_node *n, size_t i);
const struct usher_node *usher_node_key_node(const struct usher_node *n, size_t i);
/* The value of a key, or NULL: no such key, or n is no map or NULL. */
const struct usher_node *usher_node_get(const struct usher_node *n, const char *key);
/* Whether two trees hold the same keys and values, wherever they stand. NULL equals NULL. */
bool usher_node_equal(const struct usher_node *a, const struct usher_node *b);

/* "NAME:LINE:COLUMN: " and the text, for a fault in this node; returns code. */
__attribute__((format(printf, 4, 5))) int usher_node_error(struct usher_error *reterr,
		const struct usher_node *n, int code, const char *format, ...);

/* Typed reading of a scalar. Each fails with EINVAL or ERANGE and a message with the place, what is
 * wrong and what is expected. */
int usher_node_string(const struct usher_node *n, const char **ret, struct usher_error *reterr);
int usher_node_bool(const struct usher_node *n, bool *ret,
		struct usher_error *reterr); /* true, false */
int usher_node_integer(const struct usher_node *n, int64_t min, int64_t max, int64_t *ret,
		struct usher_error *reterr);
/* "250ms", "5s", "2m", "1h", "1m30s"; 0 needs no unit. Microseconds. */
int usher_node_duration(const struct usher_node *n, uint64_t *ret_usec, struct usher_error *reterr);
/* "10%", "2.5%" in 0..100; as a fraction 0..1. */
int usher_node_share(const struct usher_node *n, double *ret, struct usher_error *reterr);
/* The same in min..max percent, for what may be more than the whole: "140%" is 1.4. */
int usher_node_percent(const struct usher_node *n, int64_t min, int64_t max, double *ret,
		struct usher_error *reterr);
/* "512", "64k", "8M", "1G" (powers of 1024; also Ki, Mi, Gi). Bytes. */
int usher_node_size(const struct usher_node *n, uint64_t *ret_bytes, struct usher_error *reterr);

/* The same on bare text. EINVAL, ERANGE. */
int usher_duration_parse(const char *text, uint64_t *ret_usec);
#define USHER_DURATION_TEXT_MAX 32
/* "250ms", "1m30s": the shortest exact form. ret needs USHER_DURATION_TEXT_MAX bytes. Returns ret.
 */
const char *usher_duration_format(uint64_t usec, char *ret);

/* The one of the words (a NULL-terminated list) nearest to text, or NULL when none is near: for
 * "did you mean". Optimal string alignment distance (Damerau 1964), at most a third of the longer
 * word. */
const char *usher_nearest_word(const char *text, const char *const *words);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
