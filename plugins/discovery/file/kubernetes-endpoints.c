#include "kubernetes-endpoints.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <usher/plugin.h>

#include "own.h"

/* One endpoint of one slice, on the wanted port. */
struct candidate {
	const struct usher_node *slice, *endpoint, *port_node;
	const char *address, *uid, *name; /* uid, name: of its target; NULL: none */
	struct in6_addr bytes;            /* of the address; IPv4 as ::ffff:a.b.c.d */
	uint64_t version;                 /* the slice's resourceVersion; 0: none */
	size_t order;
	const char *other_address; /* of the other family, of the same pod */
	uint16_t port;
	bool ipv6, ready, serving, terminating;
	bool is_namesake; /* another incarnation has the name as its id */
};

struct candidates {
	struct candidate *all;
	size_t count, space;
	size_t seen;      /* endpoints in the slices, also those that are of no use */
	size_t conflicts; /* of which only one could count */
};

static void free_candidates(struct candidates *c)
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

/* A port without a number means every port, which is nothing to connect to. */
static bool read_port(const struct usher_node *n, uint16_t *ret)
{
	return format_get_port(n, "port", ret, NULL) > 0;
}

static bool is_tcp(const struct usher_node *port)
{
	const char *protocol = "TCP";

	return format_get_text(port, "protocol", &protocol, NULL) >= 0 &&
			strcmp(protocol, "TCP") == 0;
}

/* How well a port answers the wish; 0: not at all. By name before number, for a name may look like
 * one; without a wish one of TCP before others. */
static int rate_port(const struct usher_node *n, uint16_t number, const char *wanted)
{
	const char *name = NULL;
	char digits[8];

	if (!wanted)
		return is_tcp(n) ? 2 : 1;
	if (format_get_text(n, "name", &name, NULL) > 0 && strcmp(name, wanted) == 0)
		return 2;
	(void) snprintf(digits, sizeof(digits), "%u", number);
	return strcmp(digits, wanted) == 0;
}

static const struct usher_node *choose_port(
		const struct usher_node *slice, const char *wanted, uint16_t *ret)
{
	const struct usher_node *ports = usher_node_get(slice, "ports"), *best = NULL;
	int best_rate = 0;

	for (size_t i = 0; i < format_count(ports); i++) {
		const struct usher_node *n = usher_node_at(ports, i);
		uint16_t number = 0;
		int rate = read_port(n, &number) ? rate_port(n, number, wanted) : 0;

		if (rate > best_rate) {
			best = n;
			best_rate = rate;
			*ret = number;
		}
	}
	return best;
}

static int append(struct candidates *c, const struct candidate *candidate)
{
	if (c->count == c->space) {
		size_t space = c->space ? c->space * 2 : 64;
		struct candidate *all = reallocarray(c->all, space, sizeof(*all));

		if (!all)
			return -ENOMEM;
		c->all = all;
		c->space = space;
	}
	c->all[c->count++] = *candidate;
	return 0;
}

static int collect_endpoint(
		struct candidates *c, const struct candidate *slice, const struct usher_node *n)
{
	const struct usher_node *addresses = usher_node_get(n, "addresses");
	const struct usher_node *conditions = usher_node_get(n, "conditions");
	const struct usher_node *target = usher_node_get(n, "targetRef");
	struct candidate e = *slice;

	c->seen++;
	if (format_count(addresses) == 0)
		return 0;
	e.endpoint = n;
	e.order = c->count;
	e.address = format_text(usher_node_at(addresses, 0));
	e.ready = true;
	e.serving = true;
	(void) format_get_bool(conditions, "ready", &e.ready, NULL);
	(void) format_get_bool(conditions, "serving", &e.serving, NULL);
	(void) format_get_bool(conditions, "terminating", &e.terminating, NULL);
	(void) format_get_text(target, "uid", &e.uid, NULL);
	(void) format_get_text(target, "name", &e.name, NULL);
	if (e.ipv6) {
		(void) inet_pton(AF_INET6, e.address, &e.bytes);
	} else {
		e.bytes.s6_addr[10] = 0xff;
		e.bytes.s6_addr[11] = 0xff;
		(void) inet_pton(AF_INET, e.address, &e.bytes.s6_addr[12]);
	}
	return append(c, &e);
}

static int collect(struct candidates *c, const struct part *parts, size_t count, const char *port)
{
	for (size_t p = 0; p < count; p++) {
		const struct usher_node *endpoints = usher_node_get(parts[p].node, "endpoints");
		const char *type = format_text(usher_node_get(parts[p].node, "addressType"));
		struct candidate slice = { .slice = parts[p].node };

		slice.port_node = choose_port(slice.slice, port, &slice.port);
		slice.version = version_of(slice.slice);
		slice.ipv6 = strcmp(type, "IPv6") == 0;
		for (size_t i = 0; i < format_count(endpoints); i++) {
			int r;

			if (!slice.port_node) {
				c->seen++;
				continue;
			}
			r = collect_endpoint(c, &slice, usher_node_at(endpoints, i));
			if (r < 0)
				return r;
		}
	}
	return 0;
}

/* ---- orders: what is the same, and which of those counts ---- */

static int by_text(const char *a, const char *b)
{
	if (!a || !b)
		return (a != NULL) - (b != NULL);
	return strcmp(a, b);
}

static int by_order(const struct candidate *a, const struct candidate *b)
{
	return (a->order > b->order) - (a->order < b->order);
}

/* The newer slice first. */
static int by_version(const struct candidate *a, const struct candidate *b)
{
	return (a->version < b->version) - (a->version > b->version);
}

static int usefulness(const struct candidate *c)
{
	return c->ready * 4 + c->serving * 2 + !c->terminating;
}

/* Ready before not ready, serving before not, staying before leaving. */
static int by_usefulness(const struct candidate *a, const struct candidate *b)
{
	return usefulness(b) - usefulness(a);
}

static int by_socket(const struct candidate *a, const struct candidate *b)
{
	int order = memcmp(&a->bytes, &b->bytes, sizeof(a->bytes));

	return order ? order : (a->port > b->port) - (a->port < b->port);
}

static int first_of(const int *orders, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (orders[i] != 0)
			return orders[i];
	return 0;
}

#define FIRST_OF(...) \
	first_of((const int[]){ __VA_ARGS__ }, ELEMENTS(((const int[]){ __VA_ARGS__ })))

static bool is_same_socket_and_pod(const struct candidate *a, const struct candidate *b)
{
	return by_socket(a, b) == 0 && by_text(a->uid, b->uid) == 0;
}

static int order_by_socket_and_pod(const void *left, const void *right)
{
	const struct candidate *a = left, *b = right;

	return FIRST_OF(by_socket(a, b), by_text(a->uid, b->uid), by_version(a, b),
			by_usefulness(a, b), by_order(a, b));
}

static bool is_same_socket(const struct candidate *a, const struct candidate *b)
{
	return by_socket(a, b) == 0;
}

static int order_by_socket(const void *left, const void *right)
{
	const struct candidate *a = left, *b = right;

	return FIRST_OF(by_socket(a, b), by_usefulness(a, b), by_version(a, b), by_order(a, b));
}

static bool is_same_pod_and_family(const struct candidate *a, const struct candidate *b)
{
	return a->uid && b->uid && strcmp(a->uid, b->uid) == 0 && a->ipv6 == b->ipv6;
}

static int order_by_pod_and_family(const void *left, const void *right)
{
	const struct candidate *a = left, *b = right;

	return FIRST_OF(by_text(a->uid, b->uid), a->ipv6 - b->ipv6, by_version(a, b),
			by_usefulness(a, b), by_order(a, b));
}

static int order_by_pod(const void *left, const void *right)
{
	const struct candidate *a = left, *b = right;

	return FIRST_OF(by_text(a->uid, b->uid), by_usefulness(a, b), a->ipv6 - b->ipv6,
			by_order(a, b));
}

static int order_by_name(const void *left, const void *right)
{
	const struct candidate *a = left, *b = right;

	return FIRST_OF(by_text(a->name, b->name), by_usefulness(a, b), by_version(a, b),
			by_order(a, b));
}

/* Sort, and keep the first of those that are the same. Returns how many left. */
static size_t keep_first(struct candidates *c, int (*order)(const void *, const void *),
		bool (*same)(const struct candidate *, const struct candidate *))
{
	size_t kept = 0, before = c->count;

	if (before == 0)
		return 0;
	qsort(c->all, before, sizeof(*c->all), order);
	for (size_t i = 0; i < before; i++)
		if (kept == 0 || !same(&c->all[kept - 1], &c->all[i]))
			c->all[kept++] = c->all[i];
	c->count = kept;
	return before - kept;
}

/* A pod with an address of either family is one endpoint: counted twice, it would get twice its
 * share. */
static void join_families(struct candidates *c)
{
	size_t kept = 0;

	if (c->count == 0)
		return;
	qsort(c->all, c->count, sizeof(*c->all), order_by_pod);
	for (size_t i = 0; i < c->count; i++) {
		struct candidate *last = kept ? &c->all[kept - 1] : NULL;

		if (last && last->uid && c->all[i].uid && strcmp(last->uid, c->all[i].uid) == 0)
			last->other_address = c->all[i].address;
		else
			c->all[kept++] = c->all[i];
	}
	c->count = kept;
}

/* A pod of a StatefulSet and its successor have one name, and may stand side by side for a while.
 */
static void mark_namesakes(struct candidates *c)
{
	if (c->count == 0)
		return;
	qsort(c->all, c->count, sizeof(*c->all), order_by_name);
	for (size_t i = 1; i < c->count; i++)
		c->all[i].is_namesake = c->all[i].name && c->all[i - 1].name &&
				strcmp(c->all[i].name, c->all[i - 1].name) == 0;
}

/* The same address and port of the same pod: the newer slice counts, else the ready one. Of two
 * pods: the ready one counts, else the newer slice. */
static void reconcile(struct candidates *c)
{
	c->conflicts += keep_first(c, order_by_socket_and_pod, is_same_socket_and_pod);
	c->conflicts += keep_first(c, order_by_socket, is_same_socket);
	c->conflicts += keep_first(c, order_by_pod_and_family, is_same_pod_and_family);
	join_families(c);
	mark_namesakes(c);
}

/* ---- what an endpoint says ---- */

/* Labels of a slice are those of its Service, and Kubernetes' own beside them. */
static bool is_users_label(const char *name)
{
	static const char *const domains[] = { "kubernetes.io", "k8s.io" };
	const char *slash = strchr(name, '/');
	size_t prefix = slash ? (size_t) (slash - name) : 0;

	for (size_t i = 0; i < ELEMENTS(domains); i++) {
		size_t length = strlen(domains[i]);

		if (prefix >= length && strncmp(slash - length, domains[i], length) == 0 &&
				(prefix == length || name[prefix - length - 1] == '.'))
			return false;
	}
	return true;
}

static void add_label(struct usher_endpoint *e, struct usher_label *labels, const char *name,
		const char *value)
{
	if (value && *value)
		labels[e->metadata_count++] = (struct usher_label){ name, value };
}

/* "a,b": the zones that the endpoint is meant for. */
static const char *zone_hints(const struct usher_node *endpoint, char *ret, size_t size)
{
	const struct usher_node *zones =
			usher_node_get(usher_node_get(endpoint, "hints"), "forZones");
	size_t used = 0;

	ret[0] = '\0';
	for (size_t i = 0; i < format_count(zones); i++) {
		const char *name = format_text(usher_node_get(usher_node_at(zones, i), "name"));
		int n;

		if (!name)
			continue;
		n = snprintf(ret + used, size - used, "%s%s", used ? "," : "", name);
		if (n < 0 || (size_t) n >= size - used)
			return NULL;
		used += (size_t) n;
	}
	return ret;
}

static bool is_secure(const char *protocol, const char *port_name)
{
	if (protocol)
		return strcmp(protocol, "https") == 0 || strcmp(protocol, "kubernetes.io/wss") == 0;
	return port_name &&
			(strcmp(port_name, "https") == 0 || strncmp(port_name, "https-", 6) == 0);
}

static int add_candidate(
		struct usher_endpoints *set, const struct candidate *c, struct usher_error *reterr)
{
	struct usher_label labels[USHER_METADATA_MAX];
	struct usher_endpoint e = USHER_ENDPOINT_INIT;
	char hints[USHER_TEXT_MAX];
	const char *protocol = NULL, *port_name = NULL, *hostname = NULL, *node = NULL;
	int r;

	(void) format_get_text(c->port_node, "appProtocol", &protocol, NULL);
	(void) format_get_text(c->port_node, "name", &port_name, NULL);
	(void) format_get_text(c->endpoint, "hostname", &hostname, NULL);
	(void) format_get_text(c->endpoint, "nodeName", &node, NULL);
	(void) format_get_text(c->endpoint, "zone", &e.zone, NULL);
	e.id = c->is_namesake ? NULL : c->name;
	e.uid = c->uid;
	e.address = c->address;
	e.port = c->port;
	e.ready = c->ready;
	e.serving = c->serving;
	e.terminating = c->terminating;
	e.secure = is_secure(protocol, port_name);
	add_label(&e, labels, "kubernetes.namespace", kubernetes_namespace(c->slice));
	add_label(&e, labels, "kubernetes.node", node);
	add_label(&e, labels, "kubernetes.hostname", hostname);
	add_label(&e, labels, "kubernetes.port", port_name);
	add_label(&e, labels, "kubernetes.app-protocol", protocol);
	add_label(&e, labels, "kubernetes.other-address", c->other_address);
	add_label(&e, labels, "kubernetes.zone-hints",
			zone_hints(c->endpoint, hints, sizeof(hints)));
	r = format_get_labels(usher_node_get(c->slice, "metadata"), "labels", is_users_label,
			labels, &e.metadata_count, reterr);
	if (r < 0)
		return r;
	e.metadata = labels;
	return format_add(set, &e, c->endpoint, reterr);
}

static int refuse_unusable(const struct candidates *c, const struct part *part, const char *port,
		struct usher_error *reterr)
{
	if (port)
		return usher_node_error(reterr, part->node, -ENOENT,
				"service %s: no slice has the port %s, so none of its %zu endpoints "
				"can be used; correct `port:`, or leave it away for the first one",
				part->service, port, c->seen);
	return usher_node_error(reterr, part->node, -EBADMSG,
			"service %s: none of its %zu endpoints has an address and a port with a "
			"number",
			part->service, c->seen);
}

int kubernetes_endpoints(struct usher_endpoints *set, const struct part *parts, size_t count,
		const char *port, struct usher_error *reterr)
{
	cleanup(free_candidates) struct candidates c = { 0 };
	int r = collect(&c, parts, count, port);

	if (r < 0)
		return usher_error_set(reterr, r, "out of memory");
	if (c.count == 0 && c.seen > 0)
		return refuse_unusable(&c, parts, port, reterr);
	reconcile(&c);
	if (c.conflicts > 0)
		usher_log(USHER_LOG_WARNING,
				"Service %s: %zu entries of its slices claim an address that another "
				"has; the newer slice or the ready endpoint counts",
				parts[0].service, c.conflicts);
	for (size_t i = 0; i < c.count; i++) {
		r = add_candidate(set, &c.all[i], reterr);
		if (r < 0)
			return r;
	}
	return 0;
}
