/* What the log says of health: when a state begins, and so when the one before it ends. A zone that
 * dies takes a thousand endpoints with it, over a few seconds: some lines tell of single ones, and
 * one counts the rest. */

#include <stdarg.h>
#include <stdio.h>
#include <usher/document.h>

#include "clock.h"
#include "health-private.h"
#include "log.h"

#define MESSAGE_STATE    "4f6d1c0b8a3e4c5f9b7a2d1e0c8f6a01"
#define MESSAGE_FLAPPING "4f6d1c0b8a3e4c5f9b7a2d1e0c8f6a02"
#define MESSAGE_MANY     "4f6d1c0b8a3e4c5f9b7a2d1e0c8f6a03"

/* Nobody wants to read microseconds. */
static const char *roughly(uint64_t usec, char *ret)
{
	uint64_t unit = usec >= 10 * USEC_PER_SEC ? USEC_PER_SEC
			: usec >= USEC_PER_SEC    ? 100 * USEC_PER_MSEC
						  : USEC_PER_MSEC;

	usec += unit / 2;
	return usher_duration_format(usec - usec % unit, ret);
}

#define ROUGHLY(usec) roughly(usec, (char[USHER_DURATION_TEXT_MAX]){ 0 })

__attribute__((format(printf, 4, 5))) static void say(
		const struct watched *w, int priority, const char *message, const char *format, ...)
{
	const struct health *h = w->health;
	const char *id = usher_endpoints_id(h->set, w->index);
	char text[USHER_ERROR_TEXT_MAX];
	va_list args;

	va_start(args, format);
	(void) vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	log_write(priority,
			FIELDS(.value[LOG_SERVICE] = h->service, .value[LOG_ENDPOINT] = id,
					.value[LOG_MESSAGE_ID] = message),
			"Endpoint %s of %s %s", id, h->service, text);
}

static const char *reason_of(const struct watched *w)
{
	return w->failure ? w->failure->text : "its checks fail";
}

static void say_ejected(const struct watched *w, uint64_t now_usec)
{
	uint64_t until_usec = w->judge.ejected_until_usec;

	say(w, LOG_WARNING, MESSAGE_STATE,
			"is ejected for %s: calls to it fail, as consumers report (ejection %u in a row)",
			ROUGHLY(until_usec > now_usec ? until_usec - now_usec : 0),
			w->judge.ejections);
}

/* What cannot be asked has no checks to count. */
static void say_down(const struct watched *w, uint64_t lasted_usec)
{
	if (!w->target)
		say(w, LOG_WARNING, MESSAGE_STATE, "is down, for it cannot be asked: %s",
				reason_of(w));
	else
		say(w, LOG_WARNING, MESSAGE_STATE, "is down: %s (%u in a row); it was %s for %s",
				reason_of(w), w->judge.bad, usher_health_to_string(w->told),
				ROUGHLY(lasted_usec));
}

static void say_state(const struct watched *w, enum usher_health state, uint64_t now_usec)
{
	const char *before = usher_health_to_string(w->told);
	uint64_t lasted_usec = now_usec - w->told_usec;

	switch (state) {
	case USHER_HEALTH_DOWN:
		say_down(w, lasted_usec);
		break;
	case USHER_HEALTH_DEGRADED:
		say(w, LOG_WARNING, MESSAGE_STATE, "is degraded: %s; it was %s for %s",
				reason_of(w), before, ROUGHLY(lasted_usec));
		break;
	case USHER_HEALTH_EJECTED:
		say_ejected(w, now_usec);
		break;
	case USHER_HEALTH_UP:
	case USHER_HEALTH_UNKNOWN:
		say(w, LOG_NOTICE, MESSAGE_STATE, "is %s again; it was %s for %s",
				w->told == USHER_HEALTH_EJECTED ? "used"
								: usher_health_to_string(state),
				before, ROUGHLY(lasted_usec));
		break;
	}
}

static void say_flapping(const struct watched *w)
{
	const char *state = usher_health_to_string(judge_health(&w->judge));

	if (w->judge.flapping)
		say(w, LOG_WARNING, MESSAGE_FLAPPING,
				"flaps: its checks turn too often to be believed (the last that failed: %s); it is %s, and comes up only when they agree for %s",
				reason_of(w), state, ROUGHLY(w->health->config.flap_hold_usec));
	else
		say(w, LOG_NOTICE, MESSAGE_FLAPPING, "does not flap any more; it is %s", state);
}

/* ---- bounds ---- */

static bool may_say(struct health *h, uint64_t now_usec)
{
	if (h->lines_usec == 0 || now_usec - h->lines_usec >= HEALTH_LINES_USEC) {
		health_tell_rest(h, now_usec);
		h->lines_usec = now_usec;
		h->lines = 0;
	}
	if (h->lines == HEALTH_LINES_MAX)
		return false;
	h->lines++;
	return true;
}

/* That one is up for the first time is what everybody expects. */
static bool is_news(const struct watched *w, enum usher_health state)
{
	return w->told != USHER_HEALTH_UNKNOWN || state != USHER_HEALTH_UP;
}

static void tell_one(struct health *h, struct watched *w, uint64_t now_usec)
{
	enum usher_health state = judge_health(&w->judge);
	bool is_other = state != w->told && is_news(w, state);
	bool flaps_otherwise = w->judge.flapping != w->told_flapping;

	if ((is_other || flaps_otherwise) && !may_say(h, now_usec)) {
		h->untold[state] += is_other;
	} else {
		if (is_other)
			say_state(w, state, now_usec);
		if (flaps_otherwise)
			say_flapping(w);
	}
	if (state != w->told)
		w->told_usec = now_usec;
	w->told = state;
	w->told_flapping = w->judge.flapping;
}

void health_tell(struct health *h, uint64_t now_usec)
{
	for (size_t i = 0; i < h->count; i++) {
		struct watched *w = h->watched[i];

		if (judge_health(&w->judge) != w->told || w->judge.flapping != w->told_flapping)
			tell_one(h, w, now_usec);
	}
	if (health_tell_deadline(h) != USEC_FOREVER)
		health_wake_at(h, health_tell_deadline(h));
}

static bool has_untold(const struct health *h)
{
	for (size_t i = 0; i < ELEMENTS(h->untold); i++)
		if (h->untold[i] > 0)
			return true;
	return false;
}

uint64_t health_tell_deadline(const struct health *h)
{
	return has_untold(h) ? h->lines_usec + HEALTH_LINES_USEC : USEC_FOREVER;
}

void health_tell_rest(struct health *h, uint64_t now_usec)
{
	char list[128];
	size_t length = 0;

	if (!has_untold(h) || now_usec < h->lines_usec + HEALTH_LINES_USEC)
		return;
	list[0] = '\0';
	for (size_t i = 0; i < ELEMENTS(h->untold); i++) {
		if (h->untold[i] == 0)
			continue;
		length += (size_t) snprintf(list + length, sizeof(list) - length, "%s%u %s",
				length ? ", " : "", h->untold[i],
				usher_health_to_string((enum usher_health) i));
		h->untold[i] = 0;
	}
	log_warning(FIELDS(.value[LOG_SERVICE] = h->service, .value[LOG_MESSAGE_ID] = MESSAGE_MANY),
			"More endpoints of %s have become another in the last %s: %s", h->service,
			ROUGHLY(now_usec - h->lines_usec), list);
}
