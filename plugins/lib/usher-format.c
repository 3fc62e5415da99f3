#include "usher-format.h"

#include <errno.h>
#include <string.h>

#include "format-fields.h"

static const char *const root_keys[] = { "services", NULL };

static const char *const endpoint_keys[] = { "id", "uid", "address", "port", "secure", "zone",
	"weight", "state", "ready", "serving", "terminating", "metadata", NULL };

static int check_keys(
		const struct usher_node *map, const char *const *known, struct usher_error *reterr)
{
	for (size_t i = 0; i < usher_node_count(map); i++) {
		const char *key = usher_node_key(map, i), *near;
		size_t k = 0;

		while (known[k] && strcmp(known[k], key) != 0)
			k++;
		if (known[k])
			continue;
		near = usher_nearest_word(key, known);
		return usher_node_error(reterr, usher_node_key_node(map, i), -EBADMSG,
				"%s: is no key that usher knows here%s%s%s", key,
				near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
	}
	return 0;
}

int usher_format_services(const struct usher_node *root, const char *what,
		const struct usher_node **ret, struct usher_error *reterr)
{
	const struct usher_node *services;
	int r = format_expect(root, what, USHER_NODE_MAP, reterr);

	if (r < 0)
		return r;
	r = check_keys(root, root_keys, reterr);
	if (r < 0)
		return r;
	services = usher_node_get(root, "services");
	if (!services)
		return usher_node_error(reterr, root, -EBADMSG,
				"the key `services` is missing; if there is to be no service, write "
				"`services: {}`");
	r = format_expect(services, "services", USHER_NODE_MAP, reterr);
	for (size_t i = 0; r == 0 && i < usher_node_count(services); i++)
		r = format_expect(usher_node_at(services, i), usher_node_key(services, i),
				USHER_NODE_LIST, reterr);
	if (r < 0)
		return r;
	*ret = services;
	return 0;
}

static int read_state(
		const struct usher_node *n, enum usher_admin_state *ret, struct usher_error *reterr)
{
	const char *text = NULL;
	int r = format_get_text(n, "state", &text, reterr);

	if (r <= 0)
		return r;
	if (usher_admin_state_from_string(text, ret) < 0)
		return usher_node_error(reterr, usher_node_get(n, "state"), -EBADMSG,
				"state: %s is none of ready, draining, maintenance", text);
	return 1;
}

static int read_required(const struct usher_node *n, struct usher_endpoint *endpoint,
		struct usher_error *reterr)
{
	struct usher_error cause = { 0 };
	int r = format_get_text(n, "address", &endpoint->address, reterr);

	if (r < 0)
		return r;
	if (r == 0)
		return usher_node_error(reterr, n, -EBADMSG,
				"address: is missing; every endpoint needs `address` and `port`");
	r = usher_address_check(endpoint->address, &cause);
	if (r < 0)
		return format_field_error(
				reterr, usher_node_get(n, "address"), "address", r, &cause);
	r = format_get_port(n, "port", &endpoint->port, reterr);
	if (r < 0)
		return r;
	if (r == 0)
		return usher_node_error(reterr, n, -EBADMSG,
				"port: is missing; every endpoint needs `address` and `port`");
	return 0;
}

int usher_format_read(const struct usher_node *n, struct usher_endpoint *ret,
		struct usher_label *labels, struct usher_error *reterr)
{
	struct usher_endpoint e = USHER_ENDPOINT_INIT;
	int r = format_expect(n, "endpoint", USHER_NODE_MAP, reterr);

	if (r < 0)
		return r;
	r = check_keys(n, endpoint_keys, reterr);
	if (r < 0)
		return r;
	r = read_required(n, &e, reterr);
	if (r < 0)
		return r;
	if ((r = format_get_text(n, "id", &e.id, reterr)) < 0 ||
			(r = format_get_text(n, "uid", &e.uid, reterr)) < 0 ||
			(r = format_get_text(n, "zone", &e.zone, reterr)) < 0 ||
			(r = format_get_text(n, "weight", &e.weight_text, reterr)) < 0 ||
			(r = format_get_bool(n, "secure", &e.secure, reterr)) < 0 ||
			(r = format_get_bool(n, "ready", &e.ready, reterr)) < 0 ||
			(r = format_get_bool(n, "serving", &e.serving, reterr)) < 0 ||
			(r = format_get_bool(n, "terminating", &e.terminating, reterr)) < 0 ||
			(r = read_state(n, &e.admin_state, reterr)) < 0)
		return r;
	r = format_get_labels(n, "metadata", NULL, labels, &e.metadata_count, reterr);
	if (r < 0)
		return r;
	e.metadata = labels;
	*ret = e;
	return 0;
}

int usher_format_build(struct usher_endpoints *set, const struct usher_node *list,
		struct usher_error *reterr)
{
	for (size_t i = 0; i < usher_node_count(list); i++) {
		const struct usher_node *n = usher_node_at(list, i);
		struct usher_label labels[USHER_METADATA_MAX];
		struct usher_endpoint endpoint;
		int r = usher_format_read(n, &endpoint, labels, reterr);

		if (r < 0)
			return r;
		r = format_add(set, &endpoint, n, reterr);
		if (r < 0)
			return r;
	}
	return 0;
}
