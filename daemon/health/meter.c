#include "meter.h"

#include "clock.h"

/* What m is now, when the windows that have passed are over. */
static struct meter turned(const struct meter *m, uint64_t now_usec)
{
	struct meter turned = *m;
	uint64_t passed = now_usec > m->since_usec ? (now_usec - m->since_usec) / METER_WINDOW_USEC
						   : 0;

	if (m->since_usec == 0 || passed == 0)
		return turned;
	turned.before = passed == 1 ? m->now : 0;
	turned.has_before = true;
	turned.now = 0;
	turned.since_usec += passed * METER_WINDOW_USEC;
	return turned;
}

void meter_add(struct meter *m, uint64_t amount, uint64_t now_usec)
{
	*m = turned(m, now_usec);
	if (m->since_usec == 0)
		m->since_usec = now_usec;
	m->now += amount;
}

double meter_per_second(const struct meter *m, uint64_t now_usec)
{
	struct meter t = turned(m, now_usec);
	uint64_t span = now_usec > t.since_usec ? now_usec - t.since_usec : 0;

	if (t.since_usec == 0)
		return 0;
	if (t.has_before)
		span += METER_WINDOW_USEC;
	if (span < METER_LEAST_USEC)
		span = METER_LEAST_USEC;
	return (double) (t.now + t.before) * (double) USEC_PER_SEC / (double) span;
}
