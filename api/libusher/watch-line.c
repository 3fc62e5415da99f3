#include "watch-line.h"

#include <errno.h>
#include <string.h>

#include "ownership.h"

#define USEC_PER_MSEC_ UINT64_C(1000)
#define RAMP_MAX       1000
#define MSEC_MAX       (UINT64_MAX / 2 / USEC_PER_MSEC_)

static const char *const types[] = {
	[WATCH_SNAPSHOT] = "snapshot",
	[WATCH_UPDATE] = "update",
	[WATCH_BOOKMARK] = "bookmark",
	[WATCH_RESYNC] = "resync",
	[WATCH_END] = "end",
};

static enum watch_type watch_type_from_string(const char *text)
{
	for (size_t i = 0; i < ELEMENTS(types); i++)
		if (strcmp(types[i], text) == 0)
			return (enum watch_type) i;
	return WATCH_OTHER;
}

static int field_error(struct usher_error *reterr, const char *field, const char *expected)
{
	return usher_error_set(reterr, -EBADMSG, "\"%s\" is not %s", field, expected);
}

/* A text of 1..USHER_TEXT_MAX-1 bytes. */
static const char *short_text(const json_t *value)
{
	size_t length = json_string_length(value);

	return length > 0 && length < USHER_TEXT_MAX ? json_string_value(value) : NULL;
}

/* Milliseconds, whole or not, as microseconds rounded up. */
static bool milliseconds(const json_t *value, uint64_t *ret_usec)
{
	double msec = json_number_value(value);

	if (!json_is_number(value) || !(msec >= 0 && msec < (double) MSEC_MAX))
		return false;
	if (json_is_integer(value))
		*ret_usec = (uint64_t) json_integer_value(value) * USEC_PER_MSEC_;
	else
		*ret_usec = (uint64_t) (msec * (double) USEC_PER_MSEC_) + 1;
	return true;
}

int watch_freshness_parse(
		const json_t *json, struct watch_freshness *ret, struct usher_error *reterr)
{
	struct watch_freshness freshness = { .age_usec = UINT64_MAX, .max_age_usec = UINT64_MAX };
	const json_t *age = json_object_get(json, "age_ms");
	const json_t *max_age = json_object_get(json, "max_age_ms");
	const char *state = json_string_value(json_object_get(json, "state"));

	if (!json_is_object(json))
		return field_error(reterr, "freshness", "an object");
	if (!age || (!json_is_null(age) && !milliseconds(age, &freshness.age_usec)))
		return field_error(reterr, "freshness.age_ms", "a number from 0, or null");
	if (max_age && !json_is_null(max_age) && !milliseconds(max_age, &freshness.max_age_usec))
		return field_error(reterr, "freshness.max_age_ms", "a number from 0");
	freshness.known = !json_is_null(age);
	freshness.stale = state && strcmp(state, "stale") == 0;
	*ret = freshness;
	return 0;
}

/* Thousandths, rounded, but never to nothing. */
static bool ramp_thousandths(const json_t *value, uint32_t *ret)
{
	double ramp = json_number_value(value);

	if (!json_is_number(value) || !(ramp >= 0 && ramp <= RAMP_MAX))
		return false;
	*ret = (uint32_t) (ramp * WATCH_RAMP_UNIT + 0.5);
	if (*ret == 0 && ramp > 0)
		*ret = 1;
	return true;
}

int watch_endpoint_parse(const json_t *json, struct watch_endpoint *ret, struct usher_error *reterr)
{
	const json_t *port = json_object_get(json, "port");
	const json_t *weight = json_object_get(json, "weight");
	const json_t *ramp = json_object_get(json, "ramp");
	const char *admin_state = json_string_value(json_object_get(json, "admin_state"));
	struct watch_endpoint endpoint = {
		.id = short_text(json_object_get(json, "id")),
		.address = short_text(json_object_get(json, "address")),
		.weight = 1,
		.ramp = WATCH_RAMP_UNIT,
		.secure = json_is_true(json_object_get(json, "secure")),
	};

	if (!endpoint.id)
		return field_error(reterr, "id", "a text of 1 to 1023 bytes");
	if (!endpoint.address)
		return field_error(reterr, "address", "a text of 1 to 1023 bytes");
	if (json_integer_value(port) < 1 || json_integer_value(port) > UINT16_MAX)
		return field_error(reterr, "port", "a whole number in 1..65535");
	endpoint.port = (uint16_t) json_integer_value(port);
	if (weight &&
			(!json_is_integer(weight) || json_integer_value(weight) < 0 ||
					json_integer_value(weight) > USHER_WEIGHT_MAX))
		return field_error(reterr, "weight", "a whole number in 0..100000");
	if (weight)
		endpoint.weight = (uint32_t) json_integer_value(weight);
	if (ramp && !ramp_thousandths(ramp, &endpoint.ramp))
		return field_error(reterr, "ramp", "a number in 0..1000");
	if (admin_state && usher_admin_state_from_string(admin_state, &endpoint.admin_state) < 0)
		endpoint.admin_state = USHER_ADMIN_MAINTENANCE;
	*ret = endpoint;
	return 0;
}

static int watch_line_endpoints(
		struct watch_line *line, const char *field, struct usher_error *reterr)
{
	const json_t *array = json_object_get(line->json, field);
	size_t count = json_array_size(array);
	int r;

	if (!json_is_array(array))
		return field_error(reterr, field, "a list");
	if (count > USHER_ENDPOINTS_MAX)
		return usher_error_set(reterr, -E2BIG, "\"%s\" has %zu endpoints, more than %d",
				field, count, USHER_ENDPOINTS_MAX);
	line->endpoints = calloc(count + 1, sizeof(*line->endpoints));
	if (!line->endpoints)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		r = watch_endpoint_parse(json_array_get(array, i), &line->endpoints[i], reterr);
		if (r < 0)
			return usher_error_prefix(reterr, r, "%s[%zu]", field, i);
	}
	line->endpoint_count = count;
	return 0;
}

static int watch_line_removed(struct watch_line *line, struct usher_error *reterr)
{
	const json_t *array = json_object_get(line->json, "removed");
	size_t count = json_array_size(array);

	if (!array)
		return 0;
	if (!json_is_array(array))
		return field_error(reterr, "removed", "a list");
	if (count > USHER_ENDPOINTS_MAX)
		return usher_error_set(reterr, -E2BIG, "\"removed\" has %zu ids, more than %d",
				count, USHER_ENDPOINTS_MAX);
	line->removed = calloc(count + 1, sizeof(*line->removed));
	if (!line->removed)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		line->removed[i] = short_text(json_array_get(array, i));
		if (!line->removed[i])
			return usher_error_set(reterr, -EBADMSG, "removed[%zu] is not an id", i);
	}
	line->removed_count = count;
	return 0;
}

static int watch_line_revision(struct watch_line *line, struct usher_error *reterr)
{
	const json_t *revision = json_object_get(line->json, "revision");

	if (!json_is_integer(revision) || json_integer_value(revision) < 0)
		return field_error(reterr, "revision", "a whole number from 0");
	line->revision = (uint64_t) json_integer_value(revision);
	line->panic = json_is_true(json_object_get(line->json, "panic"));
	return watch_freshness_parse(
			json_object_get(line->json, "freshness"), &line->freshness, reterr);
}

static int watch_line_fields(struct watch_line *line, struct usher_error *reterr)
{
	int r;

	switch (line->type) {
	case WATCH_SNAPSHOT:
		r = watch_line_revision(line, reterr);
		return r < 0 ? r : watch_line_endpoints(line, "endpoints", reterr);
	case WATCH_UPDATE:
		r = watch_line_revision(line, reterr);
		if (r < 0)
			return r;
		r = watch_line_removed(line, reterr);
		if (r < 0 || !json_object_get(line->json, "changed"))
			return r;
		return watch_line_endpoints(line, "changed", reterr);
	case WATCH_BOOKMARK:
		return watch_line_revision(line, reterr);
	case WATCH_END:
		line->code = json_string_value(json_object_get(line->json, "code"));
		return 0;
	case WATCH_RESYNC:
	case WATCH_OTHER:
		return 0;
	}
	return 0;
}

int watch_line_parse(
		const char *text, size_t length, struct watch_line *ret, struct usher_error *reterr)
{
	cleanup(watch_line_done) struct watch_line line = {};
	json_error_t error;
	const char *type;
	int r;

	line.json = json_loadb(text, length, 0, &error);
	if (!line.json && json_error_code(&error) == json_error_out_of_memory)
		return -ENOMEM;
	if (!line.json)
		return usher_error_set(reterr, -EBADMSG,
				"a line of the watch is not JSON: column %d: %s", error.column,
				error.text);
	type = json_string_value(json_object_get(line.json, "type"));
	if (!type)
		return usher_error_set(reterr, -EBADMSG, "a line of the watch has no \"type\"");
	line.type = watch_type_from_string(type);
	r = watch_line_fields(&line, reterr);
	if (r < 0)
		return usher_error_prefix(reterr, r, "a line of the watch: %s", type);
	*ret = line;
	line = (struct watch_line){};
	return 0;
}

void watch_line_done(struct watch_line *line)
{
	free(line->endpoints);
	free(line->removed);
	json_decref(line->json);
	*line = (struct watch_line){};
}
