#include "value.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "json-read.h"

/* Spring Cloud's state in the metadata, and beside it what it has no word for. */
#define STATUS_LABEL   "instance_status"
#define STATE_LABEL    "usher_state"
#define UP             "UP"
#define DOWN           "DOWN"
#define OUT_OF_SERVICE "OUT_OF_SERVICE"
#define SPRING_CLASS   "org.springframework.cloud.zookeeper.discovery.ZookeeperInstance"

/* In the metadata, or labels, of what usher has registered. */
#define OWNER_LABEL "registered-by"
#define OWNER       "usher"

const char *const zk_format_choices[] = { "spring", "curator", "nerve", NULL };

/* ---- reading ---- */

static int wrong(struct usher_error *reterr, const char *what, const char *expected)
{
	return usher_error_set(reterr, -EBADMSG, "%s: has to be %s", what, expected);
}

/* Numbers and truths, as a text that the value keeps. NULL: neither, or no memory. */
static const char *scalar_text(struct zk_value *v, const json_t *value)
{
	char *text = NULL;

	if (json_is_string(value))
		return json_string_value(value);
	if (v->made_count == ELEMENTS(v->made) ||
			!(json_is_number(value) || json_is_boolean(value)))
		return NULL;
	text = json_dumps(value, JSON_ENCODE_ANY);
	if (text)
		v->made[v->made_count++] = text;
	return text;
}

static json_t *member(const json_t *object, const char *name)
{
	json_t *value = json_object_get(object, name);

	return json_is_null(value) ? NULL : value;
}

static int port_of(const json_t *value, uint16_t *ret)
{
	json_int_t number = json_integer_value(value);
	const char *text = json_string_value(value);

	if (text) {
		char *end;

		errno = 0;
		number = text[0] >= '0' && text[0] <= '9' ? strtoll(text, &end, 10) : 0;
		if (number == 0 || errno != 0 || *end != '\0')
			return -EINVAL;
	}
	if (number < 1 || number > 65535)
		return -EINVAL;
	*ret = (uint16_t) number;
	return 0;
}

static int read_port(
		const json_t *object, const char *name, uint16_t *ret, struct usher_error *reterr)
{
	return port_of(member(object, name), ret) < 0 ? wrong(reterr, name, "a port in 1..65535")
						      : 0;
}

/* The port that was asked for by its number. */
static bool is_number(const char *port, uint16_t *ret)
{
	json_t *text = port ? json_string(port) : NULL;
	bool is = text && port_of(text, ret) == 0;

	json_decref(text);
	return is;
}

static int read_host(struct zk_value *v, const json_t *object, const char *name,
		struct usher_error *reterr)
{
	v->endpoint.address = json_string_value(member(object, name));
	return v->endpoint.address ? 0 : wrong(reterr, name, "there, as a text");
}

/* UP, OUT_OF_SERVICE, and whatever else somebody has to say, which is not good. */
static void read_status(struct zk_value *v, const char *status, const char *state)
{
	struct usher_endpoint *e = &v->endpoint;

	if (!status || strcmp(status, UP) == 0)
		return;
	if (strcmp(status, OUT_OF_SERVICE) != 0) {
		e->ready = false;
		return;
	}
	e->admin_state = USHER_ADMIN_MAINTENANCE;
	if (state)
		(void) usher_admin_state_from_string(state, &e->admin_state);
}

static int read_labels(struct zk_value *v, json_t *labels, struct usher_error *reterr)
{
	const char *name, *status = NULL, *state = NULL;
	json_t *value;

	json_object_foreach(labels, name, value) {
		const char *text = scalar_text(v, value);

		if (!text || strcmp(name, "@class") == 0)
			continue; /* lists and maps are for others */
		if (strcmp(name, STATUS_LABEL) == 0) {
			status = text;
		} else if (strcmp(name, STATE_LABEL) == 0) {
			state = text;
		} else if (v->label_count == USHER_METADATA_MAX) {
			return wrong(reterr, "metadata", "smaller");
		} else {
			v->labels[v->label_count++] = (struct usher_label){ name, text };
		}
	}
	read_status(v, status, state);
	v->endpoint.metadata = v->labels;
	v->endpoint.metadata_count = v->label_count;
	return 0;
}

/* A secure port counts before a plain one, as Spring Cloud takes them. */
static int curator_port(struct zk_value *v, const char *port, struct usher_error *reterr)
{
	struct usher_endpoint *e = &v->endpoint;
	const json_t *secure = member(v->root, "sslPort");
	bool wants_secure = port && (strcmp(port, "https") == 0 || strcmp(port, "sslPort") == 0);

	if (is_number(port, &e->port)) {
		uint16_t number;

		e->secure = secure && port_of(secure, &number) == 0 && number == e->port;
		return 0;
	}
	if (port && !wants_secure && strcmp(port, "http") != 0 && strcmp(port, "port") != 0)
		return usher_error_set(reterr, -EBADMSG,
				"port: there is none named %.100s; there are http (port) and https "
				"(sslPort)",
				port);
	e->secure = wants_secure || (!port && secure);
	return read_port(v->root, e->secure ? "sslPort" : "port", &e->port, reterr);
}

static int read_curator(struct zk_value *v, const char *port, struct usher_error *reterr)
{
	json_t *payload = member(v->root, "payload");
	json_t *metadata = member(payload, "metadata");
	int r;

	if ((r = read_host(v, v->root, "address", reterr)) < 0 ||
			(r = curator_port(v, port, reterr)) < 0)
		return r;
	/* When the instance was made is what tells it from one that had its id before. */
	v->endpoint.uid = scalar_text(v, member(v->root, "registrationTimeUTC"));
	r = read_labels(v, json_is_object(metadata) ? metadata : payload, reterr);
	if (r == 0 && json_is_false(member(v->root, "enabled")) &&
			v->endpoint.admin_state == USHER_ADMIN_READY)
		v->endpoint.admin_state = USHER_ADMIN_MAINTENANCE;
	return r;
}

static int read_nerve(struct zk_value *v, const char *port, struct usher_error *reterr)
{
	json_t *labels = member(v->root, "labels");
	const json_t *weight = member(v->root, "weight");
	const char *name = json_string_value(member(v->root, "name"));
	int r;

	if ((r = read_host(v, v->root, "host", reterr)) < 0)
		return r;
	if (!is_number(port, &v->endpoint.port) &&
			(r = read_port(v->root, "port", &v->endpoint.port, reterr)) < 0)
		return r;
	if (weight)
		v->endpoint.weight_text = scalar_text(v, weight);
	if (weight && !v->endpoint.weight_text)
		return wrong(reterr, "weight", "a number");
	r = read_labels(v, labels, reterr);
	if (r == 0 && name && !member(labels, "name") && v->label_count < USHER_METADATA_MAX) {
		v->labels[v->label_count++] = (struct usher_label){ "name", name };
		v->endpoint.metadata_count = v->label_count;
	}
	return r;
}

static int read_serverset(struct zk_value *v, const char *port, struct usher_error *reterr)
{
	const json_t *named = port ? member(member(v->root, "additionalEndpoints"), port) : NULL;
	const json_t *main = named ? named : member(v->root, "serviceEndpoint");
	const char *status = json_string_value(member(v->root, "status"));
	const json_t *shard = member(v->root, "shard");
	bool is_asked = is_number(port, &v->endpoint.port);
	int r;

	if (status && strcmp(status, "DEAD") == 0)
		return usher_error_set(reterr, -ENOENT, "it says that it is dead");
	if (port && !named && !is_asked)
		return usher_error_set(reterr, -EBADMSG,
				"additionalEndpoints: there is none named %.100s", port);
	if ((r = read_host(v, main, "host", reterr)) < 0)
		return r;
	if (!is_asked && (r = read_port(main, "port", &v->endpoint.port, reterr)) < 0)
		return r;
	v->endpoint.ready = !status || strcmp(status, "ALIVE") == 0;
	if (shard) {
		v->labels[0] = (struct usher_label){ "shard", scalar_text(v, shard) };
		v->endpoint.metadata = v->labels;
		v->endpoint.metadata_count = v->label_count = v->labels[0].value ? 1 : 0;
	}
	return 0;
}

void zk_value_done(struct zk_value *v)
{
	json_decref(v->root);
	for (size_t i = 0; i < v->made_count; i++)
		free(v->made[i]);
	v->root = NULL;
	v->made_count = v->label_count = 0;
}

static int read_any(struct zk_value *v, const char *port, struct usher_error *reterr)
{
	if (member(v->root, "serviceEndpoint"))
		return read_serverset(v, port, reterr);
	if (member(v->root, "address"))
		return read_curator(v, port, reterr);
	if (member(v->root, "host"))
		return read_nerve(v, port, reterr);
	return usher_error_set(reterr, -EBADMSG,
			"it has no address (Curator, Spring Cloud), host (Nerve) or serviceEndpoint "
			"(serversets)");
}

int zk_value_read(const char *text, size_t size, const char *port, struct zk_value *ret,
		struct usher_error *reterr)
{
	int r;

	ret->endpoint = (struct usher_endpoint) USHER_ENDPOINT_INIT;
	ret->made_count = ret->label_count = 0;
	r = json_read(text, size, JSON_REJECT_DUPLICATES, &ret->root, reterr);
	if (r < 0)
		return r;
	r = json_is_object(ret->root) ? read_any(ret, port, reterr)
				      : wrong(reterr, "the data", "a map in JSON");
	if (r < 0)
		zk_value_done(ret);
	return r;
}

/* ---- writing ---- */

static int set(json_t *object, const char *name, json_t *value)
{
	return json_object_set_new(object, name, value);
}

static int set_texts(json_t *object, const struct usher_endpoint *e)
{
	int r = 0;

	for (size_t i = 0; i < e->metadata_count; i++)
		r |= set(object, e->metadata[i].name, json_string(e->metadata[i].value));
	return r;
}

/* What has no other place than among the labels. */
static int set_labels(json_t *object, const struct usher_endpoint *e)
{
	int r = set_texts(object, e);

	if (e->zone && e->zone[0])
		r |= set(object, USHER_ZONE_LABEL, json_string(e->zone));
	return r | set(object, OWNER_LABEL, json_string(OWNER));
}

static int set_status(json_t *metadata, enum usher_admin_state state)
{
	int r = set(metadata, STATUS_LABEL,
			json_string(state == USHER_ADMIN_READY ? UP : OUT_OF_SERVICE));

	(void) json_object_del(metadata, STATE_LABEL);
	if (state == USHER_ADMIN_DRAINING)
		r |= set(metadata, STATE_LABEL, json_string(usher_admin_state_to_string(state)));
	return r;
}

static json_t *spring_payload(const char *service, const char *id, const struct usher_endpoint *e)
{
	autojson json_t *payload = json_object();
	json_t *metadata = json_object();
	int r = set_labels(metadata, e);

	if (e->weight != 1)
		r |= set(metadata, USHER_WEIGHT_LABEL, json_sprintf("%u", e->weight));
	r |= set_status(metadata, e->admin_state);
	if (!e->ready && e->admin_state == USHER_ADMIN_READY)
		r |= set(metadata, STATUS_LABEL, json_string(DOWN));
	r |= set(payload, "@class", json_string(SPRING_CLASS));
	r |= set(payload, "id", json_string(id));
	r |= set(payload, "name", json_string(service));
	r |= set(payload, "metadata", metadata);
	return r == 0 ? take(payload) : NULL;
}

/* "{scheme}://{address}:{port}", as Spring Cloud and Curator's examples have it. */
static json_t *uri_spec(void)
{
	static const struct {
		const char *value;
		bool is_variable;
	} parts[] = { { "scheme", true }, { "://", false }, { "address", true }, { ":", false },
		{ "port", true } };
	autojson json_t *spec = json_object();
	json_t *list = json_array();
	int r = 0;

	for (size_t i = 0; i < ELEMENTS(parts); i++)
		r |= json_array_append_new(list,
				json_pack("{s:s, s:b}", "value", parts[i].value, "variable",
						parts[i].is_variable));
	r |= set(spec, "parts", list);
	return r == 0 ? take(spec) : NULL;
}

/* Curator's own have no room for more, and nobody else's that say nothing of themselves say where
 * they are in that way. */
static bool is_bare_of_ours(const json_t *root)
{
	autojson json_t *spec = uri_spec();

	return !member(root, "payload") && spec && json_equal(member(root, "uriSpec"), spec);
}

bool zk_value_is_ours(const struct zk_value *v)
{
	for (size_t i = 0; i < v->label_count; i++)
		if (strcmp(v->labels[i].name, OWNER_LABEL) == 0)
			return strcmp(v->labels[i].value, OWNER) == 0;
	return is_bare_of_ours(v->root);
}

static int write_curator(json_t *object, const char *service, const char *id,
		const struct usher_endpoint *e, json_t *payload, int64_t now_ms)
{
	int64_t registered = e->uid ? strtoll(e->uid, NULL, 10) : 0;
	int r = set(object, "name", json_string(service));

	r |= set(object, "id", json_string(id));
	r |= set(object, "address", json_string(e->address));
	r |= set(object, "port", e->secure ? json_null() : json_integer(e->port));
	r |= set(object, "sslPort", e->secure ? json_integer(e->port) : json_null());
	r |= set(object, "payload", payload);
	r |= set(object, "registrationTimeUTC", json_integer(registered > 0 ? registered : now_ms));
	r |= set(object, "serviceType", json_string("DYNAMIC"));
	return r | set(object, "uriSpec", uri_spec());
}

static int write_nerve(json_t *object, const char *id, const struct usher_endpoint *e)
{
	json_t *labels = json_object();
	int r = set(object, "host", json_string(e->address));

	r |= set(object, "port", json_integer(e->port));
	r |= set(object, "name", json_string(id));
	r |= set_labels(labels, e);
	if (e->weight != 1)
		r |= set(object, "weight", json_integer(e->weight));
	return r | set(object, "labels", labels);
}

char *zk_value_write(enum zk_format format, const char *service, const char *id,
		const struct usher_endpoint *endpoint, int64_t now_ms)
{
	autojson json_t *object = json_object();
	int r = -1;

	switch (format) {
	case ZK_FORMAT_SPRING:
		r = write_curator(object, service, id, endpoint,
				spring_payload(service, id, endpoint), now_ms);
		break;
	case ZK_FORMAT_CURATOR:
		r = write_curator(object, service, id, endpoint, json_null(), now_ms);
		/* Only said where it is so: readers of Curator 2 do not know it. */
		if (!endpoint->ready || endpoint->admin_state != USHER_ADMIN_READY)
			r |= set(object, "enabled", json_false());
		break;
	case ZK_FORMAT_NERVE:
		r = write_nerve(object, id, endpoint);
		break;
	}
	return r == 0 ? json_dumps(object, JSON_COMPACT) : NULL;
}

int zk_value_set_state(const char *text, size_t size, enum usher_admin_state state, char **ret,
		struct usher_error *reterr)
{
	autojson json_t *root = NULL;
	int r = json_read(text, size, JSON_REJECT_DUPLICATES, &root, NULL);
	json_t *metadata = member(member(root, "payload"), "metadata");

	if (r > 0)
		return json_read_refuse(reterr);
	if (!json_is_string(member(root, "address")))
		return usher_error_set(reterr, -EROFS,
				"its data have no room for a state; those of Spring Cloud and of "
				"Curator have");
	r = json_is_object(metadata) ? set_status(metadata, state) : 0;
	/* Somebody may have said it there, too. */
	if (!json_is_object(metadata) || json_is_false(member(root, "enabled")))
		r |= set(root, "enabled", json_boolean(state == USHER_ADMIN_READY));
	if (r < 0)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	*ret = json_dumps(root, JSON_COMPACT);
	return *ret ? 0 : usher_error_set(reterr, -ENOMEM, "out of memory");
}
