#include "reading.h"

#include <errno.h>
#include <string.h>

#include "json-read.h"

static int parse(const char *text, size_t size, json_t **ret, struct usher_error *reterr)
{
	struct usher_error why = { 0 };
	json_t *j = NULL;
	int r = json_read(text, size, 0, &j, &why);

	if (r == -EBADMSG)
		return usher_error_set(reterr, r, "the answer is not what an API server says: %s",
				why.text);
	if (r < 0)
		return usher_error_set(reterr, r, "out of memory");
	if (!json_is_object(j)) {
		json_decref(j);
		return usher_error_set(reterr, -EBADMSG,
				"the answer is not what an API server says: it is no JSON object");
	}
	*ret = j;
	return 0;
}

json_t *reading_get(const json_t *object, const char *key)
{
	json_t *j = json_object_get(object, key);

	return json_is_null(j) ? NULL : j;
}

const char *reading_text(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

static void read_version(const json_t *metadata, struct version *ret)
{
	const char *text = json_string_value(json_object_get(metadata, "resourceVersion"));
	size_t length = text ? strlen(text) : 0;
	char *end = NULL;

	if (length == 0 || length >= sizeof(ret->text))
		return;
	for (size_t i = 0; i < length; i++)
		if (text[i] <= ' ' || text[i] > '~')
			return;
	memcpy(ret->text, text, length + 1);
	errno = 0;
	ret->number = strtoull(text, &end, 10);
	if (errno || *end != '\0')
		ret->number = 0;
}

/* ---- a page ---- */

static int read_next(const json_t *metadata, struct reading_page *page, struct usher_error *reterr)
{
	const char *next = reading_text(metadata, "continue");
	size_t length = next ? strlen(next) : 0;

	if (length >= sizeof(page->next))
		return usher_error_set(reterr, -E2BIG,
				"the token of the next page has %zu bytes; %d are the most", length,
				READING_CONTINUE_MAX - 1);
	memcpy(page->next, next ? next : "", length + 1);
	return 0;
}

static int read_object(const struct kind *kind, const json_t *j, bool content, void **ret,
		struct version *ret_version, struct usher_error *reterr)
{
	*ret_version = (struct version){ 0 };
	read_version(reading_get(j, "metadata"), ret_version);
	return kind->read(j, content, ret_version, ret, reterr);
}

static int read_items(const json_t *items, struct reading_page *page, struct usher_error *reterr)
{
	page->objects = calloc(json_array_size(items) + 1, sizeof(void *));
	if (!page->objects)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	for (size_t i = 0; i < json_array_size(items); i++) {
		struct version ignored;
		int r = read_object(page->kind, json_array_get(items, i), true, &page->objects[i],
				&ignored, reterr);

		if (r < 0)
			return r;
		page->count++;
	}
	return 0;
}

int reading_page(const struct kind *kind, const char *text, size_t size, struct reading_page *ret,
		struct usher_error *reterr)
{
	autojson json_t *root = NULL;
	cleanup(reading_page_done) struct reading_page page = { .kind = kind };
	const json_t *metadata, *items;
	int r = parse(text, size, &root, reterr);

	if (r < 0)
		return r;
	metadata = reading_get(root, "metadata");
	items = json_object_get(root, "items");
	read_version(metadata, &page.version);
	if (!page.version.text[0] || !(json_is_array(items) || json_is_null(items)))
		return usher_error_set(reterr, -EBADMSG,
				"the answer is no list of %s: it has no %s", kind->name,
				page.version.text[0] ? "items" : "metadata.resourceVersion");
	r = read_next(metadata, &page, reterr);
	if (r < 0 || (r = read_items(items, &page, reterr)) < 0)
		return r;
	*ret = page;
	page = (struct reading_page){ 0 };
	return 0;
}

void reading_page_done(struct reading_page *page)
{
	for (size_t i = 0; i < page->count; i++)
		page->kind->free(page->objects[i]);
	free(page->objects);
	*page = (struct reading_page){ 0 };
}

/* ---- an event ---- */

static int read_kind(const json_t *root, enum reading_kind *ret, struct usher_error *reterr)
{
	static const struct {
		const char *type;
		enum reading_kind kind;
	} kinds[] = {
		{ "ADDED", READING_PUT },
		{ "MODIFIED", READING_PUT },
		{ "DELETED", READING_REMOVE },
		{ "BOOKMARK", READING_BOOKMARK },
		{ "ERROR", READING_ERROR },
	};
	const char *type = json_string_value(json_object_get(root, "type"));

	for (size_t i = 0; type && i < ELEMENTS(kinds); i++)
		if (strcmp(kinds[i].type, type) == 0) {
			*ret = kinds[i].kind;
			return 0;
		}
	return usher_error_set(reterr, -EBADMSG,
			"the watch says what is no event of one: its type is %.40s",
			type ? type : "missing");
}

static void read_status(const json_t *object, struct reading_event *ret)
{
	const char *message = reading_text(object, "message");

	ret->status = (int) json_integer_value(json_object_get(object, "code"));
	(void) snprintf(ret->message, sizeof(ret->message), "%s",
			message ? message : "without a message");
}

int reading_event(const struct kind *kind, const char *text, size_t size, struct reading_event *ret,
		struct usher_error *reterr)
{
	autojson json_t *root = NULL;
	struct reading_event event = { 0 };
	const json_t *object;
	int r = parse(text, size, &root, reterr);

	if (r < 0 || (r = read_kind(root, &event.kind, reterr)) < 0)
		return r;
	object = json_object_get(root, "object");
	switch (event.kind) {
	case READING_PUT:
	case READING_REMOVE:
		r = read_object(kind, object, event.kind == READING_PUT, &event.object,
				&event.version, reterr);
		break;
	case READING_BOOKMARK:
		read_version(reading_get(object, "metadata"), &event.version);
		break;
	case READING_ERROR:
		read_status(object, &event);
		break;
	}
	if (r == 0)
		*ret = event;
	return r;
}

/* ---- a failure ---- */

int reading_failure(const struct usher_http_event *event, struct usher_error *reterr)
{
	int r = usher_http_status_error(event, reterr);
	autojson json_t *root = NULL;
	const char *message;

	if (r == 0 || !event->data)
		return r;
	(void) json_read(event->data, event->data_size, 0, &root, NULL);
	message = reading_text(root, "message");
	if (!message)
		return r;
	return usher_error_set(reterr, r, "%s says HTTP %d: %.300s",
			event->server ? event->server : "the API server", event->status, message);
}
