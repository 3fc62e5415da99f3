#include "kubernetes-endpoints.h"

#include <errno.h>
#include <string.h>
#include <usher/plugin.h>

#include "own.h"
#include "slices.h"

struct slices {
	struct slice **all;
	size_t count;
};

static void free_slices(struct slices *s)
{
	for (size_t i = 0; i < s->count; i++)
		(void) slice_free(s->all[i]);
	free(s->all);
}

static void free_choices(struct slice_choices *c)
{
	free(c->all);
}

const char *kubernetes_namespace(const struct usher_node *slice)
{
	const char *text =
			format_text(usher_node_get(usher_node_get(slice, "metadata"), "namespace"));

	return text ? text : "";
}

static uint64_t version_of(const struct usher_node *slice)
{
	const char *text = format_text(
			usher_node_get(usher_node_get(slice, "metadata"), "resourceVersion"));

	return text ? strtoull(text, NULL, 10) : 0;
}

/* What was checked needs no error: absent keys and those without a value stay as they are. */
static const char *copy_text(struct slice *s, const struct usher_node *map, const char *key)
{
	const char *text = NULL;

	(void) format_get_text(map, key, &text, NULL);
	return slice_text(s, text);
}

/* A port without a number means every port, which is nothing to connect to. */
static void read_port(struct slice *s, const struct usher_node *n)
{
	struct slice_port *port = slice_add_port(s);

	if (!port)
		return;
	port->name = copy_text(s, n, "name");
	port->protocol = copy_text(s, n, "protocol");
	port->app_protocol = copy_text(s, n, "appProtocol");
	(void) format_get_port(n, "port", &port->number, NULL);
}

/* "a,b": the zones that the endpoint is meant for. */
static const char *copy_zone_hints(struct slice *s, const struct usher_node *endpoint)
{
	const struct usher_node *zones =
			usher_node_get(usher_node_get(endpoint, "hints"), "forZones");
	char hints[USHER_TEXT_MAX] = "";
	size_t used = 0;

	for (size_t i = 0; i < format_count(zones); i++) {
		const char *name = format_text(usher_node_get(usher_node_at(zones, i), "name"));
		int n;

		if (!name)
			continue;
		n = snprintf(hints + used, sizeof(hints) - used, "%s%s", used ? "," : "", name);
		if (n < 0 || (size_t) n >= sizeof(hints) - used)
			return NULL;
		used += (size_t) n;
	}
	return used ? slice_text(s, hints) : NULL;
}

static void read_endpoint(struct slice *s, const struct usher_node *n)
{
	const struct usher_node *addresses = usher_node_get(n, "addresses");
	const struct usher_node *conditions = usher_node_get(n, "conditions");
	const struct usher_node *target = usher_node_get(n, "targetRef");
	struct slice_endpoint *e = slice_add_endpoint(s);

	if (!e)
		return;
	e->origin = n;
	if (format_count(addresses) > 0)
		e->address = slice_text(s, format_text(usher_node_at(addresses, 0)));
	e->zone = copy_text(s, n, "zone");
	e->node = copy_text(s, n, "nodeName");
	e->hostname = copy_text(s, n, "hostname");
	e->target = copy_text(s, target, "name");
	e->target_uid = copy_text(s, target, "uid");
	e->zone_hints = copy_zone_hints(s, n);
	(void) format_get_bool(conditions, "ready", &e->ready, NULL);
	(void) format_get_bool(conditions, "serving", &e->serving, NULL);
	(void) format_get_bool(conditions, "terminating", &e->terminating, NULL);
}

static int read_labels(struct slice *s, const struct usher_node *n, struct usher_error *reterr)
{
	struct usher_label labels[USHER_METADATA_MAX];
	size_t count = 0;
	int r = format_get_labels(usher_node_get(n, "metadata"), "labels", slice_is_users_label,
			labels, &count, reterr);

	for (size_t i = 0; r >= 0 && i < count; i++)
		slice_add_label(s, labels[i].name, labels[i].value);
	return r < 0 ? r : 0;
}

static int read_slice(struct slice *s, const struct usher_node *n, struct usher_error *reterr)
{
	const struct usher_node *ports = usher_node_get(n, "ports");
	const struct usher_node *endpoints = usher_node_get(n, "endpoints");
	const char *type = format_text(usher_node_get(n, "addressType"));
	int r;

	s->space = slice_text(s, kubernetes_namespace(n));
	s->version = version_of(n);
	s->ipv6 = type && strcmp(type, "IPv6") == 0;
	for (size_t i = 0; i < format_count(ports); i++)
		read_port(s, usher_node_at(ports, i));
	for (size_t i = 0; i < format_count(endpoints); i++)
		read_endpoint(s, usher_node_at(endpoints, i));
	/* Where nothing uses them, their faults do no harm. */
	r = s->endpoint_count > 0 ? read_labels(s, n, reterr) : 0;
	return r == 0 && s->is_short_of_memory ? usher_error_set(reterr, -ENOMEM, "out of memory")
					       : r;
}

static int read_parts(struct slices *s, const struct part *parts, size_t count,
		struct usher_error *reterr)
{
	s->all = calloc(count, sizeof(struct slice *));
	if (!s->all)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	for (size_t i = 0; i < count; i++) {
		int r;

		s->all[i] = slice_new();
		if (!s->all[i])
			return usher_error_set(reterr, -ENOMEM, "out of memory");
		s->count++;
		r = read_slice(s->all[i], parts[i].node, reterr);
		if (r < 0)
			return r;
	}
	return 0;
}

static int add_choice(struct usher_endpoints *set, const struct slice_choice *choice,
		struct usher_error *reterr)
{
	struct usher_label labels[USHER_METADATA_MAX];
	const struct usher_node *n = choice->endpoint->origin;
	struct usher_endpoint e;
	struct usher_error cause = { 0 };
	int r = slices_describe(choice, labels, &e, &cause);

	if (r < 0)
		return usher_node_error(reterr, n, r, "%s", usher_error_text(&cause, r));
	return format_add(set, &e, n, reterr);
}

int kubernetes_endpoints(struct usher_endpoints *set, const struct part *parts, size_t count,
		const char *port, struct usher_error *reterr)
{
	cleanup(free_slices) struct slices slices = { 0 };
	cleanup(free_choices) struct slice_choices choices = { 0 };
	struct usher_error cause = { 0 };
	int r = read_parts(&slices, parts, count, reterr);

	if (r < 0)
		return r;
	r = slices_choose((const struct slice *const *) slices.all, slices.count, parts[0].service,
			port, &choices, &cause);
	if (r < 0)
		return usher_node_error(
				reterr, parts[0].node, r, "%s", usher_error_text(&cause, r));
	if (choices.conflicts > 0)
		usher_log(USHER_LOG_WARNING,
				"Service %s: %zu entries of its slices claim an address that another "
				"has; the newer slice or the ready endpoint counts",
				parts[0].service, choices.conflicts);
	for (size_t i = 0; i < choices.count; i++) {
		r = add_choice(set, &choices.all[i], reterr);
		if (r < 0)
			return r;
	}
	return 0;
}
