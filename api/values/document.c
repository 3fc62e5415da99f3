#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "document-node.h"

struct usher_document *usher_document_ref(struct usher_document *d)
{
	if (d)
		atomic_fetch_add_explicit(&d->refs, 1, memory_order_relaxed);
	return d;
}

struct usher_document *usher_document_unref(struct usher_document *d)
{
	if (!d || atomic_fetch_sub_explicit(&d->refs, 1, memory_order_acq_rel) != 1)
		return NULL;
	arena_done(&d->arena);
	free(d->name);
	free(d);
	return NULL;
}

const struct usher_node *usher_document_root(const struct usher_document *d)
{
	return d->root;
}

const char *usher_document_name(const struct usher_document *d)
{
	return d->name;
}

enum usher_node_kind usher_node_kind(const struct usher_node *n)
{
	return n->kind;
}

const char *usher_node_kind_name(const struct usher_node *n)
{
	static const char *const names[] = {
		[USHER_NODE_NULL] = "nothing",
		[USHER_NODE_SCALAR] = "a text",
		[USHER_NODE_LIST] = "a list",
		[USHER_NODE_MAP] = "a map",
	};

	return names[n->kind];
}

const struct usher_document *usher_node_document(const struct usher_node *n)
{
	return n->document;
}

unsigned usher_node_line(const struct usher_node *n)
{
	return n->line;
}

unsigned usher_node_column(const struct usher_node *n)
{
	return n->column;
}

const char *usher_node_text(const struct usher_node *n)
{
	return n->kind == USHER_NODE_SCALAR ? n->text : NULL;
}

bool usher_node_quoted(const struct usher_node *n)
{
	return n->quoted;
}

size_t usher_node_count(const struct usher_node *n)
{
	return n->count;
}

const struct usher_node *usher_node_at(const struct usher_node *n, size_t i)
{
	assert(i < n->count);
	return n->kind == USHER_NODE_MAP ? n->items[2 * i + 1] : n->items[i];
}

const struct usher_node *usher_node_key_node(const struct usher_node *n, size_t i)
{
	assert(n->kind == USHER_NODE_MAP);
	assert(i < n->count);
	return n->items[2 * i];
}

const char *usher_node_key(const struct usher_node *n, size_t i)
{
	return usher_node_key_node(n, i)->text;
}

const struct usher_node *usher_node_get(const struct usher_node *n, const char *key)
{
	size_t low = 0, high;

	if (!n || n->kind != USHER_NODE_MAP)
		return NULL;
	high = n->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		size_t pair = n->order[middle];
		int order = strcmp(key, n->items[2 * pair]->text);

		if (order == 0)
			return n->items[2 * pair + 1];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

/* Whether two nodes are equal but for what they hold. */
static bool same_shell(const struct usher_node *a, const struct usher_node *b)
{
	if (a->kind != b->kind || a->count != b->count || a->quoted != b->quoted)
		return false;
	return a->kind != USHER_NODE_SCALAR || strcmp(a->text, b->text) == 0;
}

/* The i-th children of two nodes of one shell: maps are compared in the order of their keys. */
static bool children_at(const struct usher_node *a, const struct usher_node *b, size_t i,
		const struct usher_node **ret_a, const struct usher_node **ret_b)
{
	if (a->kind == USHER_NODE_MAP) {
		size_t x = a->order[i], y = b->order[i];

		*ret_a = a->items[2 * x + 1];
		*ret_b = b->items[2 * y + 1];
		return strcmp(a->items[2 * x]->text, b->items[2 * y]->text) == 0;
	}
	*ret_a = a->items[i];
	*ret_b = b->items[i];
	return true;
}

bool usher_node_equal(const struct usher_node *a, const struct usher_node *b)
{
	struct {
		const struct usher_node *a, *b;
		size_t next;
	} stack[USHER_DOCUMENT_DEPTH_MAX + 1];
	size_t depth = 0;

	if (!a || !b)
		return a == b;
	if (!same_shell(a, b))
		return false;
	stack[depth].a = a;
	stack[depth].b = b;
	stack[depth++].next = 0;
	while (depth > 0) {
		size_t top = depth - 1;

		if (stack[top].next == stack[top].a->count) {
			depth--;
			continue;
		}
		if (!children_at(stack[top].a, stack[top].b, stack[top].next++, &a, &b) ||
				!same_shell(a, b))
			return false;
		if (a->count > 0) {
			stack[depth].a = a;
			stack[depth].b = b;
			stack[depth++].next = 0;
		}
	}
	return true;
}

int usher_node_error(struct usher_error *reterr, const struct usher_node *n, int code,
		const char *format, ...)
{
	char text[USHER_ERROR_TEXT_MAX];
	va_list args;

	va_start(args, format);
	(void) vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	(void) usher_error_set(reterr, code, "%s", text);
	return usher_error_prefix(reterr, code, "%s:%u:%u", n->document->name, n->line, n->column);
}
