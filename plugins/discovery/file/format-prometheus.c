/* Prometheus' file_sd: a list of groups, as JSON or YAML.
 *
 *     - targets: ["10.0.0.5:9100", "[fd00::10]:9100"]
 *       labels: {service: catalog, zone: east}
 *
 * The service is named by the label that the option service_label names, else by `job`, else by the
 * file's own name. Labels become metadata. A group with `targets: []` says that there are none. */

#include <errno.h>
#include <string.h>

#include "catalog.h"
#include "own.h"

static const char *const group_keys[] = { "targets", "labels", NULL };

static bool prometheus_detect(const struct usher_node *root)
{
	return usher_node_kind(root) == USHER_NODE_LIST;
}

/* Names that begin with __ are Prometheus' own and end with relabelling, but __meta_ ones are what
 * the discovery before it knew. */
static bool is_metadata(const char *name)
{
	return strncmp(name, "__", 2) != 0 || strncmp(name, "__meta_", 7) == 0;
}

static int check_group(const struct usher_node *group, struct usher_error *reterr)
{
	const struct usher_node *targets;
	int r = format_expect(group, "group", USHER_NODE_MAP, reterr);

	if (r < 0)
		return r;
	for (size_t i = 0; i < format_count(group); i++) {
		const char *key = usher_node_key(group, i);

		if (strcmp(key, group_keys[0]) != 0 && strcmp(key, group_keys[1]) != 0)
			return usher_node_error(reterr, usher_node_key_node(group, i), -EBADMSG,
					"%s: is no key of a group; a group has targets and labels",
					key);
	}
	targets = usher_node_get(group, "targets");
	if (!targets)
		return usher_node_error(reterr, group, -EBADMSG,
				"targets: is missing; if the group is empty on purpose, write "
				"`targets: []`");
	return format_expect(targets, "targets", USHER_NODE_LIST, reterr);
}

static int prometheus_survey(struct catalog *catalog, const struct usher_node *root,
		const struct format_options *options, struct usher_error *reterr)
{
	const char *stem = NULL; /* the catalog's copy */
	int r = format_expect(root, "the file", USHER_NODE_LIST, reterr);

	if (r < 0)
		return r;
	for (size_t i = 0; i < format_count(root); i++) {
		const struct usher_node *group = usher_node_at(root, i), *labels;
		const char *service = NULL;

		r = check_group(group, reterr);
		if (r < 0)
			return r;
		labels = usher_node_get(group, "labels");
		if ((r = format_get_text(labels, options->service_label, &service, reterr)) < 0 ||
				(r = service ? 0
					     : format_get_text(labels, "job", &service, reterr)) <
						0)
			return r;
		if (!service && !stem)
			stem = catalog_name(catalog, "%s", options->stem);
		if (!service && !stem)
			return usher_error_set(reterr, -ENOMEM, "out of memory");
		r = catalog_add(catalog, service ? service : stem, group, reterr);
		if (r < 0)
			return r;
	}
	return 0;
}

static uint16_t default_port(const char *scheme)
{
	if (!scheme)
		return 0;
	return strcmp(scheme, "https") == 0 ? 443 : 80;
}

/* Whether the endpoint that has this id says the same: then the target merely stands twice. */
static bool is_twin(const struct usher_endpoints *set, const struct usher_endpoint *endpoint)
{
	ssize_t i = usher_endpoints_find(set, endpoint->id);
	struct usher_endpoint other;

	if (i < 0)
		return false;
	usher_endpoints_get(set, (size_t) i, &other);
	if (other.secure != endpoint->secure || other.metadata_count != endpoint->metadata_count)
		return false;
	for (size_t k = 0; k < endpoint->metadata_count; k++) {
		const char *value = usher_endpoints_metadata(
				set, (size_t) i, endpoint->metadata[k].name);

		if (!value || strcmp(value, endpoint->metadata[k].value) != 0)
			return false;
	}
	return true;
}

static int add_target(struct usher_endpoints *set, const struct usher_node *n,
		const struct usher_endpoint *group, const char *scheme, struct usher_error *reterr)
{
	struct usher_endpoint endpoint = *group;
	struct usher_error cause = { 0 };
	char address[USHER_TEXT_MAX], id[USHER_AUTHORITY_MAX];
	int r = format_expect(n, "targets", USHER_NODE_SCALAR, reterr);

	if (r < 0)
		return r;
	r = usher_authority_parse(
			format_text(n), default_port(scheme), address, &endpoint.port, &cause);
	if (r < 0)
		return format_field_error(reterr, n, "targets", r, &cause);
	endpoint.address = address;
	endpoint.id = usher_authority_format(address, endpoint.port, id);
	r = usher_endpoints_add(set, &endpoint, &cause);
	if (r == -EEXIST && is_twin(set, &endpoint))
		return 0;
	if (r == -EEXIST)
		return usher_node_error(reterr, n, r,
				"targets: %s stands twice in the service with different labels; to "
				"usher it is one endpoint: give one of them another service label",
				id);
	if (r < 0)
		return format_field_error(reterr, n, "targets", r, &cause);
	return 0;
}

static int prometheus_build(struct usher_endpoints *set, const struct part *parts, size_t count,
		const char *port, struct usher_error *reterr)
{
	(void) port;
	for (size_t p = 0; p < count; p++) {
		const struct usher_node *targets = usher_node_get(parts[p].node, "targets");
		struct usher_label labels[USHER_METADATA_MAX];
		struct usher_endpoint group = USHER_ENDPOINT_INIT;
		const char *scheme = NULL;
		int r;

		if ((r = format_get_labels(parts[p].node, "labels", is_metadata, labels,
				     &group.metadata_count, reterr)) < 0 ||
				(r = format_get_text(usher_node_get(parts[p].node, "labels"),
						 "__scheme__", &scheme, reterr)) < 0)
			return r;
		group.metadata = labels;
		group.secure = scheme && strcmp(scheme, "https") == 0;
		for (size_t i = 0; i < format_count(targets); i++) {
			r = add_target(set, usher_node_at(targets, i), &group, scheme, reterr);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

const struct format format_prometheus = {
	.name = "prometheus",
	.title = "Prometheus' file_sd",
	.remedy = "change it where it comes from, or keep what usher is to register in a file of "
		  "its own format",
	.merges = true,
	.detect = prometheus_detect,
	.survey = prometheus_survey,
	.build = prometheus_build,
};
