/* Bodies and queries of calls: whatever comes is read or refused with a message, and what is read
 * as a body, or as a list, is what jansson reads, too. */

#include <assert.h>
#include <string.h>

#include <jansson.h>

#include "fields.h"
#include "ownership.h"
#include "router.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct values {
	fields_given given;
	const char *text;
	bool flag;
	uint64_t count, wait_usec, took_usec;
	struct field_texts list;
	struct field_pairs pairs;
};

static const struct field fields[] = {
	{ "text", FIELD_TEXT, offsetof(struct values, text) },
	{ "flag", FIELD_FLAG, offsetof(struct values, flag) },
	{ "count", FIELD_COUNT, offsetof(struct values, count) },
	{ "wait", FIELD_DURATION, offsetof(struct values, wait_usec) },
	{ "took", FIELD_MSEC, offsetof(struct values, took_usec) },
	{ "list", FIELD_TEXTS, offsetof(struct values, list) },
	{ "pairs", FIELD_PAIRS, offsetof(struct values, pairs) },
	{},
};

static bool is_blank(const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (!memchr(" \t\r\n", text[i], 4))
			return false;
	return true;
}

/* NULL: it reads nothing, and may. */
static json_t *read_by_jansson(const char *text, size_t size)
{
	json_error_t error;
	json_t *theirs = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);

	/* jansson has no number above INT64_MAX, and we do. */
	if (!theirs)
		assert(is_blank(text, size) ||
				json_error_code(&error) == json_error_numeric_overflow);
	return theirs;
}

static void compare(const struct values *ours, fields_given given, const json_t *theirs)
{
	size_t i;
	json_t *item;

	if (field_given(given, 0))
		assert(strcmp(ours->text, json_string_value(json_object_get(theirs, "text"))) == 0);
	if (field_given(given, 1))
		assert(ours->flag == json_boolean_value(json_object_get(theirs, "flag")));
	if (field_given(given, 2))
		assert((json_int_t) ours->count ==
				json_integer_value(json_object_get(theirs, "count")));
	if (field_given(given, 4))
		assert(json_is_number(json_object_get(theirs, "took")));
	json_array_foreach(json_object_get(theirs, "list"), i, item) {
		assert(strcmp(ours->list.items[i], json_string_value(item)) == 0);
	}
	for (i = 0; i < ours->pairs.count; i++) {
		const struct usher_label *pair = &ours->pairs.items[i];

		item = json_object_get(json_object_get(theirs, "pairs"), pair->name);
		assert(strcmp(pair->value, json_string_value(item)) == 0);
	}
}

static void read_as_body(const char *text, size_t size)
{
	autofree char *copy = malloc(size + 1);
	struct usher_error error = {};
	struct values values = {};
	json_t *theirs;
	int r;

	if (!copy)
		return;
	memcpy(copy, text, size);
	copy[size] = '\0';
	r = fields_from_json(fields, copy, size, &values, &values.given, &error);
	if (r < 0) {
		assert(error.code == r && error.text[0]);
		return;
	}
	theirs = read_by_jansson(text, size);
	if (theirs)
		compare(&values, values.given, theirs);
	json_decref(theirs);
}

static void read_as_list(const char *text, size_t size)
{
	static struct values items[8];
	struct field_list list = { .name = "items",
		.fields = fields,
		.items = items,
		.item_size = sizeof(items[0]),
		.max = ELEMENTS(items) };
	autofree char *copy = malloc(size + 1);
	struct usher_error error = {};
	json_t *theirs, *array;
	int r;

	if (!copy)
		return;
	memcpy(copy, text, size);
	copy[size] = '\0';
	r = fields_list_from_json(&list, copy, size, &error);
	assert(list.count <= list.max);
	if (r < 0) {
		assert(error.code == r && error.text[0]);
		return;
	}
	theirs = read_by_jansson(text, size);
	array = json_is_object(theirs) ? json_object_get(theirs, "items") : theirs;
	assert(!theirs || json_array_size(array) == list.count);
	for (size_t i = 0; i < json_array_size(array); i++)
		compare(&items[i], items[i].given, json_array_get(array, i));
	json_decref(theirs);
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
	for (size_t i = 0; i + 1 < ELEMENTS(fields); i++)
		(void) field_set_text(&fields[i], copy, &values, NULL);
	if (router_find(routes, ELEMENTS(routes), METHOD_PUT, copy, &match) == 0)
		assert(match.params[0] && match.params[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	read_as_body((const char *) data, size);
	read_as_list((const char *) data, size);
	read_as_path((const char *) data, size);
	return 0;
}
