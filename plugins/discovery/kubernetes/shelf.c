#include "shelf.h"

#include <errno.h>
#include <string.h>

#include "own.h"

static bool is_same(const struct object_key *a, const struct object_key *b)
{
	if (a->uid && b->uid)
		return strcmp(a->uid, b->uid) == 0;
	return strcmp(a->name, b->name) == 0 && strcmp(a->space, b->space) == 0;
}

static size_t find(const struct shelf *s, const void *like)
{
	const struct object_key key = s->kind->key(like);

	for (size_t i = 0; i < s->count; i++) {
		const struct object_key other = s->kind->key(s->all[i]);

		if (is_same(&other, &key))
			return i;
	}
	return s->count;
}

int shelf_add(struct shelf *s, void *object)
{
	if (s->count == SHELF_OBJECTS_MAX)
		return -E2BIG;
	if (s->count == s->space) {
		size_t space = s->space ? s->space * 2 : 16;
		void **all = reallocarray(s->all, space, sizeof(void *));

		if (!all)
			return -ENOMEM;
		s->all = all;
		s->space = space;
	}
	s->all[s->count++] = object;
	return 0;
}

int shelf_put(struct shelf *s, void *object, void **ret_old)
{
	size_t i = find(s, object);
	int r;

	if (i < s->count) {
		*ret_old = s->all[i];
		s->all[i] = object;
		return 0;
	}
	r = shelf_add(s, object);
	if (r == 0)
		*ret_old = NULL;
	return r;
}

void *shelf_take(struct shelf *s, const void *like)
{
	size_t i = find(s, like);
	void *object;

	if (i == s->count)
		return NULL;
	object = s->all[i];
	s->all[i] = s->all[--s->count];
	return object;
}

void shelf_clear(struct shelf *s)
{
	for (size_t i = 0; i < s->count; i++)
		s->kind->free(s->all[i]);
	free(s->all);
	*s = (struct shelf){ .kind = s->kind };
}
