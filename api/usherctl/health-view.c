#include "health-view.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "human.h"
#include "output.h"

__attribute__((format(printf, 2, 3))) static void append(
		char text[HEALTH_TEXT_MAX], const char *format, ...)
{
	size_t used = strlen(text);
	va_list args;

	va_start(args, format);
	(void) vsnprintf(text + used, HEALTH_TEXT_MAX - used, format, args);
	va_end(args);
}

const char *health_brief(const json_t *health, char ret[HEALTH_TEXT_MAX])
{
	char age[HUMAN_TEXT_MAX];

	(void) snprintf(ret, HEALTH_TEXT_MAX, "%s", field_text(health, "state"));
	if (json_object_get(health, "ejected_ms"))
		append(ret, " for another %s", human_age(field_msec(health, "ejected_ms"), age));
	else if (json_object_get(health, "since_ms"))
		append(ret, " for %s", human_age(field_msec(health, "since_ms"), age));
	if (json_is_true(json_object_get(health, "flapping")))
		append(ret, ", flapping");
	return ret;
}

const char *health_error(const json_t *health, char ret[HEALTH_TEXT_MAX])
{
	char age[HUMAN_TEXT_MAX];

	*ret = 0;
	if (json_is_string(json_object_get(health, "error")))
		append(ret, "%s, %s ago", field_text(health, "error"),
				human_age(field_msec(health, "error_age_ms"), age));
	return ret;
}

const char *health_counts(const json_t *counts, char ret[HEALTH_TEXT_MAX])
{
	static const char *const states[] = { "up", "degraded", "down", "ejected", "unknown" };

	*ret = 0;
	for (size_t i = 0; i < ELEMENTS(states); i++)
		if (field_number(counts, states[i]) > 0)
			append(ret, "%s%" PRIu64 " %s", *ret ? ", " : "",
					field_number(counts, states[i]), states[i]);
	if (!*ret)
		append(ret, "%s", json_is_object(counts) ? "nobody to observe" : "-");
	return ret;
}

static void describe_last_check(const json_t *health)
{
	const json_t *took = json_object_get(health, "took_ms");
	char age[HUMAN_TEXT_MAX];

	if (json_is_number(took))
		section_field(2, "Last check", "%s ago, took %.1f ms: %s",
				human_age(field_msec(health, "age_ms"), age),
				json_number_value(took), field_text(health, "reason"));
	else
		section_field(2, "Last check", "none yet");
}

void health_describe(const struct ctl *ctl, const json_t *health)
{
	char text[HEALTH_TEXT_MAX];
	uint64_t good = field_number(health, "good"), bad = field_number(health, "bad");

	if (!json_is_object(health))
		return;
	section_field(0, "Health", "%s%s%s", tint_on(ctl, tint_of(field_text(health, "state"))),
			health_brief(health, text),
			tint_off(ctl, tint_of(field_text(health, "state"))));
	if (!json_object_get(health, "since_ms"))
		return;
	describe_last_check(health);
	if (good > 0 || bad > 0)
		section_field(2, "In a row", "%" PRIu64 " %s", good > 0 ? good : bad,
				good > 0 ? "good" : "bad");
	section_field(2, "Last error", "%s", *health_error(health, text) ? text : "none");
	if (json_object_get(health, "ejections"))
		section_field(2, "Ejections in a row", "%" PRIu64,
				field_number(health, "ejections"));
}
