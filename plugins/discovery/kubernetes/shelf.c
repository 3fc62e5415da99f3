#include "shelf.h"

#include <errno.h>
#include <string.h>

#include "own.h"

static bool is_same(const struct slice *a, const struct slice *b)
{
	if (a->uid && b->uid)
		return strcmp(a->uid, b->uid) == 0;
	return strcmp(a->name, b->name) == 0 && strcmp(a->space, b->space) == 0;
}

static size_t find(const struct shelf *s, const struct slice *like)
{
	size_t i = 0;

	while (i < s->count && !is_same(s->all[i], like))
		i++;
	return i;
}

int shelf_add(struct shelf *s, struct slice *slice)
{
	if (s->count == SHELF_SLICES_MAX)
		return -E2BIG;
	if (s->count == s->space) {
		size_t space = s->space ? s->space * 2 : 16;
		struct slice **all = reallocarray(s->all, space, sizeof(struct slice *));

		if (!all)
			return -ENOMEM;
		s->all = all;
		s->space = space;
	}
	s->all[s->count++] = slice;
	return 0;
}

int shelf_put(struct shelf *s, struct slice *slice, struct slice **ret_old)
{
	size_t i = find(s, slice);
	int r;

	if (i < s->count) {
		*ret_old = s->all[i];
		s->all[i] = slice;
		return 0;
	}
	r = shelf_add(s, slice);
	if (r == 0)
		*ret_old = NULL;
	return r;
}

struct slice *shelf_take(struct shelf *s, const struct slice *like)
{
	size_t i = find(s, like);
	struct slice *slice;

	if (i == s->count)
		return NULL;
	slice = s->all[i];
	s->all[i] = s->all[--s->count];
	return slice;
}

int shelf_find(const struct shelf *s, const char *space, const char *service,
		const struct slice ***ret, size_t *ret_count)
{
	const struct slice **found = calloc(s->count + 1, sizeof(const struct slice *));
	size_t count = 0;

	if (!found)
		return -ENOMEM;
	for (size_t i = 0; i < s->count; i++)
		if (s->all[i]->service && strcmp(s->all[i]->service, service) == 0 &&
				strcmp(s->all[i]->space, space) == 0)
			found[count++] = s->all[i];
	*ret = found;
	*ret_count = count;
	return 0;
}

void shelf_clear(struct shelf *s)
{
	for (size_t i = 0; i < s->count; i++)
		(void) slice_free(s->all[i]);
	free(s->all);
	*s = (struct shelf){ 0 };
}
