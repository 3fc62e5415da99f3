#include "answer.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <usher/plugin.h>

#include "envelope.h"
#include "json-read.h"
#include "nacos.h"
#include "showable.h"

#define USEC_PER_MSEC UINT64_C(1000)
#define ID_MAX        (USHER_AUTHORITY_MAX + USHER_TEXT_MAX + 2)
#define SCALE_MAX     1000

/* One instance, as far as it was understood. Texts are the document's, or in `id`. */
struct instance {
	const char *cluster;
	char id[ID_MAX], weight[32];
	struct usher_endpoint endpoint;
	struct usher_label labels[USHER_METADATA_MAX];
};

/* How a list is read. */
struct reading {
	const struct answer_options *options;
	struct answer *answer;
	const json_t *doubles; /* the ids that several clusters have */
	unsigned scale;
};

/* The list of instances, and the object that it stands in where there is one. */
static int find_hosts(const json_t *answer, const json_t **ret_list, const json_t **ret_around,
		struct usher_error *reterr)
{
	const json_t *data;
	int r = envelope_open(answer, &data, reterr);

	if (r < 0)
		return r;
	*ret_around = data;
	*ret_list = data != answer && json_is_array(data) ? data : json_object_get(data, "hosts");
	if (json_is_array(*ret_list))
		return 0;
	return usher_error_set(reterr, -EBADMSG,
			"the answer is no list of instances; is this a server of Nacos?");
}

/* ---- weights ---- */

static double weight_of(const json_t *item)
{
	const json_t *value = json_object_get(item, "weight");
	double weight = json_is_number(value) ? json_number_value(value) : 1.0;

	return weight >= 0 && weight <= USHER_WEIGHT_MAX ? weight : 1.0;
}

static bool is_whole(const json_t *list, unsigned scale)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		double weight = weight_of(json_array_get(list, i)) * scale;

		if (fabs(weight - round(weight)) > 1e-6)
			return false;
	}
	return true;
}

static unsigned find_scale(const json_t *list)
{
	double most = 0;
	unsigned scale = 1;

	while (scale < SCALE_MAX && !is_whole(list, scale))
		scale *= 10;
	for (size_t i = 0; i < json_array_size(list); i++)
		most = fmax(most, weight_of(json_array_get(list, i)));
	while (scale > 1 && most * scale > USHER_WEIGHT_MAX)
		scale /= 10;
	return scale;
}

/* Whoever has a weight keeps one. */
static uint32_t scaled(double weight, unsigned scale)
{
	double value = round(weight * scale);

	if (weight <= 0)
		return 0;
	return value < 1 ? 1 : (uint32_t) value;
}

/* ---- one instance ---- */

/* A label that usher cannot hold is no reason to lose the instance. */
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

static bool says(const json_t *object, const char *key, const char *value)
{
	const char *text = json_text_at(object, key);

	return text && strcmp(text, value) == 0;
}

static void read_metadata(struct instance *i, const json_t *item)
{
	json_t *meta = json_object_get(item, "metadata");

	add_label(i, NACOS_CLUSTER_LABEL, i->cluster);
	if (!json_bool_at(item, "ephemeral", true))
		add_label(i, NACOS_EPHEMERAL_LABEL, "false");
	if (i->weight[0])
		add_label(i, NACOS_WEIGHT_LABEL, i->weight);
	for (void *at = json_object_iter(meta); at; at = json_object_iter_next(meta, at))
		if (strcmp(json_object_iter_key(at), NACOS_ID_LABEL) != 0)
			add_label(i, json_object_iter_key(at),
					json_string_value(json_object_iter_value(at)));
	i->endpoint.metadata = i->labels;
	i->endpoint.secure = says(meta, "secure", "true") || says(meta, "scheme", "https");
}

/* Only a generator that never makes the same one twice tells one incarnation from another. */
static const char *uid_of(const json_t *item)
{
	const char *generator = json_text_at(item, "instanceIdGenerator"),
		   *id = json_text_at(item, "instanceId");

	return generator && strcmp(generator, "simple") != 0 && id && strlen(id) <= USHER_TEXT_MAX
			? id
			: NULL;
}

static int read_where(struct instance *i, const json_t *item, struct usher_error *reterr)
{
	const char *ip = json_text_at(item, "ip");
	json_int_t port = json_integer_at(item, "port", 0);

	if (!ip || strlen(ip) > USHER_TEXT_MAX)
		return usher_error_set(reterr, -EBADMSG, "an instance without an address");
	if (port < 1 || port > UINT16_MAX)
		return usher_error_set(
				reterr, -EBADMSG, "%.100s: its port is %lld", ip, (long long) port);
	i->endpoint.address = ip;
	i->endpoint.port = (uint16_t) port;
	return 0;
}

static void name_instance(struct instance *i, const json_t *item)
{
	const char *id = json_text_at(json_object_get(item, "metadata"), NACOS_ID_LABEL);

	if (id && strlen(id) <= USHER_TEXT_MAX)
		(void) snprintf(i->id, sizeof(i->id), "%s", id);
	else
		(void) usher_authority_format(i->endpoint.address, i->endpoint.port, i->id);
	i->endpoint.id = i->id;
}

static void name_by_cluster(struct instance *i)
{
	size_t used = strlen(i->id);

	(void) snprintf(i->id + used, sizeof(i->id) - used, "@%s", i->cluster);
}

/* Where it is and what it is called: enough to find it. */
static int read_name(const json_t *item, struct instance *i, struct usher_error *reterr)
{
	const char *cluster = json_text_at(item, "clusterName");
	int r = read_where(i, item, reterr);

	if (r < 0)
		return r;
	i->cluster = cluster && strlen(cluster) <= USHER_TEXT_MAX ? cluster : NACOS_CLUSTER;
	name_instance(i, item);
	return 0;
}

static bool was_ready(const struct usher_endpoints *set, const char *id, bool otherwise)
{
	struct usher_endpoint e = USHER_ENDPOINT_INIT;
	ssize_t at = set ? usher_endpoints_find(set, id) : -1;

	if (at < 0)
		return otherwise;
	usher_endpoints_get(set, (size_t) at, &e);
	return e.ready;
}

static int read_instance(const json_t *item, const struct reading *reading, struct instance *i,
		struct usher_error *reterr)
{
	const struct answer_options *o = reading->options;
	char port[16];
	int r = read_name(item, i, reterr);

	if (r < 0)
		return r;
	if (json_object_get(reading->doubles, i->id))
		name_by_cluster(i);
	(void) snprintf(port, sizeof(port), "%u", (unsigned) i->endpoint.port);
	if (o->port && strcmp(o->port, port) != 0)
		return usher_error_set(reterr, -ENOENT, "%s: its only port is %s, not %s", i->id,
				port, o->port);
	if (reading->scale != 1)
		(void) snprintf(i->weight, sizeof(i->weight), "%.6g", weight_of(item));
	read_metadata(i, item);
	i->endpoint.uid = uid_of(item);
	i->endpoint.weight = scaled(weight_of(item), reading->scale);
	i->endpoint.ready = json_bool_at(item, "healthy", true);
	if (reading->answer->forged)
		i->endpoint.ready = was_ready(o->before, i->id, true);
	i->endpoint.serving = i->endpoint.ready;
	if (!json_bool_at(item, "enabled", true))
		i->endpoint.admin_state = USHER_ADMIN_MAINTENANCE;
	if (o->cluster_is_zone && strcmp(i->cluster, NACOS_CLUSTER) != 0)
		i->endpoint.zone = i->cluster;
	return 0;
}

/* ---- all of them ---- */

/* The ids that stand there twice, as the keys of an object. */
static int find_doubles(const json_t *list, json_t **ret)
{
	autojson json_t *seen = json_object(), *doubles = json_object();

	if (!seen || !doubles)
		return -ENOMEM;
	for (size_t k = 0; k < json_array_size(list); k++) {
		struct instance i = { .endpoint = USHER_ENDPOINT_INIT };

		if (read_name(json_array_get(list, k), &i, NULL) < 0)
			continue;
		if (json_object_set_new(json_object_get(seen, i.id) ? doubles : seen, i.id,
				    json_true()) < 0)
			return -ENOMEM;
	}
	*ret = take(doubles);
	return 0;
}

static int add_instance(const struct reading *reading, const json_t *item, struct instance *i)
{
	struct answer *a = reading->answer;
	struct usher_error why = { 0 };
	int r;

	*i = (struct instance){ .endpoint = USHER_ENDPOINT_INIT };
	r = read_instance(item, reading, i, &why);
	if (r == 0) {
		if (!i->endpoint.ready && was_ready(reading->options->trusted, i->id, false))
			return 0;
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
	struct reading reading = { .options = options, .answer = a, .scale = find_scale(list) };
	autojson json_t *doubles = NULL;
	autofree struct instance *i = malloc(sizeof(*i));
	int r;

	if (!i || find_doubles(list, &doubles) < 0)
		return -ENOMEM;
	reading.doubles = doubles;
	a->instances = json_array_size(list);
	for (size_t k = 0; k < a->instances; k++) {
		r = add_instance(&reading, json_array_get(list, k), i);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Servers before 2.0 have another word for it. */
static bool is_forged(const json_t *around)
{
	return json_bool_at(around, "reachProtectionThreshold", false) ||
			json_bool_at(around, "reachProtectThreshold", false);
}

int answer_parse(const char *text, size_t size, const struct answer_options *options,
		struct answer *ret, struct usher_error *reterr)
{
	autojson json_t *answer = NULL;
	cleanup(answer_done) struct answer a = { 0 };
	const json_t *list, *around;
	json_int_t cache_msec;
	int r = envelope_load(text, size, &answer, reterr);

	if (r < 0)
		return r;
	r = find_hosts(answer, &list, &around, reterr);
	if (r < 0)
		return r;
	cache_msec = json_integer_at(around, "cacheMillis", 0);
	if (cache_msec > 0 && cache_msec < 86400000)
		a.cache_usec = (uint64_t) cache_msec * USEC_PER_MSEC;
	a.forged = is_forged(around);
	a.set = usher_endpoints_new();
	if (!a.set)
		return envelope_no_memory(reterr);
	r = add_all(&a, list, options);
	if (r == -E2BIG)
		return usher_error_set(reterr, r, "more than %d instances", USHER_ENDPOINTS_MAX);
	if (r < 0)
		return envelope_no_memory(reterr);
	*ret = a;
	a.set = NULL;
	return 0;
}

void answer_done(struct answer *a)
{
	a->set = usher_endpoints_unref(a->set);
}

/* ---- one of them ---- */

void answer_instance_done(struct answer_instance *i)
{
	free(i->ip);
	free(i->cluster);
	free(i->metadata);
	*i = (struct answer_instance){ 0 };
}

/* What is read of it is written back whole. */
static int keep_instance(
		const json_t *item, struct answer_instance *ret, struct usher_error *reterr)
{
	const json_t *meta = json_object_get(item, "metadata");
	const char *ip = json_text_at(item, "ip"), *cluster = json_text_at(item, "clusterName");

	if (json_read_is_marked(json_object_get(item, "metadata")))
		return json_read_refuse(reterr);
	*ret = (struct answer_instance){
		.port = (uint16_t) json_integer_at(item, "port", 0),
		.weight = weight_of(item),
		.ephemeral = json_bool_at(item, "ephemeral", true),
		.enabled = json_bool_at(item, "enabled", true),
		.ours = says(meta, NACOS_OWNER_LABEL, NACOS_OWNER),
		.ip = ip ? strdup(ip) : NULL,
		.cluster = strdup(cluster ? cluster : NACOS_CLUSTER),
		.metadata = json_is_object(meta) ? json_dumps(meta, JSON_COMPACT) : strdup("{}"),
	};
	if (ret->ip && ret->cluster && ret->metadata)
		return 0;
	answer_instance_done(ret);
	return envelope_no_memory(reterr);
}

int answer_find(const char *text, size_t size, const char *id, struct answer_instance *ret,
		struct usher_error *reterr)
{
	autojson json_t *answer = NULL, *doubles = NULL;
	const json_t *list = NULL, *around = NULL;
	int r = envelope_load(text, size, &answer, reterr);

	if (r == 0)
		r = find_hosts(answer, &list, &around, reterr);
	if (r < 0)
		return r;
	if (find_doubles(list, &doubles) < 0)
		return envelope_no_memory(reterr);
	for (size_t k = 0; k < json_array_size(list); k++) {
		struct instance i = { .endpoint = USHER_ENDPOINT_INIT };

		if (read_name(json_array_get(list, k), &i, NULL) < 0)
			continue;
		if (json_object_get(doubles, i.id))
			name_by_cluster(&i);
		if (strcmp(i.id, id) != 0)
			continue;
		return keep_instance(json_array_get(list, k), ret, reterr);
	}
	return usher_error_set(reterr, -ENOENT, "%s is not listed", id);
}

bool answer_is_same_place(const struct answer_instance *a, const struct answer_instance *b)
{
	return a->ip && b->ip && strcmp(a->ip, b->ip) == 0 && a->port == b->port &&
			strcmp(a->cluster, b->cluster) == 0 && a->ephemeral == b->ephemeral;
}

int answer_find_former(const char *text, size_t size, const char *id,
		const struct answer_instance *but, struct answer_instance *ret,
		struct usher_error *reterr)
{
	autojson json_t *answer = NULL;
	const json_t *list = NULL, *around = NULL;
	int r = envelope_load(text, size, &answer, reterr);

	if (r == 0)
		r = find_hosts(answer, &list, &around, reterr);
	for (size_t k = 0; r == 0 && k < json_array_size(list); k++) {
		const json_t *item = json_array_get(list, k);
		struct instance i = { .endpoint = USHER_ENDPOINT_INIT };
		cleanup(answer_instance_done) struct answer_instance found = { 0 };

		if (read_name(item, &i, NULL) < 0 || strcmp(i.id, id) != 0)
			continue;
		r = keep_instance(item, &found, reterr);
		if (r < 0 || !found.ours || answer_is_same_place(&found, but))
			continue;
		*ret = found;
		found = (struct answer_instance){ 0 };
		return 0;
	}
	return r < 0 ? r : usher_error_set(reterr, -ENOENT, "%s is nowhere else", id);
}

int answer_parse_instance(const char *text, size_t size, struct answer_instance *ret,
		struct usher_error *reterr)
{
	struct instance i = { .endpoint = USHER_ENDPOINT_INIT };
	autojson json_t *answer = NULL;
	const json_t *data = NULL;
	int r = envelope_load(text, size, &answer, reterr);

	if (r == 0)
		r = envelope_open(answer, &data, reterr);
	if (r == 0)
		r = read_name(data, &i, reterr);
	if (r < 0)
		return r;
	return keep_instance(data, ret, reterr);
}
