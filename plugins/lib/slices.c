#include "slices.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "own.h"

/* ---- a slice ---- */

#define TEXTS_BLOCK 4000

struct slice_texts {
	struct slice_texts *next;
	size_t used, space;
	char bytes[];
};

struct slice *slice_new(void)
{
	struct slice *s = calloc(1, sizeof(*s));

	if (s)
		s->space = "";
	return s;
}

struct slice *slice_free(struct slice *s)
{
	if (!s)
		return NULL;
	while (s->texts) {
		struct slice_texts *next = s->texts->next;

		free(s->texts);
		s->texts = next;
	}
	free(s->ports);
	free(s->endpoints);
	free(s->labels);
	free(s);
	return NULL;
}

static struct slice_texts *room_for(struct slice *s, size_t size)
{
	size_t space = size > TEXTS_BLOCK ? size : TEXTS_BLOCK;
	struct slice_texts *t = s->texts;

	if (t && t->space - t->used >= size)
		return t;
	t = malloc(sizeof(*t) + space);
	if (!t) {
		s->is_short_of_memory = true;
		return NULL;
	}
	*t = (struct slice_texts){ .next = s->texts, .space = space };
	s->texts = t;
	return t;
}

const char *slice_text(struct slice *s, const char *text)
{
	size_t size = text ? strlen(text) + 1 : 0;
	struct slice_texts *t = text ? room_for(s, size) : NULL;
	char *copy;

	if (!t)
		return NULL;
	copy = memcpy(t->bytes + t->used, text, size);
	t->used += size;
	return copy;
}

/* Room for one more of an array. */
static bool grow(struct slice *s, void **all, size_t *space, size_t count, size_t size)
{
	size_t more = *space ? *space * 2 : 4;
	void *grown;

	if (count < *space)
		return true;
	grown = reallocarray(*all, more, size);
	if (!grown) {
		s->is_short_of_memory = true;
		return false;
	}
	*all = grown;
	*space = more;
	return true;
}

struct slice_port *slice_add_port(struct slice *s)
{
	void *all = s->ports;
	bool has_room = grow(s, &all, &s->port_space, s->port_count, sizeof(*s->ports));

	s->ports = all;
	if (!has_room)
		return NULL;
	s->ports[s->port_count] = (struct slice_port){ 0 };
	return &s->ports[s->port_count++];
}

struct slice_endpoint *slice_add_endpoint(struct slice *s)
{
	void *all = s->endpoints;
	bool has_room = grow(s, &all, &s->endpoint_space, s->endpoint_count, sizeof(*s->endpoints));

	s->endpoints = all;
	if (!has_room)
		return NULL;
	s->endpoints[s->endpoint_count] = (struct slice_endpoint){ .ready = true, .serving = true };
	return &s->endpoints[s->endpoint_count++];
}

/* Labels of a slice are those of its Service, and Kubernetes' own beside them. */
bool slice_is_users_label(const char *name)
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

void slice_add_label(struct slice *s, const char *name, const char *value)
{
	void *all = s->labels;
	bool has_room;

	if (!slice_is_users_label(name))
		return;
	has_room = grow(s, &all, &s->label_space, s->label_count, sizeof(*s->labels));
	s->labels = all;
	if (has_room)
		s->labels[s->label_count++] =
				(struct usher_label){ slice_text(s, name), slice_text(s, value) };
}

/* ---- the endpoints of all slices ---- */

struct candidate {
	struct slice_choice choice;
	struct in6_addr bytes; /* of the address; IPv4 as ::ffff:a.b.c.d */
	size_t order;
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

/* How well a port answers the wish; 0: not at all. By name before number, for a name may look like
 * one; without a wish one of TCP before others. */
static int rate_port(const struct slice_port *p, const char *wanted)
{
	char digits[8];

	if (p->number == 0)
		return 0;
	if (!wanted)
		return !p->protocol || strcmp(p->protocol, "TCP") == 0 ? 2 : 1;
	if (p->name && strcmp(p->name, wanted) == 0)
		return 2;
	(void) snprintf(digits, sizeof(digits), "%u", p->number);
	return strcmp(digits, wanted) == 0;
}

static const struct slice_port *choose_port(const struct slice *s, const char *wanted)
{
	const struct slice_port *best = NULL;
	int best_rate = 0;

	for (size_t i = 0; i < s->port_count; i++) {
		int rate = rate_port(&s->ports[i], wanted);

		if (rate > best_rate) {
			best = &s->ports[i];
			best_rate = rate;
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

static int collect_endpoint(struct candidates *c, const struct slice *s,
		const struct slice_port *port, const struct slice_endpoint *e)
{
	struct candidate candidate = { .choice = { .slice = s, .endpoint = e, .port = port },
		.order = c->count };

	c->seen++;
	if (!port || !e->address)
		return 0;
	if (s->ipv6) {
		(void) inet_pton(AF_INET6, e->address, &candidate.bytes);
	} else {
		candidate.bytes.s6_addr[10] = 0xff;
		candidate.bytes.s6_addr[11] = 0xff;
		(void) inet_pton(AF_INET, e->address, &candidate.bytes.s6_addr[12]);
	}
	return append(c, &candidate);
}

static int collect(struct candidates *c, const struct slice *const *slices, size_t count,
		const char *wanted)
{
	for (size_t p = 0; p < count; p++) {
		const struct slice_port *port = choose_port(slices[p], wanted);

		for (size_t i = 0; i < slices[p]->endpoint_count; i++) {
			int r = collect_endpoint(c, slices[p], port, &slices[p]->endpoints[i]);

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

static const char *uid_of(const struct candidate *c)
{
	return c->choice.endpoint->target_uid;
}

static bool is_ipv6(const struct candidate *c)
{
	return c->choice.slice->ipv6;
}

static int by_uid(const struct candidate *a, const struct candidate *b)
{
	return by_text(uid_of(a), uid_of(b));
}

static int by_name(const struct candidate *a, const struct candidate *b)
{
	return by_text(a->choice.endpoint->target, b->choice.endpoint->target);
}

static int by_family(const struct candidate *a, const struct candidate *b)
{
	return is_ipv6(a) - is_ipv6(b);
}

static int by_order(const struct candidate *a, const struct candidate *b)
{
	return (a->order > b->order) - (a->order < b->order);
}

/* The newer slice first. */
static int by_version(const struct candidate *a, const struct candidate *b)
{
	uint64_t left = a->choice.slice->version, right = b->choice.slice->version;

	return (left < right) - (left > right);
}

static int usefulness(const struct candidate *c)
{
	const struct slice_endpoint *e = c->choice.endpoint;

	return e->ready * 4 + e->serving * 2 + !e->terminating;
}

/* Ready before not ready, serving before not, staying before leaving. */
static int by_usefulness(const struct candidate *a, const struct candidate *b)
{
	return usefulness(b) - usefulness(a);
}

static int by_socket(const struct candidate *a, const struct candidate *b)
{
	int order = memcmp(&a->bytes, &b->bytes, sizeof(a->bytes));
	uint16_t left = a->choice.port->number, right = b->choice.port->number;

	return order ? order : (left > right) - (left < right);
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
	return by_socket(a, b) == 0 && by_uid(a, b) == 0;
}

static int order_by_socket_and_pod(const void *left, const void *right)
{
	const struct candidate *a = left, *b = right;

	return FIRST_OF(by_socket(a, b), by_uid(a, b), by_version(a, b), by_usefulness(a, b),
			by_order(a, b));
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

static bool is_same_pod(const struct candidate *a, const struct candidate *b)
{
	return uid_of(a) && uid_of(b) && by_uid(a, b) == 0;
}

static bool is_same_pod_and_family(const struct candidate *a, const struct candidate *b)
{
	return is_same_pod(a, b) && by_family(a, b) == 0;
}

static int order_by_pod_and_family(const void *left, const void *right)
{
	const struct candidate *a = left, *b = right;

	return FIRST_OF(by_uid(a, b), by_family(a, b), by_version(a, b), by_usefulness(a, b),
			by_order(a, b));
}

static int order_by_pod(const void *left, const void *right)
{
	const struct candidate *a = left, *b = right;

	return FIRST_OF(by_uid(a, b), by_usefulness(a, b), by_family(a, b), by_order(a, b));
}

static int order_by_name(const void *left, const void *right)
{
	const struct candidate *a = left, *b = right;

	return FIRST_OF(by_name(a, b), by_usefulness(a, b), by_version(a, b), by_order(a, b));
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
		if (kept && is_same_pod(&c->all[kept - 1], &c->all[i]))
			c->all[kept - 1].choice.other_address = c->all[i].choice.endpoint->address;
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
		c->all[i].choice.is_namesake = c->all[i].choice.endpoint->target &&
				by_name(&c->all[i], &c->all[i - 1]) == 0;
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

static int refuse_unusable(const struct candidates *c, const char *service, const char *port,
		struct usher_error *reterr)
{
	if (port)
		return usher_error_set(reterr, -ENOENT,
				"service %s: no slice has the port %s, so none of its %zu endpoints "
				"can be used; correct `port:`, or leave it away for the first one",
				service, port, c->seen);
	return usher_error_set(reterr, -EBADMSG,
			"service %s: none of its %zu endpoints has an address and a port with a "
			"number",
			service, c->seen);
}

int slices_choose(const struct slice *const *slices, size_t count, const char *service,
		const char *port, struct slice_choices *ret, struct usher_error *reterr)
{
	cleanup(free_candidates) struct candidates c = { 0 };
	struct slice_choice *choices;
	int r = collect(&c, slices, count, port);

	if (r < 0)
		return usher_error_set(reterr, r, "out of memory");
	if (c.count == 0 && c.seen > 0)
		return refuse_unusable(&c, service, port, reterr);
	reconcile(&c);
	choices = calloc(c.count + 1, sizeof(*choices));
	if (!choices)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	for (size_t i = 0; i < c.count; i++)
		choices[i] = c.all[i].choice;
	*ret = (struct slice_choices){ choices, c.count, c.conflicts };
	return 0;
}

/* ---- what an endpoint says ---- */

static void add_label(struct usher_endpoint *e, struct usher_label *labels, const char *name,
		const char *value)
{
	if (value && *value)
		labels[e->metadata_count++] = (struct usher_label){ name, value };
}

static bool is_secure(const char *protocol, const char *port_name)
{
	if (protocol)
		return strcmp(protocol, "https") == 0 || strcmp(protocol, "kubernetes.io/wss") == 0;
	return port_name &&
			(strcmp(port_name, "https") == 0 || strncmp(port_name, "https-", 6) == 0);
}

int slices_describe(const struct slice_choice *choice, struct usher_label *labels,
		struct usher_endpoint *ret, struct usher_error *reterr)
{
	const struct slice_endpoint *from = choice->endpoint;
	const struct slice *s = choice->slice;
	struct usher_endpoint e = USHER_ENDPOINT_INIT;

	e.id = choice->is_namesake ? NULL : from->target;
	e.uid = from->target_uid;
	e.address = from->address;
	e.port = choice->port->number;
	e.zone = from->zone;
	e.ready = from->ready;
	e.serving = from->serving;
	e.terminating = from->terminating;
	e.secure = is_secure(choice->port->app_protocol, choice->port->name);
	add_label(&e, labels, "kubernetes.namespace", s->space);
	add_label(&e, labels, "kubernetes.node", from->node);
	add_label(&e, labels, "kubernetes.hostname", from->hostname);
	add_label(&e, labels, "kubernetes.port", choice->port->name);
	add_label(&e, labels, "kubernetes.app-protocol", choice->port->app_protocol);
	add_label(&e, labels, "kubernetes.other-address", choice->other_address);
	add_label(&e, labels, "kubernetes.zone-hints", from->zone_hints);
	if (s->label_count > USHER_METADATA_MAX - e.metadata_count)
		return usher_error_set(reterr, -E2BIG,
				"labels: there are more than %d for one endpoint",
				USHER_METADATA_MAX);
	for (size_t i = 0; i < s->label_count; i++)
		labels[e.metadata_count++] = s->labels[i];
	e.metadata = labels;
	*ret = e;
	return 0;
}
