#include "timer-wheel.h"

#define DIGIT_BITS 6
#define DIGIT_MASK UINT64_C(63)
#define DUE_LEVEL  255 /* of a timer that lies in `due` */
/* In 139 years of uptime. */
#define FARTHEST   ((UINT64_C(1) << (DIGIT_BITS * TIMER_WHEEL_LEVELS)) - 1)
#define TICK_SHIFT 10

_Static_assert(TIMER_TICK_USEC == UINT64_C(1) << TICK_SHIFT, "a tick is a power of two");
_Static_assert(TIMER_WHEEL_SLOTS == 1 << DIGIT_BITS, "a digit chooses a slot");

static uint64_t digit(uint64_t tick, unsigned level)
{
	return tick >> (DIGIT_BITS * level);
}

static uint64_t tick_of(const struct timer *timer)
{
	return (timer->at_usec >> TICK_SHIFT) + ((timer->at_usec & (TIMER_TICK_USEC - 1)) != 0);
}

void timer_wheel_init(struct timer_wheel *w, uint64_t now_usec)
{
	*w = (struct timer_wheel){ .now = now_usec >> TICK_SHIFT };
	w->due_last = &w->due;
}

static void lay_due(struct timer_wheel *w, struct timer *timer)
{
	timer->level = DUE_LEVEL;
	timer->next = NULL;
	timer->previous = w->due_last;
	*w->due_last = timer;
	w->due_last = &timer->next;
}

static void lay(struct timer_wheel *w, struct timer *timer)
{
	uint64_t tick = tick_of(timer);
	struct timer **first;
	unsigned level;

	if (tick <= w->now) {
		lay_due(w, timer);
		return;
	}
	if (tick > FARTHEST)
		tick = FARTHEST;
	level = (63 - (unsigned) __builtin_clzll(tick ^ w->now)) / DIGIT_BITS;
	timer->level = (unsigned char) level;
	timer->slot = (unsigned char) (digit(tick, level) & DIGIT_MASK);
	first = &w->slots[level][timer->slot];
	timer->next = *first;
	timer->previous = first;
	if (*first)
		(*first)->previous = &timer->next;
	*first = timer;
	w->occupied[level] |= UINT64_C(1) << timer->slot;
}

void timer_wheel_clear(struct timer_wheel *w, struct timer *timer)
{
	if (!timer->previous)
		return;
	*timer->previous = timer->next;
	if (timer->next)
		timer->next->previous = timer->previous;
	else if (timer->level == DUE_LEVEL)
		w->due_last = timer->previous;
	if (timer->level != DUE_LEVEL && !w->slots[timer->level][timer->slot])
		w->occupied[timer->level] &= ~(UINT64_C(1) << timer->slot);
	timer->next = NULL;
	timer->previous = NULL;
}

void timer_wheel_set(struct timer_wheel *w, struct timer *timer, uint64_t at_usec)
{
	timer_wheel_clear(w, timer);
	timer->at_usec = at_usec;
	lay(w, timer);
}

/* The slots that a level passes from digit `from` (not with it) to `to`. */
static uint64_t passed_slots(uint64_t from, uint64_t to)
{
	unsigned first = (unsigned) ((from + 1) & DIGIT_MASK);
	uint64_t count = to - from;
	uint64_t run;

	if (count >= TIMER_WHEEL_SLOTS)
		return UINT64_MAX;
	run = (UINT64_C(1) << count) - 1;
	return first ? run << first | run >> (TIMER_WHEEL_SLOTS - first) : run;
}

/* Take the timers of these slots out of a level, onto a chain. */
static struct timer *gather(
		struct timer_wheel *w, unsigned level, uint64_t slots, struct timer *chain)
{
	for (slots &= w->occupied[level]; slots; slots &= slots - 1) {
		unsigned slot = (unsigned) __builtin_ctzll(slots);
		struct timer *timer;

		while ((timer = w->slots[level][slot])) {
			timer_wheel_clear(w, timer);
			timer->next = chain;
			chain = timer;
		}
	}
	return chain;
}

static void advance(struct timer_wheel *w, uint64_t now)
{
	struct timer *chain = NULL;

	for (unsigned level = 0; level < TIMER_WHEEL_LEVELS; level++) {
		uint64_t from = digit(w->now, level), to = digit(now, level);

		if (from == to)
			break;
		chain = gather(w, level, passed_slots(from, to), chain);
	}
	w->now = now;
	while (chain) {
		struct timer *timer = chain;

		chain = timer->next;
		lay(w, timer);
	}
}

struct timer *timer_wheel_pop(struct timer_wheel *w, uint64_t now_usec)
{
	struct timer *timer;

	if (now_usec >> TICK_SHIFT > w->now)
		advance(w, now_usec >> TICK_SHIFT);
	timer = w->due;
	if (timer)
		timer_wheel_clear(w, timer);
	return timer;
}

uint64_t timer_wheel_next_usec(const struct timer_wheel *w)
{
	if (w->due)
		return w->now << TICK_SHIFT;
	for (unsigned level = 0; level < TIMER_WHEEL_LEVELS; level++) {
		uint64_t slot;

		if (!w->occupied[level])
			continue;
		/* Within a level the slots of passed digits are empty: the lowest is the next. */
		slot = (uint64_t) __builtin_ctzll(w->occupied[level]);
		return ((digit(w->now, level) & ~DIGIT_MASK) | slot)
				<< (DIGIT_BITS * level) << TICK_SHIFT;
	}
	return UINT64_MAX;
}
