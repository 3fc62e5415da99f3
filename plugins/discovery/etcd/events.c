/* What etcd's answers and messages mean. */

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "json-read.h"
#include "retry.h"
#include "watch.h"

/* ---- the history ---- */

static void begin_history(struct follower *f, const struct etcd_header *header)
{
	uint64_t until = retry_now_usec() + DOUBT_USEC;

	usher_log(USHER_LOG_WARNING,
			"etcd has another history than before (cluster %s at revision %" PRId64
			", after cluster %s at %" PRId64
			"): it was wiped or restored, or is another one; reading everything again",
			header->cluster, header->revision, f->cluster, f->revision);
	for (struct service *s = f->services; s; s = s->next) {
		etcd_service_detach(s);
		s->need = NEEDS_RANGE;
		s->retry_usec = 0;
		if (!s->offered || s->doubt_until_usec > 0)
			continue;
		s->before = usher_endpoints_ref(s->offered);
		s->doubt_until_usec = until;
	}
}

bool etcd_follower_note(struct follower *f, const struct etcd_header *header, int64_t floor)
{
	bool is_other = f->cluster[0] != '\0' &&
			(strcmp(f->cluster, header->cluster) != 0 || header->revision < floor);

	if (is_other)
		begin_history(f, header);
	if (is_other || header->revision > f->revision)
		f->revision = header->revision;
	(void) snprintf(f->cluster, sizeof(f->cluster), "%s", header->cluster);
	return is_other;
}

/* What was asked in the history before says nothing of this one. */
static void end_other_tasks(struct follower *f, const struct task *but)
{
	struct task *next;

	for (struct task *task = f->tasks; task; task = next) {
		next = task->next;
		if (task != but)
			etcd_task_end(f, task);
	}
}

/* ---- failures ---- */

static void found(struct follower *f)
{
	f->is_lost = false;
	f->failures = 0;
	f->retry_usec = 0;
}

/* What concerns one service, and not whether etcd can be asked. */
static bool is_its_own(int r, int code, const char *text)
{
	return code != 0 && !etcd_wants_token(code, text) &&
			(r == -EACCES || r == -ENOENT || r == -ERANGE ||
					code == ETCD_INVALID_ARGUMENT);
}

static void service_failed(
		struct follower *f, struct service *s, int r, const struct usher_error *why)
{
	s->failures++;
	etcd_service_reread(f, s);
	if (r != -ERANGE) /* a page too late: compacted while it was read */
		usher_source_fail(f->source, s->service, r, why);
	s->is_offered = false;
}

static void lose(struct follower *f, const struct usher_http_event *event, int r, int code,
		const struct usher_error *why)
{
	if (etcd_wants_token(code, why->text))
		etcd_session_forget_token(&f->session);
	else
		usher_http_leave(f->session.http, event->server);
	etcd_follower_lose(f, r, why);
}

/* ---- a range ---- */

static int take_pairs(struct service *s, const json_t *pairs, struct etcd_kv *ret_last,
		struct usher_error *reterr)
{
	size_t prefix_size = strlen(s->prefix), count = json_array_size(pairs);
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++) {
		struct etcd_kv kv = { 0 };

		r = etcd_kv_read(json_array_get(pairs, i), &kv, reterr);
		if (r < 0)
			return r;
		if (i + 1 == count) {
			ret_last->key = malloc(kv.key_size + 1);
			if (!ret_last->key)
				r = -ENOMEM;
			else
				memcpy(ret_last->key, kv.key, kv.key_size + 1);
			ret_last->key_size = kv.key_size;
		}
		if (r == 0)
			r = etcd_table_put(&s->coming, prefix_size, &kv);
		etcd_kv_done(&kv);
	}
	if (r == -E2BIG)
		return usher_error_set(reterr, r, "there are more than %zu keys below %.200s",
				ETCD_KEYS_MAX, s->prefix);
	if (r == -EBADMSG)
		return usher_error_set(
				reterr, r, "etcd sent a key that is not below %.200s", s->prefix);
	return r;
}

static void range_is_complete(struct service *s)
{
	etcd_table_inherit(&s->coming, &s->table);
	etcd_table_done(&s->table);
	s->table = s->coming;
	s->coming = (struct etcd_table){ 0 };
	s->revision = s->coming_revision;
	s->proven_usec = s->asked_usec;
	s->need = NEEDS_NOTHING;
	s->is_complete = s->is_dirty = true;
	s->failures = 0;
}

/* One page. Returns what fails the service, or -EAGAIN after another page was asked for. */
static int take_page(struct follower *f, struct service *s, const json_t *answer,
		const struct etcd_header *header, struct usher_error *reterr)
{
	cleanup(etcd_kv_done) struct etcd_kv last = { 0 };
	int r = take_pairs(s, json_object_get(answer, "kvs"), &last, reterr);

	if (r < 0)
		return r;
	if (s->coming_revision == 0)
		s->coming_revision = header->revision;
	if (!json_is_true(json_object_get(answer, "more"))) {
		range_is_complete(s);
		return 0;
	}
	if (!last.key)
		return usher_error_set(
				reterr, -EBADMSG, "etcd says that there is more, and sends none");
	return etcd_range_start(f, s, &last);
}

static void take_range(struct follower *f, struct task *task, const struct usher_http_event *event)
{
	struct service *s = task->about[0];
	struct usher_error why = { 0 };
	autojson json_t *answer = NULL;
	struct etcd_header header = { 0 };
	int code, r = etcd_answer_read(event, &answer, &code, &why);
	int64_t floor = task->floor;

	if (r == 0)
		r = etcd_header_read(answer, &header, &why);
	etcd_task_end(f, task);
	if (r < 0 && !is_its_own(r, code, why.text)) {
		lose(f, event, r, code, &why);
		return;
	}
	found(f);
	if (r < 0) {
		service_failed(f, s, r, &why);
		return;
	}
	if (etcd_follower_note(f, &header, floor)) {
		while (f->tasks)
			etcd_task_end(f, f->tasks);
		if (s->coming_revision > 0)
			return; /* half of it is of the other history */
	}
	if (s->coming_revision == 0)
		s->asked_usec = event->started_usec;
	r = take_page(f, s, answer, &header, &why);
	if (r < 0)
		service_failed(f, s, r, &why);
}

/* ---- a probe ---- */

static void prove(struct follower *f, struct service *s, int64_t revision, uint64_t asked_usec)
{
	if (revision > s->revision)
		s->revision = revision;
	if (asked_usec > s->proven_usec)
		s->proven_usec = asked_usec;
	s->need = NEEDS_NOTHING;
	s->failures = 0;
	if (s->stream) /* it has lived from one question to the next */
		s->cancelled = 0;
	if (s->is_offered)
		usher_source_confirm(f->source, s->service, asked_usec);
}

/* What is whole as of that revision is current; of the rest more has to be asked. */
static void prove_or_ask(struct follower *f, int64_t revision, uint64_t asked_usec)
{
	for (struct service *s = f->services; s; s = s->next) {
		if (s->need != NEEDS_NOTHING)
			continue;
		if (s->revision >= revision)
			prove(f, s, revision, asked_usec);
		else
			s->need = NEEDS_PROOF;
	}
}

static void take_pulse(struct follower *f, struct task *task, const struct usher_http_event *event)
{
	struct usher_error why = { 0 };
	autojson json_t *answer = NULL;
	struct etcd_header header = { 0 };
	int code, r = etcd_answer_read(event, &answer, &code, &why);

	if (r == 0)
		r = etcd_header_read(answer, &header, &why);
	if (r < 0 && !is_its_own(r, code, why.text)) {
		lose(f, event, r, code, &why); /* ends the task, too */
		return;
	}
	found(f);
	if (r < 0) /* that key may not be read any more */
		prove_or_ask(f, INT64_MAX, 0);
	else if (etcd_follower_note(f, &header, task->floor))
		end_other_tasks(f, task);
	else
		prove_or_ask(f, header.revision, event->started_usec);
	etcd_task_end(f, task);
}

/* Compare what etcd says of one service with the table. EBADMSG: it says nothing. */
static int compare(struct follower *f, struct service *s, const json_t *response, int64_t revision,
		uint64_t asked_usec)
{
	const json_t *range = json_object_get(response, "response_range");
	const json_t *newest = json_array_get(json_object_get(range, "kvs"), 0);
	int64_t count = etcd_integer(json_object_get(range, "count"));
	int64_t changed = etcd_integer(json_object_get(newest, "mod_revision"));

	if (!json_is_object(range) || (count > 0) != (changed > 0))
		return -EBADMSG;
	/* It is being read, or the stream was faster. */
	if (s->need == NEEDS_RANGE || s->revision > revision)
		return 0;
	if ((uint64_t) count == s->table.count && changed == etcd_table_newest(&s->table))
		prove(f, s, revision, asked_usec);
	else
		etcd_service_reread(f, s);
	return 0;
}

static int compare_all(struct follower *f, const struct task *task, const json_t *answer,
		int64_t revision, uint64_t asked_usec)
{
	const json_t *responses = json_object_get(answer, "responses");
	int r = json_array_size(responses) == task->count ? 0 : -EBADMSG;

	for (size_t i = 0; r == 0 && i < task->count; i++)
		if (task->about[i])
			r = compare(f, task->about[i], json_array_get(responses, i), revision,
					asked_usec);
	return r;
}

/* One of them is the reason, and each by itself will say so. */
static void reread_all(struct follower *f, const struct task *task)
{
	for (size_t i = 0; i < task->count; i++)
		if (task->about[i])
			etcd_service_reread(f, task->about[i]);
}

static void take_probe(struct follower *f, struct task *task, const struct usher_http_event *event)
{
	struct usher_error why = { 0 };
	autojson json_t *answer = NULL;
	struct etcd_header header = { 0 };
	int code, r = etcd_answer_read(event, &answer, &code, &why);

	if (r == 0)
		r = etcd_header_read(answer, &header, &why);
	if (r < 0 && is_its_own(r, code, why.text)) {
		found(f);
		reread_all(f, task);
		r = 0;
	} else if (r == 0 && etcd_follower_note(f, &header, task->floor)) {
		found(f);
		end_other_tasks(f, task);
	} else if (r == 0) {
		r = compare_all(f, task, answer, header.revision, event->started_usec);
		if (r < 0)
			(void) usher_error_set(&why, r, "%s leaves a question unanswered",
					event->server ? event->server : "etcd");
		else
			found(f);
	}
	if (r < 0)
		lose(f, event, r, code, &why); /* ends the task, too */
	else
		etcd_task_end(f, task);
}

/* ---- a stream ---- */

static struct service *watched_by(const struct follower *f, const struct task *task, int64_t id)
{
	for (struct service *s = f->services; s; s = s->next)
		if (s->stream == task && s->watch_id == id)
			return s;
	return NULL;
}

/* All events of one revision come in one message. */
static int take_changes(struct follower *f, struct service *s, const json_t *events)
{
	size_t prefix_size = strlen(s->prefix);
	int64_t known = s->revision;
	int r = 0;

	for (size_t i = 0; r == 0 && i < json_array_size(events); i++) {
		const json_t *event = json_array_get(events, i);
		const char *type = json_string_value(json_object_get(event, "type"));
		struct etcd_kv kv = { 0 };

		r = etcd_kv_read(json_object_get(event, "kv"), &kv, NULL);
		if (r < 0)
			break;
		if (kv.mod_revision > known) {
			int64_t revision = kv.mod_revision;

			if (type && strcmp(type, "DELETE") == 0)
				etcd_table_remove(&s->table, prefix_size, &kv);
			else
				r = etcd_table_put(&s->table, prefix_size, &kv);
			if (revision > s->revision)
				s->revision = revision;
			s->is_dirty = true;
		}
		etcd_kv_done(&kv);
	}
	if (s->revision > f->revision)
		f->revision = s->revision;
	return r;
}

/* One watch of the stream ends. Where that goes on and on, it is tried less and less often. */
static void watch_is_cancelled(struct follower *f, struct service *s, const json_t *result)
{
	etcd_service_detach(s);
	s->need = etcd_integer(json_object_get(result, "compact_revision")) > 0 ? NEEDS_RANGE
										: NEEDS_PROOF;
	s->retry_usec = etcd_retry_usec(f, ++s->cancelled);
}

/* What one message of a stream says. False: the stream is over. */
static bool take_message(struct follower *f, struct task *task,
		const struct usher_http_event *event, const json_t *message)
{
	const json_t *result = json_object_get(message, "result");
	const char *reason = json_string_value(json_object_get(result, "cancel_reason"));
	struct service *s = watched_by(f, task, etcd_integer(json_object_get(result, "watch_id")));
	const char *text;
	int code;

	if (!result) {
		if (!etcd_error_of(message, &code, &text))
			return false;
		if (etcd_wants_token(code, text))
			etcd_session_forget_token(&f->session);
		else
			usher_http_leave(f->session.http, event->server);
		return false;
	}
	if (json_is_true(json_object_get(result, "canceled"))) {
		if (s) {
			watch_is_cancelled(f, s, result);
			return true;
		}
		/* Refused before it had a number: nobody can say which it was. */
		if (reason && etcd_wants_token(ETCD_OK, reason))
			etcd_session_forget_token(&f->session);
		return etcd_integer(json_object_get(result, "watch_id")) >= 0;
	}
	task->is_useful = true;
	if (s && take_changes(f, s, json_object_get(result, "events")) < 0)
		etcd_service_reread(f, s);
	return true;
}

static void stream_is_over(struct follower *f, struct task *task)
{
	for (struct service *s = f->services; s; s = s->next)
		if (s->stream == task && s->need == NEEDS_NOTHING)
			s->need = NEEDS_PROOF;
	f->stream_failures = task->is_useful ? 1 : f->stream_failures + 1;
	f->stream_retry_usec = etcd_retry_usec(f, f->stream_failures);
	if (f->stream_failures == 5)
		usher_log(USHER_LOG_WARNING,
				"No watch can be kept open; asking etcd every %.1f s instead",
				(double) f->etcd->probe_usec / 1e6);
	etcd_task_end(f, task);
}

static void take_stream(struct follower *f, struct task *task, const struct usher_http_event *event)
{
	bool goes_on = event->kind != USHER_HTTP_END;
	const char *text;
	size_t size;
	int r = 0;

	if (event->kind == USHER_HTTP_DATA)
		r = json_stream_add(&task->text, event->data, event->data_size);
	while (r >= 0 && goes_on && (r = json_stream_next(&task->text, &text, &size)) > 0) {
		autojson json_t *message = NULL;

		goes_on = json_read(text, size, 0, &message, NULL) >= 0 &&
				take_message(f, task, event, message);
	}
	if (r < 0 || !goes_on)
		stream_is_over(f, task);
}

void etcd_follower_take(struct follower *f, struct task *task, const struct usher_http_event *event)
{
	switch (task->kind) {
	case TASK_RANGE:
		take_range(f, task, event);
		break;
	case TASK_PULSE:
		take_pulse(f, task, event);
		break;
	case TASK_PROBE:
		take_probe(f, task, event);
		break;
	case TASK_STREAM:
		take_stream(f, task, event);
		break;
	}
}

/* ---- what the host is told ---- */

/* Whether an endpoint of the other history is not there any more. */
static bool has_lost_some(const struct service *s)
{
	for (size_t i = 0; i < usher_endpoints_count(s->before); i++)
		if (usher_endpoints_find(s->offered, usher_endpoints_id(s->before, i)) < 0)
			return true;
	return false;
}

static enum usher_verdict verdict_of(struct service *s, bool is_first)
{
	/* Nobody here knows what there was before, and a wiped etcd looks like this. */
	if (is_first)
		return usher_endpoints_count(s->offered) == 0 ? USHER_SUSPECT : USHER_FRESH;
	if (!s->before)
		return USHER_FRESH;
	if (retry_now_usec() < s->doubt_until_usec && has_lost_some(s))
		return USHER_SUSPECT;
	s->before = usher_endpoints_unref(s->before);
	s->doubt_until_usec = 0;
	return USHER_FRESH;
}

static void offer(struct follower *f, struct service *s)
{
	struct usher_endpoints *set = NULL;
	struct usher_error why = { 0 };
	char revision[24];
	bool is_first = !s->offered;
	int r = etcd_table_build(&s->table, s->service, s->port, &set, &why);

	s->is_dirty = false;
	s->is_offered = r == 0;
	if (r < 0) {
		usher_source_fail(f->source, s->service, r, &why);
		return;
	}
	usher_endpoints_seal(set);
	(void) usher_endpoints_unref(s->offered);
	s->offered = usher_endpoints_ref(set);
	(void) snprintf(revision, sizeof(revision), "%" PRId64, s->revision);
	(void) usher_source_offer(f->source, s->service, set, verdict_of(s, is_first), revision,
			s->proven_usec);
}

void etcd_follower_offer(struct follower *f)
{
	for (struct service *s = f->services; s; s = s->next)
		if (s->is_dirty)
			offer(f, s);
}
