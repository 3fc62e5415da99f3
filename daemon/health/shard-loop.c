/* The turns of a shard's loop: answers first, then what time brings, then new attempts. */

#include <assert.h>
#include <errno.h>
#include <sys/eventfd.h>

#include "clock.h"
#include "shard-private.h"

#define MSEC_LONGEST 1000 /* epoll's clock stands still while the machine is suspended */
#define WAITS_A_TURN 8    /* where more events are there than one wait gives */

/* ---- what the core wants ---- */

static void shard_obey(struct shard *s)
{
	struct probe *probe;
	bool respread;

	pthread_mutex_lock(&s->lock);
	probe = s->commands;
	s->commands = NULL;
	s->commands_last = &s->commands;
	respread = s->respread;
	s->respread = false;
	pthread_mutex_unlock(&s->lock);

	while (probe) {
		struct probe *next;
		uint64_t interval;
		bool removed;

		pthread_mutex_lock(&s->lock);
		next = probe->command_next;
		removed = probe->is_removed;
		interval = probe->interval_wanted_usec;
		probe->interval_wanted_usec = 0;
		probe->has_command = false;
		pthread_mutex_unlock(&s->lock);

		if (!probe->is_taken)
			probe_take(s, probe);
		if (interval)
			probe_hasten(probe, interval);
		if (removed)
			probe_let_go(probe);
		probe = next;
	}
	if (respread)
		for (probe = TAILQ_FIRST(&s->all); probe; probe = TAILQ_NEXT(probe, all))
			probe_respread(probe);
}

static void shard_on_wake(struct shard_watch *watch, uint32_t events)
{
	struct shard *s = (struct shard *) ((char *) watch - offsetof(struct shard, wake));
	eventfd_t count;

	(void) events;
	(void) eventfd_read(watch->fd, &count);
	shard_obey(s);
}

/* ---- time ---- */

/* Nothing that was found before counts; everybody is asked anew. */
static void shard_start_over(struct shard *s)
{
	struct probe *probe;

	atomic_fetch_add_explicit(&s->standstills, 1, memory_order_relaxed);
	outbox_discard(s->outbox);
	for (probe = TAILQ_FIRST(&s->all); probe; probe = TAILQ_NEXT(probe, all))
		probe_ask_anew(probe);
}

static void shard_notice_stall(struct shard *s)
{
	uint64_t away = s->now_usec > s->asked_usec ? s->now_usec - s->asked_usec : 0;

	if (s->last_turn_usec > away)
		away = s->last_turn_usec;
	s->turn_usec = s->now_usec;
	s->stalled = away >= SHARD_STALL_USEC;
	if (away >= SHARD_STANDSTILL_USEC)
		shard_start_over(s);
}

static void shard_run_timers(struct shard *s)
{
	struct timer *timer;

	while ((timer = timer_wheel_pop(&s->wheel, s->now_usec)))
		timer->expired(timer);
}

/* ---- starts ---- */

static void shard_read_rates(struct shard *s)
{
	double cap = atomic_load_explicit(&s->rates->max_rate, memory_order_relaxed);
	double burst = atomic_load_explicit(&s->rates->burst, memory_order_relaxed);

	/* At once: what a fiftieth, or a twentieth, of a second brings. */
	if (cap < s->cap.rate || cap > s->cap.rate)
		pace_set(&s->cap, cap, cap / 50, s->now_usec);
	if (burst < s->burst.rate || burst > s->burst.rate)
		pace_set(&s->burst, burst, burst / 20, s->now_usec);
}

/* Whose turn it is; NULL: nobody's, or the rate does not allow it, or there is no room. Where both
 * lines wait for the cap they take turns, so that neither starves. */
static struct probe *shard_choose(struct shard *s)
{
	struct probe *first = TAILQ_FIRST(&s->first), *due = TAILQ_FIRST(&s->due);
	bool is_first;

	s->is_crowded = false;
	if (first && !pace_allows(&s->burst, s->now_usec))
		first = NULL;
	if ((!first && !due) || !pace_allows(&s->cap, s->now_usec))
		return NULL;
	is_first = !due || (first && s->first_is_next);
	s->is_crowded = !room_is_there(is_first ? first : due);
	if (s->is_crowded)
		return NULL;
	if (is_first)
		pace_take(&s->burst);
	s->first_is_next = !is_first;
	return is_first ? first : due;
}

static void shard_start_some(struct shard *s)
{
	shard_read_rates(s);
	for (int i = 0; i < SHARD_STARTS_MAX; i++) {
		struct probe *probe = shard_choose(s);

		if (!probe)
			break;
		pace_take(&s->cap);
		probe_begin(probe);
	}
	if (s->is_crowded)
		atomic_store_explicit(&s->crowded_usec, s->now_usec, memory_order_relaxed);
}

/* When one of those in line may start; UINT64_MAX: nobody is in line, or what makes room is an end
 * of an attempt, and so an event. */
static uint64_t shard_next_start(const struct shard *s)
{
	uint64_t cap = pace_next_usec(&s->cap), burst = pace_next_usec(&s->burst);

	if (s->is_crowded)
		return UINT64_MAX;
	if (!TAILQ_EMPTY(&s->due))
		return cap;
	if (!TAILQ_EMPTY(&s->first))
		return cap > burst ? cap : burst;
	return UINT64_MAX;
}

/* ---- turns ---- */

static void shard_tell_results(struct shard *s)
{
	if (!s->has_results || s->now_usec < s->posted_usec + SHARD_BATCH_USEC)
		return;
	s->has_results = false;
	s->posted_usec = s->now_usec;
	outbox_post(s->outbox);
}

/* For epoll_wait; sets last_turn_usec and asked_usec. */
static int shard_timeout(struct shard *s)
{
	uint64_t next = timer_wheel_next_usec(&s->wheel);
	uint64_t start = shard_next_start(s);
	uint64_t now = clock_boot_usec();
	uint64_t msec;

	s->last_turn_usec = now - s->turn_usec;
	if (start < next)
		next = start;
	if (s->has_results && s->posted_usec + SHARD_BATCH_USEC < next)
		next = s->posted_usec + SHARD_BATCH_USEC;
	if (next == UINT64_MAX) {
		s->asked_usec = UINT64_MAX;
		return -1;
	}
	msec = next > now ? (next - now + USEC_PER_MSEC - 1) / USEC_PER_MSEC : 0;
	if (msec > MSEC_LONGEST)
		msec = MSEC_LONGEST;
	s->asked_usec = now + msec * USEC_PER_MSEC;
	return (int) msec;
}

static void shard_turn(struct shard *s)
{
	int count = shard_wait(s, shard_timeout(s));

	s->now_usec = clock_boot_usec();
	shard_notice_stall(s);
	for (int i = 1; count > 0; i++) {
		bool more = count == SHARD_EVENTS_MAX && i < WAITS_A_TURN;

		shard_dispatch(s);
		count = more ? shard_wait(s, 0) : 0;
	}
	shard_run_timers(s);
	shard_start_some(s);
	shard_tell_results(s);
}

static bool shard_is_to_stop(struct shard *s)
{
	bool stop;

	pthread_mutex_lock(&s->lock);
	stop = s->stop;
	pthread_mutex_unlock(&s->lock);
	return stop;
}

void *shard_run(void *userdata)
{
	struct shard *s = userdata;
	struct probe *probe;

	s->now_usec = s->turn_usec = clock_boot_usec();
	random_init(&s->random);
	timer_wheel_init(&s->wheel, s->now_usec);
	s->wake.ready = shard_on_wake;
	pace_init(&s->burst, 0, 1, s->now_usec);
	pace_init(&s->cap, 0, 1, s->now_usec);
	while (!shard_is_to_stop(s))
		shard_turn(s);

	shard_obey(s);
	while ((probe = TAILQ_FIRST(&s->all)))
		probe_let_go(probe);
	shard_close_engines(s);
	return NULL;
}
