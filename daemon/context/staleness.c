#include "staleness.h"

#include "clock.h"

uint64_t staleness_age(uint64_t observed_usec, uint64_t now_usec)
{
	/* Unsigned on purpose: a time before the boot is a huge number, and the difference right.
	 */
	uint64_t age = now_usec - observed_usec;

	if (age > UINT64_MAX / 2)
		return 0;
	return age >= STALENESS_AGE_UNKNOWN ? USEC_FOREVER : age;
}

/* How bad, the worst last. Stale does not come here: it follows from the age. */
static int badness(enum source_state state)
{
	switch (state) {
	case SOURCE_LIVE:
	case SOURCE_STALE:
		return 0;
	case SOURCE_UNKNOWN:
		return 1;
	case SOURCE_FAILED:
		return 2;
	case SOURCE_DENIED:
		return 3;
	}
	return 0;
}

static enum source_state worse(enum source_state a, enum source_state b)
{
	return badness(b) > badness(a) ? b : a;
}

void staleness_judge(const struct staleness_part *parts, size_t count, uint64_t max_age_usec,
		uint64_t now_usec, struct freshness *ret)
{
	struct freshness f = { .state = SOURCE_LIVE, .max_age_usec = max_age_usec };
	enum source_state unanswered = SOURCE_UNKNOWN;
	bool answered = false;

	for (size_t i = 0; i < count; i++) {
		const struct staleness_part *part = &parts[i];
		uint64_t age;

		if (!part->answered)
			unanswered = worse(unanswered, part->last);
		if (!part->contributes)
			continue;
		if (!part->answered) {
			if (part->last != SOURCE_UNKNOWN)
				f.state = worse(f.state, part->last);
			continue;
		}
		age = staleness_age(part->observed_usec, now_usec);
		if (!answered || age > f.age_usec) {
			f.age_usec = age;
			f.source = part->source;
		}
		f.state = worse(f.state, part->last);
		answered = true;
	}

	if (!answered) {
		f.age_usec = USEC_FOREVER;
		f.state = unanswered;
	} else if (f.age_usec > max_age_usec) {
		f.state = SOURCE_STALE;
	}
	*ret = f;
}

uint64_t staleness_deadline(const struct freshness *freshness, uint64_t now_usec)
{
	if (!freshness->source || freshness->age_usec > freshness->max_age_usec)
		return USEC_FOREVER;
	return now_usec + (freshness->max_age_usec - freshness->age_usec) + 1;
}

uint64_t staleness_restored_age(uint64_t observed_wall_usec, uint64_t now_wall_usec)
{
	if (observed_wall_usec == 0 || observed_wall_usec > now_wall_usec)
		return USEC_FOREVER;
	return now_wall_usec - observed_wall_usec;
}
