#include "answer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <usher/plugin.h>

#include "json-read.h"
#include "showable.h"

#define ID_MAX              (2 * USHER_TEXT_MAX + 2)
#define SERVICE_MAINTENANCE "_service_maintenance:"

/* One instance, as far as it was understood. Texts are the document's, or in `id` and `uid`. */
struct instance {
	const char *node, *service_id, *service_name;
	char id[ID_MAX], uid[USHER_TEXT_MAX + 1], tags[USHER_TEXT_MAX + 1];
	struct usher_endpoint endpoint;
	struct usher_label labels[USHER_METADATA_MAX];
	/* "key=value" tags are cut in two in here */
	char tag_text[8 * USHER_TEXT_MAX];
	size_t tag_used;
};

enum status {
	STATUS_PASSING,
	STATUS_WARNING,
	STATUS_CRITICAL,
};

static int out_of_memory(struct usher_error *reterr)
{
	return usher_error_set(reterr, -ENOMEM, "out of memory");
}

static int load(const char *text, size_t size, json_t **ret, struct usher_error *reterr)
{
	return json_read_answer(text, size, "an agent of Consul", ret, reterr);
}

static const char *text_at(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text && text[0] ? text : NULL;
}

static json_int_t integer_at(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

/* ---- health ---- */

static enum status status_from_text(const char *text)
{
	if (text && strcmp(text, "passing") == 0)
		return STATUS_PASSING;
	if (text && strcmp(text, "warning") == 0)
		return STATUS_WARNING;
	return STATUS_CRITICAL; /* also what is unknown: nobody vouches for it */
}

static bool is_maintenance(const char *check_id)
{
	return strcmp(check_id, "_node_maintenance") == 0 ||
			strncmp(check_id, SERVICE_MAINTENANCE, strlen(SERVICE_MAINTENANCE)) == 0;
}

static enum usher_admin_state maintenance_state(const char *notes)
{
	bool drains = notes &&
			strncmp(notes, ANSWER_DRAIN_REASON, strlen(ANSWER_DRAIN_REASON)) == 0;

	return drains ? USHER_ADMIN_DRAINING : USHER_ADMIN_MAINTENANCE;
}

/* A label that usher cannot hold is no reason to lose the instance. The first of a name counts. */
static void add_label(struct instance *i, const char *name, const char *value)
{
	struct usher_endpoint *e = &i->endpoint;

	if (!value || e->metadata_count == USHER_METADATA_MAX || name[0] == '\0' ||
			!is_showable(name) || !is_showable(value))
		return;
	for (size_t k = 0; k < e->metadata_count; k++)
		if (strcmp(i->labels[k].name, name) == 0)
			return;
	i->labels[e->metadata_count++] = (struct usher_label){ name, value };
}

static int read_checks(struct instance *i, const json_t *checks, enum status *ret)
{
	enum usher_admin_state state = USHER_ADMIN_READY;
	const char *reason = NULL;

	*ret = STATUS_PASSING;
	if (checks && !json_is_array(checks) && !json_is_null(checks))
		return -EBADMSG;
	for (size_t k = 0; k < json_array_size(checks); k++) {
		const json_t *check = json_array_get(checks, k);
		const char *id = text_at(check, "CheckID");
		enum status status = status_from_text(text_at(check, "Status"));

		if (id && is_maintenance(id)) {
			const char *notes = text_at(check, "Notes");

			/* Of a node's and a service's, the one that is further out counts. */
			if (status == STATUS_CRITICAL && maintenance_state(notes) > state) {
				state = maintenance_state(notes);
				reason = notes;
			}
		} else if (status > *ret) {
			*ret = status;
		}
	}
	i->endpoint.admin_state = state;
	add_label(i, "consul.maintenance", reason);
	return 0;
}

static uint32_t read_weight(const json_t *service, enum status status)
{
	const json_t *weights = json_object_get(service, "Weights");
	const json_t *weight =
			json_object_get(weights, status == STATUS_WARNING ? "Warning" : "Passing");
	json_int_t value = json_integer_value(weight);

	if (!json_is_integer(weight) || value < 0)
		return 1;
	return value > USHER_WEIGHT_MAX ? USHER_WEIGHT_MAX : (uint32_t) value;
}

/* ---- where it is ---- */

static void read_address(struct instance *i, const json_t *node, const json_t *service,
		const char *tagged, json_int_t *ret_port)
{
	const char *address = text_at(service, "Address");
	json_int_t port = integer_at(service, "Port");
	const json_t *ours;

	if (tagged) {
		ours = json_object_get(json_object_get(service, "TaggedAddresses"), tagged);
		if (text_at(ours, "Address")) {
			address = text_at(ours, "Address");
			port = integer_at(ours, "Port") ? integer_at(ours, "Port") : port;
		} else if (!address) {
			address = text_at(json_object_get(node, "TaggedAddresses"), tagged);
		}
	}
	i->endpoint.address = address ? address : text_at(node, "Address");
	*ret_port = port;
}

static int read_port(
		struct instance *i, json_int_t port, const char *wanted, struct usher_error *reterr)
{
	char text[32];

	(void) snprintf(text, sizeof(text), "%lld", (long long) port);
	if (port < 1 || port > UINT16_MAX)
		return usher_error_set(reterr, -EBADMSG, "%s: its port is %s", i->id, text);
	if (wanted && strcmp(wanted, text) != 0)
		return usher_error_set(reterr, -ENOENT, "%s: its only port is %s, not %s", i->id,
				text, wanted);
	i->endpoint.port = (uint16_t) port;
	return 0;
}

/* ---- what is said of it ---- */

/* "key=value", as some clients write their metadata. */
static void read_pair_tag(struct instance *i, const char *tag)
{
	const char *equals = strchr(tag, '=');
	size_t size = strlen(tag) + 1;
	char *name;

	if (!equals || equals == tag || size > sizeof(i->tag_text) - i->tag_used)
		return;
	name = memcpy(&i->tag_text[i->tag_used], tag, size);
	name[equals - tag] = '\0';
	i->tag_used += size;
	add_label(i, name, name + (equals - tag) + 1);
}

static void read_tags(struct instance *i, const json_t *tags)
{
	size_t used = 0;

	for (size_t k = 0; k < json_array_size(tags); k++) {
		const char *tag = json_string_value(json_array_get(tags, k));
		int n;

		if (!tag)
			continue;
		read_pair_tag(i, tag);
		if (strcmp(tag, "https") == 0 || strcmp(tag, "secure=true") == 0)
			i->endpoint.secure = true;
		n = snprintf(&i->tags[used], sizeof(i->tags) - used, "%s%s", used ? "," : "", tag);
		if (n < 0 || (size_t) n >= sizeof(i->tags) - used) {
			i->tags[used] = '\0'; /* whole tags only */
			break;
		}
		used += (size_t) n;
	}
	if (used)
		add_label(i, "consul.tags", i->tags);
}

static void read_metadata(struct instance *i, const json_t *node, const json_t *service)
{
	json_t *meta = json_object_get(service, "Meta");
	const char *scheme;

	add_label(i, "consul.node", i->node);
	add_label(i, "consul.datacenter", text_at(node, "Datacenter"));
	for (void *at = json_object_iter(meta); at; at = json_object_iter_next(meta, at))
		add_label(i, json_object_iter_key(at),
				json_string_value(json_object_iter_value(at)));
	read_tags(i, json_object_get(service, "Tags"));

	scheme = text_at(meta, "scheme");
	if (scheme && strcmp(scheme, "https") == 0)
		i->endpoint.secure = true;
	scheme = text_at(meta, "secure");
	if (scheme && strcmp(scheme, "true") == 0)
		i->endpoint.secure = true;
}

/* That of the service's metadata comes first, by itself; then what Consul knows of the place. */
static void read_zone(struct instance *i, const json_t *node, const json_t *service)
{
	const char *zone = NULL;

	for (size_t k = 0; k < i->endpoint.metadata_count; k++)
		if (strcmp(i->labels[k].name, USHER_ZONE_LABEL) == 0)
			return;
	zone = text_at(json_object_get(service, "Locality"), "Zone");
	if (!zone)
		zone = text_at(json_object_get(node, "Locality"), "Zone");
	if (!zone)
		zone = text_at(json_object_get(node, "Meta"), USHER_ZONE_LABEL);
	i->endpoint.zone = zone;
}

/* ---- who it is ---- */

/* One id may be on two nodes. Where it is the service's name, which is what Consul makes of none,
 * it sooner or later will be: so the node is part of it from the start. */
static void name_by_node(struct instance *i)
{
	(void) snprintf(i->id, sizeof(i->id), "%s@%s", i->service_id, i->node);
}

static void name_instance(struct instance *i, const json_t *node, const json_t *service)
{
	json_int_t created = integer_at(service, "CreateIndex");
	const char *node_id = text_at(node, "ID");

	if (strcmp(i->service_id, i->service_name) == 0)
		name_by_node(i);
	else
		(void) snprintf(i->id, sizeof(i->id), "%s", i->service_id);
	if (created > 0)
		(void) snprintf(i->uid, sizeof(i->uid), "%s/%lld", node_id ? node_id : i->node,
				(long long) created);
}

static int read_instance(const json_t *item, const struct answer_options *options,
		struct instance *i, struct usher_error *reterr)
{
	const json_t *node = json_object_get(item, "Node");
	const json_t *service = json_object_get(item, "Service");
	enum status status;
	json_int_t port;
	int r;

	i->node = text_at(node, "Node");
	i->service_name = text_at(service, "Service");
	i->service_id = text_at(service, "ID");
	if (!i->service_id)
		i->service_id = i->service_name;
	if (!i->node || !i->service_name)
		return usher_error_set(reterr, -EBADMSG, "an instance without node or service");
	name_instance(i, node, service);
	if (read_checks(i, json_object_get(item, "Checks"), &status) < 0)
		return usher_error_set(reterr, -EBADMSG, "%s: its checks are no list", i->id);
	read_address(i, node, service, options->tagged_address, &port);
	read_metadata(i, node, service);
	read_zone(i, node, service);
	r = read_port(i, port, options->port, reterr);
	if (r < 0)
		return r;

	i->endpoint.id = i->id;
	i->endpoint.uid = i->uid[0] ? i->uid : NULL;
	i->endpoint.weight = read_weight(service, status);
	i->endpoint.ready = i->endpoint.serving = status != STATUS_CRITICAL;
	i->endpoint.metadata = i->labels;
	return 0;
}

/* ---- all of them ---- */

static const char *service_id_of(const json_t *item)
{
	return text_at(json_object_get(item, "Service"), "ID");
}

/* The ids that stand there twice, as the keys of an object. */
static int find_doubles(const json_t *list, json_t **ret)
{
	autojson json_t *seen = json_object(), *doubles = json_object();

	if (!seen || !doubles)
		return -ENOMEM;
	for (size_t k = 0; k < json_array_size(list); k++) {
		const char *id = service_id_of(json_array_get(list, k));

		if (id &&
				json_object_set_new(json_object_get(seen, id) ? doubles : seen, id,
						json_true()) < 0)
			return -ENOMEM;
	}
	*ret = take(doubles);
	return 0;
}

static bool is_ready_in(const struct usher_endpoints *set, const char *id)
{
	struct usher_endpoint e = USHER_ENDPOINT_INIT;
	ssize_t at = usher_endpoints_find(set, id);

	if (at < 0)
		return false;
	usher_endpoints_get(set, (size_t) at, &e);
	return e.ready;
}

static int add_instance(struct answer *a, const json_t *item, const json_t *doubles,
		const struct answer_options *options, struct instance *i)
{
	struct usher_error why = { 0 };
	int r;

	*i = (struct instance){ .endpoint = USHER_ENDPOINT_INIT };
	r = read_instance(item, options, i, &why);
	if (r == 0) {
		if (json_object_get(doubles, i->service_id))
			name_by_node(i);
		if (options->trusted && !i->endpoint.ready &&
				is_ready_in(options->trusted, i->id)) {
			a->doubted++;
			return 0;
		}
		r = usher_endpoints_add(a->set, &i->endpoint, &why);
	}
	if (r == 0 || r == -ENOMEM)
		return r;
	if (r == -E2BIG && usher_endpoints_count(a->set) == USHER_ENDPOINTS_MAX)
		return r;
	if (a->skipped++ == 0)
		a->first_skip = why;
	return 0;
}

static int add_all(struct answer *a, const json_t *list, const struct answer_options *options)
{
	autojson json_t *doubles = NULL;
	autofree struct instance *i = malloc(sizeof(*i));
	int r;

	if (!i || find_doubles(list, &doubles) < 0)
		return -ENOMEM;
	a->instances = json_array_size(list);
	for (size_t k = 0; k < a->instances; k++) {
		r = add_instance(a, json_array_get(list, k), doubles, options, i);
		if (r < 0)
			return r;
	}
	return 0;
}

int answer_parse(const char *text, size_t size, const struct answer_options *options,
		struct answer *ret, struct usher_error *reterr)
{
	autojson json_t *list = NULL;
	cleanup(answer_done) struct answer a = { 0 };
	int r = load(text, size, &list, reterr);

	if (r < 0)
		return r;
	if (!json_is_array(list))
		return usher_error_set(reterr, -EBADMSG,
				"the answer is no list of instances; is this an agent of Consul?");
	a.set = usher_endpoints_new();
	if (!a.set)
		return out_of_memory(reterr);
	r = add_all(&a, list, options);
	if (r == -E2BIG)
		return usher_error_set(reterr, r, "more than %d instances", USHER_ENDPOINTS_MAX);
	if (r < 0)
		return out_of_memory(reterr);
	*ret = a;
	a.set = NULL;
	return 0;
}

void answer_done(struct answer *a)
{
	a->set = usher_endpoints_unref(a->set);
}

/* ---- the others ---- */

void answer_names_free(char **names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(names[i]);
	free(names);
}

int answer_parse_names(const char *text, size_t size, char ***ret_names, size_t *ret_count,
		struct usher_error *reterr)
{
	autojson json_t *services = NULL;
	char **names;
	size_t count = 0;
	int r = load(text, size, &services, reterr);

	if (r < 0)
		return r;
	if (!json_is_object(services))
		return usher_error_set(reterr, -EBADMSG, "the answer is no map of services");
	names = calloc(json_object_size(services) + 1, sizeof(*names));
	if (!names)
		return out_of_memory(reterr);
	for (void *at = json_object_iter(services); at; at = json_object_iter_next(services, at)) {
		names[count] = strdup(json_object_iter_key(at));
		if (!names[count]) {
			answer_names_free(names, count);
			return out_of_memory(reterr);
		}
		count++;
	}
	*ret_names = names;
	*ret_count = count;
	return 0;
}

int answer_parse_node(const char *text, size_t size, char **ret, struct usher_error *reterr)
{
	autojson json_t *self = NULL;
	const char *name;
	char *copy;
	int r = load(text, size, &self, reterr);

	if (r < 0)
		return r;
	name = text_at(json_object_get(self, "Config"), "NodeName");
	if (!name)
		return usher_error_set(reterr, -EBADMSG, "the agent does not say its node's name");
	copy = strdup(name);
	if (!copy)
		return out_of_memory(reterr);
	*ret = copy;
	return 0;
}

static void read_own_maintenance(struct answer_own *o, const char *notes)
{
	o->state = maintenance_state(notes);
	o->is_theirs = !notes ||
			strncmp(notes, ANSWER_REASON_PREFIX, strlen(ANSWER_REASON_PREFIX)) != 0;
}

/* Which check says what of it: that of usher's, and the one that is a maintenance. */
static void read_own_checks(struct answer_own *o, const json_t *checks, const char *check_id)
{
	for (size_t k = 0; k < json_array_size(checks); k++) {
		const json_t *check = json_array_get(checks, k);
		const char *id = text_at(check, "CheckID"), *notes = text_at(check, "Notes");

		if (id && strcmp(id, check_id) == 0)
			o->notes = notes;
		else if (id && strncmp(id, SERVICE_MAINTENANCE, strlen(SERVICE_MAINTENANCE)) == 0)
			read_own_maintenance(o, notes);
	}
}

int answer_parse_own(const char *text, size_t size, const char *check_id, struct answer_own *ret,
		struct usher_error *reterr)
{
	cleanup(answer_own_done) struct answer_own o = { .state = USHER_ADMIN_READY };
	int r = load(text, size, &o.root, reterr);

	if (r < 0)
		return r;
	o.service = json_object_get(o.root, "Service");
	if (!text_at(o.service, "Service"))
		return usher_error_set(
				reterr, -EBADMSG, "the agent does not say which service it is");
	read_own_checks(&o, json_object_get(o.root, "Checks"), check_id);
	*ret = o;
	o.root = NULL;
	return 0;
}

void answer_own_done(struct answer_own *o)
{
	json_decref(o->root);
	o->root = NULL;
}
