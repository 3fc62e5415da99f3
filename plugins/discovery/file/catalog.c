#include "catalog.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "own.h"

static int grow(void **array, size_t *space, size_t element_size)
{
	size_t wanted = *space ? *space * 2 : 16;
	void *bigger = reallocarray(*array, wanted, element_size);

	if (!bigger)
		return -ENOMEM;
	*array = bigger;
	*space = wanted;
	return 0;
}

int catalog_add(struct catalog *c, const char *service, const struct usher_node *node,
		struct usher_error *reterr)
{
	if (*service == '\0')
		return usher_node_error(reterr, node, -EBADMSG, "the service has an empty name");
	if (strlen(service) > USHER_TEXT_MAX)
		return usher_node_error(reterr, node, -EBADMSG,
				"the service's name is longer than %d bytes", USHER_TEXT_MAX);
	if (c->part_count == CATALOG_PARTS_MAX)
		return usher_node_error(reterr, node, -E2BIG,
				"there are more than %d entries in one file; split it",
				CATALOG_PARTS_MAX);
	if (c->part_count == c->part_space &&
			grow((void **) &c->parts, &c->part_space, sizeof(*c->parts)) < 0)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	c->parts[c->part_count++] = (struct part){ service, node };
	return 0;
}

const char *catalog_name(struct catalog *c, const char *format, ...)
{
	char *name = NULL;
	va_list arguments;
	int length;

	if (c->name_count == c->name_space &&
			grow((void **) &c->names, &c->name_space, sizeof(*c->names)) < 0)
		return NULL;
	va_start(arguments, format);
	length = vasprintf(&name, format, arguments);
	va_end(arguments);
	if (length < 0)
		return NULL;
	c->names[c->name_count++] = name;
	return name;
}

/* Parts of one service in the order of the file, for which nodes are in the order of their memory
 * only by chance; their place decides. */
static int part_compare(const void *left, const void *right)
{
	const struct part *a = left, *b = right;
	int order = strcmp(a->service, b->service);
	unsigned line_a, line_b, column_a, column_b;

	if (order != 0)
		return order;
	line_a = usher_node_line(a->node);
	line_b = usher_node_line(b->node);
	if (line_a != line_b)
		return line_a < line_b ? -1 : 1;
	column_a = usher_node_column(a->node);
	column_b = usher_node_column(b->node);
	return (column_a > column_b) - (column_a < column_b);
}

static int group(struct catalog *c)
{
	if (c->part_count == 0)
		return 0;
	qsort(c->parts, c->part_count, sizeof(*c->parts), part_compare);
	c->services = calloc(c->part_count, sizeof(*c->services));
	if (!c->services)
		return -ENOMEM;
	for (size_t i = 0; i < c->part_count; i++) {
		const char *name = c->parts[i].service;

		if (i == 0 || strcmp(name, c->parts[i - 1].service) != 0)
			c->services[c->service_count++] = (struct catalog_service){
				.name = name,
				.line = usher_node_line(c->parts[i].node),
				.column = usher_node_column(c->parts[i].node),
				.first = i,
			};
		c->services[c->service_count - 1].count++;
	}
	return 0;
}

static int build_sets(struct catalog *c, struct usher_error *reterr)
{
	for (size_t i = 0; i < c->service_count; i++) {
		struct catalog_service *s = &c->services[i];
		int r;

		s->set = usher_endpoints_new();
		if (!s->set)
			return usher_error_set(reterr, -ENOMEM, "out of memory");
		r = c->format->build(s->set, &c->parts[s->first], s->count, NULL, reterr);
		if (r < 0)
			return r;
		usher_endpoints_seal(s->set);
	}
	return 0;
}

/* A block of YAML can be cut off and still be well-formed, with fewer endpoints. JSON cannot, and
 * what writes YAML ends its last line: so a last line without an end is a file cut off in the
 * middle. */
static int check_not_cut_off(
		const char *path, const struct file_text *text, struct usher_error *reterr)
{
	size_t i = 0;

	if (text->size == 0 || text->bytes[text->size - 1] == '\n')
		return 0;
	while (i < text->size && isspace((unsigned char) text->bytes[i]))
		i++;
	if (i == text->size || text->bytes[i] == '{' || text->bytes[i] == '[')
		return 0;
	return usher_error_set(reterr, -EBADMSG,
			"%s: the last line has no line end, so the file may be cut off; if it is "
			"complete, end it with one",
			path);
}

static bool is_blank(const struct file_text *text)
{
	for (size_t i = 0; i < text->size; i++)
		if (!isspace((unsigned char) text->bytes[i]))
			return false;
	return true;
}

static void free_catalog(struct catalog **c)
{
	(void) catalog_free(*c);
}

int catalog_read(const char *path, const struct file_text *text, enum format_choice choice,
		const struct format_options *options, struct catalog **ret,
		struct usher_error *reterr)
{
	cleanup(free_catalog) struct catalog *c = NULL;
	const struct usher_node *root;
	int r;

	if (is_blank(text))
		return usher_error_set(reterr, -EBADMSG,
				"%s: is empty, as a file is that is just being written; if it is to "
				"name no service, write `services: {}`",
				path);
	r = check_not_cut_off(path, text, reterr);
	if (r < 0)
		return r;

	c = calloc(1, sizeof(*c));
	if (!c)
		return usher_error_set(reterr, -ENOMEM, "%s: out of memory", path);
	r = usher_document_parse(path, text->bytes, text->size, &c->document, reterr);
	if (r < 0)
		return r;
	root = usher_document_root(c->document);
	r = format_find(choice, root, &c->format, reterr);
	if (r < 0)
		return r;
	r = c->format->survey(c, root, options, reterr);
	if (r < 0)
		return r;
	r = group(c);
	if (r < 0)
		return usher_error_set(reterr, r, "%s: out of memory", path);
	if (!c->format->has_ports) {
		r = build_sets(c, reterr);
		if (r < 0)
			return r;
	}
	*ret = take(c);
	return 0;
}

static void drop_document(struct catalog *c)
{
	for (size_t i = 0; i < c->name_count; i++)
		free(c->names[i]);
	free((void *) c->names);
	free(c->parts);
	c->names = NULL;
	c->parts = NULL;
	c->name_count = c->name_space = c->part_count = c->part_space = 0;
	c->document = usher_document_unref(c->document);
}

int catalog_forget_document(struct catalog *c)
{
	size_t size = 1;
	char *at;

	if (!c->document || c->format->has_ports || c->format->merges)
		return 0;
	for (size_t i = 0; i < c->service_count; i++)
		size += strlen(c->services[i].name) + 1;
	at = c->kept_names = malloc(size);
	if (!at)
		return -ENOMEM;
	for (size_t i = 0; i < c->service_count; i++) {
		struct catalog_service *s = &c->services[i];
		size_t length = strlen(s->name) + 1;

		memcpy(at, s->name, length);
		s->name = at;
		s->first = s->count = 0;
		at += length;
	}
	drop_document(c);
	return 0;
}

void catalog_share_sets(struct catalog *c, const struct catalog *before)
{
	for (size_t i = 0; i < c->service_count; i++) {
		struct catalog_service *s = &c->services[i];
		const struct catalog_service *old = catalog_find(before, s->name);

		if (!old || !s->set || !usher_endpoints_equal(s->set, old->set))
			continue;
		(void) usher_endpoints_unref(s->set);
		s->set = usher_endpoints_ref(old->set);
	}
}

struct catalog *catalog_free(struct catalog *c)
{
	if (!c)
		return NULL;
	for (size_t i = 0; i < c->service_count; i++)
		(void) usher_endpoints_unref(c->services[i].set);
	drop_document(c);
	free(c->services);
	free(c->kept_names);
	free(c);
	return NULL;
}

static int service_compare(const void *name, const void *service)
{
	return strcmp(name, ((const struct catalog_service *) service)->name);
}

const struct catalog_service *catalog_find(const struct catalog *c, const char *service)
{
	if (c->service_count == 0)
		return NULL;
	return bsearch(service, c->services, c->service_count, sizeof(*c->services),
			service_compare);
}
