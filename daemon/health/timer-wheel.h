#pragma once

/* Very many timers: set, moved and cleared in constant time, whatever their number.
 *
 * A hierarchical wheel (Varghese and Lauck 1987): seven levels of 64 slots, the lowest of one tick.
 * A timer lies in the level of the highest digit in which its time differs from now, and falls one
 * level or more when time reaches its slot; so it is touched at most seven times, and mostly once.
 * No timer runs out early, and none later than a tick after its time by the wheel's doing. */

#include <stddef.h>
#include <stdint.h>

#define TIMER_TICK_USEC    UINT64_C(1024)
#define TIMER_WHEEL_LEVELS 7
#define TIMER_WHEEL_SLOTS  64

/* Embed it. Zeroed: not set. */
struct timer {
	struct timer *next, **previous; /* the wheel's; previous NULL: not set */
	uint64_t at_usec;
	void (*expired)(struct timer *timer); /* the owner's; not called by the wheel */
	unsigned char level, slot;            /* the wheel's */
};

struct timer_wheel {
	uint64_t now; /* in ticks */
	uint64_t occupied[TIMER_WHEEL_LEVELS];
	struct timer *slots[TIMER_WHEEL_LEVELS][TIMER_WHEEL_SLOTS];
	struct timer *due, **due_last; /* whose time has come, in the order in which it came */
};

void timer_wheel_init(struct timer_wheel *w, uint64_t now_usec);
/* Set, or move. A time that has passed is due at once. */
void timer_wheel_set(struct timer_wheel *w, struct timer *timer, uint64_t at_usec);
void timer_wheel_clear(struct timer_wheel *w, struct timer *timer); /* set or not */
/* One that is due, which is then not set any more; NULL: none is. */
struct timer *timer_wheel_pop(struct timer_wheel *w, uint64_t now_usec);
/* When to look again: not later than the first timer and its tick; UINT64_MAX: none is set. */
uint64_t timer_wheel_next_usec(const struct timer_wheel *w);
