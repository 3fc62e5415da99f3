/* What ZooKeeper's answers and watches mean. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "own.h"
#include "watch.h"

/* ---- the node above all services ---- */

static void know_base(struct zk_follower *f, enum zk_presence presence)
{
	if (presence == ZK_THERE)
		f->was_there = true;
	if (presence == f->presence)
		return;
	f->presence = presence;
	/* Whether a service without a node is empty depends on it. */
	for (size_t i = 0; i < f->watched_count; i++)
		f->watched[i]->is_dirty |= f->watched[i]->folder.is_missing;
}

/* It has been made in another transaction: unless it was gone meanwhile, so has everything else. */
static void compare_base(struct zk_follower *f, const struct zk_stat *stat)
{
	if (f->base_zxid != 0 && stat->czxid != f->base_zxid && f->presence != ZK_MISSING)
		zk_follower_doubt(f, "the node above all services has been made anew");
	f->base_zxid = stat->czxid;
}

static void take_base_list(struct zk_follower *f, struct zk_event *event)
{
	size_t count = jute_get_count(&event->body, 4), known = 0;
	autofree const char **names = calloc(count + 1, sizeof(*names));
	autofree char *texts = malloc(event->body.size + 1);
	size_t used = 0;
	struct zk_stat stat;

	for (size_t i = 0; names && texts && i < count; i++) {
		size_t size;
		const char *name = jute_get_bytes(&event->body, &size);

		/* Its length made room for the zero byte. */
		if (!name || size == 0 || memchr(name, '\0', size))
			continue;
		names[known++] = memcpy(texts + used, name, size);
		texts[used + size] = '\0';
		used += size + 1;
	}
	zk_get_stat(&event->body, &stat);
	if (!names || !texts || event->body.failed) {
		zk_session_lose(f->session, -EBADMSG, "the list of the services is garbled");
		return;
	}
	compare_base(f, &stat);
	f->base_is_armed = true;
	f->base_is_awaited = false;
	know_base(f, ZK_THERE);
	/* ZooKeeper's own, where the services are below the root. */
	for (size_t i = 0; i < known; i++)
		if (strcmp(f->base, "/") == 0 && strcmp(names[i], "zookeeper") == 0)
			names[i--] = names[--known];
	usher_source_known(f->source, names, known);
}

static void take_base(struct zk_follower *f, struct zk_event *event)
{
	f->base_is_asked = false;
	if (event->error == ZK_OK && event->op == ZK_GET_CHILDREN2) {
		take_base_list(f, event);
	} else if (event->error == ZK_OK) {
		f->base_needs_list = true; /* it has come meanwhile */
	} else if (event->error == ZK_NO_NODE && event->op == ZK_EXISTS) {
		f->base_is_armed = false;
		f->base_is_awaited = true;
		f->base_zxid = 0;
		know_base(f, ZK_MISSING);
		usher_source_known(f->source, NULL, 0);
	} else if (event->error == ZK_NO_NODE) {
		f->base_is_asked = zk_session_read(f->session, ZK_EXISTS, f->base, true,
						   &f->base) == 0;
	} else {
		/* Who may not list the services may still read one; that it is there is known. */
		know_base(f, ZK_THERE);
		f->base_needs_list = true;
		f->base_list_usec = retry_now_usec() + RETRY_MOST_USEC;
	}
}

/* ---- a folder ---- */

static void folder_failed(struct zk_follower *f, struct zk_watched *w, int code, const char *path)
{
	struct usher_error why = { 0 };
	int r = zk_code_error(code, path, &why);

	w->folder.needs_list = true;
	zk_follower_fail(f, w, r, &why);
}

static void take_folder_list(struct zk_follower *f, struct zk_watched *w, struct zk_event *event)
{
	struct usher_error why = { 0 };
	struct zk_stat stat;
	int r = zk_folder_list(&w->folder, &event->body, &stat, &why);

	if (r == -EBADMSG) {
		zk_session_lose(f->session, r, why.text);
	} else if (r < 0) {
		w->folder.needs_list = true;
		zk_follower_fail(f, w, r, &why);
	} else {
		w->is_dirty = true;
		w->failures = 0;
		w->proven_usec = f->proven_usec;
	}
}

static void take_check(struct zk_follower *f, struct zk_watched *w, struct zk_event *event)
{
	if (strcmp(event->path, w->folder.path) != 0) {
		(void) zk_folder_check_node(&w->folder, event->path, event->error, &event->body);
		return;
	}
	w->is_checked = false;
	if (w->folder.needs_list || w->folder.is_asked ||
			!zk_folder_check(&w->folder, event->error, &event->body))
		return;
	w->proven_usec = w->check_usec;
	if (zk_folder_is_settled(&w->folder))
		zk_follower_confirm(f, w, w->check_usec);
}

static void take_folder(struct zk_follower *f, struct zk_watched *w, struct zk_event *event)
{
	w->folder.is_asked = false;
	if (event->error == ZK_OK && event->op == ZK_GET_CHILDREN2) {
		take_folder_list(f, w, event);
	} else if (event->error == ZK_OK) {
		w->folder.needs_list = true; /* it has come meanwhile */
	} else if (event->error == ZK_NO_NODE && event->op == ZK_EXISTS) {
		zk_folder_miss(&w->folder);
		w->is_dirty = true;
		w->failures = 0;
		w->proven_usec = f->proven_usec;
	} else if (event->error == ZK_NO_NODE) {
		w->folder.is_asked =
				zk_session_read(f->session, ZK_EXISTS, event->path, true, w) == 0;
		w->folder.needs_list |= !w->folder.is_asked;
	} else {
		folder_failed(f, w, event->error, event->path);
	}
}

static void take_node(struct zk_follower *f, struct zk_watched *w, struct zk_event *event)
{
	struct usher_error why = { 0 };
	int r = zk_folder_take(&w->folder, event->path, event->error, &event->body, &why);

	if (event->error == ZK_NO_AUTH && !w->has_denied) {
		w->has_denied = true;
		w->denied_usec = retry_now_usec() + retry_delay_usec(&f->random, ++w->denials);
	}
	if (r == -EBADMSG)
		zk_session_lose(f->session, r, why.text);
	else if (r < 0)
		zk_follower_fail(f, w, r, &why);
	else
		w->is_dirty = true;
}

/* ---- proof ---- */

static void take_sync(struct zk_follower *f, const struct zk_event *event)
{
	f->is_probing = false;
	if (event->error != ZK_OK) {
		struct usher_error why = { 0 };
		int r = zk_code_error(event->error, event->path, &why);

		zk_session_lose(f->session, r, why.text);
		return;
	}
	f->proven_usec = event->sent_usec;
	f->looks = 0;
	for (size_t i = 0; i < f->watched_count; i++) {
		f->watched[i]->needs_check = true;
		f->looks += f->watched[i]->folder.count;
	}
	if (f->looks > ZK_LOOKS_MAX)
		f->looks = ZK_LOOKS_MAX;
}

/* ---- the connection ---- */

static void lose_all(struct zk_follower *f, bool again)
{
	for (size_t i = 0; i < f->watched_count; i++) {
		zk_folder_lose(&f->watched[i]->folder, again);
		f->watched[i]->needs_check = f->watched[i]->is_checked = false;
	}
	f->base_needs_list |= f->base_is_asked || again;
	f->base_is_asked = false;
	if (again)
		f->base_is_armed = f->base_is_awaited = false;
	f->is_probing = false;
}

/* What is watched, in rows for the session: 0 data, 1 what is awaited, 2 lists. */
struct rows {
	const char **paths[3];
	size_t counts[3], capacities[3];
	char *joined; /* the paths of nodes, one behind the other */
	size_t joined_size, joined_capacity;
};

static void rows_done(struct rows *rows)
{
	for (size_t i = 0; i < ELEMENTS(rows->paths); i++)
		free(rows->paths[i]);
	free(rows->joined);
}

static bool add_to_row(struct rows *rows, size_t row, const char *path)
{
	if (rows->counts[row] == rows->capacities[row]) {
		size_t capacity = rows->capacities[row] * 2 + 64;
		const char **grown = realloc(rows->paths[row], capacity * sizeof(*grown));

		if (!grown)
			return false;
		rows->paths[row] = grown;
		rows->capacities[row] = capacity;
	}
	rows->paths[row][rows->counts[row]++] = path;
	return true;
}

/* The paths of the nodes are made for this alone. */
static int make_room_for_paths(const struct zk_follower *f, struct rows *rows)
{
	size_t size = 0;

	for (size_t i = 0; i < f->watched_count; i++) {
		const struct zk_folder *folder = &f->watched[i]->folder;

		for (size_t k = 0; k < folder->count; k++)
			if (folder->nodes[k].is_armed)
				size += strlen(folder->path) + strlen(folder->nodes[k].name) + 2;
	}
	rows->joined = malloc(size + 1);
	rows->joined_capacity = size + 1;
	return rows->joined ? 0 : -ENOMEM;
}

static bool add_folder(struct rows *rows, const struct zk_folder *folder)
{
	bool fine = true;

	if (folder->is_armed)
		fine = add_to_row(rows, 2, folder->path);
	if (fine && folder->is_awaited)
		fine = add_to_row(rows, 1, folder->path);
	for (size_t k = 0; fine && k < folder->count; k++) {
		char *at = rows->joined + rows->joined_size;

		if (!folder->nodes[k].is_armed)
			continue;
		rows->joined_size +=
				(size_t) snprintf(at, rows->joined_capacity - rows->joined_size,
						"%s/%s", folder->path, folder->nodes[k].name) +
				1;
		fine = add_to_row(rows, 0, at);
	}
	return fine;
}

/* The session goes on at another server, which has to be told what was watched. */
static void watch_again(struct zk_follower *f)
{
	cleanup(rows_done) struct rows rows = { 0 };
	bool fine = make_room_for_paths(f, &rows) == 0;

	if (fine && f->base_is_armed)
		fine = add_to_row(&rows, 2, f->base);
	if (fine && f->base_is_awaited)
		fine = add_to_row(&rows, 1, f->base);
	for (size_t i = 0; fine && i < f->watched_count; i++)
		fine = add_folder(&rows, &f->watched[i]->folder);
	if (fine)
		(void) zk_session_watch_again(f->session, rows.paths[0], rows.counts[0],
				rows.paths[1], rows.counts[1], rows.paths[2], rows.counts[2]);
	else
		lose_all(f, true);
}

static void take_connected(struct zk_follower *f, const struct zk_event *event)
{
	f->is_open = true;
	f->is_read_only = event->is_read_only;
	f->proven_usec = 0;
	f->probe_usec = 0;
	if (event->is_doubtful)
		zk_follower_doubt(f, "every server refused whoever had seen what was seen before");
	f->base_list_usec = 0; /* before anything else, for it tells one history from another */
	if (event->is_new)
		lose_all(f, true);
	else
		watch_again(f);
}

static void take_lost(struct zk_follower *f, const struct zk_event *event)
{
	f->is_open = false;
	lose_all(f, false);
	/* While there are servers that have not been asked, nothing is proven by one of them. */
	if (!event->is_last)
		return;
	usher_source_fail(f->source, NULL, event->code, &event->why);
}

/* ---- watches ---- */

static struct zk_watched *find_watched(
		const struct zk_follower *f, const char *path, bool is_folder)
{
	size_t low = 0, high = f->watched_count;
	const char *end = is_folder ? NULL : strrchr(path, '/');
	size_t size = is_folder ? strlen(path) : end == path ? 1 : (size_t) (end - path);

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const char *other = f->watched[middle]->folder.path;
		int order = strncmp(other, path, size);

		if (order == 0 && other[size] != '\0')
			order = 1;
		if (order == 0)
			return f->watched[middle];
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

static void take_change(struct zk_follower *f, const struct zk_event *event)
{
	struct zk_watched *w = find_watched(f, event->path, true);
	struct zk_node *node;

	if (strcmp(event->path, f->base) == 0) {
		f->base_needs_list = true;
		f->base_is_armed = f->base_is_awaited = false;
	}
	if (w) {
		w->folder.needs_list = true;
		w->folder.is_armed = w->folder.is_awaited = false;
	}
	w = strchr(event->path, '/') ? find_watched(f, event->path, false) : NULL;
	node = w ? zk_folder_find(&w->folder, event->path) : NULL;
	if (!node)
		return;
	node->is_armed = false;
	zk_folder_need(&w->folder, node);
	if (event->change == ZK_NODE_DELETED)
		w->folder.needs_list = true;
}

/* ---- all ---- */

static void take_reply(struct zk_follower *f, struct zk_event *event)
{
	if (event->is_behind)
		zk_follower_doubt(f, "the number of its last transaction is lower");
	if (event->op == ZK_SYNC)
		take_sync(f, event);
	else if (event->tag == &f->base)
		take_base(f, event);
	else if (event->tag && event->op == ZK_EXISTS && !event->is_watched)
		take_check(f, event->tag, event);
	else if (event->tag && event->op == ZK_GET_DATA)
		take_node(f, event->tag, event);
	else if (event->tag)
		take_folder(f, event->tag, event);
}

void zk_follower_take(struct zk_follower *f, struct zk_event *event)
{
	switch (event->kind) {
	case ZK_CONNECTED:
		take_connected(f, event);
		break;
	case ZK_LOST:
		take_lost(f, event);
		break;
	case ZK_REPLY:
		take_reply(f, event);
		break;
	case ZK_CHANGED:
		take_change(f, event);
		break;
	}
}
