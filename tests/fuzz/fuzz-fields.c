/* Bodies and queries of calls: whatever comes is read or refused with a message, and what is read
 * as a body is what jansson reads, too. */

#include <assert.h>
#include <string.h>

#include <jansson.h>

#include "fields.h"
#include "ownership.h"
#include "router.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct values {
	const char *text;
	bool flag;
	uint64_t count, wait_usec;
	struct field_texts list;
};

static const struct field fields[] = {
	{ "text", FIELD_TEXT, offsetof(struct values, text) },
	{ "flag", FIELD_FLAG, offsetof(struct values, flag) },
	{ "count", FIELD_COUNT, offsetof(struct values, count) },
	{ "wait", FIELD_DURATION, offsetof(struct values, wait_usec) },
	{ "list", FIELD_TEXTS, offsetof(struct values, list) },
	{},
};

static bool is_blank(const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (!memchr(" \t\r\n", text[i], 4))
			return false;
	return true;
}

static void compare(const struct values *ours, fields_given given, const char *text, size_t size)
{
	json_error_t error;
	json_t *theirs = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
	size_t i;
	json_t *item;

	if (!theirs) {
		/* jansson has no number above INT64_MAX, and we do. */
		assert(is_blank(text, size) ||
				json_error_code(&error) == json_error_numeric_overflow);
		return;
	}
	if (field_given(given, 0))
		assert(strcmp(ours->text, json_string_value(json_object_get(theirs, "text"))) == 0);
	if (field_given(given, 1))
		assert(ours->flag == json_boolean_value(json_object_get(theirs, "flag")));
	if (field_given(given, 2))
		assert((json_int_t) ours->count ==
				json_integer_value(json_object_get(theirs, "count")));
	json_array_foreach(json_object_get(theirs, "list"), i, item) {
		assert(strcmp(ours->list.items[i], json_string_value(item)) == 0);
	}
	json_decref(theirs);
}

static void read_as_body(const char *text, size_t size)
{
	autofree char *copy = malloc(size + 1);
	struct usher_error error = {};
	struct values values = {};
	fields_given given;
	int r;

	if (!copy)
		return;
	memcpy(copy, text, size);
	copy[size] = '\0';
	r = fields_from_json(fields, copy, size, &values, &given, &error);
	if (r < 0)
		assert(error.code == r && error.text[0]);
	else
		compare(&values, given, text, size);
}

static void read_as_path(const char *text, size_t size)
{
	static const struct route routes[] = {
		{ METHOD_GET, "/", NULL },
		{ METHOD_GET, "/v1/services/{s}/endpoints", NULL },
		{ METHOD_PUT, "/v1/services/{s}/endpoints/{id}/in-flight", NULL },
	};
	autofree char *copy = strndup(text, size);
	struct route_match match;
	struct values values = {};

	if (!copy)
		return;
	for (size_t i = 0; i < FIELD_TEXTS + 1; i++)
		(void) field_set_text(&fields[i], copy, &values, NULL);
	if (router_find(routes, ELEMENTS(routes), METHOD_PUT, copy, &match) == 0)
		assert(match.params[0] && match.params[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	read_as_body((const char *) data, size);
	read_as_path((const char *) data, size);
	return 0;
}
