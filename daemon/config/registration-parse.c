/* From the items of `registrations`, and from what the API is told, to what is registered. */

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "config-forms.h"
#include "config-parse.h"
#include "config-tables.h"
#include "defaults.h"
#include "json-error.h"
#include "ownership.h"
#include "place.h"
#include "registration-config.h"
#include "text.h"

#define LAYERS_MORE \
	2 /* beside those of the files: the item, and a service or the table's defaults */

DEFINE_CLEANUP(struct registration_config, registration_config_free);

static int out_of_memory(struct usher_error *reterr)
{
	return usher_error_set(reterr, -ENOMEM, "out of memory");
}

/* ---- layers ---- */

struct layers {
	const struct usher_node **items;
	size_t count;
};

static void layers_done(struct layers *l)
{
	free(l->items);
}

static int layers_init(
		struct layers *l, const struct config_scope *whole, struct usher_error *reterr)
{
	l->items = calloc(whole->count + LAYERS_MORE, sizeof(const struct usher_node *));
	return l->items ? 0 : out_of_memory(reterr);
}

static void layers_add(struct layers *l, const struct usher_node *n)
{
	if (n)
		l->items[l->count++] = n;
}

static const struct usher_node *find_service(const struct config_scope *whole, const char *service)
{
	const struct usher_node *found = NULL;

	for (size_t i = 0; i < whole->count && !found; i++)
		found = usher_node_get(usher_node_get(whole->layers[i], "services"), service);
	return found;
}

static const struct config_row *row_of(const struct config_row *rows, const char *key)
{
	while (strcmp(rows->key, key) != 0)
		rows++;
	return rows;
}

/* The one table of a registration that has layers of its own. */
static int read_table(const struct config_row *row, const struct config_row *table,
		const struct layers *l, struct registration_config *r, struct usher_error *reterr)
{
	const struct config_row alone[] = {
		{ row->key, ROW_TABLE, row->offset, .table = table, .none = row->none }, {}
	};

	return config_table_read(alone, l->items, l->count, r, reterr);
}

/* `address_from`: its own, then the node's. */
static int read_address(const struct config_scope *whole, const struct usher_node *item,
		struct registration_config *r, struct usher_error *reterr)
{
	const struct config_row *row = row_of(config_registration_body_rows, "address_from");
	cleanup(layers_done) struct layers l = {};
	int code = layers_init(&l, whole, reterr);

	if (code < 0)
		return code;
	layers_add(&l, item);
	for (size_t i = 0; i < whole->count; i++)
		layers_add(&l, usher_node_get(whole->layers[i], "node"));
	return read_table(row, config_address_rows, &l, r, reterr);
}

/* `health`: its own, then the service's, then that of the defaults. */
static int read_health(const struct config_scope *whole, const struct usher_node *item,
		struct registration_config *r, struct usher_error *reterr)
{
	const struct config_row *row = row_of(config_registration_body_rows, "health");
	cleanup(layers_done) struct layers l = {};
	const struct usher_node *own;
	int code = layers_init(&l, whole, reterr);

	if (code < 0)
		return code;
	layers_add(&l, item);
	layers_add(&l, find_service(whole, r->service));
	for (size_t i = 0; i < whole->count; i++)
		layers_add(&l, usher_node_get(whole->layers[i], "defaults"));
	code = read_table(row, config_health_rows, &l, r, reterr);
	r->health.outlier.enabled = false;
	r->health.on_all_down = DOWN_FAIL;
	r->health.panic_threshold = 0;
	r->health.initial = USHER_HEALTH_UNKNOWN; /* it is the first check that counts */
	if (code < 0)
		return code;
	own = usher_node_get(item, "health");
	if (own && usher_node_count(own) > 0 && r->health.check.kind == CHECK_NONE)
		return place_error(reterr, own, -EINVAL,
				"has no check; add one of http, tcp, grpc and exec, or write none");
	return config_check_health(
			&r->health, &(struct config_scope){ l.items, l.count, NULL }, reterr);
}

/* Everything else: its own, then the table's defaults. */
static int read_rows(const struct config *c, const struct config_row *rows,
		const struct usher_node *item, struct registration_config *r,
		struct usher_error *reterr)
{
	const struct usher_node *layers[] = { item, usher_document_root(c->registration_defaults) };
	int code = 0;

	for (; rows->key && code >= 0; rows++) {
		const struct config_row alone[] = { *rows, {} };

		if (rows->type != ROW_TABLE)
			code = config_table_read(alone, layers, ELEMENTS(layers), r, reterr);
	}
	return code;
}

/* ---- ids ---- */

static const char *const placeholder_words[] = { "node", "service", "port", "zone", "address",
	NULL };

const char *registration_config_zone(const struct registration_config *r, const struct config *c)
{
	return r->zone ? r->zone : c->node_zone;
}

static int add_placeholder(struct text *text, const char *name, const struct registration_config *r,
		const struct config *c, const char *address, struct usher_error *reterr)
{
	const char *zone = registration_config_zone(r, c), *near;

	if (strcmp(name, "node") == 0) {
		text_add_string(text, c->node_name);
	} else if (strcmp(name, "service") == 0) {
		text_add_string(text, r->service);
	} else if (strcmp(name, "port") == 0) {
		text_add_unsigned(text, r->port);
	} else if (strcmp(name, "zone") == 0) {
		if (!zone)
			return usher_error_set(reterr, -EINVAL,
					"{zone} stands for nothing: neither it nor the node has a zone");
		text_add_string(text, zone);
	} else if (strcmp(name, "address") == 0) {
		if (!address)
			return usher_error_set(reterr, -EADDRNOTAVAIL,
					"{address} stands for nothing yet: there is no address");
		text_add_string(text, address);
	} else {
		near = usher_nearest_word(name, placeholder_words);
		return usher_error_set(reterr, -EINVAL,
				near ? "{%s} is no placeholder; did you mean {%s}?"
				     : "{%s} is no placeholder; there are {node}, {service}, {port}, {zone} and {address}%s",
				name, near ? near : "");
	}
	return 0;
}

static int expand(const struct registration_config *r, const struct config *c, const char *address,
		struct text *text, struct usher_error *reterr)
{
	const char *rest = r->id;

	while (*rest) {
		size_t length = strcspn(rest, "{");
		char name[32];
		int code;

		text_add(text, rest, length);
		rest += length;
		if (!*rest)
			break;
		length = strcspn(rest, "}");
		if (!rest[length])
			return usher_error_set(reterr, -EINVAL,
					"the brace in \"%.100s\" is not closed", rest);
		(void) snprintf(name, sizeof(name), "%.*s", (int) length - 1, rest + 1);
		code = add_placeholder(text, name, r, c, address, reterr);
		if (code < 0)
			return code;
		rest += length + 1;
	}
	return 0;
}

int registration_config_id(const struct registration_config *r, const struct config *c,
		const char *address, char **ret, struct usher_error *reterr)
{
	cleanup(text_done) struct text text = {};
	autofree char *id = NULL;
	int code = 0;

	if (r->is_literal)
		text_add_string(&text, r->id);
	else
		code = expand(r, c, address, &text, reterr);
	if (code < 0)
		return code;
	id = text_take(&text);
	if (!id)
		return out_of_memory(reterr);
	code = config_check_name(id, reterr);
	if (code < 0)
		return code;
	*ret = take(id);
	return 0;
}

/* ---- one ---- */

/* An address that stands for one that is not known yet. */
#define ANY_ADDRESS "192.0.2.1"

static int check_one(const struct config *c, const struct registration_config *r,
		struct usher_error *reterr)
{
	const struct usher_node *n = usher_node_get(r->place, "id");
	struct usher_error why = {};
	autofree char *id = NULL;
	int code = registration_config_id(r, c, ANY_ADDRESS, &id, &why);

	if (code == -ENOMEM)
		return out_of_memory(reterr);
	if (code < 0)
		return place_error(
				reterr, n ? n : r->place, code, "%s", usher_error_text(&why, code));
	return config_check_feeds(
			c, r->feeds, r->feed_count, "it is registered once in each", reterr);
}

/* item is read by rows, and rests in *r also when it fails. */
static int read_one(const struct config *c, const struct config_scope *whole,
		const struct config_row *rows, const struct usher_node *item,
		struct registration_config *r, struct usher_error *reterr)
{
	int code = config_table_check(rows, &item, 1, reterr);

	r->place = item;
	if (code >= 0)
		code = read_rows(c, rows, item, r, reterr);
	if (code >= 0)
		code = read_address(whole, item, r, reterr);
	if (code >= 0)
		code = read_health(whole, item, r, reterr);
	for (size_t i = 0; i < r->feed_count && code >= 0; i++) {
		if (!r->feeds[i].name && !(r->feeds[i].name = strdup(r->service)))
			return out_of_memory(reterr);
	}
	return code < 0 ? code : check_one(c, r, reterr);
}

/* ---- those of the configuration ---- */

static int check_alone(const struct config *c, const struct registration_config *r,
		struct usher_error *reterr)
{
	autofree char *id = NULL;
	int code = registration_config_id(r, c, ANY_ADDRESS, &id, reterr);

	for (const struct registration_config *other = c->registrations; code >= 0 && other < r;
			other++) {
		autofree char *other_id = NULL;

		if (strcmp(other->service, r->service) != 0)
			continue;
		code = registration_config_id(other, c, ANY_ADDRESS, &other_id, reterr);
		if (code < 0)
			return code;
		assert(id && other_id);
		if (strcmp(id, other_id) == 0)
			return place_error(reterr, r->place, -EEXIST,
					"%s of %s is declared already, at %s:%u; give each an id of its own",
					id, r->service,
					usher_document_name(usher_node_document(other->place)),
					usher_node_line(other->place));
	}
	return code;
}

static int read_list(struct config *c, const struct config_scope *whole,
		const struct usher_node *list, struct usher_error *reterr)
{
	int r = 0;

	for (size_t i = 0; list && i < usher_node_count(list) && r >= 0; i++) {
		const struct usher_node *item = usher_node_at(list, i);
		struct registration_config *config = &c->registrations[c->registration_count];

		c->registration_count++;
		r = read_one(c, whole, config_registration_rows, item, config, reterr);
		if (r >= 0)
			r = check_alone(c, config, reterr);
	}
	return r;
}

static int count_items(const struct config_scope *whole, size_t *ret, struct usher_error *reterr)
{
	size_t count = 0;

	for (size_t i = 0; i < whole->count; i++) {
		const struct usher_node *list = usher_node_get(whole->layers[i], "registrations");

		if (!list || usher_node_kind(list) == USHER_NODE_NULL)
			continue;
		if (usher_node_kind(list) != USHER_NODE_LIST)
			return place_error(reterr, list, -EINVAL,
					"must be a list of {service, port, ...}, not %s",
					usher_node_kind_name(list));
		count += usher_node_count(list);
		if (count > CONFIG_REGISTRATIONS_MAX)
			return place_error(reterr, list, -E2BIG,
					"%zu registrations are declared so far; at most %d are possible",
					count, CONFIG_REGISTRATIONS_MAX);
	}
	*ret = count;
	return 0;
}

int config_read_registrations(
		struct config *c, const struct config_scope *whole, struct usher_error *reterr)
{
	size_t count = 0;
	int r = config_defaults_parse(config_registration_rows, &c->registration_defaults, reterr);

	if (r >= 0)
		r = count_items(whole, &count, reterr);
	if (r < 0)
		return r;
	c->registrations = calloc(count + 1, sizeof(*c->registrations));
	if (!c->registrations)
		return out_of_memory(reterr);
	for (size_t i = 0; i < whole->count && r >= 0; i++)
		r = read_list(c, whole, usher_node_get(whole->layers[i], "registrations"), reterr);
	return r;
}

void config_registrations_done(struct config *c)
{
	for (size_t i = 0; i < c->registration_count; i++)
		config_table_done(config_registration_rows, &c->registrations[i]);
	free(c->registrations);
	(void) usher_document_unref(c->registration_defaults);
}

/* ---- those of the API ---- */

struct registration_config *registration_config_free(struct registration_config *r)
{
	if (!r)
		return NULL;
	config_table_done(config_registration_rows, r);
	(void) usher_document_unref(r->document);
	free(r);
	return NULL;
}

bool registration_config_equal(
		const struct registration_config *a, const struct registration_config *b)
{
	return strcmp(a->service, b->service) == 0 && strcmp(a->id, b->id) == 0 &&
			usher_node_equal(a->place, b->place);
}

/* YAML has more than JSON: what is taken is JSON. */
static int check_json(const char *text, struct usher_error *reterr)
{
	json_error_t error;
	json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, &error);
	bool is_object = json_is_object(json);

	if (!json)
		return usher_error_set(reterr, -EBADMSG, "body:%d:%d: no JSON: %s", error.line,
				error.column, json_error_words(&error));
	json_decref(json);
	return is_object ? 0 : usher_error_set(reterr, -EINVAL, "body: must be a JSON object");
}

/* Whoever may write to the socket is not thereby somebody who may run programs as usherd. */
static int check_no_program(const struct usher_node *root, struct usher_error *reterr)
{
	const struct usher_node *exec = usher_node_get(usher_node_get(root, "health"), "exec");

	if (!exec)
		return 0;
	return place_error(reterr, exec, -EINVAL,
			"programs are run only where the configuration says so; ask by http, tcp or grpc, or declare the check there");
}

static int parse_body(const struct config *c, const struct config_scope *whole, const char *json,
		struct registration_config *r, struct usher_error *reterr)
{
	int code = check_json(json, reterr);

	if (code >= 0)
		code = usher_document_parse("body", json, strlen(json), &r->document, reterr);
	if (code < 0)
		return code;
	code = check_no_program(usher_document_root(r->document), reterr);
	if (code < 0)
		return code;
	return read_one(c, whole, config_registration_body_rows, usher_document_root(r->document),
			r, reterr);
}

int registration_config_parse(const struct config *c, const char *service, const char *id,
		const char *json, struct registration_config **ret, struct usher_error *reterr)
{
	cleanup(registration_config_freep) struct registration_config *r = calloc(1, sizeof(*r));
	autofree const struct usher_node **roots =
			calloc(c->document_count + 1, sizeof(const struct usher_node *));
	int code;

	if (!r || !roots)
		return out_of_memory(reterr);
	code = config_check_name(service, reterr);
	if (code >= 0)
		code = config_check_name(id, reterr);
	if (code < 0)
		return code;
	r->service = strdup(service);
	r->id = strdup(id);
	r->is_literal = true;
	if (!r->service || !r->id)
		return out_of_memory(reterr);
	for (size_t i = 0; i < c->document_count; i++)
		roots[i] = usher_document_root(c->documents[i]);
	code = parse_body(c, &(struct config_scope){ roots, c->document_count, NULL }, json, r,
			reterr);
	if (code < 0)
		return code;
	*ret = take(r);
	return 0;
}
