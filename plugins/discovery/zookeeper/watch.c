#include "watch.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "layout.h"
#include "own.h"

#define BASE_LIST_USEC UINT64_C(1000000) /* the services are listed no more often */

/* ---- what is wanted ---- */

static void watched_free(struct zk_follower *f, struct zk_watched *w)
{
	if (!w)
		return;
	zk_session_forget(f->session, w);
	zk_folder_done(&w->folder);
	free(w);
}

static size_t find_place(const struct zk_follower *f, const char *path)
{
	size_t low = 0, high = f->watched_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(f->watched[middle]->folder.path, path) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int watch_folder(struct zk_follower *f, const char *path, struct zk_watched **ret)
{
	size_t at = find_place(f, path);
	struct zk_watched *w, **grown;

	if (at < f->watched_count && strcmp(f->watched[at]->folder.path, path) == 0) {
		*ret = f->watched[at];
		return 0;
	}
	grown = realloc(f->watched, (f->watched_count + 1) * sizeof(struct zk_watched *));
	if (!grown)
		return -ENOMEM;
	f->watched = grown;
	w = calloc(1, sizeof(*w));
	if (!w || zk_folder_init(&w->folder, path) < 0) {
		free(w);
		return -ENOMEM;
	}
	memmove(f->watched + at + 1, f->watched + at,
			(f->watched_count - at) * sizeof(struct zk_watched *));
	f->watched[at] = w;
	f->watched_count++;
	*ret = w;
	return 0;
}

static void want_free(struct zk_want *want)
{
	(void) usher_endpoints_unref(want->offered);
	(void) usher_endpoints_unref(want->before);
	free(want->service);
	free(want->name);
	free(want->port);
	free(want);
}

static int want_folder(struct zk_follower *f, struct zk_want *want)
{
	struct usher_error why = { 0 };
	autofree char *path = NULL;
	int r = zk_layout_folder(f->z->chroot, f->z->layout, want->name, &path, &why);

	if (r == -EINVAL) {
		usher_source_fail(f->source, want->service, r, &why);
		return 0;
	}
	return r < 0 ? r : watch_folder(f, path, &want->watched);
}

static int add_want(struct zk_follower *f, const struct usher_wanted *wanted)
{
	struct zk_want *want = calloc(1, sizeof(*want));
	int r = -ENOMEM;

	if (!want)
		return -ENOMEM;
	want->service = strdup(wanted->service);
	want->name = strdup(wanted->name);
	want->port = wanted->port ? strdup(wanted->port) : NULL;
	if (want->service && want->name && (want->port || !wanted->port))
		r = want_folder(f, want);
	if (r < 0) {
		want_free(want);
		return r;
	}
	want->is_wanted = want->is_dirty = true;
	*f->last_want = want;
	f->last_want = &want->next;
	return 0;
}

static bool is_same(const struct zk_want *want, const struct usher_wanted *wanted)
{
	return strcmp(want->service, wanted->service) == 0 &&
			strcmp(want->name, wanted->name) == 0 && !want->port == !wanted->port &&
			(!want->port || strcmp(want->port, wanted->port) == 0);
}

/* From there on, and then from the start: mostly they come in the order in which they came before.
 */
static struct zk_want *find_want(const struct zk_follower *f, struct zk_want *from,
		const struct usher_wanted *wanted)
{
	for (struct zk_want *want = from; want; want = want->next)
		if (!want->is_wanted && is_same(want, wanted))
			return want;
	for (struct zk_want *want = f->wants; want && want != from; want = want->next)
		if (!want->is_wanted && is_same(want, wanted))
			return want;
	return NULL;
}

static void drop_unwanted(struct zk_follower *f)
{
	size_t kept = 0;

	for (size_t i = 0; i < f->watched_count; i++)
		f->watched[i]->is_wanted = false;
	for (struct zk_want **at = &f->wants; *at;) {
		struct zk_want *want = *at;

		if (want->is_wanted) {
			if (want->watched)
				want->watched->is_wanted = true;
			at = &want->next;
			continue;
		}
		*at = want->next;
		want_free(want);
	}
	f->last_want = &f->wants;
	while (*f->last_want)
		f->last_want = &(*f->last_want)->next;
	for (size_t i = 0; i < f->watched_count; i++) {
		if (f->watched[i]->is_wanted)
			f->watched[kept++] = f->watched[i];
		else
			watched_free(f, f->watched[i]);
	}
	f->watched_count = kept;
}

static int follow_wanted(struct zk_follower *f)
{
	size_t count;
	const struct usher_wanted *wanted = usher_source_wanted(f->source, &count);
	struct zk_want *from = f->wants;
	int r = 0;

	for (struct zk_want *want = f->wants; want; want = want->next)
		want->is_wanted = false;
	for (size_t i = 0; r == 0 && i < count; i++) {
		struct zk_want *want = find_want(f, from, &wanted[i]);

		if (want) {
			want->is_wanted = true;
			from = want->next;
		} else {
			r = add_want(f, &wanted[i]);
		}
	}
	if (r == 0)
		drop_unwanted(f);
	return r;
}

/* ---- what to ask ---- */

/* The password may have changed in its file. */
static int tell_secret(struct zk_follower *f, struct usher_error *reterr)
{
	cleanup(own_free_secret) char *secret = NULL;
	int r = zookeeper_read_secret(f->z, &secret, reterr);

	if (r < 0 || !secret || (f->secret && strcmp(secret, f->secret) == 0))
		return r;
	r = zk_session_set_secret(f->session, secret);
	if (r < 0)
		return usher_error_set(reterr, r, "out of memory");
	own_free_secret(&f->secret);
	f->secret = take(secret);
	return 0;
}

void zk_follower_probe_soon(struct zk_follower *f)
{
	uint64_t soon = retry_now_usec() + retry_random(&f->random) % (f->z->probe_usec / 5);

	if (soon < f->probe_usec)
		f->probe_usec = soon;
}

static void ask_for_proof(struct zk_follower *f, uint64_t now)
{
	if (f->is_probing || f->is_read_only || now < f->probe_usec)
		return;
	f->is_probing = zk_session_sync(f->session, f->base) == 0;
	/* A little apart from everybody else. */
	f->probe_usec = now + f->z->probe_usec - retry_random(&f->random) % (f->z->probe_usec / 8);
}

static void ask_for_base(struct zk_follower *f, uint64_t now)
{
	if (!f->base_needs_list || f->base_is_asked)
		return;
	/* Names that come and go are no hurry; whether it is there at all is. */
	if (f->presence == ZK_THERE && now < f->base_list_usec)
		return;
	f->base_is_asked =
			zk_session_read(f->session, ZK_GET_CHILDREN2, f->base, true, &f->base) == 0;
	f->base_needs_list = !f->base_is_asked;
	f->base_list_usec = now + BASE_LIST_USEC;
}

static void ask_for_list(struct zk_follower *f, struct zk_watched *w)
{
	struct zk_folder *folder = &w->folder;

	folder->is_asked =
			zk_session_read(f->session, ZK_GET_CHILDREN2, folder->path, true, w) == 0;
	folder->needs_list = !folder->is_asked;
}

static void ask_for_check(struct zk_follower *f, struct zk_watched *w)
{
	/* What is being read is proven by that. */
	w->needs_check = false;
	if (w->folder.needs_list || w->folder.is_asked)
		return;
	w->is_checked = zk_session_read(f->session, ZK_EXISTS, w->folder.path, false, w) == 0;
	w->check_usec = f->proven_usec;
}

static void node_path(
		const struct zk_folder *folder, const struct zk_node *node, char *ret, size_t size)
{
	(void) snprintf(ret, size, "%s/%s", folder->path, node->name);
}

/* A few of the nodes, in turn. */
static void look_at_nodes(struct zk_follower *f)
{
	for (size_t i = 0; f->looks > 0 && i < f->watched_count + ZK_LOOKS_MAX; i++) {
		char path[ZK_PATH_MAX + USHER_TEXT_MAX + 2];
		struct zk_watched *w;

		if (f->look_folder >= f->watched_count)
			f->look_folder = 0;
		w = f->watched[f->look_folder];
		if (f->look_node >= w->folder.count) {
			f->look_folder++;
			f->look_node = 0;
			continue;
		}
		node_path(&w->folder, &w->folder.nodes[f->look_node], path, sizeof(path));
		if (zk_session_read(f->session, ZK_EXISTS, path, false, w) < 0)
			return;
		f->look_node++;
		f->looks--;
	}
}

static void ask_for_nodes(struct zk_follower *f, struct zk_watched *w)
{
	struct zk_folder *folder = &w->folder;
	struct zk_node *node;

	while (zk_session_unanswered(f->session) < ZK_ASKED_MAX &&
			(node = zk_folder_next(folder)) != NULL) {
		char path[ZK_PATH_MAX + USHER_TEXT_MAX + 2];

		node_path(folder, node, path, sizeof(path));
		if (zk_session_read(f->session, ZK_GET_DATA, path, true, w) < 0)
			return;
		zk_folder_asked(folder, node);
	}
}

static void ask_for_denied(struct zk_watched *w, uint64_t now)
{
	if (!w->has_denied || now < w->denied_usec)
		return;
	w->has_denied = false;
	for (size_t i = 0; i < w->folder.count; i++)
		if (w->folder.nodes[i].is_denied)
			zk_folder_need(&w->folder, &w->folder.nodes[i]);
}

static void ask_for_what_is_missing(struct zk_follower *f)
{
	uint64_t now = retry_now_usec();

	if (!f->is_open || !zk_session_is_open(f->session))
		return;
	ask_for_proof(f, now);
	ask_for_base(f, now);
	for (size_t i = 0; i < f->watched_count && zk_session_unanswered(f->session) < ZK_ASKED_MAX;
			i++) {
		struct zk_watched *w = f->watched[i];

		if (now < w->retry_usec)
			continue;
		ask_for_denied(w, now);
		if (w->folder.needs_list && !w->folder.is_asked)
			ask_for_list(f, w);
		ask_for_nodes(f, w);
		if (w->needs_check && !w->is_checked)
			ask_for_check(f, w);
	}
	if (zk_session_unanswered(f->session) < ZK_ASKED_MAX)
		look_at_nodes(f);
}

/* ---- the loop ---- */

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t due_usec(const struct zk_follower *f)
{
	uint64_t due = zk_session_due_usec(f->session);

	if (!f->is_open)
		return due;
	if (!f->is_probing && !f->is_read_only)
		due = earlier(due, f->probe_usec);
	if (f->base_needs_list && !f->base_is_asked)
		due = earlier(due, f->base_list_usec);
	if (zk_session_unanswered(f->session) >= ZK_ASKED_MAX)
		return due;
	for (size_t i = 0; i < f->watched_count; i++) {
		const struct zk_watched *w = f->watched[i];

		if ((w->folder.needs_list && !w->folder.is_asked) || w->folder.needed > 0)
			due = earlier(due, w->retry_usec);
		if (w->has_denied)
			due = earlier(due, w->denied_usec);
	}
	return due;
}

static int wait_for_something(struct zk_follower *f)
{
	uint64_t now = retry_now_usec(), due = due_usec(f);
	const struct usher_wait wait = {
		.size = sizeof(wait),
		.timeout_usec = due > now ? due - now : 1,
		.fd = zk_session_fd(f->session),
		.events = zk_session_events(f->session),
		.path = f->z->password_file,
	};

	return usher_source_wait(f->source, &wait);
}

/* The password has another file behind it: who was denied may be let in now. */
static void retry_denied(struct zk_follower *f)
{
	for (size_t i = 0; i < f->watched_count; i++)
		f->watched[i]->retry_usec = f->watched[i]->denied_usec = 0;
}

static void turn(struct zk_follower *f)
{
	struct zk_event event;

	zk_session_process(f->session);
	while (zk_session_next(f->session, &event))
		zk_follower_take(f, &event);
	zk_follower_offer(f);
	ask_for_what_is_missing(f);
}

static int follower_init(
		struct zk_follower *f, const struct zookeeper *z, struct usher_source *source)
{
	const struct zk_session_config config = {
		.servers = z->servers,
		.timeout_usec = z->session_timeout_usec,
		.connect_usec = z->connect_timeout_usec,
		.backoff_steps = UINT_MAX,
		.read_only = z->read_only,
	};

	*f = (struct zk_follower){ .z = z, .source = source, .base_needs_list = true };
	f->last_want = &f->wants;
	f->random = retry_seed();
	f->base = zk_layout_base(z->chroot, z->layout);
	f->session = zk_session_new(&config);
	return f->base && f->session ? 0 : -ENOMEM;
}

static void follower_done(struct zk_follower *f)
{
	while (f->wants) {
		struct zk_want *want = f->wants;

		f->wants = want->next;
		want_free(want);
	}
	for (size_t i = 0; i < f->watched_count; i++)
		watched_free(f, f->watched[i]);
	free(f->watched);
	free(f->base);
	own_free_secret(&f->secret);
	f->session = zk_session_free(f->session, true);
}

/* Returns what usher_source_wait() does. */
static int fail_and_wait(struct zk_follower *f, int code, const struct usher_error *why)
{
	const struct usher_wait wait = { .size = sizeof(wait), .backoff = true };

	usher_source_fail(f->source, NULL, code, why);
	return usher_source_wait(f->source, &wait);
}

int zookeeper_run(void *instance, struct usher_source *source)
{
	cleanup(follower_done) struct zk_follower f;
	bool is_wanted_new = true, is_secret_new = true;
	int r = follower_init(&f, instance, source);

	while (r >= 0) {
		struct usher_error why = { 0 };

		r = is_wanted_new ? follow_wanted(&f) : 0;
		is_wanted_new = r < 0;
		if (r == 0 && is_secret_new) {
			r = tell_secret(&f, &why);
			is_secret_new = r < 0;
			retry_denied(&f);
		}
		if (r == 0)
			turn(&f);
		r = r < 0 ? fail_and_wait(&f, r, &why) : wait_for_something(&f);
		if (r == 0)
			return 0;
		is_wanted_new |= (r & USHER_WAIT_WANTED) != 0;
		is_secret_new |= (r & USHER_WAIT_PATH) != 0;
	}
	return r;
}
