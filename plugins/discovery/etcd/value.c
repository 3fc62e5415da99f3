#include "value.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "json-read.h"

const char *const etcd_format_choices[] = { "usher", "grpc", NULL };

/* ---- reading ---- */

static int wrong(struct usher_error *reterr, const char *what, const char *expected)
{
	return usher_error_set(reterr, -EBADMSG, "%s: has to be %s", what, expected);
}

static json_t *first_of(const json_t *object, const char *const *names)
{
	for (; *names; names++) {
		json_t *value = json_object_get(object, *names);

		if (value && !json_is_null(value))
			return value;
	}
	return NULL;
}

/* Numbers and truths, as a text that the value keeps. NULL: neither, or no memory. */
static const char *scalar_text(struct etcd_value *v, const json_t *value)
{
	char *text = NULL;

	if (json_is_string(value))
		return json_string_value(value);
	if (v->made_count == USHER_METADATA_MAX ||
			!(json_is_number(value) || json_is_boolean(value)))
		return NULL;
	text = json_dumps(value, JSON_ENCODE_ANY);
	if (text)
		v->made[v->made_count++] = text;
	return text;
}

static int read_text(const json_t *object, const char *name, const char **ret,
		struct usher_error *reterr)
{
	const json_t *value = json_object_get(object, name);

	if (!value || json_is_null(value))
		return 0;
	if (!json_is_string(value))
		return wrong(reterr, name, "a text");
	*ret = json_string_value(value);
	return 0;
}

static int read_bool(const json_t *object, const char *name, bool *ret, struct usher_error *reterr)
{
	const json_t *value = json_object_get(object, name);

	if (!value || json_is_null(value))
		return 0;
	if (!json_is_boolean(value))
		return wrong(reterr, name, "true or false");
	*ret = json_is_true(value);
	return 0;
}

static int port_number(const char *text, uint16_t *ret)
{
	char *end;
	unsigned long number;

	if (text[0] < '0' || text[0] > '9')
		return -EINVAL;
	errno = 0;
	number = strtoul(text, &end, 10);
	if (errno != 0 || *end != '\0' || number < 1 || number > 65535)
		return -EINVAL;
	*ret = (uint16_t) number;
	return 0;
}

static int read_port(struct etcd_value *v, const json_t *value, const char *what, uint16_t *ret,
		struct usher_error *reterr)
{
	const char *text;

	if (!value || json_is_null(value))
		return 0;
	text = scalar_text(v, value);
	if (!text || port_number(text, ret) < 0)
		return wrong(reterr, what, "a port in 1..65535");
	return 0;
}

/* The port that was asked for, else that of "port", else 0. */
static int choose_port(
		struct etcd_value *v, const char *port, uint16_t *ret, struct usher_error *reterr)
{
	const json_t *named =
			port ? json_object_get(json_object_get(v->root, "ports"), port) : NULL;

	if (named)
		return read_port(v, named, port, ret, reterr);
	if (port && port_number(port, ret) < 0)
		return usher_error_set(reterr, -EBADMSG, "ports: there is none named %.100s", port);
	if (port)
		return 0;
	return read_port(v, json_object_get(v->root, "port"), "port", ret, reterr);
}

/* "ADDRESS", with the port beside it, or "ADDRESS:PORT". asked: a port that was asked for beats the
 * one in the address. */
static int read_authority(struct etcd_value *v, const char *text, uint16_t port, bool asked,
		struct usher_error *reterr)
{
	uint16_t own = 0;
	int r;

	if (port > 0 && usher_address_check(text, NULL) == 0) {
		if (strlen(text) >= sizeof(v->address))
			return wrong(reterr, "address", "shorter");
		(void) snprintf(v->address, sizeof(v->address), "%s", text);
		v->endpoint.port = port;
	} else {
		r = usher_authority_parse(text, port, v->address, &own, reterr);
		if (r < 0)
			return usher_error_prefix(reterr, -EBADMSG, "address");
		v->endpoint.port = asked && port > 0 ? port : own;
	}
	v->endpoint.address = v->address;
	return 0;
}

static int read_address(struct etcd_value *v, const char *port, struct usher_error *reterr)
{
	static const char *const names[] = { "address", "addr", "Addr", "host", "ip", NULL };
	const json_t *address = first_of(v->root, names);
	uint16_t number = 0;
	int r;

	if (!json_is_string(address))
		return wrong(reterr, "address", "there, as a text");
	r = choose_port(v, port, &number, reterr);
	if (r < 0)
		return r;
	return read_authority(v, json_string_value(address), number, port != NULL, reterr);
}

/* "state" among the labels of gRPC naming, or in the value itself. */
static int read_state(struct etcd_value *v, const char *text, struct usher_error *reterr)
{
	if (text && usher_admin_state_from_string(text, &v->endpoint.admin_state) < 0)
		return wrong(reterr, "state", "ready, draining or maintenance");
	return 0;
}

static int read_labels(struct etcd_value *v, bool grpc, struct usher_error *reterr)
{
	static const char *const names[] = { "metadata", "Metadata", "labels", NULL };
	json_t *labels = first_of(v->root, names);
	const char *name;
	json_t *value;

	if (labels && !json_is_object(labels))
		return grpc ? 0 : wrong(reterr, "metadata", "a map");
	json_object_foreach(labels, name, value) {
		const char *text = scalar_text(v, value);

		if (!text && !json_is_string(value))
			continue; /* lists and maps are for others */
		if (v->label_count == USHER_METADATA_MAX)
			return wrong(reterr, "metadata", "smaller");
		if (grpc && strcmp(name, "state") == 0) {
			int r = read_state(v, text, reterr);

			if (r < 0)
				return r;
			continue;
		}
		v->labels[v->label_count++] = (struct usher_label){ name, text };
	}
	v->endpoint.metadata = v->labels;
	v->endpoint.metadata_count = v->label_count;
	return 0;
}

static int read_weight(struct etcd_value *v, struct usher_error *reterr)
{
	const json_t *weight = json_object_get(v->root, "weight");

	if (!weight || json_is_null(weight))
		return 0;
	v->endpoint.weight_text = scalar_text(v, weight);
	return v->endpoint.weight_text ? 0 : wrong(reterr, "weight", "a number");
}

static int read_conditions(struct etcd_value *v, struct usher_error *reterr)
{
	struct usher_endpoint *e = &v->endpoint;
	bool draining = false, maintenance = false;
	const char *state = NULL;
	int r;

	if ((r = read_bool(v->root, "secure", &e->secure, reterr)) < 0 ||
			(r = read_bool(v->root, "tls", &e->secure, reterr)) < 0 ||
			(r = read_bool(v->root, "ready", &e->ready, reterr)) < 0 ||
			(r = read_bool(v->root, "serving", &e->serving, reterr)) < 0 ||
			(r = read_bool(v->root, "terminating", &e->terminating, reterr)) < 0 ||
			(r = read_bool(v->root, "draining", &draining, reterr)) < 0 ||
			(r = read_bool(v->root, "maintenance", &maintenance, reterr)) < 0 ||
			(r = read_text(v->root, "state", &state, reterr)) < 0)
		return r;
	if (maintenance)
		e->admin_state = USHER_ADMIN_MAINTENANCE;
	else if (draining)
		e->admin_state = USHER_ADMIN_DRAINING;
	return read_state(v, state, reterr);
}

static int read_object(struct etcd_value *v, const char *port, struct usher_error *reterr)
{
	bool grpc = json_object_get(v->root, "Addr");
	const json_t *op = json_object_get(v->root, "Op");
	int r;

	if (grpc && json_integer_value(op) == 1)
		return usher_error_set(reterr, -ENOENT, "it has been deleted");
	if ((r = read_address(v, port, reterr)) < 0 || (r = read_weight(v, reterr)) < 0 ||
			(r = read_text(v->root, "zone", &v->endpoint.zone, reterr)) < 0 ||
			(r = read_text(v->root, "uid", &v->endpoint.uid, reterr)) < 0 ||
			(!grpc && (r = read_conditions(v, reterr)) < 0))
		return r;
	return read_labels(v, grpc, reterr);
}

/* "10.0.0.5:8080", "https://10.0.0.5:8080/path". */
static int read_plain(struct etcd_value *v, const char *text, size_t size, const char *port,
		struct usher_error *reterr)
{
	char authority[USHER_AUTHORITY_MAX];
	uint16_t number = 0;
	size_t length;

	if (size >= 8 && strncasecmp(text, "https://", 8) == 0) {
		v->endpoint.secure = true;
		text += 8;
	} else if (size >= 7 && strncasecmp(text, "http://", 7) == 0) {
		text += 7;
	}
	length = strcspn(text, "/ \t\r\n");
	if (length >= sizeof(authority))
		return wrong(reterr, "value", "JSON or ADDRESS:PORT");
	(void) snprintf(authority, sizeof(authority), "%.*s", (int) length, text);
	if (port && port_number(port, &number) < 0)
		return usher_error_set(reterr, -EBADMSG,
				"value: is a plain address, which has no port named %.100s", port);
	return read_authority(v, authority, number, port != NULL, reterr);
}

void etcd_value_done(struct etcd_value *v)
{
	json_decref(v->root);
	for (size_t i = 0; i < v->made_count; i++)
		free(v->made[i]);
	v->root = NULL;
	v->made_count = v->label_count = 0;
}

int etcd_value_read(const char *text, size_t size, const char *port, struct etcd_value *ret,
		struct usher_error *reterr)
{
	struct usher_error why = { 0 };
	size_t blank = strspn(text, " \t\r\n");
	int r;

	ret->endpoint = (struct usher_endpoint) USHER_ENDPOINT_INIT;
	ret->root = NULL;
	ret->made_count = ret->label_count = 0;
	if (strlen(text) != size)
		return wrong(reterr, "value", "a text without zero bytes");
	if (text[blank] != '{')
		return read_plain(ret, text + blank, size - blank, port, reterr);
	r = json_read(text, size, JSON_REJECT_DUPLICATES, &ret->root, &why);
	if (r < 0)
		return usher_error_set(reterr, r, r == -EBADMSG ? "value: %s" : "%s", why.text);
	r = read_object(ret, port, reterr);
	if (r < 0)
		etcd_value_done(ret);
	return r;
}

/* ---- the lease ---- */

void etcd_value_set_lease(struct etcd_value *v, int64_t lease)
{
	for (size_t i = 0; i < v->label_count; i++)
		if (strcmp(v->labels[i].name, ETCD_LABEL_LEASE) == 0)
			return;
	if (v->label_count == USHER_METADATA_MAX)
		return;
	(void) snprintf(v->lease, sizeof(v->lease), "%" PRId64, lease);
	v->labels[v->label_count++] = (struct usher_label){ ETCD_LABEL_LEASE, v->lease };
	v->endpoint.metadata = v->labels;
	v->endpoint.metadata_count = v->label_count;
}

int64_t etcd_value_lease(const struct usher_endpoint *endpoint)
{
	for (size_t i = 0; i < endpoint->metadata_count; i++) {
		const struct usher_label *label = &endpoint->metadata[i];
		char *end;
		long long lease;

		if (strcmp(label->name, ETCD_LABEL_LEASE) != 0)
			continue;
		errno = 0;
		lease = strtoll(label->value, &end, 10);
		return errno == 0 && *end == '\0' && end != label->value && lease >= 0 ? lease : -1;
	}
	return -1;
}

/* ---- writing ---- */

static int set(json_t *object, const char *name, json_t *value)
{
	return json_object_set_new(object, name, value);
}

static json_t *labels_of(const struct usher_endpoint *e)
{
	json_t *labels = json_object();

	for (size_t i = 0; i < e->metadata_count; i++) {
		const struct usher_label *label = &e->metadata[i];

		if (strcmp(label->name, ETCD_LABEL_LEASE) != 0 &&
				set(labels, label->name, json_string(label->value)) < 0) {
			json_decref(labels);
			return NULL;
		}
	}
	return labels;
}

static int write_usher(json_t *object, const struct usher_endpoint *e)
{
	autojson json_t *labels = labels_of(e);
	int r = set(object, "address", json_string(e->address));

	r |= set(object, "port", json_integer(e->port));
	if (e->uid)
		r |= set(object, "uid", json_string(e->uid));
	if (e->secure)
		r |= set(object, "secure", json_true());
	if (e->zone && e->zone[0])
		r |= set(object, "zone", json_string(e->zone));
	if (e->weight != 1)
		r |= set(object, "weight", json_integer(e->weight));
	if (!e->ready)
		r |= set(object, "ready", json_false());
	if (!e->serving)
		r |= set(object, "serving", json_false());
	if (e->terminating)
		r |= set(object, "terminating", json_true());
	if (e->admin_state != USHER_ADMIN_READY)
		r |= set(object, "state", json_string(usher_admin_state_to_string(e->admin_state)));
	if (json_object_size(labels) > 0)
		r |= set(object, "metadata", json_incref(labels));
	return labels ? r : -1;
}

/* What is no label in usher is one here: gRPC naming has no other place for it. */
static int write_grpc(json_t *object, const struct usher_endpoint *e)
{
	json_t *labels = labels_of(e);
	char authority[USHER_AUTHORITY_MAX];
	int r = set(object, "Op", json_integer(0));

	r |= set(object, "Addr",
			json_string(usher_authority_format(e->address, e->port, authority)));
	if (e->zone && e->zone[0])
		r |= set(labels, USHER_ZONE_LABEL, json_string(e->zone));
	if (e->weight != 1)
		r |= set(labels, USHER_WEIGHT_LABEL, json_sprintf("%u", e->weight));
	if (e->admin_state != USHER_ADMIN_READY)
		r |= set(labels, "state", json_string(usher_admin_state_to_string(e->admin_state)));
	return r | set(object, "Metadata", labels);
}

char *etcd_value_write(enum etcd_format format, const struct usher_endpoint *endpoint)
{
	autojson json_t *object = json_object();
	int r = -1;

	switch (format) {
	case ETCD_FORMAT_USHER:
		r = write_usher(object, endpoint);
		break;
	case ETCD_FORMAT_GRPC:
		r = write_grpc(object, endpoint);
		break;
	}
	return r == 0 ? json_dumps(object, JSON_COMPACT) : NULL;
}

/* Where the state stands in this value; NULL: nowhere. */
static json_t *place_of_state(json_t *root)
{
	json_t *labels = json_object_get(root, "Metadata");

	if (!json_object_get(root, "Addr"))
		return root;
	if (!labels || json_is_null(labels)) {
		if (json_object_set_new(root, "Metadata", json_object()) < 0)
			return NULL;
		labels = json_object_get(root, "Metadata");
	}
	return json_is_object(labels) ? labels : NULL;
}

int etcd_value_set_state(const char *text, enum usher_admin_state state, char **ret,
		struct usher_error *reterr)
{
	autojson json_t *root = NULL;
	int r = json_read(text, strlen(text), JSON_REJECT_DUPLICATES, &root, NULL);
	json_t *place = json_is_object(root) ? place_of_state(root) : NULL;

	if (r > 0)
		return json_read_refuse(reterr);

	if (!place)
		return usher_error_set(reterr, -EROFS,
				"its value has no room for a state; write it as JSON, as in "
				"{\"address\": \"10.0.0.5\", \"port\": 8080}");
	(void) json_object_del(place, "draining");
	(void) json_object_del(place, "maintenance");
	(void) json_object_del(place, "state");
	if (state != USHER_ADMIN_READY &&
			set(place, "state", json_string(usher_admin_state_to_string(state))) < 0)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	*ret = json_dumps(root, JSON_COMPACT);
	return *ret ? 0 : usher_error_set(reterr, -ENOMEM, "out of memory");
}
