#include "directory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <usher/document.h>

#include "own.h"
#include "usher-format.h"

static int by_name(const void *left, const void *right)
{
	const struct directory_service *a = left, *b = right;

	return strcmp(a->name, b->name);
}

static int read_service(const struct usher_node *services, size_t i, struct directory_service *ret,
		struct usher_error *reterr)
{
	const char *name = usher_node_key(services, i);

	if (*name == '\0' || strlen(name) > USHER_TEXT_MAX)
		return usher_node_error(reterr, usher_node_key_node(services, i), -EBADMSG,
				"the name of a service has 1 to %d bytes", USHER_TEXT_MAX);
	ret->name = strdup(name);
	ret->set = usher_endpoints_new();
	if (!ret->name || !ret->set)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	return usher_format_build(ret->set, usher_node_at(services, i), reterr);
}

/* {"confirm": true}, and nothing else. */
static bool is_confirmation(const struct usher_node *root)
{
	const char *text = NULL;

	if (usher_node_count(root) == 1 && usher_node_get(root, "confirm"))
		text = usher_node_text(usher_node_get(root, "confirm"));
	return text && strcmp(text, "true") == 0;
}

static int read_services(
		const struct usher_node *root, struct directory *d, struct usher_error *reterr)
{
	const struct usher_node *services;
	int r = usher_format_services(root, "what the program prints", &services, reterr);

	if (r < 0)
		return r;
	d->all = calloc(usher_node_count(services) + 1, sizeof(*d->all));
	if (!d->all)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	for (size_t i = 0; i < usher_node_count(services); i++) {
		r = read_service(services, i, &d->all[d->count++], reterr);
		if (r < 0)
			return r;
		usher_endpoints_seal(d->all[i].set);
	}
	qsort(d->all, d->count, sizeof(*d->all), by_name);
	return 0;
}

int directory_parse(const char *name, const char *text, size_t size, struct directory **ret,
		struct usher_error *reterr)
{
	cleanup(own_unref_document) struct usher_document *document = NULL;
	const struct usher_node *root;
	struct directory *d;
	int r = usher_document_parse(name, text, size, &document, reterr);

	if (r < 0)
		return r;
	root = usher_document_root(document);
	if (usher_node_kind(root) == USHER_NODE_NULL)
		return usher_error_set(reterr, -EBADMSG,
				"%s: printed nothing; where there is no service, print "
				"{\"services\": {}}",
				name);
	if (is_confirmation(root))
		return 1;
	d = calloc(1, sizeof(*d));
	if (!d)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	r = read_services(root, d, reterr);
	if (r < 0) {
		(void) directory_free(d);
		return r;
	}
	*ret = d;
	return 0;
}

struct directory *directory_free(struct directory *d)
{
	if (!d)
		return NULL;
	for (size_t i = 0; i < d->count; i++) {
		free(d->all[i].name);
		(void) usher_endpoints_unref(d->all[i].set);
	}
	free(d->all);
	free(d);
	return NULL;
}

struct usher_endpoints *directory_find(const struct directory *d, const char *service)
{
	for (size_t low = 0, high = d ? d->count : 0; low < high;) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(service, d->all[middle].name);

		if (order == 0)
			return d->all[middle].set;
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

bool directory_lacks(const struct usher_endpoints *now, const struct usher_endpoints *before)
{
	for (size_t i = 0; i < usher_endpoints_count(before); i++)
		if (usher_endpoints_find(now, usher_endpoints_id(before, i)) < 0)
			return true;
	return false;
}
