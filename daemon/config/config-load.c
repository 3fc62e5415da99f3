/* Reading the configuration: FILE, and conf.d beside it. */

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config-parse.h"
#include "ownership.h"

#define CONF_D    "conf.d"
#define FILES_MAX 4096 /* of conf.d */
#define TRIES     3    /* to read a file that is being written */

/* The documents read so far. */
struct documents {
	struct usher_document *items[FILES_MAX + 1];
	size_t count;
};

static struct documents *documents_free(struct documents *d)
{
	for (size_t i = 0; i < d->count; i++)
		usher_document_unref(d->items[i]);
	free(d);
	return NULL;
}
DEFINE_CLEANUP(struct documents, documents_free);

static int add_document(struct documents *d, const char *path, struct usher_error *reterr)
{
	int r = -EAGAIN;

	for (unsigned tries = 0; r == -EAGAIN && tries < TRIES; tries++)
		r = usher_document_load(path, &d->items[d->count], reterr);
	if (r < 0)
		return r;
	d->count++;
	return 0;
}

/* What `*.yaml` matches in a shell: nothing hidden. */
static int is_fragment(const struct dirent *entry)
{
	const char *dot = strrchr(entry->d_name, '.');

	return entry->d_name[0] != '.' && dot && strcmp(dot, ".yaml") == 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int add_fragments(struct documents *d, const char *dir, struct dirent **entries,
		size_t count, struct usher_error *reterr)
{
	int r;

	if (count > FILES_MAX)
		return usher_error_set(reterr, -E2BIG, "%s: has %zu files; at most %d are possible",
				dir, count, FILES_MAX);
	for (size_t i = 0; i < count; i++) {
		autofree char *path = NULL;

		if (asprintf(&path, "%s/%s", dir, entries[i]->d_name) < 0)
			return usher_error_set(reterr, -ENOMEM, "out of memory");
		r = add_document(d, path, reterr);
		if (r < 0)
			return r;
	}
	return 0;
}

char *config_fragments_path(const char *path)
{
	const char *slash = strrchr(path, '/');
	size_t length = slash ? (size_t) (slash - path) + 1 : 0;
	char *dir = NULL;

	return asprintf(&dir, "%.*s" CONF_D, (int) length, path) < 0 ? NULL : dir;
}

static int add_conf_d(struct documents *d, const char *path, struct usher_error *reterr)
{
	struct dirent **entries = NULL;
	autofree char *dir = config_fragments_path(path);
	int count, r;

	if (!dir)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	count = scandir(dir, &entries, is_fragment, by_name);
	if (count < 0) {
		r = -errno;
		return r == -ENOENT
				? 0
				: usher_error_set(reterr, r, "%s: %s", dir, strerrordesc_np(-r));
	}
	r = add_fragments(d, dir, entries, (size_t) count, reterr);
	for (int i = 0; i < count; i++)
		free(entries[i]);
	free(entries);
	return r;
}

int config_load(const char *path, struct config **ret, struct usher_error *reterr)
{
	cleanup(documents_freep) struct documents *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	r = add_document(d, path, reterr);
	if (r < 0)
		return r;
	r = add_conf_d(d, path, reterr);
	if (r < 0)
		return r;
	return config_parse(path, d->items, d->count, ret, reterr);
}
