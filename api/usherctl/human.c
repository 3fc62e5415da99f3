#include "human.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SECOND UINT64_C(1)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)

/* The two units, of which the second is left out where kubectl does. */
static const char *two_units(uint64_t seconds, uint64_t large, char large_name, uint64_t small,
		char small_name, char *ret)
{
	uint64_t rest = seconds % large / small;

	if (rest == 0)
		(void) snprintf(ret, HUMAN_TEXT_MAX, "%" PRIu64 "%c", seconds / large, large_name);
	else
		(void) snprintf(ret, HUMAN_TEXT_MAX, "%" PRIu64 "%c%" PRIu64 "%c", seconds / large,
				large_name, rest, small_name);
	return ret;
}

const char *human_age(uint64_t msec, char *ret)
{
	uint64_t seconds = msec / 1000 + (msec % 1000 != 0);

	if (msec == UINT64_MAX)
		(void) snprintf(ret, HUMAN_TEXT_MAX, "-");
	else if (seconds < MINUTE)
		(void) snprintf(ret, HUMAN_TEXT_MAX, "%" PRIu64 "s", seconds);
	else if (seconds < 10 * MINUTE)
		return two_units(seconds, MINUTE, 'm', SECOND, 's', ret);
	else if (seconds < 3 * HOUR)
		(void) snprintf(ret, HUMAN_TEXT_MAX, "%" PRIu64 "m", seconds / MINUTE);
	else if (seconds < 8 * HOUR)
		return two_units(seconds, HOUR, 'h', MINUTE, 'm', ret);
	else if (seconds < 2 * DAY)
		(void) snprintf(ret, HUMAN_TEXT_MAX, "%" PRIu64 "h", seconds / HOUR);
	else if (seconds < 8 * DAY)
		return two_units(seconds, DAY, 'd', HOUR, 'h', ret);
	else
		(void) snprintf(ret, HUMAN_TEXT_MAX, "%" PRIu64 "d", seconds / DAY);
	return ret;
}

const char *human_elapsed(uint64_t msec, char *ret)
{
	if (msec >= UINT64_C(60000))
		return human_age(msec / 1000 * 1000, ret);
	(void) snprintf(ret, HUMAN_TEXT_MAX, "%" PRIu64 ".%" PRIu64 "s", msec / 1000,
			msec % 1000 / 100);
	return ret;
}

int64_t human_time_parse(const char *text)
{
	struct tm tm = {};
	const char *rest;
	int64_t msec = 0, unit = 100;

	rest = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;
	if (!rest)
		return -1;
	if (*rest == '.') {
		while (*++rest >= '0' && *rest <= '9') {
			msec += (*rest - '0') * unit;
			unit /= 10;
		}
	}
	if (*rest != 'Z')
		return -1;
	return (int64_t) timegm(&tm) * 1000 + msec;
}

int64_t human_now_msec(void)
{
	struct timespec now;

	(void) clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

char *human_printable(char *text)
{
	for (unsigned char *c = (unsigned char *) text; *c; c++) {
		if (*c < ' ' || *c == 0x7f)
			*c = '?';
		/* C1 controls, which are two bytes in UTF-8 */
		if (*c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0)
			c[0] = c[1] = '?';
	}
	return text;
}

const char *field_text(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text && *text ? text : "-";
}

uint64_t field_number(const json_t *object, const char *name)
{
	json_int_t value = json_integer_value(json_object_get(object, name));

	return value > 0 ? (uint64_t) value : 0;
}

uint64_t field_msec(const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);
	double msec = json_number_value(value);

	return json_is_number(value) && msec >= 0 ? (uint64_t) msec : UINT64_MAX;
}

uint64_t field_age_msec(const json_t *object, const char *name)
{
	int64_t since = human_time_parse(json_string_value(json_object_get(object, name)));
	int64_t now = human_now_msec();

	if (since < 0)
		return UINT64_MAX;
	return now > since ? (uint64_t) (now - since) : 0;
}
