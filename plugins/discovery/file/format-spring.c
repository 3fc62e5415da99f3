/* The static directory of Spring Cloud, spring.cloud.discovery.client.simple.instances, as it
 * stands in an application.yaml: nested, dotted, or both.
 *
 *     spring.cloud.discovery.client.simple.instances:
 *       catalog:
 *         - uri: http://10.0.0.5:8080
 *         - {instanceId: b, host: 10.0.0.6, port: 8080, secure: true, metadata: {zone: east}}
 *
 * `uri` overrides host and port, and https in it makes the instance secure; without a port, 443 or
 * 80. Other keys of an application's configuration, such as `order`, are not usher's to judge. */

#include <errno.h>
#include <string.h>

#include "catalog.h"
#include "own.h"

#define INSTANCES_PATH "spring.cloud.discovery.client.simple.instances"
/* A path of six words can be cut into keys in 2^5 ways, and a file may use all of them at once. */
#define BRANCHES_MAX 64

struct branch {
	const struct usher_node *map;
	const char *rest; /* of the path, from here down */
};

struct search {
	struct catalog *catalog;
	struct branch branches[BRANCHES_MAX];
	size_t count;
	bool found;
	struct usher_error *reterr;
};

static bool spring_detect(const struct usher_node *root)
{
	if (usher_node_kind(root) != USHER_NODE_MAP)
		return false;
	for (size_t i = 0; i < usher_node_count(root); i++) {
		const char *key = usher_node_key(root, i);

		if (strcmp(key, "spring") == 0 || strncmp(key, "spring.", 7) == 0)
			return true;
	}
	return false;
}

/* "[a.b]" is how Spring writes a name that has dots. */
static int add_service(struct search *s, const char *key, const struct usher_node *list)
{
	size_t length = strlen(key);
	const char *name = key;
	int r;

	if (length > 2 && key[0] == '[' && key[length - 1] == ']') {
		name = catalog_name(s->catalog, "%.*s", (int) (length - 2), key + 1);
		if (!name)
			return usher_error_set(s->reterr, -ENOMEM, "out of memory");
	} else if (strchr(key, '[')) {
		return usher_node_error(s->reterr, list, -EBADMSG,
				"%s: instances that are numbered in their key are not read; write "
				"them as a list",
				key);
	}
	r = format_expect(list, key, USHER_NODE_LIST, s->reterr);
	if (r < 0)
		return r;
	s->found = true;
	return catalog_add(s->catalog, name, list, s->reterr);
}

static int add_services(struct search *s, const struct usher_node *map)
{
	int r = format_expect(map, "instances", USHER_NODE_MAP, s->reterr);

	if (r < 0)
		return r;
	s->found = true;
	for (size_t i = 0; r == 0 && i < usher_node_count(map); i++)
		r = add_service(s, usher_node_key(map, i), usher_node_at(map, i));
	return r;
}

/* One key of a branch leads to another branch, to the instances, to one service of them, or to
 * something else of the application's. */
static int follow(struct search *s, const struct branch *from, size_t i)
{
	const char *key = usher_node_key(from->map, i);
	const struct usher_node *value = usher_node_at(from->map, i);
	size_t key_length = strlen(key), rest_length = strlen(from->rest);
	size_t shorter = key_length < rest_length ? key_length : rest_length;

	if (strncmp(key, from->rest, shorter) != 0)
		return 0;
	if (key_length == rest_length)
		return add_services(s, value);
	if (key_length > rest_length) {
		if (key[rest_length] == '.')
			return add_service(s, key + rest_length + 1, value);
		return key[rest_length] == '[' ? add_service(s, key + rest_length, value) : 0;
	}
	if (from->rest[key_length] == '.' && usher_node_kind(value) == USHER_NODE_MAP &&
			s->count < BRANCHES_MAX)
		s->branches[s->count++] = (struct branch){ value, from->rest + key_length + 1 };
	return 0;
}

static int spring_survey(struct catalog *catalog, const struct usher_node *root,
		const struct format_options *options, struct usher_error *reterr)
{
	struct search s = { .catalog = catalog, .reterr = reterr };
	int r = format_expect(root, "the file", USHER_NODE_MAP, reterr);

	(void) options;
	if (r < 0)
		return r;
	s.branches[s.count++] = (struct branch){ root, INSTANCES_PATH };
	for (size_t b = 0; b < s.count; b++)
		for (size_t i = 0; i < usher_node_count(s.branches[b].map); i++) {
			struct branch from = s.branches[b];

			r = follow(&s, &from, i);
			if (r < 0)
				return r;
		}
	if (!s.found)
		return usher_node_error(reterr, root, -EBADMSG,
				"%s: is missing; if the file is to name no service, write it as `{}`",
				INSTANCES_PATH);
	return 0;
}

/* SCHEME://[USER@]HOST[:PORT][/...] */
static int read_uri(const struct usher_node *n, char *address, struct usher_endpoint *endpoint,
		struct usher_error *reterr)
{
	const char *uri = usher_node_text(n), *authority, *at;
	char bare[USHER_AUTHORITY_MAX];
	struct usher_error cause = { 0 };
	uint16_t default_port = 0;
	size_t length;
	int r;

	authority = strstr(uri, "://");
	if (!authority || authority == uri)
		return usher_node_error(reterr, n, -EBADMSG,
				"uri: %s is none, such as http://10.0.0.5:8080", uri);
	if (strncasecmp(uri, "https://", 8) == 0) {
		endpoint->secure = true;
		default_port = 443;
	} else if (strncasecmp(uri, "http://", 7) == 0) {
		default_port = 80;
	}
	authority += 3;
	length = strcspn(authority, "/?#");
	at = memrchr(authority, '@', length);
	if (at) {
		length -= (size_t) (at + 1 - authority);
		authority = at + 1;
	}
	if (length >= sizeof(bare))
		return usher_node_error(reterr, n, -EBADMSG, "uri: its host is too long");
	memcpy(bare, authority, length);
	bare[length] = '\0';
	r = usher_authority_parse(bare, default_port, address, &endpoint->port, &cause);
	if (r < 0)
		return format_field_error(reterr, n, "uri", r, &cause);
	endpoint->address = address;
	return 0;
}

static int read_host(const struct usher_node *n, struct usher_endpoint *endpoint,
		struct usher_error *reterr)
{
	struct usher_error cause = { 0 };
	const char *port = NULL;
	int r = format_get_text(n, "host", &endpoint->address, reterr);

	if (r < 0)
		return r;
	if (r == 0)
		return usher_node_error(reterr, n, -EBADMSG,
				"an instance needs `uri`, or `host` and `port`");
	r = usher_address_check(endpoint->address, &cause);
	if (r < 0)
		return format_field_error(reterr, usher_node_get(n, "host"), "host", r, &cause);
	/* Port 0, as a missing one, means that of the scheme. */
	r = format_get_text(n, "port", &port, reterr);
	if (r < 0)
		return r;
	if (r == 0 || strcmp(port, "0") == 0) {
		endpoint->port = endpoint->secure ? 443 : 80;
		return 0;
	}
	r = format_get_port(n, "port", &endpoint->port, reterr);
	return r < 0 ? r : 0;
}

static int read_instance(const struct usher_node *n, char *address, struct usher_label *labels,
		struct usher_endpoint *endpoint, struct usher_error *reterr)
{
	const char *uri = NULL;
	int r = format_expect(n, "instance", USHER_NODE_MAP, reterr);

	if (r < 0)
		return r;
	if ((r = format_get_text(n, "instanceId", &endpoint->id, reterr)) < 0 ||
			(r = format_get_text(n, "instance-id", &endpoint->id, reterr)) < 0 ||
			(r = format_get_bool(n, "secure", &endpoint->secure, reterr)) < 0 ||
			(r = format_get_text(n, "uri", &uri, reterr)) < 0)
		return r;
	r = uri ? read_uri(usher_node_get(n, "uri"), address, endpoint, reterr)
		: read_host(n, endpoint, reterr);
	if (r < 0)
		return r;
	r = format_get_labels(n, "metadata", NULL, labels, &endpoint->metadata_count, reterr);
	if (r < 0)
		return r;
	endpoint->metadata = labels;
	return 0;
}

static int spring_build(struct usher_endpoints *set, const struct part *parts, size_t count,
		const char *port, struct usher_error *reterr)
{
	(void) port;
	for (size_t p = 0; p < count; p++)
		for (size_t i = 0; i < usher_node_count(parts[p].node); i++) {
			const struct usher_node *n = usher_node_at(parts[p].node, i);
			struct usher_label labels[USHER_METADATA_MAX];
			char address[USHER_TEXT_MAX];
			struct usher_endpoint endpoint = USHER_ENDPOINT_INIT;
			int r = read_instance(n, address, labels, &endpoint, reterr);

			if (r < 0)
				return r;
			r = format_add(set, &endpoint, n, reterr);
			if (r < 0)
				return r;
		}
	return 0;
}

const struct format format_spring = {
	.name = "spring",
	.title = "a Spring application's configuration",
	.remedy = "change it where it comes from, or keep what usher is to register in a file of "
		  "its own format",
	.detect = spring_detect,
	.survey = spring_survey,
	.build = spring_build,
};
