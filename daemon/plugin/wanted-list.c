#include "wanted-list.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ownership.h"

DEFINE_CLEANUP(struct wanted_list, wanted_list_unref);

struct failure *failure_new(int code, const char *text)
{
	size_t size = strlen(text) + 1;
	struct failure *failure = malloc(sizeof(*failure) + size);

	if (!failure)
		return NULL;
	failure->refs = 1;
	failure->code = code;
	memcpy(failure->text, text, size);
	return failure;
}

struct failure *failure_ref(struct failure *failure)
{
	failure->refs++;
	return failure;
}

struct failure *failure_unref(struct failure *failure)
{
	if (failure && --failure->refs == 0)
		free(failure);
	return NULL;
}

static struct said *said_new(const char *service, uint64_t since)
{
	size_t size = strlen(service) + 1;
	struct said *said = calloc(1, sizeof(*said) + size);

	if (!said)
		return NULL;
	said->refs = 1;
	said->since = since;
	said->service = memcpy(said + 1, service, size);
	return said;
}

struct said *said_ref(struct said *said)
{
	said->refs++;
	return said;
}

struct said *said_unref(struct said *said)
{
	if (!said || --said->refs > 0)
		return NULL;
	observation_unref(said->offered);
	observation_unref(said->delivered);
	failure_unref(said->failed);
	free(said);
	return NULL;
}

struct observation *said_last_offer(const struct said *said)
{
	return said->offered ? said->offered : said->delivered;
}

static int compare_wanted(const void *a, const void *b)
{
	const struct usher_wanted *left = a, *right = b;

	return strcmp(left->service, right->service);
}

static size_t text_size(const struct usher_wanted *wanted)
{
	return strlen(wanted->service) + 1 + strlen(wanted->name) + 1 +
			(wanted->port ? strlen(wanted->port) + 1 : 0);
}

static const char *add_text(char **at, const char *text)
{
	size_t size = strlen(text) + 1;
	const char *copy = memcpy(*at, text, size);

	*at += size;
	return copy;
}

/* One block: the list, its two tables, and the texts. */
static struct wanted_list *copy_wanted(const struct usher_wanted *wanted, size_t count)
{
	size_t size = sizeof(struct wanted_list);
	struct wanted_list *list;
	char *texts;

	for (size_t i = 0; i < count; i++)
		size += sizeof(*list->wanted) + sizeof(struct said *) + text_size(&wanted[i]);
	list = calloc(1, size);
	if (!list)
		return NULL;

	list->refs = 1;
	list->count = count;
	list->wanted = (void *) (list + 1);
	list->said = (void *) (list->wanted + count);
	texts = (void *) (list->said + count);
	for (size_t i = 0; i < count; i++)
		list->wanted[i] = (struct usher_wanted){
			.service = add_text(&texts, wanted[i].service),
			.name = add_text(&texts, wanted[i].name),
			.port = wanted[i].port ? add_text(&texts, wanted[i].port) : NULL,
		};
	return list;
}

static void sort_once(struct wanted_list *list)
{
	size_t kept = 0;

	if (list->count == 0)
		return;
	qsort(list->wanted, list->count, sizeof(*list->wanted), compare_wanted);
	for (size_t i = 1; i < list->count; i++)
		if (compare_wanted(&list->wanted[kept], &list->wanted[i]) != 0)
			list->wanted[++kept] = list->wanted[i];
	list->count = kept + 1;
}

static ssize_t find_index(const struct wanted_list *list, const char *service)
{
	const struct usher_wanted key = { .service = service };
	const struct usher_wanted *found;

	if (!list || list->count == 0)
		return -1;
	found = bsearch(&key, list->wanted, list->count, sizeof(key), compare_wanted);
	return found ? found - list->wanted : -1;
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_wanted(const struct usher_wanted *a, const struct usher_wanted *b)
{
	return strcmp(a->service, b->service) == 0 && strcmp(a->name, b->name) == 0 &&
			same_text(a->port, b->port);
}

static struct said *inherit(const struct usher_wanted *wanted,
		const struct wanted_list *const *previous, size_t previous_count)
{
	for (size_t i = 0; i < previous_count; i++) {
		ssize_t found = find_index(previous[i], wanted->service);

		if (found >= 0 && same_wanted(wanted, &previous[i]->wanted[found]))
			return said_ref(previous[i]->said[found]);
	}
	return NULL;
}

int wanted_list_new(const struct usher_wanted *wanted, size_t count, uint64_t generation,
		const struct wanted_list *const *previous, size_t previous_count,
		struct wanted_list **ret)
{
	cleanup(wanted_list_unrefp) struct wanted_list *list = NULL;

	assert(wanted || count == 0);
	assert(ret);

	list = copy_wanted(wanted, count);
	if (!list)
		return -ENOMEM;
	list->generation = generation;
	sort_once(list);
	for (size_t i = 0; i < list->count; i++) {
		list->said[i] = inherit(&list->wanted[i], previous, previous_count);
		if (!list->said[i])
			list->said[i] = said_new(list->wanted[i].service, generation);
		if (!list->said[i])
			return -ENOMEM;
	}
	*ret = take(list);
	return 0;
}

struct wanted_list *wanted_list_ref(struct wanted_list *list)
{
	list->refs++;
	return list;
}

struct wanted_list *wanted_list_unref(struct wanted_list *list)
{
	if (!list || --list->refs > 0)
		return NULL;
	for (size_t i = 0; i < list->count; i++)
		said_unref(list->said[i]);
	free(list);
	return NULL;
}

struct said *wanted_list_find(const struct wanted_list *list, const char *service)
{
	ssize_t found = find_index(list, service);

	return found < 0 ? NULL : list->said[found];
}

bool wanted_list_equal(const struct wanted_list *a, const struct wanted_list *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (!same_wanted(&a->wanted[i], &b->wanted[i]))
			return false;
	return true;
}
