/* Kubernetes EndpointSlices, as `kubectl get endpointslices -o yaml` or `-o json` prints them: one
 * EndpointSlice, an EndpointSliceList, or a List that has some among its items.
 *
 * What the slices of a service say together is told in slices.h; here they are found and checked.
 * Slices of type FQDN are deprecated and ignored. */

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "catalog.h"
#include "kubernetes-endpoints.h"
#include "own.h"
#include "slices.h"

static bool kubernetes_detect(const struct usher_node *root)
{
	return usher_node_get(root, "kind") != NULL && usher_node_get(root, "apiVersion") != NULL;
}

static int check_address(const struct usher_node *slice, const struct usher_node *endpoint,
		struct usher_error *reterr)
{
	const struct usher_node *addresses = usher_node_get(endpoint, "addresses"), *first;
	const char *type = format_text(usher_node_get(slice, "addressType"));
	struct in6_addr ignored;
	int r;

	if (format_count(addresses) == 0)
		return 0;
	first = usher_node_at(addresses, 0);
	r = format_expect(first, "addresses", USHER_NODE_SCALAR, reterr);
	if (r < 0)
		return r;
	if (inet_pton(strcmp(type, "IPv6") == 0 ? AF_INET6 : AF_INET, format_text(first),
			    &ignored) != 1)
		return usher_node_error(reterr, first, -EBADMSG,
				"addresses: %s is no %s address, which is the type of the slice",
				format_text(first), type);
	return 0;
}

static int check_endpoint(const struct usher_node *slice, const struct usher_node *endpoint,
		struct usher_error *reterr)
{
	const struct usher_node *conditions = usher_node_get(endpoint, "conditions");
	const struct usher_node *addresses = usher_node_get(endpoint, "addresses");
	const char *text = NULL;
	bool condition = false;
	int r;

	r = format_expect(endpoint, "endpoints", USHER_NODE_MAP, reterr);
	if (r < 0)
		return r;
	if (addresses && usher_node_kind(addresses) != USHER_NODE_NULL) {
		r = format_expect(addresses, "addresses", USHER_NODE_LIST, reterr);
		if (r < 0)
			return r;
	}
	if (conditions && usher_node_kind(conditions) != USHER_NODE_NULL) {
		r = format_expect(conditions, "conditions", USHER_NODE_MAP, reterr);
		if (r < 0)
			return r;
	}
	if ((r = format_get_bool(conditions, "ready", &condition, reterr)) < 0 ||
			(r = format_get_bool(conditions, "serving", &condition, reterr)) < 0 ||
			(r = format_get_bool(conditions, "terminating", &condition, reterr)) < 0 ||
			(r = format_get_text(endpoint, "zone", &text, reterr)) < 0 ||
			(r = format_get_text(endpoint, "nodeName", &text, reterr)) < 0 ||
			(r = format_get_text(endpoint, "hostname", &text, reterr)) < 0)
		return r;
	return check_address(slice, endpoint, reterr);
}

/* A list that may also be null, but not missing: kubectl always prints it, and where it does not
 * stand, the rest of the file may be missing as well. */
static int get_list(const struct usher_node *slice, const char *key, const struct usher_node **ret,
		struct usher_error *reterr)
{
	const struct usher_node *n = usher_node_get(slice, key);

	if (!n)
		return usher_node_error(reterr, slice, -EBADMSG,
				"%s: is missing in the slice; if there are none, write `%s: []`",
				key, key);
	*ret = n;
	if (usher_node_kind(n) == USHER_NODE_NULL)
		return 0;
	return format_expect(n, key, USHER_NODE_LIST, reterr);
}

static int check_ports(const struct usher_node *ports, struct usher_error *reterr)
{
	for (size_t i = 0; i < format_count(ports); i++) {
		const struct usher_node *port = usher_node_at(ports, i);
		const char *text = NULL;
		uint16_t number = 0;
		int r = format_expect(port, "ports", USHER_NODE_MAP, reterr);

		if (r < 0 || (r = format_get_text(port, "name", &text, reterr)) < 0 ||
				(r = format_get_port(port, "port", &number, reterr)) < 0 ||
				(r = format_get_text(port, "protocol", &text, reterr)) < 0 ||
				(r = format_get_text(port, "appProtocol", &text, reterr)) < 0)
			return r;
	}
	return 0;
}

static int check_slice(const struct usher_node *slice, struct usher_error *reterr)
{
	const struct usher_node *endpoints = NULL, *ports = NULL;
	int r;

	r = get_list(slice, "endpoints", &endpoints, reterr);
	if (r < 0)
		return r;
	r = get_list(slice, "ports", &ports, reterr);
	if (r < 0)
		return r;
	r = check_ports(ports, reterr);
	for (size_t i = 0; r == 0 && i < format_count(endpoints); i++)
		r = check_endpoint(slice, usher_node_at(endpoints, i), reterr);
	return r;
}

/* A service of several namespaces can be told apart as NAMESPACE/NAME. */
static int add_slice(struct catalog *catalog, const struct usher_node *slice, const char *space,
		const char *service, struct usher_error *reterr)
{
	const char *full;
	int r = catalog_add(catalog, service, slice, reterr);

	if (r < 0 || !space)
		return r;
	full = catalog_name(catalog, "%s/%s", space, service);
	if (!full)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	return catalog_add(catalog, full, slice, reterr);
}

static int survey_slice(struct catalog *catalog, const struct usher_node *slice,
		const struct format_options *options, struct usher_error *reterr)
{
	const struct usher_node *metadata = usher_node_get(slice, "metadata");
	const char *space = NULL, *service = NULL, *type = NULL;
	int r;

	if (!metadata)
		return usher_node_error(
				reterr, slice, -EBADMSG, "metadata: is missing in the slice");
	if ((r = format_expect(metadata, "metadata", USHER_NODE_MAP, reterr)) < 0 ||
			(r = format_get_text(metadata, "namespace", &space, reterr)) < 0 ||
			(r = format_get_text(usher_node_get(metadata, "labels"),
					 SLICE_SERVICE_LABEL, &service, reterr)) < 0 ||
			(r = format_get_text(slice, "addressType", &type, reterr)) < 0)
		return r;
	if (!service || *service == '\0')
		return 0; /* not a Service's */
	if (!type)
		return usher_node_error(
				reterr, slice, -EBADMSG, "addressType: is missing in the slice");
	if (strcmp(type, "FQDN") == 0)
		return 0;
	if (strcmp(type, "IPv4") != 0 && strcmp(type, "IPv6") != 0)
		return usher_node_error(reterr, usher_node_get(slice, "addressType"), -EBADMSG,
				"addressType: %s is none of IPv4, IPv6, FQDN", type);
	r = check_slice(slice, reterr);
	if (r < 0)
		return r;
	if (options->kubernetes_namespace &&
			(!space || strcmp(space, options->kubernetes_namespace) != 0))
		return 0;
	return add_slice(catalog, slice, space, service, reterr);
}

static int refuse_kind(const struct usher_node *n, const char *kind, struct usher_error *reterr)
{
	if (strcmp(kind, "Endpoints") == 0 || strcmp(kind, "EndpointsList") == 0)
		return usher_node_error(reterr, n, -EBADMSG,
				"kind: Endpoints are cut off at 1000 addresses; write the file with "
				"`kubectl get endpointslices` instead");
	return usher_node_error(reterr, n, -EBADMSG,
			"kind: %s is none of EndpointSlice, EndpointSliceList, List", kind);
}

/* The rest of a list that the API server cut into pages is not in the file. */
static int check_whole(const struct usher_node *root, struct usher_error *reterr)
{
	const char *next = NULL;
	int r = format_get_text(usher_node_get(root, "metadata"), "continue", &next, reterr);

	if (r < 0)
		return r;
	if (next && *next)
		return usher_node_error(reterr, usher_node_get(root, "metadata"), -EBADMSG,
				"metadata.continue: the file is only one page of the list; get all "
				"of it (kubectl --chunk-size=0)");
	return 0;
}

static int survey_list(struct catalog *catalog, const struct usher_node *root, bool mixed,
		const struct format_options *options, struct usher_error *reterr)
{
	const struct usher_node *items = usher_node_get(root, "items");
	size_t slices = 0;
	int r;

	if (!items)
		return usher_node_error(reterr, root, -EBADMSG, "items: is missing in the list");
	r = format_expect(items, "items", USHER_NODE_LIST, reterr);
	if (r < 0 || (r = check_whole(root, reterr)) < 0)
		return r;
	for (size_t i = 0; i < format_count(items); i++) {
		const struct usher_node *item = usher_node_at(items, i);
		const char *kind = mixed ? NULL : "EndpointSlice";

		if ((r = format_expect(item, "items", USHER_NODE_MAP, reterr)) < 0 ||
				(r = format_get_text(item, "kind", &kind, reterr)) < 0)
			return r;
		if (!kind)
			return usher_node_error(
					reterr, item, -EBADMSG, "kind: is missing in an item");
		if (strcmp(kind, "EndpointSlice") != 0)
			continue;
		slices++;
		r = survey_slice(catalog, item, options, reterr);
		if (r < 0)
			return r;
	}
	if (slices == 0 && format_count(items) > 0) {
		const struct usher_node *kind = usher_node_get(usher_node_at(items, 0), "kind");

		return refuse_kind(kind, format_text(kind), reterr);
	}
	return 0;
}

static int kubernetes_survey(struct catalog *catalog, const struct usher_node *root,
		const struct format_options *options, struct usher_error *reterr)
{
	const char *kind = NULL;
	int r = format_expect(root, "the file", USHER_NODE_MAP, reterr);

	if (r < 0 || (r = format_get_text(root, "kind", &kind, reterr)) < 0)
		return r;
	if (!kind)
		return usher_node_error(reterr, root, -EBADMSG,
				"kind: is missing, as in a file that is cut off; kubectl prints it "
				"with `-o yaml` and `-o json`");
	if (strcmp(kind, "EndpointSlice") == 0)
		return survey_slice(catalog, root, options, reterr);
	if (strcmp(kind, "EndpointSliceList") == 0 || strcmp(kind, "List") == 0)
		return survey_list(catalog, root, strcmp(kind, "List") == 0, options, reterr);
	return refuse_kind(usher_node_get(root, "kind"), kind, reterr);
}

/* A plain name must not mix the services of two namespaces. */
static int check_one_namespace(const struct part *parts, size_t count, struct usher_error *reterr)
{
	const char *first = kubernetes_namespace(parts[0].node);

	for (size_t p = 1; p < count; p++) {
		const char *other = kubernetes_namespace(parts[p].node);

		if (strcmp(first, other) != 0)
			return usher_node_error(reterr, parts[p].node, -EEXIST,
					"service %s is in the namespaces %s and %s; set the option "
					"`namespace`, or ask for it by the name %s/%s",
					parts[0].service, first, other, first, parts[0].service);
	}
	return 0;
}

static int kubernetes_build(struct usher_endpoints *set, const struct part *parts, size_t count,
		const char *port, struct usher_error *reterr)
{
	int r = check_one_namespace(parts, count, reterr);

	if (r < 0)
		return r;
	return kubernetes_endpoints(set, parts, count, port, reterr);
}

const struct format format_kubernetes = {
	.name = "kubernetes",
	.title = "a file of Kubernetes EndpointSlices",
	.remedy = "Kubernetes itself decides about its endpoints; change the pod's readiness, or "
		  "keep what usher is to register in a file of its own format",
	.merges = true,
	.has_ports = true,
	.detect = kubernetes_detect,
	.survey = kubernetes_survey,
	.build = kubernetes_build,
};
