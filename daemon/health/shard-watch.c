/* What a shard offers its engines: descriptors, a timer each, the time. */

#include <assert.h>
#include <errno.h>

#include "shard-private.h"

static int control(struct shard *shard, int operation, struct shard_watch *watch, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = watch };

	return epoll_ctl(shard->epoll_fd, operation, watch->fd, &event) < 0 ? -errno : 0;
}

int shard_watch_add(struct shard *shard, struct shard_watch *watch, uint32_t events)
{
	return control(shard, EPOLL_CTL_ADD, watch, events);
}

int shard_watch_change(struct shard *shard, struct shard_watch *watch, uint32_t events)
{
	return control(shard, EPOLL_CTL_MOD, watch, events);
}

void shard_watch_remove(struct shard *shard, struct shard_watch *watch)
{
	(void) control(shard, EPOLL_CTL_DEL, watch, 0);
	/* One wait tells of a descriptor once: the event that is being dealt with was the only one.
	 */
	if (shard->event_at >= 0 && shard->event_at < shard->event_count &&
			shard->events[shard->event_at].data.ptr == watch)
		return;
	for (int i = shard->event_at + 1; i < shard->event_count; i++)
		if (shard->events[i].data.ptr == watch)
			shard->events[i].data.ptr = NULL;
}

int shard_wait(struct shard *s, int timeout_msec)
{
	int count = epoll_wait(s->epoll_fd, s->events, SHARD_EVENTS_MAX, timeout_msec);

	s->event_count = count > 0 ? count : 0;
	s->event_at = -1;
	return s->event_count;
}

void shard_dispatch(struct shard *s)
{
	for (s->event_at = 0; s->event_at < s->event_count; s->event_at++) {
		struct shard_watch *watch = s->events[s->event_at].data.ptr;

		if (watch)
			watch->ready(watch, s->events[s->event_at].events);
	}
	s->event_count = 0;
}

uint64_t shard_now_usec(const struct shard *shard)
{
	return shard->now_usec;
}

/* ---- engines ---- */

static struct shard_engine *find_engine(struct shard *s, const struct engine *engine)
{
	for (unsigned i = 0; i < s->engine_count; i++)
		if (s->engines[i].engine == engine)
			return &s->engines[i];
	return NULL;
}

int shard_open_engine(struct shard *s, const struct engine *engine, void **ret)
{
	struct shard_engine *e = find_engine(s, engine);
	int r;

	if (!e) {
		if (s->engine_count == SHARD_ENGINES_MAX)
			return -EMFILE;
		e = &s->engines[s->engine_count];
		*e = (struct shard_engine){ .engine = engine, .shard = s };
		r = engine->open(s, &e->opened);
		if (r < 0)
			return r;
		s->engine_count++;
	}
	*ret = e->opened;
	return 0;
}

void *shard_opened(const struct shard *s, const struct engine *engine)
{
	for (unsigned i = 0; i < s->engine_count; i++)
		if (s->engines[i].engine == engine)
			return s->engines[i].opened;
	return NULL;
}

void shard_close_engines(struct shard *s)
{
	for (unsigned i = 0; i < s->engine_count; i++) {
		timer_wheel_clear(&s->wheel, &s->engines[i].timer);
		s->engines[i].engine->close(s->engines[i].opened);
	}
	s->engine_count = 0;
}

static void engine_on_timer(struct timer *timer)
{
	struct shard_engine *e = (struct shard_engine *) ((char *) timer -
			offsetof(struct shard_engine, timer));

	e->expired(e->opened);
}

void shard_timer_set(struct shard *shard, const struct engine *engine, uint64_t at_usec,
		void (*expired)(void *engine))
{
	struct shard_engine *e = find_engine(shard, engine);

	assert(e);
	e->expired = expired;
	e->timer.expired = engine_on_timer;
	if (at_usec == 0)
		timer_wheel_clear(&shard->wheel, &e->timer);
	else
		timer_wheel_set(&shard->wheel, &e->timer, at_usec);
}
