#include "render.h"

#include <string.h>

#include "clock.h"
#include "render-health.h"
#include "utf8.h"

void render_bool(struct text *text, bool value)
{
	if (value)
		text_add(text, "true", 4);
	else
		text_add(text, "false", 5);
}

void render_share(struct text *text, double share)
{
	text_add_format(text, share == 0 || share == 1 ? "%.1f" : "%.4g", share);
}

void render_comma(struct text *text, const char **comma)
{
	text_add_string(text, *comma);
	*comma = ", ";
}

void render_age(struct text *text, uint64_t age_usec)
{
	if (age_usec == USEC_FOREVER)
		text_add(text, "null", 4);
	else
		text_add_unsigned(text, age_usec / USEC_PER_MSEC + (age_usec % USEC_PER_MSEC != 0));
}

void render_wall_time(struct text *text, uint64_t wall_usec)
{
	char buffer[CLOCK_TEXT_MAX];

	text_add_json(text, wall_usec ? clock_wall_format(wall_usec, buffer) : NULL);
}

void render_freshness(struct text *text, const struct freshness *freshness)
{
	text_add_string(text, "{\"state\": \"");
	text_add_string(text, source_state_to_string(freshness->state));
	text_add_string(text, "\", \"age_ms\": ");
	render_age(text, freshness->age_usec);
	text_add_string(text, ", \"max_age_ms\": ");
	text_add_unsigned(text, freshness->max_age_usec / USEC_PER_MSEC);
	text_add_string(text, ", \"source\": ");
	text_add_json(text, freshness->source);
	text_add(text, "}", 1);
}

void render_why_none(struct text *text, const struct context *context)
{
	const char *stage;
	enum pick_result why = context_why_none(context, &stage);

	if (why == PICK_OK)
		return;
	text_add_string(text, ", \"code\": \"");
	text_add_string(text, pick_result_to_string(why));
	text_add(text, "\"", 1);
	if (why == PICK_FILTERED) {
		text_add_string(text, ", \"stage\": ");
		text_add_json(text, stage);
	}
}

static void render_conditions(struct text *text, const struct usher_endpoint *e)
{
	text_add_string(text, ", \"conditions\": {\"ready\": ");
	render_bool(text, e->ready);
	text_add_string(text, ", \"serving\": ");
	render_bool(text, e->serving);
	text_add_string(text, ", \"terminating\": ");
	render_bool(text, e->terminating);
	text_add(text, "}", 1);
}

static void render_metadata(
		struct text *text, const struct usher_endpoints *set, uint32_t i, size_t count)
{
	const char *comma = "";

	text_add_string(text, ", \"metadata\": {");
	for (size_t k = 0; k < count; k++) {
		struct usher_label label = usher_endpoints_metadata_at(set, i, k);

		render_comma(text, &comma);
		text_add_json(text, label.name);
		text_add(text, ": ", 2);
		text_add_json(text, label.value);
	}
	text_add(text, "}", 1);
}

/* Where an endpoint comes from. */
struct endpoint_origin {
	const char *source;
	const char *fields[MERGE_FIELDS]; /* NULL: from there, too */
};

static void origin_of(const struct context *context, const struct snapshot *snapshot, uint32_t i,
		struct endpoint_origin *ret)
{
	ret->source = context_source_of(context, snapshot, i);
	for (int field = 0; field < MERGE_FIELDS; field++)
		ret->fields[field] = context_field_source(
				context, snapshot, i, (enum merge_field) field);
}

static void origin_by_name(const struct snapshot_names *names, const struct snapshot *snapshot,
		uint32_t i, struct endpoint_origin *ret)
{
	uint8_t source = snapshot->entries[i].source;

	*ret = (struct endpoint_origin){ .source = names->sources[source] };
	for (int field = 0; names->origins && field < MERGE_FIELDS; field++)
		if (names->origins[i][field] != source)
			ret->fields[field] = names->sources[names->origins[i][field]];
}

/* The fields that another source has decided. */
static void render_origins(struct text *text, const struct endpoint_origin *origin)
{
	const char *comma = ", \"origins\": {", *first = comma;

	for (int field = 0; field < MERGE_FIELDS; field++) {
		if (!origin->fields[field])
			continue;
		render_comma(text, &comma);
		text_add_json(text, merge_field_to_string((enum merge_field) field));
		text_add(text, ": ", 2);
		text_add_json(text, origin->fields[field]);
	}
	if (comma != first)
		text_add(text, "}", 1);
}

/* Where several sources are asked: which of them show the endpoint. */
static void render_shown_by(struct text *text, const struct context *context,
		const struct snapshot *snapshot, uint32_t i)
{
	const char *comma = "";

	if (context_feed_count(context) < 2)
		return;
	text_add_string(text, ", \"shown_by\": [");
	for (size_t k = 0; k < context_feed_count(context); k++) {
		const char *source = context_shown_by(context, snapshot, i, k);

		if (!source)
			continue;
		render_comma(text, &comma);
		text_add_json(text, source);
	}
	text_add(text, "]", 1);
}

/* Everything but the closing brace. */
static void render_open(struct text *text, const struct snapshot *snapshot, uint32_t i,
		const struct endpoint_origin *origin)
{
	const struct snapshot_entry *entry = &snapshot->entries[i];
	struct usher_endpoint e = USHER_ENDPOINT_INIT;

	usher_endpoints_get(snapshot->all, i, &e);
	text_add_string(text, "{\"id\": ");
	text_add_json(text, e.id);
	text_add_string(text, ", \"uid\": ");
	text_add_json(text, e.uid);
	text_add_string(text, ", \"address\": ");
	text_add_json(text, e.address);
	text_add_string(text, ", \"port\": ");
	text_add_unsigned(text, e.port);
	text_add_string(text, ", \"secure\": ");
	render_bool(text, e.secure);
	text_add_string(text, ", \"zone\": ");
	text_add_json(text, e.zone);
	text_add_string(text, ", \"weight\": ");
	text_add_unsigned(text, entry->weight);
	if (snapshot_entry_ramp(entry) != USHER_WEIGHT_UNIT)
		text_add_format(text, ", \"ramp\": %.3g",
				(double) snapshot_entry_ramp(entry) / USHER_WEIGHT_UNIT);
	render_conditions(text, &e);
	text_add_string(text, ", \"admin_state\": \"");
	text_add_string(text, usher_admin_state_to_string(entry->admin_state));
	text_add_string(text, "\"");
	render_metadata(text, snapshot->all, i, e.metadata_count);
	text_add_string(text, ", \"source\": ");
	text_add_json(text, origin->source);
	render_origins(text, origin);
	if (e.weight_invalid)
		text_add_string(text, ", \"weight_invalid\": true");
	if (entry->conflict)
		text_add_string(text, ", \"conflict\": true");
}

void render_endpoint(struct text *text, const struct context *context,
		const struct snapshot *snapshot, uint32_t i)
{
	struct endpoint_origin origin;

	origin_of(context, snapshot, i, &origin);
	render_open(text, snapshot, i, &origin);
	render_health(text, snapshot, i);
	text_add(text, "}", 1);
}

void render_endpoint_named(struct text *text, const struct snapshot *snapshot, uint32_t i,
		const struct snapshot_names *names)
{
	struct endpoint_origin origin;

	origin_by_name(names, snapshot, i, &origin);
	render_open(text, snapshot, i, &origin);
	render_health(text, snapshot, i);
	text_add(text, "}", 1);
}

static const char *left_out_by(
		const struct context *context, const struct snapshot_entry *entry, bool drained)
{
	const struct chain *chain = context_chain(context);

	if (entry->withdrawn || drained)
		return "drain";
	if (entry->stage < chain->stage_count)
		return chain_stage_name(chain, entry->stage);
	return "admin";
}

void render_endpoint_judged(struct text *text, struct context *context,
		const struct snapshot *snapshot, uint32_t i, bool drained, uint64_t now_usec)
{
	const struct snapshot_entry *entry = &snapshot->entries[i];
	struct endpoint_origin origin;
	char reason[160];

	origin_of(context, snapshot, i, &origin);
	render_open(text, snapshot, i, &origin);
	render_health_detail(text, context, snapshot, i, now_usec);
	render_shown_by(text, context, snapshot, i);
	text_add_string(text, ", \"chosen\": ");
	render_bool(text, entry->chosen);
	if (!entry->chosen) {
		text_add_string(text, ", \"left_out\": {\"stage\": ");
		text_add_json(text, left_out_by(context, entry, drained));
		context_explain_left_out(context, i, reason, sizeof(reason));
		text_add_string(text, ", \"reason\": ");
		render_unclean(text, reason);
		text_add(text, "}", 1);
	}
	text_add(text, "}", 1);
}

void render_drain(struct text *text, const struct drain_record *record)
{
	json_t *json = drain_record_to_json(record);
	autofree char *dumped = json ? json_dumps(json, 0) : NULL;

	json_decref(json);
	if (dumped)
		text_add_string(text, dumped);
	else
		text->failed = true;
}

/* The bytes of the character, or 0: it is none, or a control character. */
static size_t clean_length(const char *string)
{
	size_t size = utf8_length(string);
	unsigned char first = (unsigned char) string[0], second = (unsigned char) string[1];

	if (first < 0x20 || first == 0x7f || (first == 0xc2 && second < 0xa0))
		return 0;
	return size;
}

void render_unclean(struct text *text, const char *string)
{
	char piece[256];
	size_t length = 0;

	if (!string) {
		text_add(text, "null", 4);
		return;
	}
	text_add(text, "\"", 1);
	while (*string) {
		size_t size = clean_length(string);

		/* With room for the longest character, and for what escapes it. */
		if (length + 5 > sizeof(piece)) {
			text_add(text, piece, length);
			length = 0;
		}
		if (*string == '"' || *string == '\\')
			piece[length++] = '\\';
		if (size == 0)
			piece[length++] = '?';
		else
			memcpy(&piece[length], string, size);
		length += size;
		string += size ? size : 1;
	}
	text_add(text, piece, length);
	text_add(text, "\"", 1);
}
