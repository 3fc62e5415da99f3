#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "own.h"

/* A time stamp moves with the kernel's tick, of 10 ms at most, and a second with some network file
 * systems. */
#define YOUNG_NSEC INT64_C(1100000000)
/* A writer that pauses longer than this has stopped. */
#define SETTLE_NSEC INT64_C(1000000000)
/* Looks, a moment apart, after which a file that never rests has failed. */
#define UNSETTLED_MAX 20

static void free_file(struct file **f)
{
	if (!*f)
		return;
	(void) catalog_free((*f)->catalog);
	free((*f)->path);
	free((*f)->reason);
	free(*f);
}

/* ---- a folder's files ---- */

/* What ends so and does not hide: .yaml.swp, yaml~ and #x.yaml# of editors, ..data of mounted
 * ConfigMaps and usher's own temporary files are left out by that. */
static bool is_wanted_name(const char *name)
{
	static const char *const endings[] = { ".yaml", ".yml", ".json" };
	size_t length = strlen(name);

	if (name[0] == '.' || name[0] == '#')
		return false;
	for (size_t i = 0; i < ELEMENTS(endings); i++) {
		size_t ending = strlen(endings[i]);

		if (length > ending && strcmp(name + length - ending, endings[i]) == 0)
			return true;
	}
	return false;
}

const char *files_stem(const char *path, char *ret)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	const char *dot = strrchr(name, '.');
	size_t length = dot && dot > name ? (size_t) (dot - name) : strlen(name);

	if (length >= FILES_STEM_MAX)
		length = FILES_STEM_MAX - 1;
	memcpy(ret, name, length);
	ret[length] = '\0';
	return ret;
}

void files_list_free(char **paths)
{
	for (size_t i = 0; paths && paths[i]; i++)
		free(paths[i]);
	free((void *) paths);
}

static void free_list(char ***paths)
{
	files_list_free(*paths);
}

static void close_folder(DIR **d)
{
	if (*d)
		(void) closedir(*d);
}

static int compare_paths(const void *a, const void *b)
{
	return strcmp(*(const char *const *) a, *(const char *const *) b);
}

/* Room for two more, of which the last stays NULL. */
static int list_reserve(char ***paths, size_t count, size_t *space)
{
	size_t wanted = *space ? *space * 2 : 16;
	char **more;

	if (count + 2 <= *space)
		return 0;
	more = reallocarray((void *) *paths, wanted, sizeof(*more));
	if (!more)
		return -ENOMEM;
	memset((void *) (more + count), 0, (wanted - count) * sizeof(*more));
	*paths = more;
	*space = wanted;
	return 0;
}

static bool is_folder_in(const char *path, const struct dirent *entry)
{
	struct stat s;

	if (entry->d_type != DT_UNKNOWN && entry->d_type != DT_LNK)
		return entry->d_type == DT_DIR;
	return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

static int list_entries(DIR *d, const char *folder, char ***paths, size_t *ret_count,
		struct usher_error *reterr)
{
	size_t count = 0, space = 0;

	if (list_reserve(paths, count, &space) < 0)
		return usher_error_set(reterr, -ENOMEM, "%s: out of memory", folder);
	for (;;) {
		struct dirent *entry;
		autofree char *path = NULL;

		errno = 0;
		entry = readdir(d); // NOLINT(concurrency-mt-unsafe): the stream is ours
		if (!entry && errno)
			return usher_error_set(reterr, -errno, "%s: cannot list: %m", folder);
		if (!entry)
			break;
		if (!is_wanted_name(entry->d_name))
			continue;
		if (count == FILES_MAX)
			return usher_error_set(reterr, -E2BIG,
					"%s: has more than %d files; use several sources", folder,
					FILES_MAX);
		if (asprintf(&path, "%s/%s", folder, entry->d_name) < 0) {
			path = NULL;
			return usher_error_set(reterr, -ENOMEM, "%s: out of memory", folder);
		}
		if (is_folder_in(path, entry))
			continue;
		if (list_reserve(paths, count, &space) < 0)
			return usher_error_set(reterr, -ENOMEM, "%s: out of memory", folder);
		(*paths)[count++] = take(path);
	}
	qsort((void *) *paths, count, sizeof(**paths), compare_paths);
	*ret_count = count;
	return 0;
}

int files_list(const char *folder, char ***ret, size_t *ret_count, struct usher_error *reterr)
{
	cleanup(free_list) char **paths = NULL;
	cleanup(close_folder) DIR *d = opendir(folder);
	int r;

	if (!d)
		return usher_error_set(reterr, -errno, "%s: %m", folder);
	r = list_entries(d, folder, &paths, ret_count, reterr);
	if (r < 0)
		return r;
	*ret = take(paths);
	return 0;
}

/* ---- one file ---- */

static int set_reason(char **reason, const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		return -ENOMEM;
	free(*reason);
	*reason = copy;
	return 0;
}

/* What it said before stays. */
static int file_fail(struct file *file, int code, const struct usher_error *why)
{
	const char *text = usher_error_text(why, code);

	if (file->failure == code && file->reason && strcmp(file->reason, text) == 0)
		return FILES_UNCHANGED;
	if (set_reason(&file->reason, text) < 0)
		return -ENOMEM;
	file->failure = code;
	file->has_shrunk = false;
	return FILES_CHANGED;
}

/* Someone is at it: a slow writer in place leaves a beginning that may look complete. */
static int file_wait_to_settle(struct file *file, int code, const struct usher_error *why)
{
	if (++file->unsettled <= UNSETTLED_MAX)
		return FILES_UNSETTLED;
	return file_fail(file, code, why);
}

static int file_take(struct file *file, struct catalog *catalog, const struct file_text *text,
		bool has_shrunk)
{
	if (file->catalog)
		catalog_share_sets(catalog, file->catalog);
	(void) catalog_free(file->catalog);
	file->catalog = catalog;
	file->stamp = text->stamp;
	file->good = text->stamp;
	file->hash = text->hash;
	file->has_shrunk = has_shrunk;
	file->failure = 0;
	file->unsettled = 0;
	return FILES_CHANGED;
}

static int file_parse(struct files *f, struct file *file, const struct file_text *text)
{
	struct format_options options = f->options;
	struct usher_error why = { 0 };
	struct catalog *catalog = NULL;
	char stem[FILES_STEM_MAX];
	bool in_place = file_stamp_same_file(&file->good, &text->stamp);
	bool is_fresh = in_place && file_stamp_is_younger(&text->stamp, SETTLE_NSEC);
	bool has_shrunk = in_place && text->size < file->good.size;
	int r;

	if (file->catalog && file->failure == 0 && file->hash == text->hash) {
		file->stamp = text->stamp;
		file->unsettled = 0;
		return FILES_UNCHANGED;
	}
	options.stem = files_stem(file->path, stem);
	r = catalog_read(file->path, text, f->choice, &options, &catalog, &why);
	if (r == 0 && catalog_forget_document(catalog) < 0) {
		(void) catalog_free(catalog);
		return -ENOMEM;
	}
	if (r == -ENOMEM)
		return r;
	if ((r < 0 || has_shrunk) && is_fresh && file->unsettled < UNSETTLED_MAX) {
		(void) catalog_free(catalog);
		return file_wait_to_settle(file, r, &why);
	}
	if (r == 0)
		return file_take(file, catalog, text, has_shrunk);
	file->stamp = text->stamp;
	file->unsettled = 0;
	return file_fail(file, r, &why);
}

static int file_read(struct files *f, struct file *file)
{
	struct usher_error why = { 0 };
	struct file_text text = { 0 };
	int r = file_text_read(file->path, &text, &why);

	if (r == -EAGAIN)
		return file_wait_to_settle(file, r, &why);
	if (r == -ENOMEM)
		return r;
	if (r < 0) {
		file->stamp = (struct file_stamp){ 0 };
		file->unsettled = 0;
		return file_fail(file, r, &why);
	}
	file->is_young = file_stamp_is_younger(&text.stamp, YOUNG_NSEC);
	r = file_parse(f, file, &text);
	file_text_done(&text);
	return r;
}

static int file_refresh(struct files *f, struct file *file, bool is_quiet)
{
	bool was_gone = file->is_gone, is_same;
	struct usher_error why = { 0 };
	struct file_stamp stamp;
	int r;

	file->is_gone = false;
	file->has_shrunk = false;
	r = file_stamp_read(file->path, &stamp, &why);
	if (r < 0) {
		file->stamp = (struct file_stamp){ 0 };
		return file_fail(file, r, &why);
	}
	is_same = file_stamp_equal(&stamp, &file->stamp);
	if (is_same && !file->is_young)
		r = FILES_UNCHANGED;
	else if (!is_same && !is_quiet && file_stamp_same_file(&stamp, &file->good) &&
			file_stamp_is_younger(&stamp, SETTLE_NSEC) &&
			file->unsettled < UNSETTLED_MAX)
		r = file_wait_to_settle(file, 0, NULL);
	else
		r = file_read(f, file);
	return r == FILES_UNCHANGED && was_gone ? FILES_CHANGED : r;
}

/* ---- all of them ---- */

static struct file *find_file(const struct files *f, const char *path)
{
	size_t low = 0, high = f->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(path, f->all[middle]->path);

		if (order == 0)
			return f->all[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

static int compare_files(const void *a, const void *b)
{
	return strcmp((*(struct file *const *) a)->path, (*(struct file *const *) b)->path);
}

static int add_file(struct files *f, const char *path)
{
	cleanup(free_file) struct file *file = calloc(1, sizeof(*file));

	if (file)
		file->path = strdup(path);
	if (!file || !file->path)
		return -ENOMEM;
	if (f->count == f->space) {
		size_t space = f->space ? f->space * 2 : 16;
		struct file **all = reallocarray((void *) f->all, space, sizeof(struct file *));

		if (!all)
			return -ENOMEM;
		f->all = all;
		f->space = space;
	}
	f->all[f->count++] = take(file);
	return 0;
}

/* Have an object for each path. The sum of them is sorted again only when one came. */
static int adopt(struct files *f, char *const *paths, size_t count)
{
	size_t known = f->count;

	for (size_t i = 0; i < count; i++) {
		/* New ones stand behind those known, which stay sorted among themselves. */
		struct files sorted = { .all = f->all, .count = known };

		if (!find_file(&sorted, paths[i]) && add_file(f, paths[i]) < 0) {
			if (f->count > 0)
				qsort((void *) f->all, f->count, sizeof(struct file *),
						compare_files);
			return -ENOMEM;
		}
	}
	if (f->count > known)
		qsort((void *) f->all, f->count, sizeof(struct file *), compare_files);
	return 0;
}

static int files_fail(struct files *f, int code, const struct usher_error *why)
{
	const char *text = usher_error_text(why, code);

	if (f->failure == code && f->reason && strcmp(f->reason, text) == 0)
		return FILES_UNCHANGED;
	if (set_reason(&f->reason, text) < 0)
		return -ENOMEM;
	f->failure = code;
	return FILES_CHANGED;
}

static int list_paths(
		const struct files *f, char ***ret, size_t *ret_count, struct usher_error *reterr)
{
	struct stat s;
	char **paths;

	if (stat(f->path, &s) < 0)
		return usher_error_set(reterr, -errno, "%s: %m", f->path);
	if (S_ISDIR(s.st_mode))
		return files_list(f->path, ret, ret_count, reterr);
	paths = calloc(2, sizeof(*paths));
	if (paths)
		paths[0] = strdup(f->path);
	if (!paths || !paths[0]) {
		files_list_free(paths);
		return usher_error_set(reterr, -ENOMEM, "%s: out of memory", f->path);
	}
	*ret = paths;
	*ret_count = 1;
	return 0;
}

static int compare_entries(const void *left, const void *right)
{
	const struct files_entry *a = left, *b = right;
	int order = strcmp(a->service, b->service);

	return order ? order : strcmp(a->file->path, b->file->path);
}

static int build_index(struct files *f)
{
	struct files_entry *index;
	size_t total = 0, count = 0;

	for (size_t i = 0; i < f->count; i++)
		total += f->all[i]->catalog ? f->all[i]->catalog->service_count : 0;
	if (total > FILES_NAMES_MAX) {
		struct usher_error why = { 0 };

		return files_fail(f,
				usher_error_set(&why, -E2BIG,
						"%s: its files name more than %d services; use "
						"several sources",
						f->path, FILES_NAMES_MAX),
				&why);
	}
	index = calloc(total + 1, sizeof(*index));
	if (!index)
		return -ENOMEM;
	for (size_t i = 0; i < f->count; i++) {
		const struct catalog *c = f->all[i]->catalog;

		for (size_t k = 0; c && k < c->service_count; k++)
			index[count++] = (struct files_entry){ c->services[k].name, f->all[i] };
	}
	qsort(index, count, sizeof(*index), compare_entries);
	free(f->index);
	f->index = index;
	f->index_count = count;
	return 0;
}

/* Both happened somewhere: a change is told at once, and the rest is looked at again. */
static int stronger(int a, int b)
{
	if (a < 0 || b < 0)
		return a < 0 ? a : b;
	return a | b;
}

static int refresh_all(struct files *f, bool is_quiet)
{
	int sum = FILES_UNCHANGED;

	for (size_t i = 0; i < f->count && sum >= 0; i++) {
		struct file *file = f->all[i];

		if (file->is_seen) {
			sum = stronger(sum, file_refresh(f, file, is_quiet));
		} else if (!file->is_gone) {
			file->is_gone = true;
			file->has_shrunk = false;
			file->stamp = (struct file_stamp){ 0 };
			sum = stronger(sum, FILES_CHANGED);
		}
	}
	return sum;
}

int files_refresh(struct files *f, bool is_quiet)
{
	cleanup(free_list) char **paths = NULL;
	struct usher_error why = { 0 };
	size_t count = 0;
	int r, sum;

	r = list_paths(f, &paths, &count, &why);
	if (r == -ENOMEM)
		return r;
	if (r < 0)
		return files_fail(f, r, &why);
	r = adopt(f, paths, count);
	if (r < 0)
		return r;
	for (size_t i = 0; i < f->count; i++)
		f->all[i]->is_seen = false;
	for (size_t i = 0; i < count; i++)
		find_file(f, paths[i])->is_seen = true;

	sum = refresh_all(f, is_quiet);
	if (sum >= 0 && f->failure != 0) {
		f->failure = 0;
		sum |= FILES_CHANGED;
	}
	/* Also after a failure half way: the index points into what may just have been replaced. */
	if (sum != FILES_UNCHANGED) {
		r = build_index(f);
		if (r < 0) {
			f->index_count = 0;
			return r;
		}
		sum = stronger(sum, r);
	}
	return sum;
}

void files_forget_gone(struct files *f)
{
	size_t kept = 0;

	for (size_t i = 0; i < f->count; i++)
		if (!f->all[i]->is_gone)
			f->all[kept++] = f->all[i];
		else
			free_file(&f->all[i]);
	if (kept == f->count)
		return;
	f->count = kept;
	if (build_index(f) < 0)
		f->index_count = 0;
}

void files_done(struct files *f)
{
	for (size_t i = 0; i < f->count; i++)
		free_file(&f->all[i]);
	free((void *) f->all);
	free(f->index);
	free(f->reason);
	*f = (struct files){ 0 };
}

const struct files_entry *files_find(const struct files *f, const char *service, size_t *ret_count)
{
	size_t low = 0, high = f->index_count, end;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(f->index[middle].service, service) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	for (end = low; end < f->index_count && strcmp(f->index[end].service, service) == 0;)
		end++;
	*ret_count = end - low;
	return f->index + low;
}

const struct file *files_unknown(const struct files *f)
{
	for (size_t i = 0; i < f->count; i++)
		if (!f->all[i]->is_gone && f->all[i]->failure != 0 && !f->all[i]->catalog)
			return f->all[i];
	return NULL;
}
