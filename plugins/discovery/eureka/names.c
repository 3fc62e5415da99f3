#include "names.h"

#include <string.h>

#include "own-json.h"

struct names {
	char **items;
	size_t count, capacity;
};

static void names_done(struct names *n)
{
	for (size_t i = 0; i < n->count; i++)
		free(n->items[i]);
	free(n->items);
}

/* As Spring has the names of apps: a registry writes all of them in capitals. */
static void make_lower(char *text)
{
	for (; *text; text++)
		*text = *text >= 'A' && *text <= 'Z' ? (char) (*text - 'A' + 'a') : *text;
}

/* No memory: one name less. */
static void add(struct names *n, const char *name, size_t size)
{
	char *copy;

	if (n->count == n->capacity) {
		size_t capacity = n->capacity ? 2 * n->capacity : 64;
		char **grown = reallocarray(n->items, capacity,
				sizeof(char *)); // NOLINT(bugprone-sizeof-expression): of pointers

		if (!grown)
			return;
		n->items = grown;
		n->capacity = capacity;
	}
	copy = strndup(name, size);
	if (!copy)
		return;
	make_lower(copy);
	n->items[n->count++] = copy;
}

static void add_all(struct names *n, const char *list)
{
	while (list && *list) {
		size_t size;

		list += strspn(list, ", ");
		size = strcspn(list, ", ");
		if (size > 0)
			add(n, list, size);
		list += size;
	}
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *) a, *(char *const *) b);
}

static void drop_doubles(struct names *n)
{
	size_t kept = 0;

	if (n->count > 0)
		qsort(n->items, n->count, sizeof(char *), compare); // NOLINT: of pointers
	for (size_t i = 0; i < n->count; i++) {
		if (kept > 0 && strcmp(n->items[kept - 1], n->items[i]) == 0)
			free(n->items[i]);
		else
			n->items[kept++] = n->items[i];
	}
	n->count = kept;
}

void names_tell(const struct registry *r, struct usher_source *source)
{
	cleanup(names_done) struct names n = { 0 };

	for (size_t i = 0; i < r->count; i++) {
		const struct instance *one = r->items[i];

		switch (r->by) {
		case INSTANCE_BY_APP: /* whose instances stand together */
			if (i == 0 || strcmp(r->items[i - 1]->app, one->app) != 0)
				add(&n, one->app, strlen(one->app));
			break;
		case INSTANCE_BY_VIP:
			add_all(&n, one->vip);
			break;
		case INSTANCE_BY_SECURE_VIP:
			add_all(&n, one->secure_vip);
			break;
		}
	}
	drop_doubles(&n);
	usher_source_known(source, (const char *const *) n.items, n.count);
}
