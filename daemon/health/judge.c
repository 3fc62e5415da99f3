#include "judge.h"

#include <limits.h>
#include <string.h>

#include "clock.h"

void judge_init(struct judge *j, const struct health_config *config, uint64_t now_usec)
{
	*j = (struct judge){ .checked = config->initial, .since_usec = now_usec };
}

enum usher_health judge_health(const struct judge *j)
{
	if (j->ejected_until_usec && j->checked != USHER_HEALTH_DOWN)
		return USHER_HEALTH_EJECTED;
	return j->checked;
}

/* ---- results ---- */

static void count_one(unsigned *counter)
{
	if (*counter < UINT_MAX)
		(*counter)++;
}

static unsigned threshold(unsigned configured)
{
	return configured > 0 ? configured : 1;
}

/* The run of alike results that ends here was too short to be believed, or it was not. */
static void note_turn(struct judge *j, const struct health_config *config, bool was_good,
		uint64_t now_usec)
{
	bool was_short = was_good ? j->good < config->rise : j->bad < config->fall;

	if (!was_short || (j->turns > 0 && now_usec - j->turns_usec > config->flap_window_usec))
		j->turns = 0;
	if (!was_short)
		return;
	if (j->turns == 0)
		j->turns_usec = now_usec;
	count_one(&j->turns);
}

static void note_result(struct judge *j, const struct health_config *config,
		enum probe_outcome outcome, uint64_t now_usec)
{
	bool is_good = outcome != PROBE_IS_DOWN;

	if (j->good + j->bad == 0) {
		j->alike_usec = now_usec;
	} else if (is_good != (j->good > 0)) {
		note_turn(j, config, !is_good, now_usec);
		j->alike_usec = now_usec;
	}
	if (!is_good) {
		count_one(&j->bad);
		j->good = j->well = j->degraded = 0;
		return;
	}
	count_one(&j->good);
	j->bad = 0;
	if (outcome == PROBE_IS_DEGRADED) {
		count_one(&j->degraded);
		j->well = 0;
	} else {
		count_one(&j->well);
		j->degraded = 0;
	}
}

/* What the results in a row make of the state, flapping apart. */
static enum usher_health next_state(const struct judge *j, const struct health_config *config)
{
	enum usher_health good = j->degraded > 0 ? USHER_HEALTH_DEGRADED : USHER_HEALTH_UP;

	switch (j->checked) {
	case USHER_HEALTH_UNKNOWN:
		return j->bad > 0 ? USHER_HEALTH_DOWN : good;
	case USHER_HEALTH_DOWN:
		return j->good >= threshold(config->rise) ? good : USHER_HEALTH_DOWN;
	case USHER_HEALTH_UP:
		if (j->degraded >= threshold(config->fall))
			return USHER_HEALTH_DEGRADED;
		break;
	case USHER_HEALTH_DEGRADED:
		if (j->well >= threshold(config->rise))
			return USHER_HEALTH_UP;
		break;
	case USHER_HEALTH_EJECTED: /* never by checks */
		break;
	}
	return j->bad >= threshold(config->fall) ? USHER_HEALTH_DOWN : j->checked;
}

static unsigned flap_limit(const struct health_config *config)
{
	return config->flap_changes < JUDGE_FLAPS_MAX ? config->flap_changes : JUDGE_FLAPS_MAX;
}

static bool is_change(enum usher_health from, enum usher_health to)
{
	return from != USHER_HEALTH_UNKNOWN &&
			(from == USHER_HEALTH_DOWN) != (to == USHER_HEALTH_DOWN);
}

static void note_change(struct judge *j, uint64_t now_usec)
{
	if (j->change_count == JUDGE_FLAPS_MAX)
		memmove(j->changes_usec, j->changes_usec + 1,
				--j->change_count * sizeof(j->changes_usec[0]));
	j->changes_usec[j->change_count++] = now_usec;
}

/* Whether with one more change now there would be too many in the window. */
static bool changes_too_often(
		const struct judge *j, const struct health_config *config, uint64_t now_usec)
{
	unsigned before = flap_limit(config) - 1;

	if (before == 0)
		return true;
	if (j->change_count < before)
		return false;
	return now_usec - j->changes_usec[j->change_count - before] <= config->flap_window_usec;
}

static void stop_flapping(struct judge *j)
{
	j->flapping = false;
	j->change_count = 0;
	j->turns = 0;
}

static void judge_flapping(struct judge *j, const struct health_config *config,
		enum usher_health next, uint64_t now_usec)
{
	if (flap_limit(config) == 0) {
		stop_flapping(j);
	} else if (j->flapping) {
		if (now_usec - j->alike_usec >= config->flap_hold_usec)
			stop_flapping(j);
	} else if (j->turns >= flap_limit(config) ||
			(is_change(j->checked, next) && changes_too_often(j, config, now_usec))) {
		j->flapping = true;
	}
}

bool judge_result(struct judge *j, const struct health_config *config, enum probe_outcome outcome,
		uint64_t now_usec)
{
	enum usher_health before = judge_health(j), next;
	bool was_flapping = j->flapping;

	if (outcome == PROBE_IS_NOTHING)
		return false;
	note_result(j, config, outcome, now_usec);
	next = next_state(j, config);
	judge_flapping(j, config, next, now_usec);
	if (j->flapping && j->checked == USHER_HEALTH_DOWN)
		next = USHER_HEALTH_DOWN;
	if (is_change(j->checked, next))
		note_change(j, now_usec);
	j->checked = next;
	if (judge_health(j) != before)
		j->since_usec = now_usec;
	return judge_health(j) != before || j->flapping != was_flapping;
}

/* ---- reports ---- */

bool judge_may_eject(const struct outlier_config *config, size_t ejected, size_t count)
{
	/* a share of 7% of 100 is 7, whatever floating point makes of it */
	size_t room = (size_t) (config->max_ejected * (double) count + 1e-9);

	return count >= config->minimum_endpoints && ejected < (room > 0 ? room : 1);
}

unsigned judge_ejections(
		const struct judge *j, const struct outlier_config *config, uint64_t now_usec)
{
	uint64_t calm;

	if (j->ejected_until_usec || j->ejections == 0 || now_usec <= j->calm_usec)
		return j->ejections;
	calm = (now_usec - j->calm_usec) / config->interval_usec;
	return calm < j->ejections ? j->ejections - (unsigned) calm : 0;
}

static void note_calls(struct judge *j, const struct outlier_config *config,
		const struct usher_report *report, uint64_t now_usec)
{
	unsigned count = report->count > 0 ? report->count : 1;

	if (!j->window_usec || now_usec - j->window_usec >= config->interval_usec) {
		j->window_usec = now_usec;
		j->window_calls = j->window_failures = 0;
	}
	j->window_calls += count;
	if (report->outcome == USHER_OUTCOME_OK) {
		j->failures = 0;
		return;
	}
	j->window_failures += count;
	if (__builtin_add_overflow(j->failures, count, &j->failures))
		j->failures = UINT_MAX;
}

static bool deserves_ejection(const struct judge *j, const struct outlier_config *config)
{
	if (config->consecutive > 0 && j->failures >= config->consecutive)
		return true;
	return config->failure_share < 1 && j->window_calls >= config->minimum_calls &&
			(double) j->window_failures >
			config->failure_share * (double) j->window_calls;
}

static void eject(struct judge *j, const struct outlier_config *config, uint64_t now_usec)
{
	uint64_t length;

	j->ejections = judge_ejections(j, config, now_usec);
	count_one(&j->ejections);
	if (__builtin_mul_overflow(config->ejection_usec, j->ejections, &length) ||
			length > config->max_ejection_usec)
		length = config->max_ejection_usec;
	j->ejected_until_usec = now_usec + length;
	j->failures = 0;
	j->window_usec = 0;
}

bool judge_report(struct judge *j, const struct outlier_config *config,
		const struct usher_report *report, bool may_eject, uint64_t now_usec)
{
	enum usher_health before = judge_health(j);

	/* what comes while it is ejected went out before, or in panic */
	if (!config->enabled || j->ejected_until_usec)
		return false;
	note_calls(j, config, report, now_usec);
	if (!may_eject || !deserves_ejection(j, config))
		return false;
	eject(j, config, now_usec);
	if (judge_health(j) == before)
		return false;
	j->since_usec = now_usec;
	return true;
}

bool judge_time(struct judge *j, const struct health_config *config, uint64_t now_usec)
{
	enum usher_health before = judge_health(j);

	if (!j->ejected_until_usec)
		return false;
	if (config->outlier.enabled && now_usec < j->ejected_until_usec)
		return false;
	j->calm_usec = now_usec < j->ejected_until_usec ? now_usec : j->ejected_until_usec;
	j->ejected_until_usec = 0;
	if (judge_health(j) == before)
		return false;
	j->since_usec = now_usec;
	return true;
}

uint64_t judge_deadline(const struct judge *j, const struct health_config *config)
{
	if (!j->ejected_until_usec)
		return USEC_FOREVER;
	return config->outlier.enabled ? j->ejected_until_usec : 0;
}
