#pragma once

/* Where in the configuration a fault stands, in words: "FILE:LINE:COLUMN: PATH: text", where PATH
 * is how a person would say it: services.catalog.chain[2].zone. The path is found by looking for
 * the node from the root down, and so costs nothing until something is wrong. */

#include <usher/document.h>

#define PLACE_PATH_MAX 256 /* longer ones are cut */

/* The path of a value or of a key; empty for the root. ret needs PLACE_PATH_MAX bytes. Returns ret.
 */
const char *place_path(const struct usher_node *n, char *ret);

/* A fault in a value. n may be NULL: then only the text is set. Returns code. */
__attribute__((format(printf, 4, 5))) int place_error(struct usher_error *reterr,
		const struct usher_node *n, int code, const char *format, ...);
/* A fault in the i-th key of a map: the position of the key, the path of the map. */
__attribute__((format(printf, 5, 6))) int place_key_error(struct usher_error *reterr,
		const struct usher_node *map, size_t i, int code, const char *format, ...);
/* Put the path into what a typed reader of usher/document.h has said about n. Returns code. */
int place_add_path(struct usher_error *reterr, const struct usher_node *n, int code);

/* The key i of map is none of the words (NULL-terminated): names the nearest, or all of them. */
int place_unknown_key(struct usher_error *reterr, const struct usher_node *map, size_t i,
		const char *const *words);
/* The same for a value that is none of the words. what is "a source", "a selector". */
int place_unknown_word(struct usher_error *reterr, const struct usher_node *n, const char *what,
		const char *const *words);

/* "a, b and c", cut at a whole word. Returns ret. */
const char *place_list(const char *const *words, char *ret, size_t size);
