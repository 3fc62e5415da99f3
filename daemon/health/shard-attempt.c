/* One probe: its turn, its attempt, its result, its next time. */

#include <assert.h>
#include <errno.h>

#include "clock.h"
#include "shard-private.h"

static struct probe *probe_of_attempt(struct attempt *attempt)
{
	return (struct probe *) attempt;
}

static struct probe *probe_of_timer(struct timer *timer)
{
	return (struct probe *) ((char *) timer - offsetof(struct probe, timer));
}

/* To a count that only this thread changes and others read. */
static void add(_Atomic size_t *count, int change)
{
	size_t now = atomic_load_explicit(count, memory_order_relaxed);

	atomic_store_explicit(count, now + (size_t) change, memory_order_relaxed);
}

/* Before this turn, or within it. */
static bool is_stalled(const struct shard *s)
{
	return s->stalled || s->now_usec - s->turn_usec >= SHARD_STALL_USEC;
}

/* Whether what an attempt has come to says nothing of the other side: the answer may have been
 * there in time. */
static bool is_doubtful(struct probe *probe)
{
	const struct shard *s = probe->shard;

	if (!is_stalled(s) || s->now_usec < probe->attempt.deadline_usec ||
			probe->doubts == SHARD_DOUBTS_MAX) {
		probe->doubts = 0;
		return false;
	}
	probe->doubts++;
	return true;
}

static uint64_t random_share(struct shard *s, uint64_t of)
{
	return of ? random_below(&s->random, of) : 0;
}

static uint64_t stretched(const struct probe *probe, uint64_t interval_usec)
{
	double stretch = atomic_load_explicit(&probe->shard->rates->stretch, memory_order_relaxed);

	return stretch > 1 ? (uint64_t) ((double) interval_usec * stretch) : interval_usec;
}

/* ---- from state to state ---- */

static void probe_leave(struct probe *probe)
{
	struct shard *s = probe->shard;

	switch (probe->state) {
	case PROBE_IS_NEW:
		TAILQ_REMOVE(&s->first, probe, line);
		add(&s->new_count, -1);
		break;
	case PROBE_WAITS:
		timer_wheel_clear(&s->wheel, &probe->timer);
		break;
	case PROBE_IS_DUE:
		TAILQ_REMOVE(&s->due, probe, line);
		break;
	case PROBE_IS_UNDER_WAY:
		timer_wheel_clear(&s->wheel, &probe->timer);
		add(&s->under_way, -1);
		room_leave(probe);
		break;
	case PROBE_IS_GONE:
		break;
	}
}

static void probe_enter_first(struct probe *probe)
{
	struct shard *s = probe->shard;

	probe->state = PROBE_IS_NEW;
	probe->asked = false;
	TAILQ_INSERT_TAIL(&s->first, probe, line);
	add(&s->new_count, 1);
}

static void probe_wait_until(struct probe *probe, uint64_t due_usec)
{
	probe->state = PROBE_WAITS;
	probe->due_usec = due_usec;
	timer_wheel_set(&probe->shard->wheel, &probe->timer, due_usec);
}

/* The time after an attempt. A probe that has missed its time, because its last attempt took
 * longer or the cap let it wait, is due at once, and then again when it would have been: so those
 * that were spread stay spread. */
static void probe_wait(struct probe *probe)
{
	struct shard *s = probe->shard;
	uint64_t interval = stretched(probe, probe->timing.interval_usec);
	uint64_t due;

	if (!probe->asked)
		probe->base_usec = probe->started_usec + random_share(s, interval);
	else
		probe->base_usec += interval;
	probe->asked = true;
	due = probe->base_usec +
			random_share(s, (uint64_t) ((double) interval * probe->timing.jitter));
	if (probe->base_usec < s->now_usec && interval > 0) {
		probe->base_usec += (s->now_usec - probe->base_usec) / interval * interval;
		due = s->now_usec;
	}
	probe_wait_until(probe, due);
}

/* ---- an attempt ---- */

static void probe_record(struct probe *probe, const struct verdict *verdict)
{
	struct shard *s = probe->shard;
	struct outbox_record record = {
		.result = { .probe = probe,
				.started_usec = probe->started_usec,
				.took_usec = s->now_usec - probe->started_usec },
		.connections = probe->attempt.connections,
		.bytes_sent = probe->attempt.bytes_sent,
		.bytes_received = probe->attempt.bytes_received,
		.discarded = verdict == NULL,
	};

	if (verdict)
		record.result.verdict = *verdict;
	if (probe->asked && probe->started_usec > probe->due_usec)
		record.result.late_usec = probe->started_usec - probe->due_usec;
	outbox_add(s->outbox, &record);
	s->has_results = true;
}

static void probe_cancel(struct probe *probe)
{
	struct attempt *attempt = &probe->attempt;

	if (probe->state != PROBE_IS_UNDER_WAY)
		return;
	probe->engine->cancel(shard_opened(probe->shard, probe->engine), attempt);
	attempt->state = NULL;
}

void probe_ask_anew(struct probe *probe)
{
	if (probe->state == PROBE_IS_UNDER_WAY) {
		probe_cancel(probe);
		probe_record(probe, NULL);
	}
	probe_leave(probe);
	probe_enter_first(probe);
}

void attempt_finish(struct attempt *attempt, const struct verdict *verdict)
{
	struct probe *probe = probe_of_attempt(attempt);
	struct shard *s = probe->shard;

	assert(probe->state == PROBE_IS_UNDER_WAY);
	attempt->state = NULL;
	s->now_usec = clock_boot_usec();
	if (is_doubtful(probe))
		verdict = NULL;
	probe_record(probe, verdict);
	probe_leave(probe);
	if (verdict)
		probe_wait(probe);
	else
		probe_enter_first(probe);
}

static void probe_on_deadline(struct probe *probe)
{
	struct verdict verdict;

	verdict_set(&verdict, PROBE_TIMEOUT, 0, "no answer within %.10g s (%s)",
			(double) probe->timing.timeout_usec / (double) USEC_PER_SEC,
			probe->attempt.phase ? probe->attempt.phase : "starting");
	probe_cancel(probe);
	attempt_finish(&probe->attempt, &verdict);
}

static void probe_on_timer(struct timer *timer)
{
	struct probe *probe = probe_of_timer(timer);

	if (probe->state == PROBE_IS_UNDER_WAY) {
		probe_on_deadline(probe);
		return;
	}
	probe->state = PROBE_IS_DUE;
	TAILQ_INSERT_TAIL(&probe->shard->due, probe, line);
}

void probe_begin(struct probe *probe)
{
	struct attempt *attempt = &probe->attempt;
	struct shard *s = probe->shard;
	struct verdict verdict;
	void *opened;
	int r;

	probe_leave(probe);
	s->now_usec = clock_boot_usec();
	probe->state = PROBE_IS_UNDER_WAY;
	add(&s->under_way, 1);
	room_take(probe);
	probe->started_usec = s->now_usec;
	attempt->phase = NULL;
	attempt->deadline_usec = s->now_usec + probe->timing.timeout_usec;
	attempt->connections = attempt->bytes_sent = attempt->bytes_received = 0;
	timer_wheel_set(&s->wheel, &probe->timer, attempt->deadline_usec);

	r = shard_open_engine(s, probe->engine, &opened);
	if (r >= 0)
		r = probe->engine->start(opened, attempt);
	if (r < 0) {
		verdict_set_errno(&verdict, -r, "start the check");
		verdict.reason = PROBE_LOCAL;
		attempt_finish(attempt, &verdict);
	}
}

/* ---- what the core wants ---- */

void probe_take(struct shard *s, struct probe *probe)
{
	probe->is_taken = true;
	probe->timer.expired = probe_on_timer;
	TAILQ_INSERT_TAIL(&s->all, probe, all);
	probe_enter_first(probe);
}

void probe_let_go(struct probe *probe)
{
	struct shard *s = probe->shard;

	if (probe->state == PROBE_IS_UNDER_WAY) {
		probe_cancel(probe);
		probe_record(probe, NULL);
	}
	probe_leave(probe);
	room_forget(probe);
	TAILQ_REMOVE(&s->all, probe, all);
	probe->state = PROBE_IS_GONE;
	outbox_add_gone(s->outbox, probe);
	s->has_results = true;
}

void probe_hasten(struct probe *probe, uint64_t interval_usec)
{
	struct shard *s = probe->shard;
	uint64_t before = stretched(probe, probe->timing.interval_usec);
	uint64_t after = stretched(probe, interval_usec);

	probe->timing.interval_usec = interval_usec;
	if (probe->state != PROBE_WAITS || after >= before)
		return;
	if (probe->base_usec > s->now_usec + (before - after))
		probe->base_usec -= before - after;
	else
		probe->base_usec = s->now_usec;
	probe_wait_until(probe, probe->base_usec);
}

void probe_respread(struct probe *probe)
{
	struct shard *s = probe->shard;
	uint64_t interval = stretched(probe, probe->timing.interval_usec);

	if (probe->state != PROBE_WAITS || probe->base_usec <= s->now_usec + interval)
		return;
	probe->base_usec = s->now_usec + random_share(s, interval);
	probe_wait_until(probe, probe->base_usec);
}
