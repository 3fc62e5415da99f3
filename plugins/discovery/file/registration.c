/* Registration: rewriting files of usher's own format.
 *
 * Each call reads the files anew under the lock of their folder, edits the text, checks that the
 * result says exactly what was meant, and puts it in the old one's place. So several usherd may
 * register in one file, and what the thread of `run` believes does not matter. */

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "catalog.h"
#include "edit.h"
#include "file.h"
#include "files.h"
#include "own.h"
#include "replace.h"

#define NEW_FILE       "registered.yaml" /* in a folder, for services that no file names */
#define TRIES_MAX      5                 /* when others change the file at the same time */
#define TRIES_PATIENT  3                 /* of them for a file that an editor is replacing */
#define RETRY_NAP_NSEC 50000000L
#define EMPTY_YAML     "services: {}\n"
#define EMPTY_JSON     "{\"services\": {}}\n"

enum change_kind {
	CHANGE_ADD,
	CHANGE_SET_STATE,
	CHANGE_REMOVE,
};

struct change {
	const struct file_plugin *plugin;
	enum change_kind kind;
	const char *service;
	char id[USHER_TEXT_MAX + 1];
	const struct usher_endpoint *endpoint; /* to add */
	enum usher_admin_state state;
};

/* The file that is changed, and what it says before. */
struct target {
	char *path; /* real */
	int folder_lock, file_lock;
	bool is_new;
	struct file_text text;
	struct catalog *catalog;
	const struct usher_node *services, *list; /* list: NULL when there is no such service yet */
	size_t item;                              /* in list; its count when not there */
	struct usher_endpoint endpoint;           /* as it is to be */
	struct usher_label labels[USHER_METADATA_MAX];
	struct usher_endpoints *expected; /* all of the service, as it is to be */
};

static void target_done(struct target *t)
{
	own_close(&t->folder_lock);
	own_close(&t->file_lock);
	file_text_done(&t->text);
	(void) catalog_free(t->catalog);
	(void) usher_endpoints_unref(t->expected);
	free(t->path);
}

static int out_of_memory(struct usher_error *reterr)
{
	return usher_error_set(reterr, -ENOMEM, "out of memory");
}

/* ---- finding the file ---- */

static int read_catalog(const struct change *c, const char *path, const struct file_text *text,
		struct catalog **ret, struct usher_error *reterr)
{
	char stem[FILES_STEM_MAX];
	struct format_options options = {
		.kubernetes_namespace = c->plugin->kubernetes_namespace,
		.service_label = c->plugin->service_label,
		.stem = files_stem(path, stem),
	};

	return catalog_read(
			path, text, (enum format_choice) c->plugin->format, &options, ret, reterr);
}

/* Whether a file of the folder names the service: 1 or 0. */
static int names_service(const struct change *c, const char *path, struct usher_error *reterr)
{
	struct file_text text = { 0 };
	struct catalog *catalog = NULL;
	int r = file_text_read(path, &text, reterr);

	if (r < 0)
		return r;
	r = read_catalog(c, path, &text, &catalog, reterr);
	if (r == 0)
		r = catalog_find(catalog, c->service) != NULL;
	(void) catalog_free(catalog);
	file_text_done(&text);
	return r;
}

static void free_list(char ***paths)
{
	files_list_free(*paths);
}

/* Returns 1 with the path, 0 when no file names the service. */
static int find_in_folder(const struct change *c, char **ret, struct usher_error *reterr)
{
	cleanup(free_list) char **paths = NULL;
	struct usher_error unknown = { 0 };
	size_t count = 0, found = SIZE_MAX;
	int r = files_list(c->plugin->path, &paths, &count, reterr);

	if (r < 0)
		return r;
	for (size_t i = 0; i < count; i++) {
		struct usher_error why = { 0 };

		r = names_service(c, paths[i], &why);
		if (r == -ENOENT)
			continue; /* gone since it was listed */
		if (r == -ENOMEM || r == -EAGAIN)
			return usher_error_set(reterr, r, "%s", usher_error_text(&why, r));
		if (r < 0)
			unknown = why;
		if (r <= 0)
			continue;
		if (found != SIZE_MAX)
			return usher_error_set(reterr, -EEXIST,
					"the service %s stands in %s and in %s; keep it in one of them",
					c->service, paths[found], paths[i]);
		found = i;
	}
	if (found != SIZE_MAX) {
		*ret = strdup(paths[found]);
		return *ret ? 1 : out_of_memory(reterr);
	}
	if (unknown.code != 0)
		return usher_error_set(reterr, unknown.code,
				"nobody can tell whether %s is registered in the broken file: %s",
				c->service, unknown.text);
	return 0;
}

static bool is_json_path(const char *path)
{
	size_t length = strlen(path);

	return length > 5 && strcmp(path + length - 5, ".json") == 0;
}

/* The name without its last part; "." when it has one only. */
static int folder_of(const char *path, char **ret)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		*ret = strdup(".");
	else
		*ret = strndup(path, slash == path ? 1 : (size_t) (slash - path));
	return *ret ? 0 : -ENOMEM;
}

static bool is_locked(int lock, const char *folder)
{
	struct stat a, b;

	return lock >= 0 && fstat(lock, &a) == 0 && stat(folder, &b) == 0 && a.st_dev == b.st_dev &&
			a.st_ino == b.st_ino;
}

/* Through symbolic links to the file itself, and lock its folder. */
static int settle_on(struct target *t, const char *path, struct usher_error *reterr)
{
	autofree char *folder = NULL;

	assert(path);
	t->path = realpath(path, NULL);
	if (!t->path && errno == ENOENT) {
		t->is_new = true;
		t->path = strdup(path);
	}
	if (!t->path)
		return usher_error_set(reterr, -errno, "%s: %m", path);
	if (folder_of(t->path, &folder) < 0)
		return out_of_memory(reterr);
	if (is_locked(t->folder_lock, folder))
		return 0;
	t->file_lock = replace_lock(folder, reterr);
	return t->file_lock < 0 ? t->file_lock : 0;
}

/* Returns 1, or 0 when no file names the service and none is to be made. */
static int find_target(const struct change *c, struct target *t, struct usher_error *reterr)
{
	autofree char *path = NULL;
	struct stat s;
	int r;

	if (stat(c->plugin->path, &s) < 0 || !S_ISDIR(s.st_mode)) {
		r = settle_on(t, c->plugin->path, reterr);
		return r < 0 ? r : 1;
	}
	t->folder_lock = replace_lock(c->plugin->path, reterr);
	if (t->folder_lock < 0)
		return t->folder_lock;
	r = find_in_folder(c, &path, reterr);
	if (r < 0 || (r == 0 && c->kind != CHANGE_ADD))
		return r;
	if (r == 0 && asprintf(&path, "%s/" NEW_FILE, c->plugin->path) < 0) {
		path = NULL;
		return out_of_memory(reterr);
	}
	r = settle_on(t, path, reterr);
	return r < 0 ? r : 1;
}

/* ---- what it says ---- */

static int read_target(const struct change *c, struct target *t, struct usher_error *reterr)
{
	const struct catalog_service *service;
	const struct format *format;
	int r;

	if (t->is_new) {
		const char *empty = is_json_path(t->path) ? EMPTY_JSON : EMPTY_YAML;

		t->text.bytes = strdup(empty);
		if (!t->text.bytes)
			return out_of_memory(reterr);
		t->text.size = strlen(empty);
	} else {
		r = file_text_read(t->path, &t->text, reterr);
		if (r < 0)
			return r;
	}
	r = read_catalog(c, t->path, &t->text, &t->catalog, reterr);
	if (r < 0)
		return r;
	format = t->catalog->format;
	if (format->remedy)
		return usher_error_set(reterr, -EROFS, "%s: is %s, which usher only reads; %s",
				t->path, format->title, format->remedy);
	t->services = usher_node_get(usher_document_root(t->catalog->document), "services");
	service = catalog_find(t->catalog, c->service);
	t->list = service ? t->catalog->parts[service->first].node : NULL;
	return 0;
}

/* The id that an endpoint has in a set, which is its address where it names none. */
static int id_of(const struct usher_endpoint *e, char *ret, size_t size, struct usher_error *reterr)
{
	cleanup(own_unref_endpoints) struct usher_endpoints *set = usher_endpoints_new();
	int r;

	if (!set)
		return out_of_memory(reterr);
	r = usher_endpoints_add(set, e, reterr);
	if (r < 0)
		return r;
	(void) snprintf(ret, size, "%s", usher_endpoints_id(set, 0));
	return 0;
}

/* The service as it is to be: its endpoints but the one that is meant, and that one changed. */
static int expect(const struct change *c, struct target *t, struct usher_error *reterr)
{
	size_t count = format_count(t->list);
	int r = 0;

	t->item = count;
	t->expected = usher_endpoints_new();
	if (!t->expected)
		return out_of_memory(reterr);
	for (size_t i = 0; i < count; i++) {
		const struct usher_node *n = usher_node_at(t->list, i);
		struct usher_label labels[USHER_METADATA_MAX];
		struct usher_endpoint e;
		char id[USHER_TEXT_MAX + 1];

		if ((r = usher_format_read(n, &e, labels, reterr)) < 0 ||
				(r = id_of(&e, id, sizeof(id), reterr)) < 0)
			return r;
		if (strcmp(id, c->id) == 0)
			t->item = i;
		else if ((r = usher_endpoints_add(t->expected, &e, reterr)) < 0)
			return r;
	}
	if (c->kind == CHANGE_ADD) {
		t->endpoint = *c->endpoint;
	} else if (t->item < count) {
		r = usher_format_read(
				usher_node_at(t->list, t->item), &t->endpoint, t->labels, reterr);
		t->endpoint.admin_state = c->state;
	}
	if (r == 0 && c->kind != CHANGE_REMOVE && (c->kind == CHANGE_ADD || t->item < count))
		r = usher_endpoints_add(t->expected, &t->endpoint, reterr);
	usher_endpoints_seal(t->expected);
	return r;
}

/* ---- changing it ---- */

static bool says_what_is_meant(
		const struct change *c, const struct target *t, const struct edit_text *text)
{
	const struct file_text as_file = { .bytes = text->bytes, .size = text->size };
	const struct catalog_service *service;
	struct catalog *after = NULL;
	bool same;

	if (read_catalog(c, t->path, &as_file, &after, NULL) < 0)
		return false;
	service = catalog_find(after, c->service);
	same = service && usher_endpoints_equal(service->set, t->expected) &&
			after->service_count == t->catalog->service_count + (t->list ? 0 : 1);
	for (size_t i = 0; same && i < t->catalog->service_count; i++) {
		const struct catalog_service *old = &t->catalog->services[i];
		const struct catalog_service *now = catalog_find(after, old->name);

		if (strcmp(old->name, c->service) != 0)
			same = now &&
					usher_node_equal(t->catalog->parts[old->first].node,
							after->parts[now->first].node);
	}
	(void) catalog_free(after);
	return same;
}

typedef int (*edit)(const struct change *c, const struct target *t, const struct edit_text *text,
		struct edit_text *ret);

static int edit_by_state(const struct change *c, const struct target *t,
		const struct edit_text *text, struct edit_text *ret)
{
	(void) c;
	if (t->item == format_count(t->list))
		return -ENOTSUP;
	return edit_set_state(text, t->list, t->item, t->endpoint.admin_state, ret);
}

static int edit_by_writing(const struct change *c, const struct target *t,
		const struct edit_text *text, struct edit_text *ret)
{
	if (!t->list)
		return edit_add_service(text, t->services, c->service, &t->endpoint, ret);
	if (t->item == usher_node_count(t->list))
		return edit_append(text, t->services, t->list, &t->endpoint, ret);
	return edit_replace(text, t->list, t->item, &t->endpoint, ret);
}

static int edit_by_removing(const struct change *c, const struct target *t,
		const struct edit_text *text, struct edit_text *ret)
{
	(void) c;
	return edit_remove(text, t->services, t->list, t->item, ret);
}

/* The smallest change first; the first that says what is meant is taken. */
static int edit_target(const struct change *c, const struct target *t, struct edit_text *ret,
		struct usher_error *reterr)
{
	static const edit writing[] = { edit_by_state, edit_by_writing };
	static const edit removing[] = { edit_by_removing };
	const edit *edits = c->kind == CHANGE_REMOVE ? removing : writing;
	size_t count = c->kind == CHANGE_REMOVE ? ELEMENTS(removing) : ELEMENTS(writing);
	const struct edit_text text = { .bytes = t->text.bytes, .size = t->text.size };

	for (size_t i = 0; i < count; i++) {
		struct edit_text edited = { 0 };
		int r = edits[i](c, t, &text, &edited);

		if (r == -ENOMEM)
			return out_of_memory(reterr);
		if (r == 0 && says_what_is_meant(c, t, &edited)) {
			*ret = edited;
			return 0;
		}
		free(edited.bytes);
	}
	return usher_node_error(reterr, t->list ? t->list : t->services, -ENOTSUP,
			"usher cannot change %s here without touching more than it was asked to; write "
			"its endpoints one a line, as `- {id: ID, address: ADDRESS, port: PORT}`",
			c->service);
}

/* patient: a file that is not there may be about to come. */
static int change_once(const struct change *c, bool patient, struct usher_error *reterr)
{
	cleanup(target_done) struct target t = { .folder_lock = -1, .file_lock = -1 };
	const struct catalog_service *service;
	struct edit_text edited = { 0 };
	int r = find_target(c, &t, reterr);

	if (r > 0 && t.is_new && patient)
		return usher_error_set(reterr, -EAGAIN, "%s: is not there", t.path);
	if (r > 0 && t.is_new && c->kind != CHANGE_ADD)
		return usher_error_set(reterr, -EIO,
				"%s: is not there, so nobody can tell whether %s is registered; whoever "
				"writes it must bring it back",
				t.path, c->id);
	if (r > 0)
		r = read_target(c, &t, reterr);
	if (r < 0)
		return r;
	if (c->kind != CHANGE_ADD && !t.list)
		return c->kind == CHANGE_REMOVE
				? 0
				: usher_error_set(reterr, -ENOENT,
						  "%s: nothing there names the service %s",
						  c->plugin->path, c->service);
	r = expect(c, &t, reterr);
	if (r < 0)
		return r;
	if (c->kind == CHANGE_SET_STATE && t.item == usher_node_count(t.list))
		return usher_node_error(reterr, t.list, -ENOENT,
				"the service %s has no endpoint %s", c->service, c->id);
	service = catalog_find(t.catalog, c->service);
	if (service && usher_endpoints_equal(service->set, t.expected))
		return 0;
	r = edit_target(c, &t, &edited, reterr);
	if (r < 0)
		return r;
	r = replace_file(
			t.path, edited.bytes, edited.size, t.is_new ? NULL : &t.text.stamp, reterr);
	free(edited.bytes);
	return r;
}

static int change(const struct change *c, struct usher_error *reterr)
{
	int r = -EAGAIN;

	if (c->plugin->format > FORMAT_USHER)
		return usher_error_set(reterr, -EROFS,
				"%s: is read as `format: %s`, which usher only reads; keep what it is "
				"to register in a file of its own format, in a source of its own",
				c->plugin->path, format_choices[c->plugin->format]);
	for (int i = 0; r == -EAGAIN && i < TRIES_MAX; i++) {
		const struct timespec nap = { .tv_nsec = i * RETRY_NAP_NSEC };

		(void) nanosleep(&nap, NULL);
		r = change_once(c, i < TRIES_PATIENT, reterr);
	}
	return r;
}

static int set_id(struct change *c, const char *id, struct usher_error *reterr)
{
	if (strlen(id) >= sizeof(c->id))
		return usher_error_set(
				reterr, -EINVAL, "the id is longer than %d bytes", USHER_TEXT_MAX);
	(void) snprintf(c->id, sizeof(c->id), "%s", id);
	return 0;
}

int registration_add(void *instance, const struct usher_wanted *service,
		const struct usher_endpoint *endpoint, struct usher_error *reterr)
{
	struct change c = {
		.plugin = instance,
		.kind = CHANGE_ADD,
		.service = service->name,
		.endpoint = endpoint,
	};
	int r;

	if (endpoint->metadata_count > 0 && !endpoint->metadata)
		return usher_error_set(reterr, -EINVAL, "the endpoint comes without its metadata");
	r = id_of(endpoint, c.id, sizeof(c.id), reterr);
	if (r < 0)
		return r;
	return change(&c, reterr);
}

/* A file has no leases. */
int registration_renew(void *instance, const struct usher_wanted *service, const char *id,
		struct usher_error *reterr)
{
	(void) instance;
	(void) service;
	(void) id;
	(void) reterr;
	return 0;
}

int registration_set_state(void *instance, const struct usher_wanted *service, const char *id,
		enum usher_admin_state state, struct usher_error *reterr)
{
	struct change c = {
		.plugin = instance,
		.kind = CHANGE_SET_STATE,
		.service = service->name,
		.state = state,
	};
	int r = set_id(&c, id, reterr);

	return r < 0 ? r : change(&c, reterr);
}

int registration_remove(void *instance, const struct usher_wanted *service, const char *id,
		struct usher_error *reterr)
{
	struct change c = {
		.plugin = instance,
		.kind = CHANGE_REMOVE,
		.service = service->name,
	};
	int r = set_id(&c, id, reterr);

	return r < 0 ? r : change(&c, reterr);
}
