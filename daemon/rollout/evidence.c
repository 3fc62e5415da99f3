/* What proves a step. */

#include "evidence.h"

#include <stdio.h>
#include <usher/document.h>

#include "clock.h"

__attribute__((format(printf, 3, 4))) static void proof_say(
		struct proof *proof, enum proof_kind kind, const char *format, ...)
{
	va_list ap;

	proof->kind = kind;
	va_start(ap, format);
	(void) vsnprintf(proof->text, sizeof(proof->text), format, ap);
	va_end(ap);
}

void evidence_look(const struct feed *feed, const char *id, struct echo *ret)
{
	const struct observation *latest = NULL;
	struct usher_endpoint e;
	ssize_t i;

	*ret = (struct echo){};
	if (!feed)
		return;

	ret->source = feed->config->source;
	latest = feed->held ? feed->held : feed->observation;
	if (!latest)
		return;
	ret->answered = feed->held || !feed->restored;
	ret->observed_usec = feed->observed_usec > latest->observed_usec && !feed->held
			? feed->observed_usec
			: latest->observed_usec;

	i = usher_endpoints_find(latest->endpoints, id);
	if (i < 0)
		return;
	usher_endpoints_get(latest->endpoints, (size_t) i, &e);
	ret->present = true;
	ret->uid = e.uid;
	ret->ready = e.admin_state == USHER_ADMIN_READY && e.ready && !e.terminating;
}

void evidence_removed(const struct echo *echo, bool told, uint64_t since_usec, uint64_t waited_usec,
		uint64_t window_usec, struct proof *ret)
{
	char text[USHER_DURATION_TEXT_MAX], window[USHER_DURATION_TEXT_MAX];

	if (echo->answered && echo->observed_usec >= since_usec && !echo->ready) {
		proof_say(ret, PROOF_PROVEN, "source %s shows it %s", echo->source,
				echo->present ? "draining" : "removed");
		return;
	}
	if (!told) {
		proof_say(ret, PROOF_ASSUMED,
				"source %s was not told, so that no echo is waited for",
				echo->source ? echo->source : "(none)");
		return;
	}
	if (window_usec > 0 && waited_usec > window_usec)
		proof_say(ret, PROOF_MISSING,
				"source %s still shows it after %s, longer than the %s that "
				"propagation.registry declares",
				echo->source ? echo->source : "(none)",
				usher_duration_format(
						waited_usec - waited_usec % USEC_PER_SEC, text),
				usher_duration_format(window_usec, window));
	else
		proof_say(ret, PROOF_MISSING, "waiting for source %s to show the removal",
				echo->source ? echo->source : "(none)");
}

void evidence_ready(const struct echo *echo, uint64_t since_usec, struct proof *ret)
{
	const char *source = echo->source ? echo->source : "(none)";

	if (echo->answered && echo->observed_usec >= since_usec && echo->ready)
		proof_say(ret, PROOF_PROVEN, "source %s shows it ready", source);
	else if (!echo->source)
		proof_say(ret, PROOF_MISSING, "the source it was taken from does not run");
	else if (echo->answered && echo->present && !echo->ready)
		proof_say(ret, PROOF_MISSING, "source %s shows it, but not ready", source);
	else
		proof_say(ret, PROOF_MISSING, "waiting for source %s to show it", source);
}

void evidence_consumers(
		const struct consumer_evidence *consumers, uint64_t revision, struct proof *ret)
{
	if (consumers->connected == 0)
		proof_say(ret, PROOF_PROVEN, "no consumer of the service is connected");
	else if (consumers->caught_up >= consumers->connected)
		proof_say(ret, PROOF_PROVEN, "%u of %u consumers have read revision %ju",
				consumers->caught_up, consumers->connected, (uintmax_t) revision);
	else
		proof_say(ret, PROOF_MISSING,
				"%u of %u consumers have read revision %ju; %s is at %ju",
				consumers->caught_up, consumers->connected, (uintmax_t) revision,
				consumers->behind ? consumers->behind : "one",
				(uintmax_t) consumers->behind_revision);
}

void evidence_external(const struct drain_config *drain, uint64_t since_usec, uint64_t now_usec,
		struct proof *ret, uint64_t *ret_until_usec)
{
	uint64_t window = drain->consumer_refresh_usec + drain->consumer_cache_usec +
			drain->margin_usec;
	char text[USHER_DURATION_TEXT_MAX];

	(void) usher_duration_format(window, text);
	*ret_until_usec = since_usec + window;
	if (window == 0)
		proof_say(ret, PROOF_PROVEN, "no caches outside are declared");
	else if (now_usec >= since_usec + window)
		proof_say(ret, PROOF_ASSUMED, "%s have passed since the registry showed it", text);
	else
		proof_say(ret, PROOF_MISSING, "waiting for the declared %s of caches outside",
				text);
}

void quiet_take(struct quiet *quiet, uint64_t open, uint64_t sample_usec)
{
	if (open > 0)
		quiet->quiet = false;
	else if (!quiet->quiet)
		*quiet = (struct quiet){ true, sample_usec };
}

bool quiet_long_enough(const struct quiet *quiet, uint64_t quiet_usec, uint64_t sample_usec)
{
	return quiet->quiet && sample_usec - quiet->since_usec >= quiet_usec;
}

enum step_state evidence_state(enum proof_kind a, enum proof_kind b, enum proof_kind c)
{
	if (a == PROOF_MISSING || b == PROOF_MISSING || c == PROOF_MISSING)
		return STEP_ACTIVE;
	if (a == PROOF_ASSUMED || b == PROOF_ASSUMED || c == PROOF_ASSUMED)
		return STEP_ASSUMED;
	return STEP_PROVEN;
}
