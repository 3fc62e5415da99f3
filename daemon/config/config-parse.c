#include "config-parse.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "config-tables.h"
#include "defaults.h"
#include "ownership.h"
#include "place.h"

DEFINE_CLEANUP(struct config, config_unref);

static int out_of_memory(struct usher_error *reterr)
{
	return usher_error_set(reterr, -ENOMEM, "out of memory");
}

static const char *document_of(const struct usher_node *n)
{
	return usher_document_name(usher_node_document(n));
}

/* ---- the whole ---- */

/* A configuration that holds the documents and, after them, the built-in defaults. */
static int start_config(const char *path, struct usher_document *const *documents, size_t count,
		struct config **ret, struct usher_error *reterr)
{
	cleanup(config_unrefp) struct config *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return out_of_memory(reterr);
	c->refs = 1;
	c->path = strdup(path);
	c->documents = calloc(count + 1, sizeof(struct usher_document *));
	if (!c->path || !c->documents)
		return out_of_memory(reterr);
	for (size_t i = 0; i < count; i++)
		c->documents[c->document_count++] = usher_document_ref(documents[i]);
	r = config_defaults_parse(config_rows, &c->documents[count], reterr);
	if (r < 0)
		return r;
	c->document_count++;
	*ret = take(c);
	return 0;
}

/* A configuration that many nodes share leaves it to the environment who a node is. */
static int read_environment(const char *name, char **ret, struct usher_error *reterr)
{
	const char *value = getenv(name); /* NOLINT(concurrency-mt-unsafe): nobody sets any */

	if (*ret || !value || !value[0])
		return 0;
	if (config_check_name(value, reterr) < 0)
		return usher_error_prefix(reterr, -EINVAL, "environment variable %s", name);
	*ret = strdup(value);
	return *ret ? 0 : out_of_memory(reterr);
}

static int set_node(struct config *c, struct usher_error *reterr)
{
	char host[HOST_NAME_MAX + 1] = "";
	int r = read_environment("USHER_NODE_NAME", &c->node_name, reterr);

	if (r >= 0)
		r = read_environment("USHER_NODE_ZONE", &c->node_zone, reterr);
	if (r < 0 || c->node_name)
		return r;
	if (gethostname(host, sizeof(host) - 1) < 0 || config_check_name(host, NULL) < 0)
		c->node_name = strdup("localhost");
	else
		c->node_name = strdup(host);
	return c->node_name ? 0 : out_of_memory(reterr);
}

/* ---- sources ---- */

static int add_source(struct config *c, const struct usher_node *item, struct usher_error *reterr)
{
	struct source_config *source = &c->sources[c->source_count];
	const struct source_config *other;
	const struct usher_node *name;
	int r;

	r = config_table_check(config_source_rows, &item, 1, reterr);
	if (r < 0)
		return r;
	c->source_count++;
	r = config_table_read(config_source_rows, &item, 1, source, reterr);
	if (r < 0)
		return r;
	name = usher_node_get(item, "name");
	source->use.place = usher_node_get(item, "plugin");
	other = config_find_source(c, source->name);
	if (other != source) {
		const struct usher_node *first = other->use.place;

		return place_error(reterr, name, -EEXIST,
				"the source \"%s\" is declared already, at %s:%u", source->name,
				document_of(first), usher_node_line(first));
	}
	return 0;
}

static int read_sources(
		struct config *c, const struct config_scope *whole, struct usher_error *reterr)
{
	int r;

	c->sources = calloc(CONFIG_SOURCES_MAX, sizeof(*c->sources));
	if (!c->sources)
		return out_of_memory(reterr);
	for (size_t i = 0; i < whole->count; i++) {
		const struct usher_node *list = usher_node_get(whole->layers[i], "sources");

		if (!list || usher_node_kind(list) == USHER_NODE_NULL)
			continue;
		if (usher_node_kind(list) != USHER_NODE_LIST)
			return place_error(reterr, list, -EINVAL,
					"must be a list of {name, plugin, options}, not %s",
					usher_node_kind_name(list));
		for (size_t k = 0; k < usher_node_count(list); k++) {
			if (c->source_count == CONFIG_SOURCES_MAX)
				return place_error(reterr, usher_node_at(list, k), -E2BIG,
						"at most %d sources are possible",
						CONFIG_SOURCES_MAX);
			r = add_source(c, usher_node_at(list, k), reterr);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

/* ---- feeds ---- */

static int copy_feed(const struct feed_config *feed, struct feed_config *ret)
{
	assert(feed->source);

	ret->place = feed->place;
	ret->decides = feed->decides;
	ret->source = strdup(feed->source);
	ret->name = feed->name ? strdup(feed->name) : NULL;
	ret->port = feed->port ? strdup(feed->port) : NULL;
	return ret->source && !ret->name == !feed->name && !ret->port == !feed->port ? 0 : -ENOMEM;
}

static int copy_feeds(const struct service_config *from, struct service_config *service)
{
	service->feeds = calloc(from->feed_count + 1, sizeof(*service->feeds));
	if (!service->feeds)
		return -ENOMEM;
	for (size_t i = 0; i < from->feed_count; i++) {
		service->feed_count = i + 1;
		if (copy_feed(&from->feeds[i], &service->feeds[i]) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Every source in its order, for services that name none. */
static int feed_from_all_sources(struct config *c, struct usher_error *reterr)
{
	struct service_config *defaults = &c->defaults;

	if (defaults->feeds)
		return 0;
	if (c->source_count > CONFIG_FEEDS_MAX)
		return place_error(reterr, c->sources[CONFIG_FEEDS_MAX].use.place, -E2BIG,
				"a service may use at most %d sources and %zu are declared; name those it uses in defaults.sources",
				CONFIG_FEEDS_MAX, c->source_count);
	defaults->feeds = calloc(c->source_count + 1, sizeof(*defaults->feeds));
	if (!defaults->feeds)
		return out_of_memory(reterr);
	for (size_t i = 0; i < c->source_count; i++) {
		const struct feed_config all = { .source = c->sources[i].name,
			.place = c->sources[i].use.place };

		defaults->feed_count = i + 1;
		if (copy_feed(&all, &defaults->feeds[i]) < 0)
			return out_of_memory(reterr);
	}
	return 0;
}

static int name_feeds(
		const struct config *c, struct service_config *service, struct usher_error *reterr)
{
	if (!service->feeds && copy_feeds(&c->defaults, service) < 0)
		return out_of_memory(reterr);
	for (size_t i = 0; i < service->feed_count; i++) {
		struct feed_config *feed = &service->feeds[i];

		if (!feed->name)
			feed->name = strdup(service->name);
		if (!feed->name)
			return out_of_memory(reterr);
	}
	return 0;
}

/* ---- services ---- */

struct declared {
	const char *name;
	const struct usher_node *map; /* of services, in which it is pair i */
	size_t i;
	size_t order;
};

static int compare_declared(const void *a, const void *b)
{
	const struct declared *x = a, *y = b;
	int by_name = strcmp(x->name, y->name);

	return by_name ? by_name : x->order < y->order ? -1 : x->order > y->order;
}

static int count_services(
		const struct config_scope *whole, size_t *ret_count, struct usher_error *reterr)
{
	size_t count = 0;

	for (size_t i = 0; i < whole->count; i++) {
		const struct usher_node *map = usher_node_get(whole->layers[i], "services");

		if (!map || usher_node_kind(map) == USHER_NODE_NULL)
			continue;
		if (usher_node_kind(map) != USHER_NODE_MAP)
			return place_error(reterr, map, -EINVAL,
					"must be a map of services by name, not %s",
					usher_node_kind_name(map));
		count += usher_node_count(map);
		if (count > CONFIG_SERVICES_MAX)
			return place_error(reterr, map, -E2BIG,
					"%zu services are declared so far; at most %d are possible",
					count, CONFIG_SERVICES_MAX);
	}
	*ret_count = count;
	return 0;
}

/* Every service of every file, by name; two of one name are refused. */
static int collect_services(const struct config_scope *whole, struct declared **ret,
		size_t *ret_count, struct usher_error *reterr)
{
	autofree struct declared *all = NULL;
	size_t count = 0, filled = 0;
	int r;

	r = count_services(whole, &count, reterr);
	if (r < 0)
		return r;
	all = calloc(count + 1, sizeof(*all));
	if (!all)
		return out_of_memory(reterr);
	for (size_t i = 0; i < whole->count; i++) {
		const struct usher_node *map = usher_node_get(whole->layers[i], "services");

		for (size_t k = 0; map && k < usher_node_count(map); k++, filled++)
			all[filled] = (struct declared){ usher_node_key(map, k), map, k, filled };
	}
	qsort(all, count, sizeof(*all), compare_declared);
	for (size_t i = 1; i < count; i++) {
		const struct usher_node *first = usher_node_key_node(all[i - 1].map, all[i - 1].i);

		if (strcmp(all[i - 1].name, all[i].name) == 0)
			return place_key_error(reterr, all[i].map, all[i].i, -EEXIST,
					"the service \"%s\" is declared already, at %s:%u",
					all[i].name, document_of(first), usher_node_line(first));
	}
	*ret = take(all);
	*ret_count = count;
	return 0;
}

static int read_service(struct config *c, const struct declared *declared,
		const struct usher_node **layers, size_t count, struct usher_error *reterr)
{
	struct service_config *service = &c->services[c->service_count++];
	struct config_scope scope = { layers, count,
		usher_node_key_node(declared->map, declared->i) };
	struct usher_error why = {};
	int r;

	assert(layers);

	r = config_check_name(declared->name, &why);
	if (r < 0)
		return place_key_error(reterr, declared->map, declared->i, r, "%s",
				usher_error_text(&why, r));
	service->place = scope.place;
	service->name = strdup(declared->name);
	if (!service->name)
		return out_of_memory(reterr);
	layers[0] = usher_node_at(declared->map, declared->i);
	r = config_table_check(config_service_rows, layers, 1, reterr);
	if (r < 0)
		return r;
	r = config_table_read(config_service_rows, layers, count, service, reterr);
	if (r < 0)
		return r;
	r = name_feeds(c, service, reterr);
	return r < 0 ? r : config_check_service(c, service, &scope, reterr);
}

/* The layers of the defaults, with room for a service's own in front. */
static int defaults_layers(const struct config_scope *whole, const struct usher_node ***ret,
		size_t *ret_count, struct usher_error *reterr)
{
	autofree const struct usher_node **below = NULL;
	const struct usher_node **layers;
	size_t count;

	below = config_layers_descend(whole->layers, whole->count, "defaults", &count);
	layers = below ? calloc(count + 1, sizeof(const struct usher_node *)) : NULL;
	if (!layers)
		return out_of_memory(reterr);
	memcpy(layers + 1, below, count * sizeof(const struct usher_node *));
	*ret = layers;
	*ret_count = count + 1;
	return 0;
}

static int read_services(
		struct config *c, const struct config_scope *whole, struct usher_error *reterr)
{
	autofree const struct usher_node **layers = NULL;
	autofree struct declared *declared = NULL;
	size_t layers_count = 0, count = 0;
	int r;

	r = collect_services(whole, &declared, &count, reterr);
	if (r < 0)
		return r;
	r = defaults_layers(whole, &layers, &layers_count, reterr);
	if (r < 0)
		return r;
	r = config_check_service(c, &c->defaults,
			&(struct config_scope){ layers + 1, layers_count - 1, NULL }, reterr);
	if (r < 0)
		return r;
	if (count > 0 && c->source_count == 0)
		return place_key_error(reterr, declared[0].map, declared[0].i, -EINVAL,
				"a service is declared, but no source to look it up in; declare one in sources");
	c->services = calloc(count + 1, sizeof(*c->services));
	if (!c->services)
		return out_of_memory(reterr);
	for (size_t i = 0; i < count; i++) {
		r = read_service(c, &declared[i], layers, layers_count, reterr);
		if (r < 0)
			return r;
	}
	return 0;
}

static int read_whole(
		struct config *c, const struct config_scope *whole, struct usher_error *reterr)
{
	int r;

	r = config_table_check(config_rows, whole->layers, whole->count - 1, reterr);
	if (r < 0)
		return r;
	r = config_table_read(config_rows, whole->layers, whole->count, c, reterr);
	if (r < 0)
		return r;
	r = set_node(c, reterr);
	if (r < 0)
		return r;
	r = read_sources(c, whole, reterr);
	if (r < 0)
		return r;
	r = feed_from_all_sources(c, reterr);
	if (r < 0)
		return r;
	r = config_check_whole(c, whole, reterr);
	if (r < 0)
		return r;
	r = read_services(c, whole, reterr);
	return r < 0 ? r : config_read_registrations(c, whole, reterr);
}

int config_parse(const char *path, struct usher_document *const *documents, size_t count,
		struct config **ret, struct usher_error *reterr)
{
	cleanup(config_unrefp) struct config *c = NULL;
	autofree const struct usher_node **roots = NULL;
	int r;

	r = start_config(path, documents, count, &c, reterr);
	if (r < 0)
		return r;
	assert(c);
	roots = calloc(count + 1, sizeof(const struct usher_node *));
	if (!roots)
		return out_of_memory(reterr);
	for (size_t i = 0; i < c->document_count; i++)
		roots[i] = usher_document_root(c->documents[i]);
	r = read_whole(c, &(struct config_scope){ roots, count + 1, NULL }, reterr);
	if (r < 0)
		return r;
	*ret = take(c);
	return 0;
}
