#include "schedule.h"

#include <limits.h>

#include "retry.h"

#define USEC_PER_SEC UINT64_C(1000000)
/* Servers tell of the changes of the last three minutes, by a cache of half a minute. */
#define CHANGES_USEC  (140 * USEC_PER_SEC)
#define MISMATCH_USEC (10 * USEC_PER_SEC)

void schedule_init(
		struct schedule *s, uint64_t interval_usec, uint64_t resync_usec, uint64_t random)
{
	*s = (struct schedule){
		.interval_usec = interval_usec, .resync_usec = resync_usec, .random = random
	};
}

bool schedule_all_is_due(const struct schedule *s, uint64_t answered_usec, uint64_t now_usec)
{
	return now_usec >= s->all_usec ||
			(answered_usec != 0 && now_usec - answered_usec > CHANGES_USEC);
}

void schedule_at_once(struct schedule *s, uint64_t now_usec)
{
	s->due_usec = now_usec;
}

void schedule_failed(struct schedule *s, uint64_t now_usec)
{
	if (s->failures < UINT_MAX)
		s->failures++;
	s->due_usec = now_usec + retry_delay_usec(&s->random, s->failures);
}

/* A tenth more or less. */
static uint64_t about(struct schedule *s, uint64_t usec)
{
	return usec - usec / 10 + retry_random(&s->random) % (usec / 5 + 1);
}

static void wait_for_next(struct schedule *s, uint64_t now_usec)
{
	s->failures = 0;
	s->due_usec = now_usec + about(s, s->interval_usec);
}

void schedule_listed(struct schedule *s, uint64_t now_usec)
{
	s->failures = 0;
	s->all_usec = now_usec + about(s, s->resync_usec);
}

void schedule_same(struct schedule *s, uint64_t now_usec)
{
	s->mismatches = 0;
	wait_for_next(s, now_usec);
}

bool schedule_differs(struct schedule *s, bool just_listed, uint64_t now_usec)
{
	uint64_t pause = s->resync_usec;

	if (!just_listed && s->mismatches == 0 && now_usec >= s->not_before_usec) {
		s->all_usec = 0;
		schedule_at_once(s, now_usec);
		return true;
	}
	if (just_listed) {
		if (s->mismatches < 16 && MISMATCH_USEC << s->mismatches < pause)
			pause = MISMATCH_USEC << s->mismatches;
		s->mismatches++;
		s->not_before_usec = now_usec + pause;
		if (s->not_before_usec < s->all_usec)
			s->all_usec = s->not_before_usec;
	}
	wait_for_next(s, now_usec);
	return false;
}
