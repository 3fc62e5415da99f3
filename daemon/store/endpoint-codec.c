#include "endpoint-codec.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include <jansson.h>

DEFINE_CLEANUP(struct usher_endpoints, usher_endpoints_unref);

static const struct {
	const char *key;
	size_t offset;
} text_fields[] = {
	{ "id", offsetof(struct usher_endpoint, id) },
	{ "uid", offsetof(struct usher_endpoint, uid) },
	{ "address", offsetof(struct usher_endpoint, address) },
	{ "zone", offsetof(struct usher_endpoint, zone) },
};

static const struct {
	const char *key;
	size_t offset;
	bool usual;
} bool_fields[] = {
	{ "secure", offsetof(struct usher_endpoint, secure), false },
	{ "ready", offsetof(struct usher_endpoint, ready), true },
	{ "serving", offsetof(struct usher_endpoint, serving), true },
	{ "terminating", offsetof(struct usher_endpoint, terminating), false },
	{ "weight_invalid", offsetof(struct usher_endpoint, weight_invalid), false },
};

static const char **text_field(struct usher_endpoint *endpoint, size_t i)
{
	return (const char **) (void *) ((char *) endpoint + text_fields[i].offset);
}

static bool *bool_field(struct usher_endpoint *endpoint, size_t i)
{
	return (bool *) ((char *) endpoint + bool_fields[i].offset);
}

static void encode_metadata(
		const struct usher_endpoints *endpoints, size_t i, size_t count, struct text *text)
{
	for (size_t k = 0; k < count; k++) {
		struct usher_label label = usher_endpoints_metadata_at(endpoints, i, k);

		text_add_string(text, k == 0 ? ", \"metadata\": {" : ", ");
		text_add_json(text, label.name);
		text_add_string(text, ": ");
		text_add_json(text, label.value);
	}
	if (count > 0)
		text_add_string(text, "}");
}

static void encode_endpoint(const struct usher_endpoints *endpoints, size_t i, struct text *text)
{
	struct usher_endpoint endpoint = USHER_ENDPOINT_INIT;

	usher_endpoints_get(endpoints, i, &endpoint);
	text_add_string(text, "{\"port\": ");
	text_add_unsigned(text, endpoint.port);
	for (size_t k = 0; k < ELEMENTS(text_fields); k++) {
		const char *value = *text_field(&endpoint, k);

		if (!value)
			continue;
		text_add_format(text, ", \"%s\": ", text_fields[k].key);
		text_add_json(text, value);
	}
	for (size_t k = 0; k < ELEMENTS(bool_fields); k++) {
		bool value = *bool_field(&endpoint, k);

		if (value != bool_fields[k].usual)
			text_add_format(text, ", \"%s\": %s", bool_fields[k].key,
					value ? "true" : "false");
	}
	if (endpoint.weight != 1)
		text_add_format(text, ", \"weight\": %" PRIu32, endpoint.weight);
	if (endpoint.admin_state != USHER_ADMIN_READY)
		text_add_format(text, ", \"admin_state\": \"%s\"",
				usher_admin_state_to_string(endpoint.admin_state));
	encode_metadata(endpoints, i, endpoint.metadata_count, text);
	text_add_string(text, "}");
}

void endpoints_encode(const struct usher_endpoints *endpoints, struct text *text)
{
	size_t count = usher_endpoints_count(endpoints);

	text_add_format(text, "[%d", ENDPOINT_CODEC_VERSION);
	for (size_t i = 0; i < count; i++) {
		text_add_string(text, ",\n");
		encode_endpoint(endpoints, i, text);
	}
	text_add_string(text, count > 0 ? "\n]" : "]");
}

static int wrong_kind(struct usher_error *reterr, const char *key, const char *expected)
{
	return usher_error_set(reterr, -EBADMSG, "\"%s\" is not %s", key, expected);
}

static int decode_texts(
		const json_t *json, struct usher_endpoint *endpoint, struct usher_error *reterr)
{
	for (size_t i = 0; i < ELEMENTS(text_fields); i++) {
		const json_t *value = json_object_get(json, text_fields[i].key);

		if (!value)
			continue;
		if (!json_is_string(value))
			return wrong_kind(reterr, text_fields[i].key, "a text");
		*text_field(endpoint, i) = json_string_value(value);
	}

	return 0;
}

static int decode_bools(
		const json_t *json, struct usher_endpoint *endpoint, struct usher_error *reterr)
{
	for (size_t i = 0; i < ELEMENTS(bool_fields); i++) {
		const json_t *value = json_object_get(json, bool_fields[i].key);

		if (!value)
			continue;
		if (!json_is_boolean(value))
			return wrong_kind(reterr, bool_fields[i].key, "true or false");
		*bool_field(endpoint, i) = json_is_true(value);
	}

	return 0;
}

static int decode_numbers(
		const json_t *json, struct usher_endpoint *endpoint, struct usher_error *reterr)
{
	const json_t *port = json_object_get(json, "port");
	const json_t *weight = json_object_get(json, "weight");

	if (!json_is_integer(port) || json_integer_value(port) < 1 ||
			json_integer_value(port) > UINT16_MAX)
		return wrong_kind(reterr, "port", "a whole number in 1..65535");
	endpoint->port = (uint16_t) json_integer_value(port);
	if (!weight)
		return 0;
	if (!json_is_integer(weight) || json_integer_value(weight) < 0 ||
			json_integer_value(weight) > USHER_WEIGHT_MAX)
		return wrong_kind(reterr, "weight", "a weight");
	endpoint->weight = (uint32_t) json_integer_value(weight);

	return 0;
}

static int decode_admin_state(
		const json_t *json, struct usher_endpoint *endpoint, struct usher_error *reterr)
{
	const json_t *value = json_object_get(json, "admin_state");

	if (!value)
		return 0;
	if (!json_is_string(value) ||
			usher_admin_state_from_string(
					json_string_value(value), &endpoint->admin_state) < 0)
		return wrong_kind(reterr, "admin_state", "ready, draining or maintenance");

	return 0;
}

static int decode_metadata(json_t *json, struct usher_label *labels,
		struct usher_endpoint *endpoint, struct usher_error *reterr)
{
	json_t *metadata = json_object_get(json, "metadata");
	const char *name;
	json_t *value;

	if (!metadata)
		return 0;
	if (!json_is_object(metadata) || json_object_size(metadata) > USHER_METADATA_MAX)
		return wrong_kind(reterr, "metadata", "a map of texts");
	json_object_foreach(metadata, name, value) {
		if (!json_is_string(value))
			return wrong_kind(reterr, "metadata", "a map of texts");
		labels[endpoint->metadata_count].name = name;
		labels[endpoint->metadata_count].value = json_string_value(value);
		endpoint->metadata_count++;
	}
	endpoint->metadata = labels;

	return 0;
}

static int decode_endpoint(json_t *json, struct usher_endpoints *set, struct usher_error *reterr)
{
	struct usher_endpoint endpoint = USHER_ENDPOINT_INIT;
	struct usher_label labels[USHER_METADATA_MAX];
	int r;

	if (!json_is_object(json))
		return usher_error_set(reterr, -EBADMSG, "an endpoint is a map");
	r = decode_texts(json, &endpoint, reterr);
	if (r < 0)
		return r;
	r = decode_bools(json, &endpoint, reterr);
	if (r < 0)
		return r;
	r = decode_numbers(json, &endpoint, reterr);
	if (r < 0)
		return r;
	r = decode_admin_state(json, &endpoint, reterr);
	if (r < 0)
		return r;
	r = decode_metadata(json, labels, &endpoint, reterr);
	if (r < 0)
		return r;
	r = usher_endpoints_add(set, &endpoint, reterr);

	return r == 0 || r == -ENOMEM ? r : usher_error_prefix(reterr, -EBADMSG, "refused");
}

/* The next value of the list, and how far it was read. */
static int read_value(const char *data, size_t size_bytes, size_t *position, json_t **ret,
		struct usher_error *reterr)
{
	json_error_t error;
	json_t *json = json_loadb(data + *position, size_bytes - *position,
			JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK | JSON_REJECT_DUPLICATES, &error);

	if (!json && json_error_code(&error) == json_error_out_of_memory)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	if (!json)
		return usher_error_set(reterr, -EBADMSG, "%s", error.text);
	*position += (size_t) error.position;
	*ret = json;

	return 0;
}

static char read_mark(const char *data, size_t size_bytes, size_t *position)
{
	while (*position < size_bytes && strchr(" \t\r\n", data[*position]) && data[*position])
		(*position)++;

	return *position < size_bytes ? data[(*position)++] : '\0';
}

static int read_version(
		const char *data, size_t size_bytes, size_t *position, struct usher_error *reterr)
{
	cleanup(json_decrefp) json_t *version = NULL;
	int r;

	if (read_mark(data, size_bytes, position) != '[')
		return usher_error_set(reterr, -EBADMSG, "a set of endpoints begins with [");
	r = read_value(data, size_bytes, position, &version, reterr);
	if (r < 0)
		return r;
	if (!json_is_integer(version) || json_integer_value(version) != ENDPOINT_CODEC_VERSION)
		return usher_error_set(reterr, -EBADMSG,
				"the set is not of version %d, which this usherd reads",
				ENDPOINT_CODEC_VERSION);

	return 0;
}

int endpoints_decode(const char *data, size_t size_bytes, struct usher_endpoints **ret,
		struct usher_error *reterr)
{
	cleanup(usher_endpoints_unrefp) struct usher_endpoints *set = usher_endpoints_new();
	size_t position = 0;
	char mark;
	int r;

	if (!set)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	r = read_version(data, size_bytes, &position, reterr);
	if (r < 0)
		return r;
	while ((mark = read_mark(data, size_bytes, &position)) == ',') {
		cleanup(json_decrefp) json_t *json = NULL;

		r = read_value(data, size_bytes, &position, &json, reterr);
		if (r < 0)
			return usher_error_prefix(
					reterr, r, "endpoints[%zu]", usher_endpoints_count(set));
		r = decode_endpoint(json, set, reterr);
		if (r < 0)
			return usher_error_prefix(
					reterr, r, "endpoints[%zu]", usher_endpoints_count(set));
	}
	if (mark != ']' || read_mark(data, size_bytes, &position) != '\0' || position < size_bytes)
		return usher_error_set(reterr, -EBADMSG, "the set does not end with one ]");
	usher_endpoints_seal(set);
	*ret = take(set);

	return 0;
}
