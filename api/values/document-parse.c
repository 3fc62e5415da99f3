#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <yaml.h>

#include "document-node.h"

/* A list or map that is still open, and what it holds so far. */
struct open_node {
	struct usher_node *node;
	struct usher_node **items;
	size_t count, capacity;
};

struct builder {
	struct usher_document *document;
	yaml_parser_t parser;
	struct open_node stack[USHER_DOCUMENT_DEPTH_MAX];
	size_t depth;
	size_t nodes;
	struct usher_error *reterr;
};

static int fault(struct builder *b, yaml_mark_t mark, int code, const char *what)
{
	return usher_error_set(b->reterr, code, "%s:%zu:%zu: %s", b->document->name, mark.line + 1,
			mark.column + 1, what);
}

static int out_of_memory(struct builder *b)
{
	return usher_error_set(b->reterr, -ENOMEM, "%s: out of memory", b->document->name);
}

static struct usher_node *node_new(struct builder *b, enum usher_node_kind kind, yaml_mark_t mark)
{
	struct usher_node *node = arena_allocate(&b->document->arena, sizeof(*node));

	if (!node)
		return NULL;
	*node = (struct usher_node){
		.document = b->document,
		.kind = kind,
		.line = (uint32_t) mark.line + 1,
		.column = (uint32_t) mark.column + 1,
	};
	return node;
}

/* Hang a finished or just opened node into the list or map that is open, or make it the root. */
static int attach(struct builder *b, struct usher_node *node, yaml_mark_t mark)
{
	struct open_node *parent;

	if (++b->nodes > USHER_DOCUMENT_NODES_MAX)
		return fault(b, mark, -E2BIG, "the document has too many values");
	if (b->depth == 0) {
		b->document->root = node;
		return 0;
	}
	parent = &b->stack[b->depth - 1];
	if (parent->node->kind == USHER_NODE_MAP && parent->count % 2 == 0 &&
			node->kind != USHER_NODE_SCALAR)
		return fault(b, mark, -EBADMSG, "a key must be a text");
	if (parent->count == parent->capacity) {
		size_t grown = parent->capacity + parent->capacity / 2 + 4;
		struct usher_node **items =
				realloc(parent->items, grown * sizeof(struct usher_node *));

		if (!items)
			return out_of_memory(b);
		parent->items = items;
		parent->capacity = grown;
	}
	parent->items[parent->count++] = node;
	return 0;
}

static bool is_null_text(const char *text)
{
	return !*text || strcmp(text, "~") == 0 || strcmp(text, "null") == 0 ||
			strcmp(text, "Null") == 0 || strcmp(text, "NULL") == 0;
}

/* Keys are texts whatever they look like: `null: 1` has the key "null". */
static bool is_key(const struct builder *b)
{
	const struct open_node *parent = b->depth > 0 ? &b->stack[b->depth - 1] : NULL;

	return parent && parent->node->kind == USHER_NODE_MAP && parent->count % 2 == 0;
}

static int on_scalar(struct builder *b, const yaml_event_t *event)
{
	const char *value = (const char *) event->data.scalar.value;
	size_t length = event->data.scalar.length;
	const char *tag = (const char *) event->data.scalar.tag;
	bool quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
	struct usher_node *node;
	char *text;

	if (event->data.scalar.anchor)
		return fault(b, event->start_mark, -EBADMSG, "anchors (&NAME) are not supported");
	if (tag && strcmp(tag, "!") != 0 && strcmp(tag, YAML_STR_TAG) != 0)
		return fault(b, event->start_mark, -EBADMSG, "tags (!NAME) are not supported");
	if (memchr(value, 0, length))
		return fault(b, event->start_mark, -EBADMSG, "a text contains a NUL byte");

	quoted = quoted || tag;
	node = node_new(b,
			!quoted && is_null_text(value) && !is_key(b) ? USHER_NODE_NULL
								     : USHER_NODE_SCALAR,
			event->start_mark);
	text = node ? arena_allocate(&b->document->arena, length + 1) : NULL;
	if (!text)
		return out_of_memory(b);
	memcpy(text, value, length);
	text[length] = 0;
	node->quoted = quoted;
	node->text = text;
	return attach(b, node, event->start_mark);
}

static int on_open(struct builder *b, const yaml_event_t *event, enum usher_node_kind kind,
		const yaml_char_t *anchor, const yaml_char_t *tag)
{
	struct usher_node *node;
	int r;

	if (anchor)
		return fault(b, event->start_mark, -EBADMSG, "anchors (&NAME) are not supported");
	if (tag)
		return fault(b, event->start_mark, -EBADMSG, "tags (!NAME) are not supported");
	if (b->depth == USHER_DOCUMENT_DEPTH_MAX)
		return fault(b, event->start_mark, -E2BIG, "values are nested too deeply");
	node = node_new(b, kind, event->start_mark);
	if (!node)
		return out_of_memory(b);
	r = attach(b, node, event->start_mark);
	if (r < 0)
		return r;
	b->stack[b->depth++] = (struct open_node){ .node = node };
	return 0;
}

static int compare_keys(const void *a, const void *b, void *node)
{
	const struct usher_node *map = node;
	size_t x = *(const uint32_t *) a, y = *(const uint32_t *) b;
	int order = strcmp(map->items[2 * x]->text, map->items[2 * y]->text);

	return order ? order : (x > y) - (x < y);
}

static int sort_keys(struct builder *b, struct usher_node *map)
{
	map->order = arena_allocate(&b->document->arena, map->count * sizeof(*map->order));
	if (!map->order)
		return out_of_memory(b);
	for (uint32_t i = 0; i < map->count; i++)
		map->order[i] = i;
	qsort_r(map->order, map->count, sizeof(*map->order), compare_keys, map);
	for (uint32_t i = 1; i < map->count; i++) {
		const struct usher_node *first = map->items[2 * (size_t) map->order[i - 1]];
		const struct usher_node *second = map->items[2 * (size_t) map->order[i]];

		if (strcmp(first->text, second->text) == 0)
			return usher_node_error(b->reterr, second, -EBADMSG,
					"key \"%s\" stands twice in one map; the first is in line %u",
					second->text, first->line);
	}
	return 0;
}

static int on_close(struct builder *b)
{
	struct open_node *open = &b->stack[--b->depth];
	struct usher_node *node = open->node;
	int r = 0;

	node->count = (uint32_t) (node->kind == USHER_NODE_MAP ? open->count / 2 : open->count);
	if (open->count > 0) {
		node->items = arena_allocate(
				&b->document->arena, open->count * sizeof(struct usher_node *));
		if (node->items)
			memcpy(node->items, open->items, open->count * sizeof(struct usher_node *));
		else
			r = out_of_memory(b);
		if (r == 0 && node->kind == USHER_NODE_MAP)
			r = sort_keys(b, node);
	}
	free(open->items);
	open->items = NULL;
	return r;
}

static int on_event(struct builder *b, const yaml_event_t *event)
{
	switch (event->type) {
	case YAML_SCALAR_EVENT:
		return on_scalar(b, event);
	case YAML_SEQUENCE_START_EVENT:
		return on_open(b, event, USHER_NODE_LIST, event->data.sequence_start.anchor,
				event->data.sequence_start.tag);
	case YAML_MAPPING_START_EVENT:
		return on_open(b, event, USHER_NODE_MAP, event->data.mapping_start.anchor,
				event->data.mapping_start.tag);
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		return on_close(b);
	case YAML_ALIAS_EVENT:
		return fault(b, event->start_mark, -EBADMSG, "aliases (*NAME) are not supported");
	case YAML_DOCUMENT_START_EVENT:
		if (b->document->root)
			return fault(b, event->start_mark, -EBADMSG,
					"a second document begins here; one file holds one");
		return 0;
	case YAML_NO_EVENT:
	case YAML_STREAM_START_EVENT:
	case YAML_STREAM_END_EVENT:
	case YAML_DOCUMENT_END_EVENT:
		return 0;
	}
	return 0;
}

static int parser_fault(struct builder *b)
{
	const yaml_parser_t *p = &b->parser;
	yaml_mark_t mark = p->problem_mark;

	if (p->error == YAML_MEMORY_ERROR)
		return out_of_memory(b);
	if (p->error == YAML_READER_ERROR)
		return usher_error_set(b->reterr, -EBADMSG, "%s: not UTF-8 text: %s at byte %zu",
				b->document->name, p->problem, p->problem_offset);
	return usher_error_set(b->reterr, -EBADMSG, "%s:%zu:%zu: not valid YAML: %s%s%s",
			b->document->name, mark.line + 1, mark.column + 1,
			p->problem ? p->problem : "malformed", p->context ? " " : "",
			p->context ? p->context : "");
}

static int build(struct builder *b)
{
	bool end = false;
	int r = 0;

	while (r == 0 && !end) {
		yaml_event_t event;

		if (!yaml_parser_parse(&b->parser, &event))
			return parser_fault(b);
		end = event.type == YAML_STREAM_END_EVENT;
		r = on_event(b, &event);
		yaml_event_delete(&event);
	}
	if (r == 0 && !b->document->root) {
		b->document->root = node_new(b, USHER_NODE_NULL, (yaml_mark_t){});
		if (!b->document->root)
			return out_of_memory(b);
	}
	return r;
}

static int document_new(const char *name, struct usher_document **ret)
{
	struct usher_document *d = calloc(1, sizeof(*d));

	if (!d)
		return -ENOMEM;
	d->refs = 1;
	d->name = strdup(name);
	if (!d->name) {
		usher_document_unref(d);
		return -ENOMEM;
	}
	*ret = d;
	return 0;
}

int usher_document_parse(const char *name, const char *text, size_t size,
		struct usher_document **ret, struct usher_error *reterr)
{
	struct builder b = { .reterr = reterr };
	int r;

	if (size > USHER_DOCUMENT_SIZE_MAX)
		return usher_error_set(reterr, -E2BIG,
				"%s: %zu bytes are more than the %zu allowed", name, size,
				USHER_DOCUMENT_SIZE_MAX);
	r = document_new(name, &b.document);
	if (r < 0)
		return usher_error_set(reterr, r, "%s: out of memory", name);
	if (!yaml_parser_initialize(&b.parser)) {
		usher_document_unref(b.document);
		return usher_error_set(reterr, -ENOMEM, "%s: out of memory", name);
	}
	yaml_parser_set_encoding(&b.parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&b.parser, (const unsigned char *) text, size);
	r = build(&b);
	yaml_parser_delete(&b.parser);
	while (b.depth > 0)
		free(b.stack[--b.depth].items);
	if (r < 0) {
		usher_document_unref(b.document);
		return r;
	}
	*ret = b.document;
	return 0;
}

/* ---- files ---- */

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
			a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
			a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* All that the file holds, into memory of the caller's. */
static int read_all(int fd, size_t size, char **ret, size_t *ret_size)
{
	char *text = malloc(size + 1);
	size_t got = 0;

	if (!text)
		return -ENOMEM;
	/* One byte more than the file had, to see one that grows. */
	while (got < size + 1) {
		ssize_t n = read(fd, text + got, size + 1 - got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			int r = -errno;

			free(text);
			return r;
		}
		if (n == 0)
			break;
		got += (size_t) n;
	}
	*ret = text;
	*ret_size = got;
	return 0;
}

static int read_unchanged(
		const char *path, int fd, char **ret, size_t *ret_size, struct usher_error *reterr)
{
	struct stat before, after, named;
	int r;

	if (fstat(fd, &before) < 0)
		return usher_error_set(reterr, -errno, "%s: cannot be examined: %m", path);
	if (!S_ISREG(before.st_mode))
		return usher_error_set(reterr, -EINVAL, "%s: not a regular file", path);
	if (before.st_size > (off_t) USHER_DOCUMENT_SIZE_MAX)
		return usher_error_set(reterr, -E2BIG,
				"%s: %lld bytes are more than the %zu allowed", path,
				(long long) before.st_size, USHER_DOCUMENT_SIZE_MAX);
	r = read_all(fd, (size_t) before.st_size, ret, ret_size);
	if (r < 0)
		return usher_error_prefix(reterr, r, "%s: cannot be read", path);
	if (fstat(fd, &after) < 0 || !same_file(&before, &after) ||
			*ret_size != (size_t) before.st_size || stat(path, &named) < 0 ||
			named.st_ino != before.st_ino || named.st_dev != before.st_dev) {
		free(*ret);
		*ret = NULL;
		return usher_error_set(reterr, -EAGAIN, "%s: changed while it was read", path);
	}
	return 0;
}

int usher_document_load(const char *path, struct usher_document **ret, struct usher_error *reterr)
{
	char *text = NULL;
	size_t size = 0;
	int fd, r;

	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return usher_error_set(reterr, -errno, "%s: cannot be opened: %m", path);
	r = read_unchanged(path, fd, &text, &size, reterr);
	(void) close(fd);
	if (r < 0)
		return r;
	r = usher_document_parse(path, text, size, ret, reterr);
	free(text);
	return r;
}
