#include "folder.h"

#include <assert.h>
#include <errno.h>
#include <usher/plugin.h>

#include "layout.h"
#include "own.h"
#include "value.h"

static void node_done(struct zk_node *n)
{
	free(n->name);
	free(n->data);
	free(n->good);
	*n = (struct zk_node){ 0 };
}

int zk_folder_init(struct zk_folder *f, const char *path)
{
	*f = (struct zk_folder){ .path = strdup(path), .needs_list = true };
	return f->path ? 0 : -ENOMEM;
}

static void drop_nodes(struct zk_folder *f)
{
	for (size_t i = 0; i < f->count; i++)
		node_done(&f->nodes[i]);
	free(f->nodes);
	f->nodes = NULL;
	f->count = f->needed = f->cursor = 0;
}

void zk_folder_done(struct zk_folder *f)
{
	drop_nodes(f);
	free(f->path);
	f->path = NULL;
}

bool zk_folder_is_settled(const struct zk_folder *f)
{
	return !f->needs_list && !f->is_asked && f->needed == 0 && f->asked == 0;
}

void zk_folder_need(struct zk_folder *f, struct zk_node *node)
{
	if (!node->needs_get && !node->is_asked)
		f->needed++;
	node->needs_get = true;
}

/* There is an answer, or there will be none. */
static void answered(struct zk_folder *f, struct zk_node *node)
{
	if (node->is_asked && node->needs_get)
		f->needed++;
	node->is_asked = false;
}

void zk_folder_lose(struct zk_folder *f, bool again)
{
	if (f->is_asked || again)
		f->needs_list = true;
	f->is_asked = false;
	f->asked = 0;
	if (again)
		f->is_armed = f->is_awaited = false;
	for (size_t i = 0; i < f->count; i++) {
		struct zk_node *n = &f->nodes[i];
		bool was_asked = n->is_asked;

		answered(f, n);
		if (was_asked || again)
			zk_folder_need(f, n);
		if (again)
			n->is_armed = false;
	}
}

/* ---- names ---- */

static int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct zk_node *) a)->name, ((const struct zk_node *) b)->name);
}

struct zk_node *zk_folder_find(const struct zk_folder *f, const char *path)
{
	size_t size = strlen(f->path);
	union {
		const char *borrowed;
		char *name; /* only looked at */
	} name;
	struct zk_node key = { 0 };

	if (f->count == 0 || strncmp(path, f->path, size) != 0)
		return NULL;
	if (size > 1 && path[size++] != '/')
		return NULL;
	name.borrowed = path + size;
	key.name = name.name;
	return bsearch(&key, f->nodes, f->count, sizeof(*f->nodes), compare_names);
}

/* Names as they came, which are none of an instance left out; in their order, each once. */
static int read_names(struct jute_in *in, struct zk_node **ret, size_t *ret_count)
{
	size_t count = jute_get_count(in, 4), kept = 0, unique = 0;
	struct zk_node *nodes;

	if (in->failed)
		return -EBADMSG;
	if (count > ZK_NODES_MAX)
		return -E2BIG;
	nodes = calloc(count + 1, sizeof(*nodes));
	if (!nodes)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		size_t size;
		const char *name = jute_get_bytes(in, &size);
		char *copy = name ? strndup(name, size) : NULL;

		if (copy && strlen(copy) == size && zk_layout_is_id(copy))
			nodes[kept++].name = take(copy);
		free(copy);
	}
	qsort(nodes, kept, sizeof(*nodes), compare_names);
	for (size_t i = 0; i < kept; i++) {
		if (unique > 0 && strcmp(nodes[unique - 1].name, nodes[i].name) == 0)
			node_done(&nodes[i]);
		else
			nodes[unique++] = nodes[i];
	}
	*ret = nodes;
	*ret_count = unique;
	return 0;
}

/* What is known of those that were there before stays known. */
static void inherit(struct zk_folder *f, struct zk_node *fresh, size_t count)
{
	size_t old = 0;

	for (size_t i = 0; i < count; i++) {
		while (old < f->count && strcmp(f->nodes[old].name, fresh[i].name) < 0)
			old++;
		if (old < f->count && strcmp(f->nodes[old].name, fresh[i].name) == 0) {
			free(fresh[i].name);
			fresh[i] = f->nodes[old];
			f->nodes[old] = (struct zk_node){ 0 };
			old++;
		} else {
			fresh[i].needs_get = true;
		}
	}
	/* Their names have moved on, so the order is not needed any more. */
	drop_nodes(f);
	f->nodes = fresh;
	f->count = count;
	for (size_t i = 0; i < count; i++)
		f->needed += fresh[i].needs_get && !fresh[i].is_asked;
}

int zk_folder_list(struct zk_folder *f, struct jute_in *in, struct zk_stat *ret_stat,
		struct usher_error *reterr)
{
	struct zk_node *fresh = NULL;
	size_t count = 0;
	int r;

	f->is_asked = false;
	r = read_names(in, &fresh, &count);
	if (r == -E2BIG)
		return usher_error_set(reterr, r, "%.200s: there are more than %d nodes in it",
				f->path, ZK_NODES_MAX);
	if (r == -ENOMEM)
		return usher_error_set(reterr, r, "out of memory");
	if (r == 0)
		zk_get_stat(in, ret_stat);
	if (in->failed) {
		for (size_t i = 0; i < count; i++)
			node_done(&fresh[i]);
		free(fresh);
		return usher_error_set(reterr, -EBADMSG, "%.200s: the list of its nodes is garbled",
				f->path);
	}
	inherit(f, fresh, count);
	f->is_armed = true;
	f->is_missing = f->is_awaited = false;
	f->pzxid = ret_stat->pzxid;
	f->acl_version = ret_stat->acl_version;
	if (f->pzxid > f->zxid)
		f->zxid = f->pzxid;
	return 0;
}

void zk_folder_miss(struct zk_folder *f)
{
	f->is_asked = f->is_armed = false;
	f->is_missing = f->is_awaited = true;
	drop_nodes(f);
}

/* ---- data ---- */

struct zk_node *zk_folder_next(struct zk_folder *f)
{
	for (size_t i = 0; f->needed > 0 && i < f->count; i++) {
		struct zk_node *n;

		if (f->cursor >= f->count)
			f->cursor = 0;
		n = &f->nodes[f->cursor];
		if (n->needs_get && !n->is_asked)
			return n;
		f->cursor++;
	}
	return NULL;
}

void zk_folder_asked(struct zk_folder *f, struct zk_node *node)
{
	assert(node->needs_get);
	node->needs_get = false;
	node->is_asked = true;
	f->needed--;
	f->asked++;
}

static int take_data(struct zk_node *n, struct jute_in *in)
{
	struct zk_stat stat;
	size_t size;
	const char *data = jute_get_bytes(in, &size);
	char *copy = NULL;

	zk_get_stat(in, &stat);
	if (in->failed)
		return -EBADMSG;
	/* Of what is too long for an instance nothing is kept but that it cannot be read. */
	if (data && size <= ZK_VALUE_MAX) {
		copy = malloc(size + 1);
		if (!copy)
			return -ENOMEM;
		memcpy(copy, data, size);
		copy[size] = '\0';
	}
	if (n->is_good) {
		free(n->good);
		n->good = take(n->data);
		n->good_size = n->data_size;
	}
	free(n->data);
	n->data = copy;
	n->data_size = copy ? size : 0;
	n->is_good = false;
	if (stat.mzxid != n->mzxid)
		n->is_told = false;
	n->mzxid = stat.mzxid;
	n->acl_version = stat.acl_version;
	n->is_known = true;
	n->is_denied = false;
	n->is_armed = true;
	return 0;
}

int zk_folder_take(struct zk_folder *f, const char *path, int code, struct jute_in *in,
		struct usher_error *reterr)
{
	struct zk_node *n = zk_folder_find(f, path);
	int r;

	if (f->asked > 0)
		f->asked--;
	if (!n)
		return 0; /* gone meanwhile, as the list has said */
	answered(f, n);
	switch (code) {
	case ZK_OK:
		r = take_data(n, in);
		if (r == 0 && n->mzxid > f->zxid)
			f->zxid = n->mzxid;
		if (r < 0)
			zk_folder_need(f, n);
		return r < 0 ? usher_error_set(reterr, r, "%.200s: %s", path,
					       r == -ENOMEM ? "out of memory"
							    : "what it holds is garbled")
			     : 0;
	case ZK_NO_NODE: /* went after the list was made */
		f->needs_list = true;
		return 0;
	case ZK_NO_AUTH:
		n->is_known = n->is_denied = true;
		n->is_armed = false;
		return 0;
	default:
		zk_folder_need(f, n);
		return zk_code_error(code, path, reterr);
	}
}

bool zk_folder_check(struct zk_folder *f, int code, struct jute_in *in)
{
	struct zk_stat stat;

	if (code == ZK_NO_NODE && f->is_missing)
		return true;
	zk_get_stat(in, &stat);
	if (code == ZK_OK && !in->failed && !f->is_missing && stat.pzxid == f->pzxid &&
			stat.acl_version == f->acl_version)
		return true;
	f->needs_list = true;
	return false;
}

bool zk_folder_check_node(struct zk_folder *f, const char *path, int code, struct jute_in *in)
{
	struct zk_node *n = zk_folder_find(f, path);
	struct zk_stat stat;

	if (!n || n->needs_get || n->is_asked)
		return true; /* it is being read anyway */
	zk_get_stat(in, &stat);
	if (code == ZK_OK && !in->failed && stat.mzxid == n->mzxid &&
			stat.acl_version == n->acl_version)
		return true;
	if (code == ZK_NO_NODE)
		f->needs_list = true;
	else
		zk_folder_need(f, n);
	return false;
}

size_t zk_folder_denied(const struct zk_folder *f)
{
	size_t count = 0;

	for (size_t i = 0; i < f->count; i++)
		count += f->nodes[i].is_denied;
	return count;
}

/* ---- endpoints ---- */

static int add_data(struct usher_endpoints *set, const char *name, const char *data, size_t size,
		const char *port, struct usher_error *reterr)
{
	struct zk_value v;
	int r = zk_value_read(data, size, port, &v, reterr);

	if (r < 0)
		return r;
	v.endpoint.id = name;
	r = usher_endpoints_add(set, &v.endpoint, reterr);
	zk_value_done(&v);
	return r;
}

static int unreadable(const struct zk_node *n, struct usher_error *reterr)
{
	if (n->is_denied)
		return usher_error_set(reterr, -EACCES, "its ACL denies reading it");
	return usher_error_set(reterr, -EBADMSG, "there are no data, or more than %d bytes of them",
			ZK_VALUE_MAX);
}

/* Returns 1: it is in the set; 0: it is no instance, or says nothing that can be read. */
static int build_node(struct usher_endpoints *set, const struct zk_folder *f, struct zk_node *n,
		const char *service, const char *port)
{
	struct usher_error why = { 0 };
	int r = n->data && !n->is_denied ? add_data(set, n->name, n->data, n->data_size, port, &why)
					 : unreadable(n, &why);

	if (r == 0) {
		n->is_good = true;
		free(take(n->good));
		return 1;
	}
	if (r == -ENOENT) {
		free(take(n->good));
		return 0;
	}
	if (r == -ENOMEM || usher_endpoints_count(set) == USHER_ENDPOINTS_MAX)
		return r;
	if (!n->is_told)
		usher_log(USHER_LOG_WARNING, "%s/%s, of service %s, cannot be read: %s; %s",
				f->path, n->name, service, usher_error_text(&why, r),
				n->good || n->is_good ? "keeping what it said before"
						      : "leaving it out");
	n->is_told = true;
	if (n->is_denied && n->is_good)
		return add_data(set, n->name, n->data, n->data_size, port, NULL) == 0;
	return n->good && add_data(set, n->name, n->good, n->good_size, port, NULL) == 0;
}

int zk_folder_build(struct zk_folder *f, const char *service, const char *port,
		struct usher_endpoints **ret, struct usher_error *reterr)
{
	cleanup(own_unref_endpoints) struct usher_endpoints *set = usher_endpoints_new();
	size_t unread = 0;

	if (!set)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	/* What is kept of some is no answer where nothing else is known. */
	if (f->count > 0 && zk_folder_denied(f) == f->count)
		return zk_code_error(ZK_NO_AUTH, f->path, reterr);
	for (size_t i = 0; i < f->count; i++) {
		struct zk_node *n = &f->nodes[i];
		int r = n->is_known ? build_node(set, f, n, service, port) : 0;

		if (r < 0)
			return usher_error_set(reterr, r, "%s",
					r == -ENOMEM ? "out of memory"
						     : "there are more endpoints than usher takes");
		unread += r == 0 && n->is_told;
	}
	if (f->count > 0 && unread == f->count)
		return usher_error_set(reterr, -EBADMSG,
				"%.200s: none of its %zu nodes can be read as an endpoint; the log "
				"says why",
				f->path, f->count);
	*ret = take(set);
	return 0;
}
