#include "topic.h"

#include <assert.h>
#include <errno.h>
#include <microhttpd.h>
#include <string.h>

#include "clock.h"
#include "render-health.h"
#include "render.h"
#include "request.h"

/* A list as an answer is a snapshot line without this. */
#define SNAPSHOT_MARK "\"type\": \"snapshot\", "

struct topic *topics_find(const struct topics *topics, const struct context *context)
{
	struct topic *topic;

	HASH_FIND_PTR(topics->by_context, &context, topic);
	return topic;
}

struct topic *topics_get(struct topics *topics, struct context *context)
{
	struct topic *topic = topics_find(topics, context);

	if (topic)
		return topic;
	topic = calloc(1, sizeof(*topic));
	if (!topic)
		return NULL;
	topic->context = context;
	topic->snapshot = snapshot_ref(context_snapshot(context));
	HASH_ADD_PTR(topics->by_context, context, topic);
	if (!hash_was_added(topic)) {
		snapshot_unref(topic->snapshot);
		free(topic);
		return NULL;
	}
	return topic;
}

static struct update *update_at(const struct topic *topic, uint64_t number)
{
	return &topic->updates[number % TOPIC_UPDATES_MAX];
}

static void drop_oldest_update(struct topic *topic)
{
	struct update *oldest = update_at(topic, topic->update_first++);

	topic->update_bytes -= oldest->head->length + oldest->tail->length;
	oldest->head = blob_unref(oldest->head);
	oldest->tail = blob_unref(oldest->tail);
}

static void drop_updates(struct topic *topic)
{
	while (topic->update_first < topic->update_next)
		drop_oldest_update(topic);
}

static void drop_response(struct topic *topic)
{
	if (topic->response)
		MHD_destroy_response(topic->response);
	topic->response = NULL;
}

void topics_remove(struct topics *topics, struct topic *topic)
{
	assert(!topic->watches);
	HASH_DEL(topics->by_context, topic);
	drop_updates(topic);
	free(topic->updates);
	drop_response(topic);
	blob_unref(topic->list);
	blob_unref(topic->bookmark);
	blob_unref(topic->freshness);
	snapshot_unref(topic->snapshot);
	free(topic);
}

int topic_start_updates(struct topic *topic)
{
	if (!topic->updates)
		topic->updates = calloc(TOPIC_UPDATES_MAX, sizeof(*topic->updates));
	return topic->updates ? 0 : -ENOMEM;
}

/* Two ways through sorted ids, in step. */
struct pair_walk {
	const struct snapshot *before, *after;
	struct snapshot_pair pair;
	size_t i, k; /* into listed */
};

static int compare_heads(const struct pair_walk *w)
{
	if (w->i == w->before->listed_count)
		return 1;
	if (w->k == w->after->listed_count)
		return -1;
	return strcmp(usher_endpoints_id(w->before->all, w->before->listed[w->i]),
			usher_endpoints_id(w->after->all, w->after->listed[w->k]));
}

/* "changed": [...], "removed": [...]; either the context or the names say where endpoints come
 * from. */
static void render_difference(struct text *changed, const struct context *context,
		const struct snapshot_names *names, const struct snapshot *before,
		const struct snapshot *after)
{
	struct pair_walk w = {
		.before = before, .after = after, .pair = snapshot_pair(before, after)
	};
	const char *comma = "", *removed_comma = "";
	struct text removed = {};

	text_add_string(changed, ", \"changed\": [");
	while (w.i < before->listed_count || w.k < after->listed_count) {
		int order = compare_heads(&w);

		if (order < 0) {
			render_comma(&removed, &removed_comma);
			text_add_json(&removed,
					usher_endpoints_id(before->all, before->listed[w.i++]));
			continue;
		}
		if (order > 0 ||
				!snapshot_pair_same(
						&w.pair, before->listed[w.i], after->listed[w.k])) {
			render_comma(changed, &comma);
			if (names)
				render_endpoint_named(changed, after, after->listed[w.k], names);
			else
				render_endpoint(changed, context, after, after->listed[w.k]);
		}
		w.i += order == 0;
		w.k++;
	}
	text_add_string(changed, "], \"removed\": [");
	text_add(changed, removed.data ? removed.data : "", removed.length);
	text_add_string(changed, "]}\n");
	changed->failed |= removed.failed;
	text_done(&removed);
}

char *topic_difference(const struct snapshot *before, const struct snapshot *after,
		const struct snapshot_names *names, size_t *ret_length)
{
	struct text text = {};
	char *data;

	render_difference(&text, NULL, names, before, after);
	*ret_length = text.length;
	data = text_take(&text);
	text_done(&text);
	return data;
}

/* Rendered ahead, if it is of these two. */
static struct blob *render_tail(
		const struct topic *topic, const struct snapshot *before, struct snapshot *after)
{
	struct text text = {};
	struct blob *tail;

	if (after->difference && after->before_serial == before->serial)
		return blob_new(take(after->difference), after->difference_length);
	render_difference(&text, topic->context, NULL, before, after);
	tail = blob_take(&text);
	text_done(&text);
	return tail;
}

static struct blob *render_head(const struct topic *topic, const struct snapshot *after)
{
	struct text text = {};
	struct blob *head;

	text_add_string(&text, "{\"type\": \"update\", \"revision\": ");
	text_add_unsigned(&text, after->revision);
	render_panic(&text, after->panic);
	render_why_none(&text, topic->context);
	text_add_string(&text, ", \"freshness\": ");
	head = blob_take(&text);
	text_done(&text);
	return head;
}

/* When memory is short the update is lost, and watchers get a resync and the whole list instead. */
static void keep_update(struct topic *topic, const struct snapshot *before, struct snapshot *after)
{
	struct update update = { .from = before->revision,
		.revision = after->revision,
		.head = render_head(topic, after),
		.tail = render_tail(topic, before, after) };
	size_t bytes;

	if (!update.head || !update.tail) {
		blob_unref(update.head);
		blob_unref(update.tail);
		drop_updates(topic);
		topic->update_first = ++topic->update_next;
		return;
	}
	bytes = update.head->length + update.tail->length;
	while (topic->update_first < topic->update_next &&
			(topic->update_next - topic->update_first == TOPIC_UPDATES_MAX ||
					topic->update_bytes + bytes > TOPIC_UPDATES_BYTES))
		drop_oldest_update(topic);
	topic->update_bytes += bytes;
	*update_at(topic, topic->update_next++) = update;
}

bool topic_wants_updates(const struct topic *topic, uint64_t now_usec)
{
	return topic->updates &&
			(topic->watches || now_usec - topic->idle_since_usec < TOPIC_IDLE_USEC);
}

void topic_publish(struct topic *topic, uint64_t now_usec)
{
	struct snapshot *before = topic->snapshot;

	topic->snapshot = snapshot_ref(context_snapshot(topic->context));
	if (topic->snapshot == before) {
		snapshot_unref(before);
		return;
	}
	topic->list = blob_unref(topic->list);
	topic->bookmark = blob_unref(topic->bookmark);
	drop_response(topic);
	if (topic->updates && before && topic->snapshot) {
		if (topic_wants_updates(topic, now_usec))
			keep_update(topic, before, topic->snapshot);
		else
			drop_updates(topic);
	}
	snapshot_unref(before);
}

struct blob *topic_list(struct topic *topic, size_t *ret_split)
{
	const struct snapshot *snapshot = topic->snapshot;
	struct text text = {};
	const char *comma = "";

	if (!topic->list) {
		text_add_string(&text, "{" SNAPSHOT_MARK "\"service\": ");
		text_add_json(&text, context_service(topic->context));
		text_add_string(&text, ", \"revision\": ");
		text_add_unsigned(&text, snapshot->revision);
		render_panic(&text, snapshot->panic);
		render_why_none(&text, topic->context);
		text_add_string(&text, ", \"freshness\": ");
		topic->list_split = text.length;
		text_add_string(&text, ", \"endpoints\": [");
		for (size_t i = 0; i < snapshot->listed_count; i++) {
			render_comma(&text, &comma);
			render_endpoint(&text, topic->context, snapshot, snapshot->listed[i]);
		}
		text_add_string(&text, "]}\n");
		topic->list = blob_take(&text);
		text_done(&text);
	}
	*ret_split = topic->list_split;
	return topic->list;
}

struct blob *topic_bookmark(struct topic *topic)
{
	struct text text = {};

	if (!topic->bookmark) {
		text_add_string(&text, "{\"type\": \"bookmark\", \"revision\": ");
		text_add_unsigned(&text, topic->snapshot ? topic->snapshot->revision : 0);
		render_panic(&text, topic->snapshot && topic->snapshot->panic);
		render_why_none(&text, topic->context);
		text_add_string(&text, ", \"freshness\": ");
		topic->bookmark = blob_take(&text);
		text_done(&text);
	}
	return topic->bookmark;
}

static bool may_still_be_told(
		const struct topic *topic, const struct freshness *freshness, uint64_t now_usec)
{
	const struct freshness *told = &topic->told;

	return topic->freshness && now_usec < topic->told_until_usec &&
			freshness->age_usec <= told->age_usec && freshness->state == told->state &&
			freshness->max_age_usec == told->max_age_usec &&
			freshness->source == told->source;
}

struct blob *topic_freshness(struct topics *topics, struct topic *topic,
		const struct freshness *freshness, uint64_t now_usec)
{
	struct freshness told = *freshness;
	struct text text = {};
	struct blob *blob;

	if (may_still_be_told(topic, freshness, now_usec))
		return topic->freshness;
	if (told.age_usec < USEC_FOREVER - TOPIC_TELL_USEC)
		told.age_usec += TOPIC_TELL_USEC;
	/* Not past max_age while it is live: the state changes there, and is told anew. */
	if (freshness->age_usec <= told.max_age_usec && told.age_usec > told.max_age_usec &&
			told.age_usec != USEC_FOREVER)
		told.age_usec = told.max_age_usec;
	render_freshness(&text, &told);
	blob = blob_take(&text);
	text_done(&text);
	if (!blob)
		return NULL;
	blob_unref(topic->freshness);
	topic->freshness = blob;
	topic->told = told;
	topic->told_until_usec = now_usec +
			(told.age_usec == USEC_FOREVER ? TOPIC_TELL_USEC
						       : told.age_usec - freshness->age_usec);
	topic->told_serial = ++topics->last_serial;
	return blob;
}

/* The pieces of a list that is sent from the shared text. */
struct shared_list {
	struct blob *list;
	struct blob *freshness;
};

static void shared_list_free(void *userdata)
{
	struct shared_list *shared = userdata;

	blob_unref(shared->list);
	blob_unref(shared->freshness);
	free(shared);
}

static struct MHD_Response *respond_shared(struct blob *list, size_t split, struct blob *freshness)
{
	const size_t mark = strlen("{" SNAPSHOT_MARK);
	struct shared_list *shared = malloc(sizeof(*shared));
	struct MHD_Response *response;
	const struct MHD_IoVec pieces[] = {
		{ .iov_base = "{", .iov_len = 1 },
		{ .iov_base = list->data + mark, .iov_len = split - mark },
		{ .iov_base = freshness->data, .iov_len = freshness->length },
		{ .iov_base = list->data + split, .iov_len = list->length - split },
	};

	if (!shared)
		return NULL;
	*shared = (struct shared_list){ .list = blob_ref(list), .freshness = blob_ref(freshness) };
	response = MHD_create_response_from_iovec(
			pieces, sizeof(pieces) / sizeof(pieces[0]), shared_list_free, shared);
	if (!response) {
		shared_list_free(shared);
		return NULL;
	}
	if (MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, JSON_TYPE) == MHD_NO) {
		MHD_destroy_response(response);
		return NULL;
	}
	return response;
}

static struct MHD_Response *respond_copied(
		const struct blob *list, size_t split, const struct blob *freshness)
{
	const size_t mark = strlen("{" SNAPSHOT_MARK);
	struct text text = {};

	text_add(&text, "{", 1);
	text_add(&text, list->data + mark, split - mark);
	text_add(&text, freshness->data, freshness->length);
	text_add(&text, list->data + split, list->length - split);
	return response_new(&text, JSON_TYPE);
}

struct MHD_Response *topic_response(struct topics *topics, struct topic *topic,
		const struct freshness *freshness, uint64_t now_usec)
{
	struct blob *told, *list;
	size_t split;

	told = topic_freshness(topics, topic, freshness, now_usec);
	if (!told)
		return NULL;
	if (topic->response && topic->response_serial == topic->told_serial)
		return topic->response;
	list = topic_list(topic, &split);
	if (!list)
		return NULL;
	drop_response(topic);
	topic->response = list->length >= TOPIC_SHARED_LIST ? respond_shared(list, split, told)
							    : respond_copied(list, split, told);
	topic->response_serial = topic->told_serial;
	return topic->response;
}

int topic_find_update(const struct topic *topic, uint64_t revision, uint64_t *ret_number)
{
	if (!topic->snapshot)
		return -ENOENT;
	if (revision == topic->snapshot->revision) {
		*ret_number = topic->update_next;
		return 0;
	}
	for (uint64_t n = topic->update_first; n < topic->update_next; n++)
		if (update_at(topic, n)->from == revision) {
			*ret_number = n;
			return 0;
		}
	return -ENOENT;
}

const struct update *topic_update(const struct topic *topic, uint64_t number)
{
	assert(number >= topic->update_first && number < topic->update_next);
	return update_at(topic, number);
}
