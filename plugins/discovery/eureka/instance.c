#include "instance.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <usher/plugin.h>

#include "json-read.h"
#include "showable.h"

#define MSEC_PER_SEC      1000
#define LEASE_DEFAULT_SEC 90
#define MANAGEMENT_LABEL  "management.port"
#define NUMBER_TEXT_MAX   24

static const char *const status_names[] = {
	[INSTANCE_DOWN] = "DOWN",
	[INSTANCE_OUT_OF_SERVICE] = "OUT_OF_SERVICE",
	[INSTANCE_STARTING] = "STARTING",
	[INSTANCE_UNKNOWN] = "UNKNOWN",
	[INSTANCE_UP] = "UP",
};

const char *instance_status_to_string(enum instance_status status)
{
	return status_names[status];
}

enum instance_status instance_status_from_string(const char *text)
{
	for (int i = 0; text && i < INSTANCE_STATUSES; i++)
		if (strcmp(text, status_names[i]) == 0)
			return (enum instance_status) i;
	return INSTANCE_UNKNOWN;
}

/* ---- reading JSON ---- */

static int out_of_memory(struct usher_error *reterr)
{
	return usher_error_set(reterr, -ENOMEM, "out of memory");
}

static const char *text_at(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text && text[0] ? text : NULL;
}

/* A number, or a text that is one. */
static int64_t number_of(const json_t *value)
{
	const char *text = json_string_value(value);
	long long number;
	char *end;

	if (json_is_integer(value))
		return json_integer_value(value);
	if (!text || text[0] < '0' || text[0] > '9')
		return 0;
	errno = 0;
	number = strtoll(text, &end, 10);
	return errno == 0 && *end == '\0' ? number : 0;
}

static int64_t number_at(const json_t *object, const char *key)
{
	return number_of(json_object_get(object, key));
}

/* True or false, or a text that says so. */
static bool is_true(const json_t *value, bool otherwise)
{
	const char *text = json_string_value(value);

	if (json_is_boolean(value))
		return json_is_true(value);
	return text ? strcasecmp(text, "true") == 0 : otherwise;
}

static uint16_t read_port(const json_t *port, bool enabled)
{
	int64_t number = number_of(json_is_object(port) ? json_object_get(port, "$") : port);

	if (json_is_object(port))
		enabled = is_true(json_object_get(port, "@enabled"), enabled);
	return enabled && number > 0 && number <= UINT16_MAX ? (uint16_t) number : 0;
}

static void read_lease(struct instance *i, const json_t *lease)
{
	int64_t seconds = number_at(lease, "durationInSecs");
	int64_t renewed = number_at(lease, "lastRenewalTimestamp");

	if (seconds <= 0 || seconds > INT32_MAX)
		seconds = LEASE_DEFAULT_SEC;
	i->lease_msec = seconds * MSEC_PER_SEC;
	i->registered_msec = number_at(lease, "registrationTimestamp");
	/* Each renewal, unlike the registration, is written down as when the lease is over. */
	if (renewed > i->registered_msec && renewed - i->lease_msec >= i->registered_msec)
		renewed -= i->lease_msec;
	i->renewed_msec = renewed;
}

/* Texts are still those of the JSON. */
static void read_fixed(struct instance *i, const json_t *object)
{
	const json_t *datacenter = json_object_get(object, "dataCenterInfo");
	const json_t *amazon = json_object_get(datacenter, "metadata");

	i->app = text_at(object, "app");
	i->host = text_at(object, "hostName");
	i->ip = text_at(object, "ipAddr");
	i->id = text_at(object, "instanceId");
	if (!i->id)
		i->id = text_at(amazon, "instance-id");
	if (!i->id)
		i->id = i->host;
	i->vip = text_at(object, "vipAddress");
	i->secure_vip = text_at(object, "secureVipAddress");
	i->zone = text_at(amazon, "availability-zone");
	i->datacenter = text_at(datacenter, "name");
	i->status = instance_status_from_string(text_at(object, "status"));
	/* Older servers spell it without the e. */
	i->overridden = instance_status_from_string(text_at(object, "overriddenStatus")
					? text_at(object, "overriddenStatus")
					: text_at(object, "overriddenstatus"));
	i->port = read_port(json_object_get(object, "port"), true);
	i->secure_port = read_port(json_object_get(object, "securePort"), false);
	i->updated_msec = number_at(object, "lastUpdatedTimestamp");
	i->dirty_msec = number_at(object, "lastDirtyTimestamp");
	i->deleted = text_at(object, "actionType") &&
			strcmp(text_at(object, "actionType"), "DELETED") == 0;
	read_lease(i, json_object_get(object, "leaseInfo"));
}

/* ---- metadata ---- */

/* While an instance is read: the pairs, and the texts of those that are no texts in the JSON. */
struct reading {
	struct instance *i;
	char numbers[USHER_METADATA_MAX][NUMBER_TEXT_MAX];
};

/* A pair that usher cannot hold is no reason to lose the instance. "@class" is of Java's, not of
 * the instance's. */
static void add_label(struct reading *reading, const char *name, const json_t *value)
{
	struct instance *i = reading->i;
	const char *text = json_string_value(value);
	char *number;

	if (i->label_count == USHER_METADATA_MAX || name[0] == '\0' || strcmp(name, "@class") == 0)
		return;
	number = reading->numbers[i->label_count];
	if (json_is_integer(value))
		(void) snprintf(number, NUMBER_TEXT_MAX, "%lld",
				(long long) json_integer_value(value));
	else if (json_is_boolean(value))
		(void) snprintf(number, NUMBER_TEXT_MAX, "%s",
				json_is_true(value) ? "true" : "false");
	else if (!text)
		return;
	if (!text)
		text = number;
	if (is_showable(name) && is_showable(text))
		i->labels[i->label_count++] = (struct usher_label){ name, text };
}

static void read_metadata(struct reading *reading, json_t *metadata)
{
	for (void *at = json_object_iter(metadata); at; at = json_object_iter_next(metadata, at))
		add_label(reading, json_object_iter_key(at), json_object_iter_value(at));
}

/* ---- one block ---- */

static size_t text_size(const char *text)
{
	return text ? strlen(text) + 1 : 0;
}

static void move_text(const char **text, char **to)
{
	size_t size = text_size(*text);

	if (size == 0)
		return;
	memcpy(*to, *text, size);
	*text = *to;
	*to += size;
}

/* A copy whose texts are its own. */
static struct instance *pack(const struct instance *i)
{
	size_t fixed = sizeof(*i) + i->label_count * sizeof(*i->labels), texts = 0;
	struct instance *copy;
	char *to;

	texts += text_size(i->app) + text_size(i->id) + text_size(i->host) + text_size(i->ip);
	texts += text_size(i->vip) + text_size(i->secure_vip);
	texts += text_size(i->zone) + text_size(i->datacenter);
	for (size_t k = 0; k < i->label_count; k++)
		texts += text_size(i->labels[k].name) + text_size(i->labels[k].value);
	copy = malloc(fixed + texts);
	if (!copy)
		return NULL;
	memcpy(copy, i, fixed);
	to = (char *) copy + fixed;
	move_text(&copy->app, &to);
	move_text(&copy->id, &to);
	move_text(&copy->host, &to);
	move_text(&copy->ip, &to);
	move_text(&copy->vip, &to);
	move_text(&copy->secure_vip, &to);
	move_text(&copy->zone, &to);
	move_text(&copy->datacenter, &to);
	for (size_t k = 0; k < i->label_count; k++) {
		move_text(&copy->labels[k].name, &to);
		move_text(&copy->labels[k].value, &to);
	}
	return copy;
}

static int read_instance(const json_t *object, struct instance **ret, struct usher_error *reterr)
{
	autofree struct instance *i =
			calloc(1, sizeof(*i) + USHER_METADATA_MAX * sizeof(struct usher_label));
	autofree struct reading *reading = malloc(sizeof(*reading));
	struct instance *packed;

	if (!i || !reading)
		return out_of_memory(reterr);
	reading->i = i;
	read_fixed(i, object);
	if (!i->app || !i->id)
		return usher_error_set(reterr, -EBADMSG, "an instance without app or id");
	read_metadata(reading, json_object_get(object, "metadata"));
	packed = pack(i);
	if (!packed)
		return out_of_memory(reterr);
	*ret = packed;
	return 0;
}

int instance_parse(const char *text, size_t size, struct instance **ret, struct usher_error *reterr)
{
	cleanup(own_unref_json) json_t *root = NULL;
	const json_t *inner;
	struct usher_error why = { 0 };
	int r = json_read(text, size, 0, &root, &why);

	if (r == -EBADMSG)
		return usher_error_set(reterr, r, "an instance that is no JSON: %s", why.text);
	if (r < 0)
		return out_of_memory(reterr);
	if (!json_is_object(root))
		return usher_error_set(reterr, -EBADMSG, "an instance that is no object");
	inner = json_object_get(root, "instance");
	return read_instance(json_is_object(inner) ? inner : root, ret, reterr);
}

/* ---- what it is looked up by ---- */

uint64_t instance_key(const char *name, size_t size)
{
	char upper[USHER_TEXT_MAX];

	if (size > sizeof(upper))
		size = sizeof(upper);
	for (size_t i = 0; i < size; i++)
		upper[i] = (char) toupper((unsigned char) name[i]);
	return usher_hash(upper, size, 0);
}

static const char *names_of(const struct instance *i, enum instance_by by)
{
	switch (by) {
	case INSTANCE_BY_APP:
		return i->app;
	case INSTANCE_BY_VIP:
		return i->vip;
	case INSTANCE_BY_SECURE_VIP:
		return i->secure_vip;
	}
	return NULL;
}

bool instance_key_at(const struct instance *i, enum instance_by by, size_t k, uint64_t *ret)
{
	const char *at = names_of(i, by);

	if (at && by == INSTANCE_BY_APP) {
		*ret = instance_key(at, strlen(at));
		return k == 0;
	}
	while (at && *at) {
		size_t size;

		at += strspn(at, ", ");
		size = strcspn(at, ", ");
		if (size > 0 && k-- == 0) {
			*ret = instance_key(at, size);
			return true;
		}
		at += size;
	}
	return false;
}

/* ---- the endpoint ---- */

static const char *label_of(const struct instance *i, const char *name)
{
	for (size_t k = 0; k < i->label_count; k++)
		if (strcmp(i->labels[k].name, name) == 0)
			return i->labels[k].value;
	return NULL;
}

static uint16_t management_port(const struct instance *i)
{
	const char *text = label_of(i, MANAGEMENT_LABEL);
	unsigned long port = text && isdigit((unsigned char) text[0]) ? strtoul(text, NULL, 10) : 0;

	return port <= UINT16_MAX ? (uint16_t) port : 0;
}

static uint16_t port_of_number(const struct instance *i, const char *text)
{
	const uint16_t ports[] = { i->port, i->secure_port, management_port(i) };

	for (size_t k = 0; k < sizeof(ports) / sizeof(*ports); k++) {
		char own[8];

		(void) snprintf(own, sizeof(own), "%u", ports[k]);
		if (ports[k] != 0 && strcmp(own, text) == 0)
			return ports[k];
	}
	return 0;
}

static uint16_t choose_port(const struct instance *i, const struct instance_options *options)
{
	if (!options->port) {
		if (i->secure_port != 0 || options->by == INSTANCE_BY_SECURE_VIP)
			return i->secure_port;
		return i->port;
	}
	if (strcmp(options->port, "http") == 0)
		return i->port;
	if (strcmp(options->port, "https") == 0)
		return i->secure_port;
	if (strcmp(options->port, "management") == 0)
		return management_port(i);
	return port_of_number(i, options->port);
}

static void say_status(const struct instance *i, struct usher_endpoint *e)
{
	switch (i->status) {
	case INSTANCE_UP:
		return;
	case INSTANCE_OUT_OF_SERVICE: /* what people decided, and no ill health */
		e->admin_state = USHER_ADMIN_MAINTENANCE;
		return;
	case INSTANCE_DOWN:
	case INSTANCE_STARTING:
	case INSTANCE_UNKNOWN: /* an override was taken away, and it has not spoken since */
		e->ready = e->serving = false;
		return;
	}
}

static void add_own_label(
		struct usher_label *labels, size_t *count, const char *name, const char *value)
{
	if (!value || !is_showable(value) || *count == USHER_METADATA_MAX)
		return;
	for (size_t k = 0; k < *count; k++)
		if (strcmp(labels[k].name, name) == 0)
			return;
	labels[(*count)++] = (struct usher_label){ name, value };
}

static size_t list_labels(const struct instance *i, struct usher_label *labels)
{
	size_t count = i->label_count;

	memcpy(labels, i->labels, count * sizeof(*labels));
	add_own_label(labels, &count, INSTANCE_LABEL_PREFIX "app", i->app);
	add_own_label(labels, &count, INSTANCE_LABEL_PREFIX "status",
			instance_status_to_string(i->status));
	if (i->overridden != INSTANCE_UNKNOWN)
		add_own_label(labels, &count, INSTANCE_LABEL_PREFIX "override",
				instance_status_to_string(i->overridden));
	add_own_label(labels, &count, INSTANCE_LABEL_PREFIX "host", i->host);
	add_own_label(labels, &count, INSTANCE_LABEL_PREFIX "datacenter", i->datacenter);
	if (i->overdue)
		add_own_label(labels, &count, INSTANCE_LABEL_PREFIX "lease", "overdue");
	return count;
}

static int no_port(const struct instance *i, const struct instance_options *options,
		struct usher_error *reterr)
{
	if (options->port)
		return usher_error_set(reterr, -ENOENT, "%s has no port %s that is enabled", i->id,
				options->port);
	return usher_error_set(reterr, -ENOENT, "%s has no %sport that is enabled", i->id,
			options->by == INSTANCE_BY_SECURE_VIP ? "secure " : "");
}

int instance_to_endpoint(const struct instance *i, const struct instance_options *options,
		struct usher_label labels[USHER_METADATA_MAX], struct usher_endpoint *ret,
		struct usher_error *reterr)
{
	struct usher_endpoint e = USHER_ENDPOINT_INIT;

	e.id = i->id;
	e.address = options->hostname ? i->host : i->ip;
	if (!e.address)
		e.address = options->hostname ? i->ip : i->host;
	e.port = choose_port(i, options);
	if (e.port == 0)
		return no_port(i, options, reterr);
	e.secure = e.port == i->secure_port;
	e.zone = label_of(i, USHER_ZONE_LABEL) ? NULL : i->zone;
	say_status(i, &e);
	e.metadata = labels;
	e.metadata_count = list_labels(i, labels);
	*ret = e;
	return 0;
}

int instance_add_to(const struct instance *i, const struct instance_options *options,
		struct usher_endpoints *set, struct usher_error *reterr)
{
	struct usher_label labels[USHER_METADATA_MAX];
	struct usher_endpoint e;
	int r = instance_to_endpoint(i, options, labels, &e, reterr);

	return r < 0 ? r : usher_endpoints_add(set, &e, reterr);
}
