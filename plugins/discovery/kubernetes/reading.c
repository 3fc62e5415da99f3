#include "reading.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "own-json.h"

static int parse(const char *text, size_t size, json_t **ret, struct usher_error *reterr)
{
	json_error_t why;
	json_t *j = json_loadb(text, size, 0, &why);

	if (!j && json_error_code(&why) == json_error_out_of_memory)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	if (!j)
		return usher_error_set(reterr, -EBADMSG,
				"the answer is not what an API server says: %s", why.text);
	if (!json_is_object(j)) {
		json_decref(j);
		return usher_error_set(reterr, -EBADMSG,
				"the answer is not what an API server says: it is no JSON object");
	}
	*ret = j;
	return 0;
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

/* ---- a slice ---- */

struct reader {
	struct slice *slice;
	const char *fault; /* the first field that is not of its type; NULL: none */
};

/* Absent and null are the same. */
static json_t *get(const json_t *object, const char *key)
{
	json_t *j = json_object_get(object, key);

	return json_is_null(j) ? NULL : j;
}

static void blame(struct reader *r, const char *field)
{
	if (!r->fault)
		r->fault = field;
}

static const char *copy_text(struct reader *r, const json_t *object, const char *key)
{
	const json_t *j = get(object, key);

	if (j && !json_is_string(j))
		blame(r, key);
	return slice_text(r->slice, json_string_value(j));
}

static void read_bool(struct reader *r, const json_t *object, const char *key, bool *ret)
{
	const json_t *j = get(object, key);

	if (!j)
		return;
	if (!json_is_boolean(j))
		blame(r, key);
	*ret = json_is_true(j);
}

/* NULL where there is none, or none of that type. */
static json_t *get_object(struct reader *r, const json_t *object, const char *key)
{
	json_t *j = get(object, key);

	if (!j || json_is_object(j))
		return j;
	blame(r, key);
	return NULL;
}

static json_t *get_array(struct reader *r, const json_t *object, const char *key)
{
	json_t *j = get(object, key);

	if (!j || json_is_array(j))
		return j;
	blame(r, key);
	return NULL;
}

static void read_port(struct reader *r, const json_t *j)
{
	struct slice_port *port = slice_add_port(r->slice);
	const json_t *number = get(j, "port");

	if (!port)
		return;
	if (!json_is_object(j))
		blame(r, "ports");
	port->name = copy_text(r, j, "name");
	port->protocol = copy_text(r, j, "protocol");
	port->app_protocol = copy_text(r, j, "appProtocol");
	if (!number)
		return;
	if (!json_is_integer(number) || json_integer_value(number) < 1 ||
			json_integer_value(number) > UINT16_MAX)
		blame(r, "port");
	else
		port->number = (uint16_t) json_integer_value(number);
}

static const char *copy_address(struct reader *r, const json_t *endpoint)
{
	const char *text =
			json_string_value(json_array_get(get_array(r, endpoint, "addresses"), 0));
	struct in6_addr ignored;

	if (!text)
		return NULL;
	if (inet_pton(r->slice->ipv6 ? AF_INET6 : AF_INET, text, &ignored) != 1)
		blame(r, "addresses");
	return slice_text(r->slice, text);
}

/* "a,b": the zones that the endpoint is meant for. */
static const char *copy_zone_hints(struct reader *r, const json_t *endpoint)
{
	const json_t *zones = get_array(r, get_object(r, endpoint, "hints"), "forZones");
	char hints[USHER_TEXT_MAX] = "";
	size_t used = 0;

	for (size_t i = 0; i < json_array_size(zones); i++) {
		const char *name = json_string_value(
				json_object_get(json_array_get(zones, i), "name"));
		int n = name ? snprintf(hints + used, sizeof(hints) - used, "%s%s", used ? "," : "",
					       name)
			     : 0;

		if (n < 0 || (size_t) n >= sizeof(hints) - used)
			return NULL;
		used += (size_t) n;
	}
	return used ? slice_text(r->slice, hints) : NULL;
}

static void read_endpoint(struct reader *r, const json_t *j)
{
	struct slice_endpoint *e = slice_add_endpoint(r->slice);
	const json_t *conditions, *target;

	if (!e)
		return;
	if (!json_is_object(j))
		blame(r, "endpoints");
	conditions = get_object(r, j, "conditions");
	target = get_object(r, j, "targetRef");
	e->address = copy_address(r, j);
	e->zone = copy_text(r, j, "zone");
	e->node = copy_text(r, j, "nodeName");
	e->hostname = copy_text(r, j, "hostname");
	e->target = copy_text(r, target, "name");
	e->target_uid = copy_text(r, target, "uid");
	e->zone_hints = copy_zone_hints(r, j);
	read_bool(r, conditions, "ready", &e->ready);
	read_bool(r, conditions, "serving", &e->serving);
	read_bool(r, conditions, "terminating", &e->terminating);
}

static void read_labels(struct reader *r, const json_t *metadata)
{
	json_t *labels = get_object(r, metadata, "labels");

	for (void *i = json_object_iter(labels); i; i = json_object_iter_next(labels, i)) {
		const char *value = json_string_value(json_object_iter_value(i));

		if (value)
			slice_add_label(r->slice, json_object_iter_key(i), value);
		else
			blame(r, "labels");
	}
}

static void read_content(struct reader *r, const json_t *j)
{
	const char *type = json_string_value(get(j, "addressType"));
	const json_t *ports = get_array(r, j, "ports"), *endpoints = get_array(r, j, "endpoints");

	r->slice->ipv6 = type && strcmp(type, "IPv6") == 0;
	if (type && strcmp(type, "FQDN") == 0)
		return; /* deprecated; no address of a pod */
	if (!type || (strcmp(type, "IPv4") != 0 && strcmp(type, "IPv6") != 0))
		blame(r, "addressType");
	for (size_t i = 0; i < json_array_size(ports); i++)
		read_port(r, json_array_get(ports, i));
	for (size_t i = 0; i < json_array_size(endpoints); i++)
		read_endpoint(r, json_array_get(endpoints, i));
}

/* content: also what the slice says, not only which one it is. */
static int read_slice(const json_t *j, bool content, struct slice **ret,
		struct version *ret_version, struct usher_error *reterr)
{
	const json_t *metadata = get(j, "metadata");
	struct reader r = { .slice = slice_new() };
	struct slice *s = r.slice;
	const char *space;

	if (!s)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	read_version(metadata, ret_version);
	s->version = ret_version->number;
	space = copy_text(&r, metadata, "namespace");
	s->space = space ? space : "";
	s->name = copy_text(&r, metadata, "name");
	s->uid = copy_text(&r, metadata, "uid");
	s->service = copy_text(&r, get(metadata, "labels"), SLICE_SERVICE_LABEL);
	if (content) {
		read_labels(&r, metadata);
		read_content(&r, j);
	}
	if (s->is_short_of_memory) {
		(void) slice_free(s);
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	}
	if (!s->name) {
		(void) slice_free(s);
		return usher_error_set(reterr, -EBADMSG, "an EndpointSlice has no metadata.name");
	}
	s->fault = r.fault;
	*ret = s;
	return 0;
}

/* ---- a page ---- */

static int read_next(const json_t *metadata, struct reading_page *page, struct usher_error *reterr)
{
	const char *next = json_string_value(get(metadata, "continue"));
	size_t length = next ? strlen(next) : 0;

	if (length >= sizeof(page->next))
		return usher_error_set(reterr, -E2BIG,
				"the token of the next page has %zu bytes; %d are the most", length,
				READING_CONTINUE_MAX - 1);
	memcpy(page->next, next ? next : "", length + 1);
	return 0;
}

static int read_items(const json_t *items, struct reading_page *page, struct usher_error *reterr)
{
	page->slices = calloc(json_array_size(items) + 1, sizeof(struct slice *));
	if (!page->slices)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	for (size_t i = 0; i < json_array_size(items); i++) {
		struct version ignored = { 0 };
		int r = read_slice(
				json_array_get(items, i), true, &page->slices[i], &ignored, reterr);

		if (r < 0)
			return r;
		page->count++;
	}
	return 0;
}

int reading_page(
		const char *text, size_t size, struct reading_page *ret, struct usher_error *reterr)
{
	autojson json_t *root = NULL;
	cleanup(reading_page_done) struct reading_page page = { 0 };
	const json_t *metadata, *items;
	int r = parse(text, size, &root, reterr);

	if (r < 0)
		return r;
	metadata = get(root, "metadata");
	items = json_object_get(root, "items");
	read_version(metadata, &page.version);
	if (!page.version.text[0] || !(json_is_array(items) || json_is_null(items)))
		return usher_error_set(reterr, -EBADMSG,
				"the answer is no EndpointSliceList: it has no %s",
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
		(void) slice_free(page->slices[i]);
	free(page->slices);
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
	const char *message = json_string_value(get(object, "message"));

	ret->status = (int) json_integer_value(get(object, "code"));
	(void) snprintf(ret->message, sizeof(ret->message), "%s",
			message ? message : "without a message");
}

int reading_event(const char *text, size_t size, struct reading_event *ret,
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
		r = read_slice(object, event.kind == READING_PUT, &event.slice, &event.version,
				reterr);
		break;
	case READING_BOOKMARK:
		read_version(get(object, "metadata"), &event.version);
		break;
	case READING_ERROR:
		read_status(object, &event);
		break;
	}
	if (r == 0)
		*ret = event;
	return r;
}
