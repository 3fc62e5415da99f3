#include "output.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include <yaml.h>

#include "human.h"

bool output_is_data(const struct ctl *ctl)
{
	return ctl->options.output == OUTPUT_JSON || ctl->options.output == OUTPUT_YAML;
}

static int output_json(const json_t *value)
{
	if (json_dumpf(value, stdout, JSON_INDENT(2) | JSON_ENCODE_ANY) < 0 || putchar('\n') < 0)
		return ctl_fail(EXIT_FAILED, "cannot write the answer");
	return EXIT_DONE;
}

static bool word_in(const char *const *words, const char *text)
{
	for (; *words; words++)
		if (strcasecmp(*words, text) == 0)
			return true;
	return false;
}

/* Whether any YAML reader, old or new, takes the bare text for a text. */
static bool yaml_plain(const char *text)
{
	static const char *const taken[] = { "null", "true", "false", "yes", "no", "on", "off", "y",
		"n", NULL };
	unsigned char first = (unsigned char) *text;

	if (!((first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z') || first == '/' ||
			    first == '_'))
		return false;
	return !word_in(taken, text);
}

static int yaml_scalar(yaml_emitter_t *emitter, const char *text, bool string)
{
	bool plain = !string || yaml_plain(text);
	yaml_event_t event;

	return yaml_scalar_event_initialize(&event, NULL, NULL, (const yaml_char_t *) text,
			       (int) strlen(text), plain, 1,
			       plain ? YAML_PLAIN_SCALAR_STYLE : YAML_DOUBLE_QUOTED_SCALAR_STYLE) &&
			yaml_emitter_emit(emitter, &event);
}

static int yaml_number(yaml_emitter_t *emitter, const json_t *value)
{
	char text[64];

	if (json_is_integer(value))
		(void) snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT,
				json_integer_value(value));
	else
		(void) snprintf(text, sizeof(text), "%.15g", json_real_value(value));
	return yaml_scalar(emitter, text, false);
}

static int yaml_value(yaml_emitter_t *emitter, json_t *value);

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the JSON, whose parser has a maximum */
static int yaml_list(yaml_emitter_t *emitter, json_t *value)
{
	yaml_sequence_style_t style = json_array_size(value) > 0 ? YAML_BLOCK_SEQUENCE_STYLE
								 : YAML_FLOW_SEQUENCE_STYLE;
	yaml_event_t event;

	if (!yaml_sequence_start_event_initialize(&event, NULL, NULL, 1, style) ||
			!yaml_emitter_emit(emitter, &event))
		return 0;
	for (size_t i = 0; i < json_array_size(value); i++)
		if (!yaml_value(emitter, json_array_get(value, i)))
			return 0;
	return yaml_sequence_end_event_initialize(&event) && yaml_emitter_emit(emitter, &event);
}

/* NOLINTNEXTLINE(misc-no-recursion): as above */
static int yaml_map(yaml_emitter_t *emitter, json_t *value)
{
	yaml_mapping_style_t style = json_object_size(value) > 0 ? YAML_BLOCK_MAPPING_STYLE
								 : YAML_FLOW_MAPPING_STYLE;
	void *at;
	yaml_event_t event;

	if (!yaml_mapping_start_event_initialize(&event, NULL, NULL, 1, style) ||
			!yaml_emitter_emit(emitter, &event))
		return 0;
	for (at = json_object_iter(value); at; at = json_object_iter_next(value, at))
		if (!yaml_scalar(emitter, json_object_iter_key(at), true) ||
				!yaml_value(emitter, json_object_iter_value(at)))
			return 0;
	return yaml_mapping_end_event_initialize(&event) && yaml_emitter_emit(emitter, &event);
}

/* NOLINTNEXTLINE(misc-no-recursion): as above */
static int yaml_value(yaml_emitter_t *emitter, json_t *value)
{
	switch (json_typeof(value)) {
	case JSON_OBJECT:
		return yaml_map(emitter, value);
	case JSON_ARRAY:
		return yaml_list(emitter, value);
	case JSON_STRING:
		return yaml_scalar(emitter, json_string_value(value), true);
	case JSON_INTEGER:
	case JSON_REAL:
		return yaml_number(emitter, value);
	case JSON_TRUE:
		return yaml_scalar(emitter, "true", false);
	case JSON_FALSE:
		return yaml_scalar(emitter, "false", false);
	case JSON_NULL:
		return yaml_scalar(emitter, "null", false);
	}
	return 0;
}

static int output_yaml(json_t *value)
{
	yaml_emitter_t emitter;
	yaml_event_t event;
	int ok;

	if (!yaml_emitter_initialize(&emitter))
		return ctl_fail(EXIT_FAILED, "out of memory");
	yaml_emitter_set_output_file(&emitter, stdout);
	yaml_emitter_set_unicode(&emitter, 1);
	yaml_emitter_set_width(&emitter, -1);
	ok = yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING) &&
			yaml_emitter_emit(&emitter, &event) &&
			yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1) &&
			yaml_emitter_emit(&emitter, &event) && yaml_value(&emitter, value) &&
			yaml_document_end_event_initialize(&event, 1) &&
			yaml_emitter_emit(&emitter, &event) &&
			yaml_stream_end_event_initialize(&event) &&
			yaml_emitter_emit(&emitter, &event);
	yaml_emitter_delete(&emitter);
	return ok ? EXIT_DONE : ctl_fail(EXIT_FAILED, "cannot write the answer as YAML");
}

int output_data(const struct ctl *ctl, json_t *value)
{
	int r = ctl->options.output == OUTPUT_YAML ? output_yaml(value) : output_json(value);

	(void) fflush(stdout);
	return r;
}

static int padding(int indent, const char *name)
{
	int width = SECTION_WIDTH - indent - (int) strlen(name) - 1;

	return width > 1 ? width : 1;
}

void section_field(int indent, const char *name, const char *format, ...)
{
	autofree char *text = NULL;
	va_list args;
	int r;

	va_start(args, format);
	r = vasprintf(&text, format, args);
	va_end(args);
	if (r < 0)
		return;
	if (*text)
		(void) printf("%*s%s:%*s%s\n", indent, "", name, padding(indent, name), "",
				human_printable(text));
	else
		(void) printf("%*s%s:\n", indent, "", name);
}

void section_state(const struct ctl *ctl, int indent, const char *name, const char *word)
{
	enum tint tint = tint_of(word);

	(void) printf("%*s%s:%*s%s%s%s\n", indent, "", name, padding(indent, name), "",
			tint_on(ctl, tint), word, tint_off(ctl, tint));
}

/* "max_age_ms" is "Max age" */
static void label_of(const char *key, bool msec, char *ret, size_t size)
{
	size_t length = strlen(key) - (msec ? strlen("_ms") : 0);

	(void) snprintf(ret, size, "%.*s", (int) length, key);
	for (char *c = ret; *c; c++)
		if (*c == '_')
			*c = ' ';
	if (*ret >= 'a' && *ret <= 'z')
		*ret = (char) (*ret - 'a' + 'A');
}

static bool is_msec(const char *key, const json_t *value)
{
	size_t length = strlen(key);

	return json_is_number(value) && length > 3 && strcmp(key + length - 3, "_ms") == 0;
}

static const char *scalar_text(const json_t *value, char *buffer, size_t size)
{
	if (json_is_string(value))
		return json_string_value(value);
	if (json_is_integer(value))
		(void) snprintf(buffer, size, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	else if (json_is_real(value)) /* a share: the API has no other fractions */
		(void) snprintf(buffer, size, "%g%%", 100 * json_real_value(value));
	else
		(void) snprintf(buffer, size, "%s",
				json_is_true(value)                    ? "yes"
						: json_is_false(value) ? "no"
								       : "-");
	return buffer;
}

static void section_list(int indent, const char *label, const json_t *value)
{
	autofree char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);

	if (!stream)
		return;
	for (size_t i = 0; i < json_array_size(value); i++) {
		char buffer[64];

		(void) fprintf(stream, "%s%s", i > 0 ? ", " : "",
				scalar_text(json_array_get(value, i), buffer, sizeof(buffer)));
	}
	if (fclose(stream) == 0)
		section_field(indent, label, "%s", *text ? text : "-");
}

static bool has_containers(const json_t *array)
{
	for (size_t i = 0; i < json_array_size(array); i++)
		if (json_is_object(json_array_get(array, i)) ||
				json_is_array(json_array_get(array, i)))
			return true;
	return false;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the JSON, whose parser has a maximum */
void section_value(int indent, const char *key, json_t *value)
{
	char label[128], buffer[64];
	bool msec = is_msec(key, value);
	void *at;

	label_of(key, msec, label, sizeof(label));
	if (json_is_object(value)) {
		section_field(indent, label, "%s", json_object_size(value) > 0 ? "" : "-");
		for (at = json_object_iter(value); at; at = json_object_iter_next(value, at))
			section_value(indent + 2, json_object_iter_key(at),
					json_object_iter_value(at));
	} else if (json_is_array(value) && has_containers(value)) {
		for (size_t i = 0; i < json_array_size(value); i++)
			section_value(indent, key, json_array_get(value, i));
	} else if (json_is_array(value)) {
		section_list(indent, label, value);
	} else if (msec) {
		char duration[USHER_DURATION_TEXT_MAX];

		section_field(indent, label, "%s",
				usher_duration_format((uint64_t) json_number_value(value) * 1000,
						duration));
	} else {
		section_field(indent, label, "%s", scalar_text(value, buffer, sizeof(buffer)));
	}
}

void section_labels(int indent, json_t *labels)
{
	void *at;

	for (at = json_object_iter(labels); at; at = json_object_iter_next(labels, at)) {
		char buffer[64];

		section_field(indent, json_object_iter_key(at), "%s",
				scalar_text(json_object_iter_value(at), buffer, sizeof(buffer)));
	}
}
