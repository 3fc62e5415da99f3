#pragma once

/* A shard played for one engine: it does what engine.h says that a shard does, one turn after
 * another, as the test wants them. */

#include <sys/epoll.h>

#include "clock.h"
#include "engine.h"
#include "test.h"

#define PLAY_EVENTS_MAX 64

struct shard {
	const struct engine *engine;
	void *opened;
	int epoll_fd;
	int watches;  /* that are on */
	bool refuses; /* to watch anything */
	uint64_t now_usec, timer_usec;
	void (*expired)(void *engine);
	struct epoll_event events[PLAY_EVENTS_MAX];
	int event_count, event_at;
};

struct trial {
	struct attempt attempt; /* first */
	bool is_done;
	struct verdict verdict;
};

int shard_watch_add(struct shard *shard, struct shard_watch *watch, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = watch };

	if (shard->refuses)
		return -ENOSPC;
	if (epoll_ctl(shard->epoll_fd, EPOLL_CTL_ADD, watch->fd, &event) < 0)
		return -errno;
	shard->watches++;
	return 0;
}

int shard_watch_change(struct shard *shard, struct shard_watch *watch, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = watch };

	return epoll_ctl(shard->epoll_fd, EPOLL_CTL_MOD, watch->fd, &event) < 0 ? -errno : 0;
}

void shard_watch_remove(struct shard *shard, struct shard_watch *watch)
{
	assert_return_code(epoll_ctl(shard->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL), errno);
	shard->watches--;
	for (int i = shard->event_at + 1; i < shard->event_count; i++)
		if (shard->events[i].data.ptr == watch)
			shard->events[i].data.ptr = NULL;
}

void shard_timer_set(struct shard *shard, const struct engine *engine, uint64_t at_usec,
		void (*expired)(void *engine))
{
	assert_ptr_equal(engine, shard->engine);
	shard->timer_usec = at_usec;
	shard->expired = expired;
}

uint64_t shard_now_usec(const struct shard *shard)
{
	return shard->now_usec;
}

void attempt_finish(struct attempt *attempt, const struct verdict *verdict)
{
	struct trial *trial = (struct trial *) attempt;

	assert_false(trial->is_done);
	assert_null(attempt->state);
	trial->is_done = true;
	trial->verdict = *verdict;
}

__attribute__((unused)) static void play_open(struct shard *shard, const struct engine *engine)
{
	*shard = (struct shard){ .engine = engine, .now_usec = clock_boot_usec() };
	shard->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	assert_true(shard->epoll_fd >= 0);
	assert_ok(engine->open(shard, &shard->opened));
}

/* Nothing is left on. */
__attribute__((unused)) static void play_close(struct shard *shard)
{
	shard->engine->close(shard->opened);
	assert_int_equal(shard->watches, 0);
	(void) close(shard->epoll_fd);
}

/* One turn: what is ready until then. */
__attribute__((unused)) static void play_turn(struct shard *shard, uint64_t until_usec)
{
	uint64_t wake = until_usec, now = clock_boot_usec();

	if (shard->timer_usec && shard->timer_usec < wake)
		wake = shard->timer_usec;
	shard->event_count = epoll_wait(shard->epoll_fd, shard->events, PLAY_EVENTS_MAX,
			wake > now ? (int) ((wake - now) / 1000 + 1) : 0);
	shard->now_usec = clock_boot_usec();
	for (shard->event_at = 0; shard->event_at < shard->event_count; shard->event_at++) {
		struct epoll_event *event = &shard->events[shard->event_at];
		struct shard_watch *watch = event->data.ptr;

		if (watch)
			watch->ready(watch, event->events);
	}
	shard->event_count = 0;
	if (shard->timer_usec && shard->timer_usec <= shard->now_usec) {
		shard->timer_usec = 0;
		shard->expired(shard->opened);
	}
}

__attribute__((unused)) static void trial_start(struct shard *shard, struct trial *trial,
		const struct target *target, uint64_t timeout_usec)
{
	void *kept = trial->attempt.kept;
	struct verdict local;
	int r;

	*trial = (struct trial){ .attempt = { .target = target, .kept = kept } };
	shard->now_usec = clock_boot_usec();
	trial->attempt.deadline_usec = shard->now_usec + timeout_usec;
	r = shard->engine->start(shard->opened, &trial->attempt);
	if (r < 0) {
		verdict_set_errno(&local, -r, "start the check");
		attempt_finish(&trial->attempt, &local);
	}
}

/* Until it has ended, by itself or at its deadline. */
__attribute__((unused)) static void trial_wait(struct shard *shard, struct trial *trial)
{
	while (!trial->is_done) {
		play_turn(shard, trial->attempt.deadline_usec);
		if (trial->is_done || shard->now_usec < trial->attempt.deadline_usec)
			continue;
		shard->engine->cancel(shard->opened, &trial->attempt);
		assert_null(trial->attempt.state);
		verdict_set(&trial->verdict, PROBE_TIMEOUT, 0, "no answer (%s)",
				trial->attempt.phase);
		trial->is_done = true;
	}
}
