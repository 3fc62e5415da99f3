#pragma once

/* Where things stand in a YAML text: from places of the parsed document to bytes, and from the
 * beginning of a value to its end. */

#include <stdbool.h>
#include <stddef.h>
#include <usher/document.h>

#define LAYOUT_NOWHERE ((size_t) -1)

struct layout {
	const char *bytes;
	size_t size;
};

/* The byte at which a node begins, or LAYOUT_NOWHERE. */
size_t layout_offset(const struct layout *l, const struct usher_node *n);
size_t layout_line_start(const struct layout *l, size_t at);
/* The byte behind the line's end. */
size_t layout_line_end(const struct layout *l, size_t at);
/* Whether only blanks stand before it in its line. */
bool layout_is_first_in_line(const struct layout *l, size_t at);
/* Whether only blanks and a comment follow in its line. */
bool layout_is_last_in_line(const struct layout *l, size_t at);
/* The byte behind the bracket that closes the one at `at`, or LAYOUT_NOWHERE. */
size_t layout_flow_end(const struct layout *l, size_t at);
/* The byte behind the text in quotes that begins at `at`, or LAYOUT_NOWHERE. */
size_t layout_quote_end(const struct layout *l, size_t at);
/* The dash of the block item whose value begins at `at`, or LAYOUT_NOWHERE. */
size_t layout_dash(const struct layout *l, size_t at);
/* The byte behind the last line of the block item whose dash stands at `dash`. */
size_t layout_item_end(const struct layout *l, size_t dash);
/* The byte behind the colon that follows the key at `at`, or LAYOUT_NOWHERE. */
size_t layout_colon_end(const struct layout *l, size_t at);
