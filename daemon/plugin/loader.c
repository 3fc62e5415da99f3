#include "loader.h"

#include <assert.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "dl-error.h"
#include "log.h"
#include "ownership.h"
#include "plugin-description.h"
#include "plugin-file.h"
#include "text.h"

#define SUFFIX ".so"

struct plugin {
	char *name;
	char *path;
	void *handle;  /* dlopen's; NULL: refused */
	char *refusal; /* NULL: loaded */
	struct plugin_stamp stamp;
	struct plugin_description description;
};

struct plugins {
	struct plugin **items; /* in the order they were found */
	size_t count;
	char *searched; /* the folders, for people */
};

static struct plugin *plugin_free(struct plugin *p)
{
	if (!p)
		return NULL;
	free(p->name);
	free(p->path);
	free(p->refusal);
	free(p);
	return NULL;
}
DEFINE_CLEANUP(struct plugin, plugin_free);

/* The name in "/usr/lib/usher/plugins/file.so"; NULL when out of memory. */
static char *name_from_path(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *base = slash ? slash + 1 : path;
	size_t length = strlen(base);

	if (length > strlen(SUFFIX) && strcmp(base + length - strlen(SUFFIX), SUFFIX) == 0)
		length -= strlen(SUFFIX);
	return strndup(base, length);
}

static struct plugin *plugin_new(const char *path)
{
	cleanup(plugin_freep) struct plugin *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	/* A bare name would be looked for where the system keeps its libraries. */
	if (asprintf(&p->path, "%s%s", strchr(path, '/') ? "" : "./", path) < 0)
		p->path = NULL;
	p->name = name_from_path(path);
	return p->path && p->name ? take(p) : NULL;
}

static int open_object(struct plugin *p, const struct elf_abi *abi, struct usher_error *reterr)
{
	const struct usher_plugin *said;
	void *handle;
	int r;

	/* RTLD_LOCAL: what a plug-in or its libraries define never stands in for ours. */
	handle = dlopen(p->path, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		return dl_error_translate(
				p->path, dlerror(), reterr); // NOLINT(concurrency-mt-unsafe)

	said = dlsym(handle, "usher_plugin");
	if (said)
		r = plugin_description_read(said, p->name, abi, &p->description, reterr);
	else
		r = usher_error_set(reterr, -EINVAL,
				"does not export the constant usher_plugin; write it with "
				"USHER_PLUGIN()");
	if (r < 0) {
		/* Unmapped again, or a corrected file of this path would give the old one. */
		(void) dlclose(handle);
		return r;
	}
	p->handle = handle;
	return 0;
}

static int plugin_load(struct plugin *p, struct usher_error *reterr)
{
	struct elf_abi abi;
	int r;

	r = plugin_file_check(p->path, p->name, &abi, &p->stamp, reterr);
	if (r < 0)
		return r;
	r = open_object(p, &abi, reterr);
	if (r < 0)
		return usher_error_prefix(reterr, r, "%s", p->path);
	return 0;
}

/* Keep why it was refused, and say so if that is news. */
static int plugin_refuse(struct plugin *p, const char *refusal)
{
	char *copy;

	if (p->refusal && strcmp(p->refusal, refusal) == 0)
		return 0;
	copy = strdup(refusal);
	if (!copy)
		return -ENOMEM;
	free(p->refusal);
	p->refusal = copy;
	log_error(FIELDS(.value[LOG_PLUGIN] = p->name), "%s; going on without it", refusal);
	return 0;
}

/* Load, or look again at what was refused or has been loaded. */
static int plugin_try(struct plugin *p)
{
	struct usher_error err = {};
	int r;

	r = plugin_load(p, &err);
	if (r == -ENOMEM)
		return r;
	if (r < 0)
		return plugin_refuse(p, usher_error_text(&err, r));

	free(p->refusal);
	p->refusal = NULL;
	log_debug(FIELDS(.value[LOG_PLUGIN] = p->name), "Loaded %s: %s %s, plug-in ABI %u.%u",
			p->path, p->name, p->description.plugin.version,
			p->description.plugin.abi_major, p->description.plugin.abi_minor);
	return 0;
}

static void plugin_notice_change(struct plugin *p)
{
	struct plugin_stamp now;

	if (plugin_file_stamp(p->path, &now) < 0 || plugin_stamp_equal(&now, &p->stamp))
		return;
	p->stamp = now;
	log_warning(FIELDS(.value[LOG_PLUGIN] = p->name),
			"%s has changed on disk; going on with the one that is loaded, restart usherd to "
			"use the new one",
			p->path);
}

static struct plugin *find_name(const struct plugins *plugins, const char *name)
{
	for (size_t i = 0; i < plugins->count; i++)
		if (strcmp(plugins->items[i]->name, name) == 0)
			return plugins->items[i];
	return NULL;
}

static struct plugin *find_path(const struct plugins *plugins, const char *path)
{
	for (size_t i = 0; i < plugins->count; i++)
		if (strcmp(plugins->items[i]->path, path) == 0)
			return plugins->items[i];
	return NULL;
}

static int append(struct plugins *plugins, struct plugin *p)
{
	struct plugin **items;

	items = reallocarray(plugins->items, plugins->count + 1,
			sizeof(struct plugin *)); // NOLINT(bugprone-sizeof-expression): of pointers
	if (!items)
		return -ENOMEM;
	plugins->items = items;
	items[plugins->count++] = p;
	return 0;
}

static int refuse_second(struct plugin *p, const struct plugin *first)
{
	struct usher_error err = {};

	(void) usher_error_set(&err, -EEXIST,
			"%s: a plug-in of the name %s comes first in plugin_dirs, from %s; this one is not "
			"loaded",
			p->path, p->name, first->path);
	return plugin_refuse(p, err.text);
}

static int add_file(struct plugins *plugins, const char *path)
{
	cleanup(plugin_freep) struct plugin *fresh = NULL;
	struct plugin *p = find_path(plugins, path);
	const struct plugin *first;
	int r;

	if (p && p->handle) {
		plugin_notice_change(p);
		return 0;
	}
	if (!p) {
		if (plugins->count == PLUGINS_MAX) {
			log_error(NULL, "%s: %u plug-ins are the most; going on without it", path,
					PLUGINS_MAX);
			return 0;
		}
		p = fresh = plugin_new(path);
		if (!p)
			return -ENOMEM;
	}

	first = find_name(plugins, p->name);
	r = first && first != p ? refuse_second(p, first) : plugin_try(p);
	if (r < 0)
		return r;
	if (!fresh)
		return 0;
	r = append(plugins, fresh);
	if (r < 0 && fresh->handle)
		(void) dlclose(fresh->handle);
	if (r >= 0)
		(void) take(fresh);
	return r;
}

static int is_plugin_file(const struct dirent *entry)
{
	size_t length = strlen(entry->d_name);

	return entry->d_name[0] != '.' && length > strlen(SUFFIX) &&
			strcmp(entry->d_name + length - strlen(SUFFIX), SUFFIX) == 0;
}

static void free_entries(struct dirent **entries, int count)
{
	for (int i = 0; i < count; i++)
		free(entries[i]);
	free(entries);
}

static int scan_dir(struct plugins *plugins, const char *dir)
{
	struct dirent **entries = NULL;
	int count, r = 0;

	count = scandir(dir, &entries, is_plugin_file, alphasort);
	if (count < 0 && errno == ENOMEM)
		return -ENOMEM;
	if (count < 0) {
		if (errno != ENOENT)
			log_error(NULL, "%s: cannot be searched for plug-ins: %s", dir,
					usher_error_text(NULL, -errno));
		return 0;
	}

	for (int i = 0; i < count && r >= 0; i++) {
		autofree char *path = NULL;

		if (asprintf(&path, "%s/%s", dir, entries[i]->d_name) < 0) {
			path = NULL;
			r = -ENOMEM;
			break;
		}
		r = add_file(plugins, path);
	}
	free_entries(entries, count);
	return r;
}

/* A refused file that somebody took away is no longer worth a word. */
static void drop_vanished(struct plugins *plugins)
{
	size_t kept = 0;

	for (size_t i = 0; i < plugins->count; i++) {
		struct plugin *p = plugins->items[i];

		if (!p->handle && access(p->path, F_OK) < 0 && errno == ENOENT)
			plugin_free(p);
		else
			plugins->items[kept++] = p;
	}
	plugins->count = kept;
}

static int note_searched(struct plugins *plugins, char *const *dirs)
{
	cleanup(text_done) struct text text = {};
	char *searched;

	for (size_t i = 0; dirs[i]; i++) {
		text_add_string(&text, i > 0 ? ", " : "");
		text_add_string(&text, dirs[i]);
	}
	text_add_string(&text, dirs[0] ? "" : "no folder");
	searched = text_take(&text);
	if (!searched)
		return -ENOMEM;
	free(plugins->searched);
	plugins->searched = searched;
	return 0;
}

int plugins_rescan(struct plugins *p, char *const *dirs)
{
	int code;

	assert(p);
	assert(dirs);

	code = note_searched(p, dirs);
	if (code < 0)
		return code;
	drop_vanished(p);
	for (size_t i = 0; dirs[i]; i++) {
		int r = scan_dir(p, dirs[i]);

		if (r < 0)
			return r;
	}
	return 0;
}

int plugins_new(char *const *dirs, struct plugins **ret)
{
	cleanup(plugins_freep) struct plugins *plugins = calloc(1, sizeof(*plugins));
	int r;

	assert(ret);

	if (!plugins)
		return -ENOMEM;
	r = plugins_rescan(plugins, dirs);
	if (r < 0)
		return r;
	*ret = take(plugins);
	return 0;
}

struct plugins *plugins_free(struct plugins *p)
{
	if (!p)
		return NULL;
	for (size_t i = 0; i < p->count; i++)
		plugin_free(p->items[i]);
	free(p->items);
	free(p->searched);
	free(p);
	return NULL;
}

static int unknown_plugin(struct plugins *plugins, const char *name, struct usher_error *reterr)
{
	autofree const char **names = calloc(plugins->count + 1, sizeof(*names));
	const char *near = NULL;

	if (names) {
		for (size_t i = 0; i < plugins->count; i++)
			names[i] = plugins->items[i]->name;
		near = usher_nearest_word(name, names);
	}
	if (near)
		return usher_error_set(reterr, -ENOENT, "there is no plug-in %s; did you mean %s?",
				name, near);
	return usher_error_set(reterr, -ENOENT,
			"there is no plug-in %s: no %s" SUFFIX " in plugin_dirs, which is %s", name,
			name, plugins->searched);
}

int plugins_find(struct plugins *p, const char *name, const struct usher_plugin **ret,
		struct usher_error *reterr)
{
	const struct plugin *found;

	assert(p);
	assert(name);
	assert(ret);

	found = find_name(p, name);
	if (!found)
		return unknown_plugin(p, name, reterr);
	if (!found->handle)
		return usher_error_set(reterr, -EINVAL, "the plug-in %s was refused: %s", name,
				found->refusal);
	*ret = &found->description.plugin;
	return 0;
}

size_t plugins_count(const struct plugins *p)
{
	return p->count;
}

void plugins_get(const struct plugins *p, size_t i, struct plugin_info *ret)
{
	const struct plugin *plugin = p->items[i];

	*ret = (struct plugin_info){
		.name = plugin->name,
		.path = plugin->path,
		.loaded = plugin->handle ? &plugin->description.plugin : NULL,
		.refusal = plugin->refusal,
	};
}

int plugin_check_file(const char *path, struct usher_error *reterr)
{
	cleanup(plugin_freep) struct plugin *p = NULL;
	int r;

	assert(path);

	p = plugin_new(path);
	if (!p)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	r = plugin_load(p, reterr);
	if (r < 0)
		return r;
	(void) dlclose(p->handle);
	return 0;
}
