#pragma once

/* The inside of a document, shared by what builds it and what reads it. */

#include <stdatomic.h>
#include <usher/document.h>

#include "arena.h"

struct usher_node {
	const struct usher_document *document;
	enum usher_node_kind kind;
	bool quoted;
	uint32_t line, column;
	uint32_t count; /* items, or pairs */
	union {
		const char *text;
		struct usher_node **items; /* a map: key, value, key, value, ... */
	};
	uint32_t *order; /* of a map: its pairs sorted by key */
};

struct usher_document {
	atomic_uint refs;
	char *name;
	struct usher_node *root;
	struct arena arena;
};
