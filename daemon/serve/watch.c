#include "watch.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include <systemd/sd-event.h>

#include "clock.h"
#include "inside.h"
#include "peer.h"
#include "problem.h"

static struct watch *watch_of(struct stream *stream)
{
	return (struct watch *) stream;
}

/* The text up to the split, freshness as it is at this moment, and the tail, or else the rest of
 * the text, or what is static. false when out of memory: the watcher is asked again at the next
 * bookmark. */
static bool add_line(struct watch *w, struct blob *text, size_t split, struct blob *tail,
		const char *static_tail)
{
	struct topic *topic = w->topic;
	uint64_t now_usec = clock_boot_usec();
	struct freshness freshness;
	struct blob *told;

	context_freshness(topic->context, now_usec, &freshness);
	told = topic_freshness(&w->stream.server->topics, topic, &freshness, now_usec);
	if (!text || !told)
		return false;
	stream_add(&w->stream, text, text->data, split);
	stream_add(&w->stream, told, told->data, told->length);
	if (static_tail)
		stream_add_static(&w->stream, static_tail);
	else if (tail)
		stream_add(&w->stream, tail, tail->data, tail->length);
	else
		stream_add(&w->stream, text, text->data + split, text->length - split);
	w->bookmarks = topic->bookmarks;
	return true;
}

static void add_list(struct watch *w)
{
	struct blob *list;
	size_t split = 0;

	list = topic_list(w->topic, &split);
	if (!add_line(w, list, split, NULL, NULL))
		return;
	w->fresh = false;
	w->number = w->topic->update_next;
	w->reading.sent = w->topic->snapshot->revision;
}

static void add_update(struct watch *w)
{
	const struct update *update = topic_update(w->topic, w->number);

	if (!add_line(w, update->head, update->head->length, update->tail, NULL))
		return;
	w->number++;
	w->reading.sent = update->revision;
}

static void add_bookmark(struct watch *w)
{
	struct blob *bookmark = topic_bookmark(w->topic);

	(void) add_line(w, bookmark, bookmark ? bookmark->length : 0, NULL, "}\n");
}

static void watch_next(struct stream *stream)
{
	struct watch *w = watch_of(stream);
	struct topic *topic = w->topic;

	if (!topic) {
		stream_add_static(stream, "{\"type\": \"end\", \"code\": \"removed\"}\n");
		stream_finish(stream);
	} else if (stream->server->quiescing) {
		stream_add_static(stream, "{\"type\": \"end\", \"code\": \"shutting_down\"}\n");
		stream_finish(stream);
	} else if (!topic->snapshot) {
		if (w->bookmarks < topic->bookmarks)
			add_bookmark(w);
	} else if (w->fresh) {
		add_list(w);
	} else if (w->number < topic->update_first) {
		stream_add_static(stream, "{\"type\": \"resync\"}\n");
		w->fresh = true;
	} else if (w->number < topic->update_next) {
		add_update(w);
	} else if (w->bookmarks < topic->bookmarks) {
		add_bookmark(w);
	}
}

static void watch_flushed(struct stream *stream)
{
	struct reading *reading = &watch_of(stream)->reading;

	reading->flushed = reading->sent;
}

static void watch_unlink(struct watch *w)
{
	struct topic *topic = w->topic;

	if (!topic)
		return;
	if (w->next)
		w->next->prev = w->prev;
	if (w->prev)
		w->prev->next = w->next;
	else
		topic->watches = w->next;
	w->next = w->prev = NULL;
	w->topic = NULL;
	context_release(topic->context);
	if (!topic->watches)
		topic->idle_since_usec = clock_boot_usec();
}

static void watch_over(struct stream *stream)
{
	struct watch *w = watch_of(stream);

	watch_unlink(w);
	reading_stop(&w->reading);
	free(w);
}

static const struct stream_kind watch_kind = {
	.next = watch_next,
	.flushed = watch_flushed,
	.done = watch_over,
};

/* A third of max_age at the most, and a little less, so that the bookmarks of many services do not
 * fall together. */
static uint64_t bookmark_interval(struct server *s, const struct topic *topic)
{
	uint64_t interval = context_config(topic->context)->max_age_usec / 3;

	if (interval > WATCH_BOOKMARK_MAX)
		interval = WATCH_BOOKMARK_MAX;
	if (interval < WATCH_BOOKMARK_MIN)
		interval = WATCH_BOOKMARK_MIN;
	return interval - random_below(&s->random, interval / 5 + 1);
}

static void arm_bookmarks(struct server *s, uint64_t due_usec)
{
	uint64_t armed_usec = USEC_FOREVER;
	int enabled = SD_EVENT_OFF;

	(void) sd_event_source_get_enabled(s->bookmarks, &enabled);
	if (enabled != SD_EVENT_OFF)
		(void) sd_event_source_get_time(s->bookmarks, &armed_usec);
	if (due_usec >= armed_usec)
		return;
	(void) sd_event_source_set_time(s->bookmarks, due_usec);
	(void) sd_event_source_set_enabled(s->bookmarks, SD_EVENT_ONESHOT);
}

static void wake_all(struct topic *topic)
{
	for (struct watch *w = topic->watches; w; w = w->next)
		stream_wake(&w->stream);
}

static void bookmark_now(struct server *s, struct topic *topic, uint64_t now_usec)
{
	struct freshness freshness;

	context_freshness(topic->context, now_usec, &freshness);
	topic->bookmark_state = freshness.state;
	topic->bookmarks++;
	topic->bookmark_due_usec = now_usec + bookmark_interval(s, topic);
	wake_all(topic);
}

static void cut_stuck(struct topic *topic, uint64_t now_usec)
{
	for (struct watch *w = topic->watches; w; w = w->next) {
		if (!stream_is_stuck(&w->stream, now_usec) || w->number >= topic->update_next)
			continue;
		log_notice(FIELDS(.value[LOG_CONSUMER] = consumer_name(w->stream.peer->consumer)),
				"%s has not read its watch of %s for a minute; cutting the connection",
				consumer_name(w->stream.peer->consumer),
				context_service(topic->context));
		stream_cut(&w->stream);
	}
}

static int bookmarks_on_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct server *s = userdata;
	uint64_t now_usec = clock_boot_usec(), next_usec = USEC_FOREVER;
	struct topic *topic, *next;

	(void) source;
	(void) usec;
	HASH_ITER(hh, s->topics.by_context, topic, next)
	{
		if (!topic->watches)
			continue;
		if (topic->bookmark_due_usec <= now_usec) {
			cut_stuck(topic, now_usec);
			bookmark_now(s, topic, now_usec);
		}
		if (topic->bookmark_due_usec < next_usec)
			next_usec = topic->bookmark_due_usec;
	}
	arm_bookmarks(s, next_usec);
	return 0;
}

/* Where it goes on, and what it gets first. */
static void watch_place(struct watch *w, struct topic *topic, uint64_t revision)
{
	w->topic = topic;
	w->next = topic->watches;
	if (w->next)
		w->next->prev = w;
	topic->watches = w;
	context_hold(topic->context);
	if (revision > 0 && topic_find_update(topic, revision, &w->number) == 0)
		w->reading.sent = w->reading.flushed = w->reading.read = revision;
	else
		w->fresh = true;
	/* Tell the age at once where there is nothing else to tell. */
	if (topic->bookmarks == 0)
		topic->bookmarks = 1;
	w->bookmarks = topic->bookmarks - 1;
}

int watch_start(struct request *q, struct context *context, uint64_t revision)
{
	struct server *s = q->server;
	struct freshness freshness;
	struct consumer *consumer;
	struct topic *topic;
	struct watch *w;
	int r;

	if (s->streams.count >= WATCHES_MAX)
		return respond_problem(q, PROBLEM_TOO_MANY,
				"%d streams are open, which is the limit; end one first",
				WATCHES_MAX);
	topic = topics_get(&s->topics, context);
	consumer = peer_consumer(q->peer, request_header(q, CONSUMER_HEADER));
	if (!topic || !consumer || topic_start_updates(topic) < 0)
		return -ENOMEM;
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	r = reading_start_watch(&w->reading, consumer, context_service(context), q->peer->fd);
	if (r < 0) {
		free(w);
		return r == -E2BIG
				? respond_problem(q, PROBLEM_TOO_MANY,
						  "%s uses more than %d services",
						  consumer_name(consumer), CONSUMER_INTERESTS_MAX)
				: r;
	}
	if (!topic->watches) {
		context_freshness(context, q->now_usec, &freshness);
		topic->bookmark_state = freshness.state; /* the first line tells it */
		topic->bookmark_due_usec = q->now_usec + bookmark_interval(s, topic);
	}
	watch_place(w, topic, revision);
	arm_bookmarks(s, topic->bookmark_due_usec);
	return stream_start(&w->stream, &watch_kind, q);
}

void watch_on_published(struct server *s, struct context *context)
{
	struct topic *topic = topics_find(&s->topics, context);

	if (!topic)
		return;
	topic_publish(topic, clock_boot_usec());
	wake_all(topic);
}

void watch_on_renewed(struct server *s, struct context *context)
{
	struct topic *topic = topics_find(&s->topics, context);
	struct freshness freshness;
	uint64_t now_usec;

	if (!topic || !topic->watches)
		return;
	now_usec = clock_boot_usec();
	context_freshness(context, now_usec, &freshness);
	if (freshness.state == topic->bookmark_state)
		return;
	bookmark_now(s, topic, now_usec);
	arm_bookmarks(s, topic->bookmark_due_usec);
}

void watch_on_removed(struct server *s, struct context *context)
{
	struct topic *topic = topics_find(&s->topics, context);

	if (!topic)
		return;
	while (topic->watches) {
		struct watch *w = topic->watches;

		watch_unlink(w);
		stream_wake(&w->stream);
	}
	topics_remove(&s->topics, topic);
}

int watch_init(struct server *s)
{
	int r;

	r = sd_event_add_time(s->event, &s->bookmarks, CLOCK_BOOTTIME, 0, 0, bookmarks_on_due, s);
	if (r < 0)
		return r;
	return sd_event_source_set_enabled(s->bookmarks, SD_EVENT_OFF);
}

void watch_done(struct server *s)
{
	struct topic *topic, *next;

	s->bookmarks = sd_event_source_disable_unref(s->bookmarks);
	HASH_ITER(hh, s->topics.by_context, topic, next)
	{
		topics_remove(&s->topics, topic);
	}
}
