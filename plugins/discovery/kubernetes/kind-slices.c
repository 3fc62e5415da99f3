/* EndpointSlices: read, and told to the answers of their services.
 *
 * A slice that contradicts the API's own types is kept with its fault, so that its Service can say
 * what is wrong while all others go on. One that an API server takes can do so, too: it does not
 * look at the numbers of ports. */

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "answers.h"
#include "feed.h"
#include "own-json.h"
#include "reading.h"
#include "slices.h"

struct reader {
	struct slice *slice;
	const char *fault; /* the first field that is not of its type; NULL: none */
};

static void blame(struct reader *r, const char *field)
{
	if (!r->fault)
		r->fault = field;
}

static const char *copy_text(struct reader *r, const json_t *object, const char *key)
{
	const json_t *j = reading_get(object, key);

	if (j && !json_is_string(j))
		blame(r, key);
	return slice_text(r->slice, json_string_value(j));
}

static void read_bool(struct reader *r, const json_t *object, const char *key, bool *ret)
{
	const json_t *j = reading_get(object, key);

	if (!j)
		return;
	if (!json_is_boolean(j))
		blame(r, key);
	*ret = json_is_true(j);
}

/* NULL where there is none, or none of that type. */
static json_t *get_object(struct reader *r, const json_t *object, const char *key)
{
	json_t *j = reading_get(object, key);

	if (!j || json_is_object(j))
		return j;
	blame(r, key);
	return NULL;
}

static json_t *get_array(struct reader *r, const json_t *object, const char *key)
{
	json_t *j = reading_get(object, key);

	if (!j || json_is_array(j))
		return j;
	blame(r, key);
	return NULL;
}

static void read_port(struct reader *r, const json_t *j)
{
	struct slice_port *port = slice_add_port(r->slice);
	const json_t *number = reading_get(j, "port");

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
	const char *type = json_string_value(reading_get(j, "addressType"));
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

static void free_slice(void *object)
{
	(void) slice_free(object);
}

static int read_slice(const json_t *j, bool content, const struct version *version, void **ret,
		struct usher_error *reterr)
{
	const json_t *metadata = reading_get(j, "metadata");
	struct reader r = { .slice = slice_new() };
	struct slice *s = r.slice;
	const char *space;

	if (!s)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	s->version = version->number;
	space = copy_text(&r, metadata, "namespace");
	s->space = space ? space : "";
	s->name = copy_text(&r, metadata, "name");
	s->uid = copy_text(&r, metadata, "uid");
	s->service = copy_text(&r, reading_get(metadata, "labels"), SLICE_SERVICE_LABEL);
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

static struct object_key key_of(const void *object)
{
	const struct slice *s = object;

	return (struct object_key){ s->uid, s->space, s->name };
}

/* ---- who is told ---- */

static void on_listed(struct watcher *w, struct feed *f)
{
	w->known_has_changed = true;
	answers_mark(w, f, NULL, NULL);
}

static void on_changed(struct watcher *w, struct feed *f, const void *object, bool came_or_went)
{
	const struct slice *s = object;

	w->known_has_changed |= came_or_went;
	if (s->service)
		answers_mark(w, f, s->space, s->service);
}

static void on_failed(struct watcher *w, struct feed *f, int code, const struct usher_error *why)
{
	answers_fail(w, f, code, why);
}

static void on_proven(struct watcher *w, struct feed *f, uint64_t observed_usec)
{
	answers_confirm(w, f, observed_usec);
}

const struct kind kind_slices = {
	.name = "EndpointSlices",
	.api = "/apis/discovery.k8s.io/v1/",
	.resource = "endpointslices",
	.selector = "labelSelector",
	.read = read_slice,
	.free = free_slice,
	.key = key_of,
	.listed = on_listed,
	.changed = on_changed,
	.failed = on_failed,
	.proven = on_proven,
};
