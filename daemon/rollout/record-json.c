/* The record's JSON: on disk and in the API, one and the same. */

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "ownership.h"
#include "record.h"

/* ---- out ---- */

/* 0 is null. */
static json_t *time_to_json(uint64_t wall_usec)
{
	char text[CLOCK_TEXT_MAX];

	return wall_usec ? json_string(clock_wall_format(wall_usec, text)) : json_null();
}

static json_t *revision_to_json(uint64_t revision)
{
	return revision ? json_integer((json_int_t) revision) : json_null();
}

static json_t *metadata_to_json(const struct usher_endpoints *set, const struct usher_endpoint *e)
{
	cleanup(json_decrefp) json_t *map = json_object();

	for (size_t i = 0; i < e->metadata_count; i++) {
		struct usher_label label = usher_endpoints_metadata_at(set, 0, i);

		if (json_object_set_new(map, label.name, json_string(label.value)) < 0)
			return NULL;
	}
	return take(map);
}

static json_t *saved_to_json(const struct usher_endpoints *set, const char *source)
{
	struct usher_endpoint e;

	if (!set || usher_endpoints_count(set) == 0)
		return json_null();
	usher_endpoints_get(set, 0, &e);

	return json_pack("{s:s, s:s?, s:s, s:i, s:b, s:s?, s:I, s:{s:b, s:b, s:b}, s:s, s:o, s:s?}",
			"id", e.id, "uid", e.uid, "address", e.address, "port", (int) e.port,
			"secure", e.secure, "zone", e.zone, "weight", (json_int_t) e.weight,
			"conditions", "ready", e.ready, "serving", e.serving, "terminating",
			e.terminating, "admin_state", usher_admin_state_to_string(e.admin_state),
			"metadata", metadata_to_json(set, &e), "source", source);
}

static json_t *evidence_to_json(const struct step_record *step)
{
	cleanup(json_decrefp) json_t *list = json_array();

	for (size_t i = 0; i < step->evidence_count; i++) {
		const struct evidence *e = &step->evidence[i];
		json_t *item = json_pack("{s:s, s:b, s:s, s:o}", "kind", e->kind, "proven",
				e->proven, "text", e->text, "at", time_to_json(e->wall_usec));

		if (json_array_append_new(list, item) < 0)
			return NULL;
	}
	return take(list);
}

static json_t *steps_to_json(const struct drain_record *record)
{
	cleanup(json_decrefp) json_t *list = json_array();

	for (size_t i = 0; i < record->step_count; i++) {
		const struct step_record *s = &record->steps[i];
		json_t *item = json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:I, s:o}", "step",
				drain_step_to_string(s->step), "state",
				step_state_to_string(s->state), "started_at",
				time_to_json(s->started_wall_usec), "finished_at",
				time_to_json(s->finished_wall_usec), "deadline_at",
				time_to_json(s->deadline_wall_usec), "revision",
				revision_to_json(s->revision), "attempts", (json_int_t) s->attempts,
				"evidence", evidence_to_json(s));

		if (json_array_append_new(list, item) < 0)
			return NULL;
	}
	return take(list);
}

json_t *drain_record_to_json(const struct drain_record *record)
{
	const char *step = record->step_count > 0
			? drain_step_to_string(drain_record_current(record)->step)
			: NULL;
	cleanup(json_decrefp) json_t *json = NULL;
	cleanup(json_decrefp) json_t *rest = NULL;

	json = json_pack(
			"{s:s, s:s, s:s, s:s, s:s, s:s?, s:s?, s:s?, s:s?, s:b, s:s?, s:s, s:o, s:o, "
			"s:o}",
			"id", record->id, "kind", rollout_kind_to_string(record->kind), "state",
			drain_state_to_string(record->state), "service", record->service,
			"endpoint", record->endpoint, "uid", record->uid, "reason", record->reason,
			"requested_by", record->requested_by, "asking_source",
			record->asking_source, "withdrawn", record->withdrawn, "token",
			record->token, "order", drain_order_to_string(record->order),
			"requested_at", time_to_json(record->requested_wall_usec), "finished_at",
			time_to_json(record->finished_wall_usec), "deadline_at",
			time_to_json(record->deadline_wall_usec));
	rest = json_pack("{s:o, s:o, s:s?, s:I, s:b, s:b, s:s?, s:o, s:o}", "removal_revision",
			revision_to_json(record->removal_revision), "last_stale_pick_at",
			time_to_json(record->last_stale_pick_wall_usec), "step", step, "current",
			(json_int_t) record->current, "forced", record->forced, "partial",
			record->partial, "failure", record->failure, "saved",
			saved_to_json(record->saved, record->source), "steps",
			steps_to_json(record));
	if (!json || !rest || json_object_update(json, rest) < 0)
		return NULL;
	return take(json);
}

/* ---- in ---- */

static int member_error(struct usher_error *reterr, const char *name, const char *expected)
{
	return usher_error_set(reterr, -EBADMSG, "%s is not %s", name, expected);
}

/* A text or null; a missing member is null. */
static int read_text(const json_t *map, const char *name, bool required, char **ret,
		struct usher_error *reterr)
{
	const json_t *value = json_object_get(map, name);
	char *copy;

	if (!value || json_is_null(value)) {
		if (required)
			return member_error(reterr, name, "a text");
		return 0;
	}
	if (!json_is_string(value) || strlen(json_string_value(value)) != json_string_length(value))
		return member_error(reterr, name, required ? "a text" : "a text or null");

	copy = strdup(json_string_value(value));
	if (!copy)
		return -ENOMEM;
	free(*ret);
	*ret = copy;
	return 0;
}

static int read_bool(const json_t *map, const char *name, bool *ret, struct usher_error *reterr)
{
	const json_t *value = json_object_get(map, name);

	if (!value)
		return 0;
	if (!json_is_boolean(value))
		return member_error(reterr, name, "true or false");
	*ret = json_is_true(value);
	return 0;
}

/* A whole number in 0..max; null and missing are 0. */
static int read_unsigned(const json_t *map, const char *name, uint64_t max, uint64_t *ret,
		struct usher_error *reterr)
{
	const json_t *value = json_object_get(map, name);

	if (!value || json_is_null(value))
		return 0;
	if (!json_is_integer(value) || json_integer_value(value) < 0 ||
			(uint64_t) json_integer_value(value) > max)
		return member_error(reterr, name, "a whole number in its range");
	*ret = (uint64_t) json_integer_value(value);
	return 0;
}

/* Exactly what clock_wall_format() writes; a fraction may be missing. */
static int parse_time(const char *text, uint64_t *ret)
{
	struct tm tm = {};
	char *end;
	uint64_t usec = 0, scale = 100000;
	time_t seconds;

	if (strlen(text) >= CLOCK_TEXT_MAX)
		return -EINVAL;
	end = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
	if (!end)
		return -EINVAL;
	if (*end == '.')
		for (end++; *end >= '0' && *end <= '9'; end++, scale /= 10)
			usec += scale * (uint64_t) (*end - '0');
	if (strcmp(end, "Z") != 0)
		return -EINVAL;
	seconds = timegm(&tm);
	if (seconds < 0 || (uint64_t) seconds > UINT64_MAX / USEC_PER_SEC - 1)
		return -EINVAL;

	*ret = (uint64_t) seconds * USEC_PER_SEC + usec;
	return 0;
}

static int read_time(const json_t *map, const char *name, bool required, uint64_t *ret,
		struct usher_error *reterr)
{
	const json_t *value = json_object_get(map, name);

	if (!value || json_is_null(value))
		return required ? member_error(reterr, name, "a time") : 0;
	if (!json_is_string(value) || parse_time(json_string_value(value), ret) < 0)
		return member_error(reterr, name, "a time such as 2026-11-30T02:55:06.123456Z");
	return 0;
}

/* One of the words of to_string(0..count-1). */
static int read_word(const json_t *map, const char *name, const char *(*to_string)(int), int count,
		int *ret, struct usher_error *reterr)
{
	const char *text = json_string_value(json_object_get(map, name));

	for (int i = 0; text && i < count; i++)
		if (strcmp(text, to_string(i)) == 0) {
			*ret = i;
			return 0;
		}
	return usher_error_set(reterr, -EBADMSG, "%s \"%.40s\" is none of its words", name,
			text ? text : "");
}

static const char *kind_word(int i)
{
	return rollout_kind_to_string((enum rollout_kind) i);
}
static const char *state_word(int i)
{
	return drain_state_to_string((enum drain_state) i);
}
static const char *order_word(int i)
{
	return drain_order_to_string((enum drain_order) i);
}
static const char *step_word(int i)
{
	return drain_step_to_string((enum drain_step) i);
}
static const char *step_state_word(int i)
{
	return step_state_to_string((enum step_state) i);
}

static int read_evidence(const json_t *list, struct step_record *step, struct usher_error *reterr)
{
	const json_t *item;
	size_t i;
	int r;

	if (!list)
		return 0;
	if (!json_is_array(list) || json_array_size(list) > DRAIN_EVIDENCE_MAX)
		return member_error(reterr, "evidence", "a list of at most 32");

	json_array_foreach(list, i, item) {
		autofree char *kind = NULL, *text = NULL;
		bool proven = false;
		uint64_t wall_usec = 0;

		r = read_text(item, "kind", true, &kind, reterr);
		if (r >= 0)
			r = read_text(item, "text", true, &text, reterr);
		if (r >= 0)
			r = read_bool(item, "proven", &proven, reterr);
		if (r >= 0)
			r = read_time(item, "at", false, &wall_usec, reterr);
		if (r >= 0)
			r = step_record_append(step, kind, proven, wall_usec, "%s", text);
		if (r < 0)
			return usher_error_prefix(reterr, r, "evidence[%zu]", i);
	}
	return 0;
}

static int read_step(const json_t *item, struct drain_record *record, struct usher_error *reterr)
{
	uint64_t attempts = 0;
	struct step_record *s;
	int step = 0, state = 0, r;

	r = read_word(item, "step", step_word, STEP_MAX, &step, reterr);
	if (r >= 0)
		r = read_word(item, "state", step_state_word, STEP_FAILED + 1, &state, reterr);
	if (r < 0)
		return r;
	r = drain_record_add_step(record, (enum drain_step) step);
	if (r < 0)
		return r;

	s = &record->steps[record->step_count - 1];
	s->state = (enum step_state) state;
	r = read_time(item, "started_at", false, &s->started_wall_usec, reterr);
	if (r >= 0)
		r = read_time(item, "finished_at", false, &s->finished_wall_usec, reterr);
	if (r >= 0)
		r = read_time(item, "deadline_at", false, &s->deadline_wall_usec, reterr);
	if (r >= 0)
		r = read_unsigned(item, "revision", INT64_MAX, &s->revision, reterr);
	if (r >= 0)
		r = read_unsigned(item, "attempts", UINT_MAX, &attempts, reterr);
	s->attempts = (unsigned) attempts;
	return r < 0 ? r : read_evidence(json_object_get(item, "evidence"), s, reterr);
}

static int read_steps(const json_t *json, struct drain_record *record, struct usher_error *reterr)
{
	const json_t *list = json_object_get(json, "steps"), *item;
	uint64_t current = 0;
	size_t i;
	int r;

	if (!json_is_array(list) || json_array_size(list) < 1 ||
			json_array_size(list) > DRAIN_STEPS_MAX)
		return member_error(reterr, "steps", "a list of 1 to 16");

	json_array_foreach(list, i, item) {
		r = read_step(item, record, reterr);
		if (r < 0)
			return usher_error_prefix(reterr, r, "steps[%zu]", i);
	}

	r = read_unsigned(json, "current", record->step_count - 1, &current, reterr);
	record->current = (size_t) current;
	return r;
}

static int read_metadata(const json_t *saved, struct usher_label *labels, size_t *ret_count,
		struct usher_error *reterr)
{
	json_t *metadata = json_object_get(saved, "metadata");
	const json_t *value;
	const char *name;
	size_t count = 0;

	if (json_object_size(metadata) > USHER_METADATA_MAX)
		return usher_error_set(reterr, -EBADMSG, "metadata has more than %d pairs",
				USHER_METADATA_MAX);
	json_object_foreach(metadata, name, value) {
		if (!json_is_string(value))
			return usher_error_set(
					reterr, -EBADMSG, "metadata.%.60s is not a text", name);
		labels[count++] = (struct usher_label){ name, json_string_value(value) };
	}
	*ret_count = count;
	return 0;
}

static int read_endpoint_flags(
		const json_t *saved, struct usher_endpoint *e, struct usher_error *reterr)
{
	const json_t *conditions = json_object_get(saved, "conditions");
	const char *state = json_string_value(json_object_get(saved, "admin_state"));
	uint64_t weight = 1, port = 0;
	int r;

	r = read_bool(saved, "secure", &e->secure, reterr);
	if (r >= 0)
		r = read_bool(conditions, "ready", &e->ready, reterr);
	if (r >= 0)
		r = read_bool(conditions, "serving", &e->serving, reterr);
	if (r >= 0)
		r = read_bool(conditions, "terminating", &e->terminating, reterr);
	if (r >= 0)
		r = read_unsigned(saved, "weight", USHER_WEIGHT_MAX, &weight, reterr);
	if (r >= 0)
		r = read_unsigned(saved, "port", UINT16_MAX, &port, reterr);
	if (r < 0)
		return r;
	if (!state || usher_admin_state_from_string(state, &e->admin_state) < 0)
		return member_error(reterr, "admin_state", "ready, draining or maintenance");

	e->weight = (uint32_t) weight;
	e->port = (uint16_t) port;
	return 0;
}

static int read_endpoint(const json_t *saved, struct usher_endpoints *set, char **ret_source,
		struct usher_error *reterr)
{
	autofree char *id = NULL, *uid = NULL, *address = NULL, *zone = NULL;
	struct usher_label labels[USHER_METADATA_MAX];
	struct usher_endpoint e = USHER_ENDPOINT_INIT;
	int r;

	r = read_text(saved, "id", true, &id, reterr);
	if (r >= 0)
		r = read_text(saved, "uid", false, &uid, reterr);
	if (r >= 0)
		r = read_text(saved, "address", true, &address, reterr);
	if (r >= 0)
		r = read_text(saved, "zone", false, &zone, reterr);
	if (r >= 0)
		r = read_text(saved, "source", false, ret_source, reterr);
	if (r >= 0)
		r = read_endpoint_flags(saved, &e, reterr);
	if (r >= 0)
		r = read_metadata(saved, labels, &e.metadata_count, reterr);
	if (r < 0)
		return r;

	e.id = id;
	e.uid = uid;
	e.address = address;
	e.zone = zone;
	e.metadata = labels;
	r = usher_endpoints_add(set, &e, reterr);
	return r == -ENOMEM || r >= 0 ? r : -EBADMSG;
}

static int read_saved(const json_t *json, struct drain_record *record, struct usher_error *reterr)
{
	const json_t *saved = json_object_get(json, "saved");
	int r;

	if (!json_is_object(saved))
		return member_error(reterr, "saved", "an endpoint");
	record->saved = usher_endpoints_new();
	if (!record->saved)
		return -ENOMEM;

	r = read_endpoint(saved, record->saved, &record->source, reterr);
	if (r < 0)
		return usher_error_prefix(reterr, r, "saved");
	usher_endpoints_seal(record->saved);
	return 0;
}

static int read_who(const json_t *json, struct drain_record *record, struct usher_error *reterr)
{
	autofree char *id = NULL;
	int r;

	r = read_text(json, "id", true, &id, reterr);
	if (r >= 0 && (!id || id[0] == '\0' || strlen(id) >= DRAIN_ID_MAX))
		r = member_error(reterr, "id", "an id of a drain");
	if (r >= 0)
		r = read_text(json, "service", true, &record->service, reterr);
	if (r >= 0)
		r = read_text(json, "endpoint", true, &record->endpoint, reterr);
	if (r >= 0)
		r = read_text(json, "uid", false, &record->uid, reterr);
	if (r >= 0)
		r = read_text(json, "reason", false, &record->reason, reterr);
	if (r >= 0)
		r = read_text(json, "requested_by", false, &record->requested_by, reterr);
	if (r >= 0)
		r = read_text(json, "asking_source", false, &record->asking_source, reterr);
	if (r >= 0)
		r = read_bool(json, "withdrawn", &record->withdrawn, reterr);
	if (r >= 0)
		r = read_text(json, "token", true, &record->token, reterr);
	if (r >= 0)
		r = read_text(json, "failure", false, &record->failure, reterr);
	if (r < 0)
		return r;

	(void) snprintf(record->id, sizeof(record->id), "%s", id);
	return 0;
}

static int read_words(const json_t *json, struct drain_record *record, struct usher_error *reterr)
{
	int kind = 0, state = 0, order = 0, r;

	r = read_word(json, "kind", kind_word, ROLLOUT_RESTORE + 1, &kind, reterr);
	if (r >= 0)
		r = read_word(json, "state", state_word, DRAIN_FAILED + 1, &state, reterr);
	if (r >= 0)
		r = read_word(json, "order", order_word, DRAIN_REFUSE_FIRST + 1, &order, reterr);
	record->kind = (enum rollout_kind) kind;
	record->state = (enum drain_state) state;
	record->order = (enum drain_order) order;
	return r;
}

static int read_numbers(const json_t *json, struct drain_record *record, struct usher_error *reterr)
{
	int r;

	r = read_time(json, "requested_at", true, &record->requested_wall_usec, reterr);
	if (r >= 0)
		r = read_time(json, "finished_at", false, &record->finished_wall_usec, reterr);
	if (r >= 0)
		r = read_time(json, "deadline_at", true, &record->deadline_wall_usec, reterr);
	if (r >= 0)
		r = read_time(json, "last_stale_pick_at", false, &record->last_stale_pick_wall_usec,
				reterr);
	if (r >= 0)
		r = read_unsigned(json, "removal_revision", INT64_MAX, &record->removal_revision,
				reterr);
	if (r >= 0)
		r = read_bool(json, "forced", &record->forced, reterr);
	if (r >= 0)
		r = read_bool(json, "partial", &record->partial, reterr);
	return r;
}

int drain_record_from_json(const json_t *json, struct drain_record *ret, struct usher_error *reterr)
{
	cleanup(drain_record_done) struct drain_record record = {};
	int r;

	if (!json_is_object(json))
		return usher_error_set(reterr, -EBADMSG, "a drain record is not an object");

	r = read_who(json, &record, reterr);
	if (r >= 0)
		r = read_words(json, &record, reterr);
	if (r >= 0)
		r = read_numbers(json, &record, reterr);
	if (r >= 0)
		r = read_saved(json, &record, reterr);
	if (r >= 0)
		r = read_steps(json, &record, reterr);
	if (r < 0)
		return usher_error_prefix(reterr, r, "drain record");

	*ret = record;
	record = (struct drain_record){};
	return 0;
}
