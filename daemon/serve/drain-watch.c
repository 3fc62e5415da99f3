#include "drain-watch.h"

#include <errno.h>
#include <string.h>

#include "hash.h"
#include "inside.h"
#include "problem.h"
#include "render.h"
#include "watch.h"

struct followed_drain {
	UT_hash_handle hh;
	char id[DRAIN_ID_MAX];
	struct blob *lines[DRAIN_LINES_MAX]; /* a ring */
	uint64_t first, next;                /* numbers of the lines */
	bool finished;                       /* the last line is the last */
	struct drain_watch *watches;
};

struct drain_watch {
	struct stream stream; /* first */
	struct server *server;
	struct followed_drain *drain;
	struct drain_watch *next, *prev;
	uint64_t number;
};

/* ENOMEM: followers miss this version, and see the next. */
static int add_version(struct followed_drain *drain, const struct drain_record *record)
{
	struct text text = {};
	struct blob *line;

	drain->finished = drain_record_finished(record);
	text_add_string(&text, "{\"type\": \"drain\", \"drain\": ");
	render_drain(&text, record);
	text_add_string(&text, "}\n");
	line = blob_take(&text);
	text_done(&text);
	if (!line)
		return -ENOMEM;
	if (drain->next - drain->first == DRAIN_LINES_MAX)
		blob_unref(drain->lines[drain->first++ % DRAIN_LINES_MAX]);
	drain->lines[drain->next++ % DRAIN_LINES_MAX] = line;
	return 0;
}

static void drop_unfollowed(struct server *s, struct followed_drain *drain)
{
	if (drain->watches)
		return;
	HASH_DEL(s->drain_watches.by_id, drain);
	while (drain->first < drain->next)
		blob_unref(drain->lines[drain->first++ % DRAIN_LINES_MAX]);
	free(drain);
}

static void drain_watch_next(struct stream *stream)
{
	struct drain_watch *w = (struct drain_watch *) stream;
	struct followed_drain *drain = w->drain;
	struct blob *line;

	if (w->number < drain->first)
		w->number = drain->next - 1;
	if (w->number < drain->next) {
		line = drain->lines[w->number++ % DRAIN_LINES_MAX];
		stream_add(stream, line, line->data, line->length);
	} else if (drain->finished) {
		stream_finish(stream);
	} else if (w->server->quiescing) {
		stream_add_static(stream, "{\"type\": \"end\", \"code\": \"shutting_down\"}\n");
		stream_finish(stream);
	}
}

static void drain_watch_over(struct stream *stream)
{
	struct drain_watch *w = (struct drain_watch *) stream;

	if (w->next)
		w->next->prev = w->prev;
	if (w->prev)
		w->prev->next = w->next;
	else
		w->drain->watches = w->next;
	drop_unfollowed(w->server, w->drain);
	free(w);
}

static const struct stream_kind drain_watch_kind = {
	.next = drain_watch_next,
	.done = drain_watch_over,
};

static struct followed_drain *followed_get(struct server *s, const struct drain_record *record)
{
	struct followed_drain *drain;

	HASH_FIND_STR(s->drain_watches.by_id, record->id, drain);
	if (drain)
		return drain;
	drain = calloc(1, sizeof(*drain));
	if (!drain)
		return NULL;
	memcpy(drain->id, record->id, sizeof(drain->id));
	HASH_ADD_STR(s->drain_watches.by_id, id, drain);
	if (!hash_was_added(drain)) {
		free(drain);
		return NULL;
	}
	if (add_version(drain, record) < 0) {
		drop_unfollowed(s, drain);
		return NULL;
	}
	return drain;
}

int drain_watch_start(struct request *q, const struct drain_record *record)
{
	struct server *s = q->server;
	struct followed_drain *drain;
	struct drain_watch *w;

	if (s->streams.count >= WATCHES_MAX)
		return respond_problem(q, PROBLEM_TOO_MANY,
				"%d streams are open, which is the limit; end one first",
				WATCHES_MAX);
	drain = followed_get(s, record);
	if (!drain)
		return -ENOMEM;
	w = calloc(1, sizeof(*w));
	if (!w) {
		drop_unfollowed(s, drain);
		return -ENOMEM;
	}
	w->server = s;
	w->drain = drain;
	w->number = drain->next - 1;
	w->next = drain->watches;
	if (w->next)
		w->next->prev = w;
	drain->watches = w;
	return stream_start(&w->stream, &drain_watch_kind, q);
}

void drain_watch_on_changed(struct server *s, const struct drain_record *record)
{
	struct followed_drain *drain;

	HASH_FIND_STR(s->drain_watches.by_id, record->id, drain);
	if (!drain)
		return;
	(void) add_version(drain, record);
	for (struct drain_watch *w = drain->watches; w; w = w->next)
		stream_wake(&w->stream);
}
