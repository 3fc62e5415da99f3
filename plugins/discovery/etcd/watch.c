#include "watch.h"

#include <errno.h>
#include <string.h>

#include "layout.h"
#include "own.h"
#include "retry.h"

uint64_t etcd_retry_usec(struct follower *f, unsigned failures)
{
	return retry_now_usec() + retry_delay_usec(&f->random, failures);
}

/* ---- tasks ---- */

static struct task *task_new(struct follower *f, enum task_kind kind)
{
	struct task *task = calloc(1, sizeof(*task));

	if (!task)
		return NULL;
	task->kind = kind;
	task->text.max_bytes = ETCD_DOCUMENT_MAX;
	task->floor = f->revision;
	task->next = f->tasks;
	f->tasks = task;
	return task;
}

void etcd_service_detach(struct service *s)
{
	s->stream = NULL;
	s->watch_id = 0;
}

void etcd_task_end(struct follower *f, struct task *task)
{
	struct task **at = &f->tasks;

	usher_http_cancel(f->session.http, task->id);
	for (struct service *s = f->services; s; s = s->next) {
		if (s->stream == task)
			etcd_service_detach(s);
		if (s->range == task)
			s->range = NULL;
	}
	while (*at != task)
		at = &(*at)->next;
	*at = task->next;
	json_stream_done(&task->text);
	free(task);
}

/* Begin the task's request, or forget it. */
static int send_task(struct follower *f, struct task *task, const char *path, char *body)
{
	int r = etcd_session_start(
			&f->session, path, body, task->kind == TASK_STREAM, task, &task->id);

	if (r < 0)
		etcd_task_end(f, task);
	return r;
}

int etcd_range_start(struct follower *f, struct service *s, const struct etcd_kv *behind)
{
	struct task *task = task_new(f, TASK_RANGE);

	if (!task)
		return -ENOMEM;
	task->about[0] = s;
	task->count = 1;
	s->range = task;
	if (!behind) {
		etcd_table_done(&s->coming);
		s->coming_revision = 0;
		etcd_service_detach(s);
	}
	/* The key behind another is that with a zero byte more, which it is ended by. */
	return send_task(f, task, "/v3/kv/range",
			etcd_range_request(s->prefix, behind ? behind->key : NULL,
					behind ? behind->key_size + 1 : 0, s->coming_revision));
}

void etcd_service_reread(struct follower *f, struct service *s)
{
	etcd_service_detach(s);
	s->need = NEEDS_RANGE;
	s->retry_usec = s->failures > 0 ? etcd_retry_usec(f, s->failures) : 0;
}

/* ---- services ---- */

static void service_free(struct follower *f, struct service *s)
{
	if (s->range)
		etcd_task_end(f, s->range);
	for (struct task *task = f->tasks; task; task = task->next)
		for (size_t i = 0; i < task->count; i++)
			if (task->about[i] == s)
				task->about[i] = NULL;
	etcd_table_done(&s->table);
	etcd_table_done(&s->coming);
	(void) usher_endpoints_unref(s->offered);
	(void) usher_endpoints_unref(s->before);
	free(s->service);
	free(s->name);
	free(s->port);
	free(s->prefix);
	free(s);
}

static int service_add(struct follower *f, const struct usher_wanted *wanted)
{
	struct service *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->service = strdup(wanted->service);
	s->name = strdup(wanted->name);
	s->port = wanted->port ? strdup(wanted->port) : NULL;
	s->prefix = etcd_layout_prefix(f->etcd->layout, wanted->name);
	if (!s->service || !s->name || !s->prefix || (wanted->port && !s->port)) {
		service_free(f, s);
		return -ENOMEM;
	}
	s->is_wanted = true;
	s->next = f->services;
	f->services = s;
	return 0;
}

static bool is_same(const struct service *s, const struct usher_wanted *wanted)
{
	return strcmp(s->service, wanted->service) == 0 && strcmp(s->name, wanted->name) == 0 &&
			!s->port == !wanted->port &&
			(!s->port || strcmp(s->port, wanted->port) == 0);
}

static bool keep_wanted(const struct follower *f, const struct usher_wanted *wanted)
{
	for (struct service *s = f->services; s; s = s->next)
		if (is_same(s, wanted))
			return s->is_wanted = true;
	return false;
}

static void drop_unwanted(struct follower *f)
{
	struct service **at = &f->services;

	while (*at) {
		struct service *s = *at;

		if (s->is_wanted) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		service_free(f, s);
	}
}

static int follow_wanted(struct follower *f)
{
	size_t count;
	const struct usher_wanted *wanted = usher_source_wanted(f->source, &count);
	int r = 0;

	for (struct service *s = f->services; s; s = s->next)
		s->is_wanted = false;
	for (size_t i = 0; r == 0 && i < count; i++)
		if (!keep_wanted(f, &wanted[i]))
			r = service_add(f, &wanted[i]);
	if (r == 0)
		drop_unwanted(f);
	return r;
}

/* ---- what is lost ---- */

void etcd_follower_lose(struct follower *f, int code, const struct usher_error *why)
{
	while (f->tasks)
		etcd_task_end(f, f->tasks);
	for (struct service *s = f->services; s; s = s->next) {
		s->need = s->is_complete && s->need != NEEDS_RANGE ? NEEDS_PROOF : NEEDS_RANGE;
		s->retry_usec = 0;
	}
	f->is_lost = true;
	f->failures++;
	/* While there are members that have not been asked, nothing is proven by one of them. */
	if (f->failures < f->servers) {
		f->retry_usec = etcd_retry_usec(f, 1);
		return;
	}
	f->retry_usec = etcd_retry_usec(f, f->failures - (unsigned) f->servers + 1);
	usher_source_fail(f->source, NULL, code, why);
}

/* ---- what to start ---- */

static size_t count_tasks(const struct follower *f, enum task_kind kind)
{
	size_t count = 0;

	for (const struct task *task = f->tasks; task; task = task->next)
		count += task->kind == kind;
	return count;
}

static int start_ranges(struct follower *f, uint64_t now)
{
	size_t running = count_tasks(f, TASK_RANGE), most = f->is_lost ? 1 : RANGES_MAX;
	int r = 0;

	for (struct service *s = f->services; r == 0 && s && running < most; s = s->next) {
		if (s->need != NEEDS_RANGE || s->range || now < s->retry_usec)
			continue;
		r = etcd_range_start(f, s, NULL);
		running++;
	}
	return r;
}

static int start_probe(struct follower *f, struct service *const *services, size_t count)
{
	const char *prefixes[PROBE_SERVICES];
	struct task *task = task_new(f, TASK_PROBE);

	if (!task)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		task->about[i] = services[i];
		prefixes[i] = services[i]->prefix;
	}
	task->count = count;
	return send_task(f, task, "/v3/kv/txn", etcd_probe_request(prefixes, count));
}

static bool is_being_probed(const struct follower *f, const struct service *s)
{
	for (const struct task *task = f->tasks; task; task = task->next)
		for (size_t i = 0; task->kind == TASK_PROBE && i < task->count; i++)
			if (task->about[i] == s)
				return true;
	return false;
}

static int start_probes(struct follower *f)
{
	struct service *batch[PROBE_SERVICES];
	size_t count = 0;
	int r = 0;

	if (f->is_lost && f->tasks)
		return 0;
	for (struct service *s = f->services; r == 0 && s; s = s->next) {
		if (s->need != NEEDS_PROOF || is_being_probed(f, s))
			continue;
		batch[count++] = s;
		if (count < PROBE_SERVICES)
			continue;
		r = start_probe(f, batch, count);
		count = 0;
		if (f->is_lost)
			break;
	}
	return r == 0 && count > 0 ? start_probe(f, batch, count) : r;
}

/* Any key will do that may be read: what counts is the revision beside the answer. */
static int start_pulse(struct follower *f)
{
	const struct service *s = f->services;
	struct task *task;

	while (s && s->need != NEEDS_NOTHING)
		s = s->next;
	if (!s || f->is_lost || count_tasks(f, TASK_PULSE) > 0)
		return 0;
	task = task_new(f, TASK_PULSE);
	if (!task)
		return -ENOMEM;
	return send_task(f, task, "/v3/kv/range", etcd_get_request(s->prefix));
}

/* From time to time each is asked about, whatever the revision: a right to read one of them that
 * was taken away shows in nothing else. */
static int start_round(struct follower *f)
{
	if (++f->rounds % ROUNDS_THOROUGH != 0)
		return start_pulse(f);
	for (struct service *s = f->services; s; s = s->next)
		if (s->need == NEEDS_NOTHING)
			s->need = NEEDS_PROOF;
	return start_probes(f);
}

static bool is_unwatched(const struct service *s, uint64_t now)
{
	return s->need == NEEDS_NOTHING && !s->stream && now >= s->retry_usec;
}

static size_t count_unwatched(const struct follower *f, uint64_t now)
{
	size_t count = 0;

	for (const struct service *s = f->services; s; s = s->next)
		count += is_unwatched(s, now);
	return count;
}

/* The watches of all that have none, in one stream. */
static int start_stream(struct follower *f, uint64_t now)
{
	size_t size = 1, watches = 0;
	autofree char *body = strdup("");
	struct task *task = task_new(f, TASK_STREAM);

	if (!task)
		return -ENOMEM;
	for (struct service *s = f->services; s && watches < ETCD_WATCHES_MAX; s = s->next) {
		autofree char *watch = NULL;
		char *grown;
		size_t length;

		if (!is_unwatched(s, now))
			continue;
		watch = etcd_watch_request(s->prefix, s->revision + 1, f->last_watch_id + 1);
		length = watch ? strlen(watch) : 0;
		grown = watch && body ? realloc(body, size + length) : NULL;
		if (!grown) {
			etcd_task_end(f, task);
			return -ENOMEM;
		}
		body = grown;
		memcpy(body + size - 1, watch, length + 1);
		size += length;
		watches++;
		s->stream = task;
		s->watch_id = ++f->last_watch_id;
	}
	return send_task(f, task, "/v3/watch", take(body));
}

/* Streams that carry nobody, or all of them where they have become too many. */
static void end_streams(struct follower *f, bool all)
{
	struct task *next;

	for (struct task *task = f->tasks; task; task = next) {
		bool is_used = false;

		next = task->next;
		for (const struct service *s = f->services; s && !is_used; s = s->next)
			is_used = s->stream == task;
		if (task->kind == TASK_STREAM && (all || !is_used))
			etcd_task_end(f, task);
	}
}

/* Each holds a connection for good, and questions need some, too. */
static size_t most_streams(const struct follower *f)
{
	size_t share = (size_t) f->etcd->http.connections / ETCD_CONNECTIONS_MIN;

	return share < STREAMS_MAX ? share : STREAMS_MAX;
}

static int start_streams(struct follower *f, uint64_t now)
{
	size_t unwatched = count_unwatched(f, now);
	int r = 0;

	end_streams(f, false);
	if (f->is_lost || now < f->stream_retry_usec || unwatched == 0)
		return 0;
	/* What is being read is about to want a watch, too. */
	if (unwatched < STREAM_WORTH && count_tasks(f, TASK_RANGE) > 0)
		return 0;
	if (count_tasks(f, TASK_STREAM) >= most_streams(f))
		end_streams(f, true);
	while (r == 0 && count_unwatched(f, now) > 0)
		r = start_stream(f, now);
	return r;
}

/* False: it has to wait. */
static bool has_token(struct follower *f)
{
	struct usher_error why = { 0 };
	int r = etcd_session_needs_token(&f->session) ? etcd_session_authenticate(&f->session, &why)
						      : 0;

	if (r == -ECANCELED)
		return false;
	if (r < 0)
		etcd_follower_lose(f, r, &why);
	return r >= 0;
}

static int start_what_is_missing(struct follower *f)
{
	uint64_t now = retry_now_usec();
	int r;

	if (now < f->retry_usec || !f->services || !has_token(f))
		return 0;
	r = start_probes(f);
	if (r == 0 && now >= f->probe_usec) {
		r = start_round(f);
		/* a little apart from everybody else */
		f->probe_usec = now + f->etcd->probe_usec -
				retry_random(&f->random) % (f->etcd->probe_usec / 8);
	}
	if (r == 0 && !(f->is_lost && f->tasks))
		r = start_ranges(f, now);
	return r == 0 ? start_streams(f, now) : r;
}

/* ---- the loop ---- */

static uint64_t due_usec(const struct follower *f)
{
	uint64_t due = f->probe_usec;

	if (f->retry_usec > retry_now_usec())
		return f->retry_usec;
	if (f->is_lost && !f->tasks)
		return 0;
	for (const struct service *s = f->services; s; s = s->next) {
		uint64_t at = s->retry_usec;

		if (s->need == NEEDS_NOTHING && at < f->stream_retry_usec)
			at = f->stream_retry_usec;
		if (((s->need == NEEDS_RANGE && !s->range) ||
				    (s->need == NEEDS_NOTHING && !s->stream)) &&
				at < due)
			due = at;
	}
	return due;
}

static int wait_for_something(struct follower *f)
{
	uint64_t now = retry_now_usec(), due = due_usec(f);
	const struct usher_wait wait = {
		.size = sizeof(wait),
		/* What is due and was not started waits for an answer that is under way. */
		.timeout_usec = !f->services ? 0
				: due > now  ? due - now
					     : 100000,
	};

	return usher_source_wait(f->source, &wait);
}

static void take_events(struct follower *f)
{
	struct usher_http_event event = USHER_HTTP_EVENT_INIT;

	while (usher_http_next(f->session.http, &event))
		etcd_follower_take(f, event.tag, &event);
	etcd_follower_offer(f);
}

static void follower_done(struct follower *f)
{
	while (f->tasks)
		etcd_task_end(f, f->tasks);
	while (f->services) {
		struct service *s = f->services;

		f->services = s->next;
		service_free(f, s);
	}
	etcd_session_close(&f->session);
}

int etcd_run(void *instance, struct usher_source *source)
{
	cleanup(follower_done) struct follower f = { .etcd = instance, .source = source };
	struct usher_error why = { 0 };
	int r = etcd_session_open(&f.session, f.etcd, source, &why);

	if (r < 0) {
		usher_source_fail(source, NULL, r, &why);
		return r;
	}
	while (f.etcd->http.servers[f.servers])
		f.servers++;
	f.random = retry_seed();
	f.is_lost = true;
	do {
		r = follow_wanted(&f);
		if (r == 0)
			r = start_what_is_missing(&f);
		if (r < 0)
			etcd_follower_lose(&f, r,
					(usher_error_set(&why, r, "%s", usher_error_text(NULL, r)),
							&why));
		r = wait_for_something(&f);
		if (r > 0)
			take_events(&f);
	} while (r > 0);
	return r;
}
