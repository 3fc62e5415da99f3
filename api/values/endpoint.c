#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <usher/endpoint.h>
#include <xxhash.h>

#include "address.h"
#include "endpoints-common.h"
#include "utf8.h"

#define TEXTS_MAX      UINT32_MAX
#define TABLE_FIRST    64
#define CANONICAL_MORE 64 /* bytes that the one spelling of an address may be longer */

enum record_flags {
	RECORD_SECURE = 1u << 0,
	RECORD_READY = 1u << 1,
	RECORD_SERVING = 1u << 2,
	RECORD_TERMINATING = 1u << 3,
	RECORD_WEIGHT_INVALID = 1u << 4,
};

/* Offsets into the set's texts; 0 is the empty text, which stands for "none". */
struct record {
	uint32_t id, uid, address, zone;
	uint32_t labels; /* index of the first */
	uint32_t weight;
	uint16_t label_count;
	uint16_t port;
	uint8_t flags;
	uint8_t admin_state;
};

struct label {
	uint32_t name, value;
};

/* Open addressing: value + 1, or 0 for a free place. */
struct table {
	uint32_t *slots;
	size_t size; /* a power of two */
	size_t used;
};

struct usher_endpoints {
	atomic_uint refs;
	bool sealed;
	struct record *records;
	size_t count, capacity;
	struct label *labels;
	size_t label_count, label_capacity;
	char *texts;
	size_t texts_size, texts_capacity;
	struct table strings; /* every text once; only while building */
	struct table ids;     /* records by id; only while building */
};

static const char *const admin_state_names[] = {
	[USHER_ADMIN_READY] = "ready",
	[USHER_ADMIN_DRAINING] = "draining",
	[USHER_ADMIN_MAINTENANCE] = "maintenance",
};

const char *usher_admin_state_to_string(enum usher_admin_state state)
{
	return admin_state_names[state];
}

int usher_admin_state_from_string(const char *text, enum usher_admin_state *ret)
{
	for (size_t i = 0; i < sizeof(admin_state_names) / sizeof(*admin_state_names); i++)
		if (strcmp(text, admin_state_names[i]) == 0) {
			*ret = (enum usher_admin_state) i;
			return 0;
		}
	return -EINVAL;
}

static const char *const health_names[] = {
	[USHER_HEALTH_UNKNOWN] = "unknown",
	[USHER_HEALTH_UP] = "up",
	[USHER_HEALTH_DEGRADED] = "degraded",
	[USHER_HEALTH_DOWN] = "down",
	[USHER_HEALTH_EJECTED] = "ejected",
};

const char *usher_health_to_string(enum usher_health health)
{
	return health_names[health];
}

int usher_health_from_string(const char *text, enum usher_health *ret)
{
	for (size_t i = 0; i < sizeof(health_names) / sizeof(*health_names); i++)
		if (strcmp(text, health_names[i]) == 0) {
			*ret = (enum usher_health) i;
			return 0;
		}
	return -EINVAL;
}

static const char *const outcome_names[USHER_OUTCOMES] = {
	[USHER_OUTCOME_OK] = "ok",
	[USHER_OUTCOME_ERROR] = "error",
	[USHER_OUTCOME_FAILED] = "failed",
	[USHER_OUTCOME_TIMEOUT] = "timeout",
};

const char *usher_outcome_to_string(enum usher_outcome outcome)
{
	return (unsigned) outcome < USHER_OUTCOMES ? outcome_names[outcome] : NULL;
}

int usher_outcome_from_string(const char *text, enum usher_outcome *ret)
{
	for (unsigned i = 0; i < USHER_OUTCOMES; i++)
		if (strcmp(text, outcome_names[i]) == 0) {
			*ret = (enum usher_outcome) i;
			return 0;
		}
	return -EINVAL;
}

int usher_weight_parse(const char *text, uint32_t *ret)
{
	size_t length = strlen(text);
	unsigned long value;

	if (length == 0 || strspn(text, "0123456789") != length)
		return -EINVAL;
	if (length > 9)
		return -ERANGE;
	value = strtoul(text, NULL, 10);
	if (value > USHER_WEIGHT_MAX)
		return -ERANGE;
	*ret = (uint32_t) value;
	return 0;
}

/* ---- building ---- */

struct usher_endpoints *usher_endpoints_new(void)
{
	struct usher_endpoints *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->refs = 1;
	return e;
}

struct usher_endpoints *usher_endpoints_ref(struct usher_endpoints *e)
{
	if (e)
		atomic_fetch_add_explicit(&e->refs, 1, memory_order_relaxed);
	return e;
}

struct usher_endpoints *usher_endpoints_unref(struct usher_endpoints *e)
{
	if (!e || atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel) != 1)
		return NULL;
	free(e->records);
	free(e->labels);
	free(e->texts);
	free(e->strings.slots);
	free(e->ids.slots);
	free(e);
	return NULL;
}

/* Room for `more` further elements of `size` bytes; grows by half. */
static int reserve(void **array, size_t *capacity, size_t count, size_t more, size_t size)
{
	size_t wanted = count + more, grown = *capacity + *capacity / 2 + 8;
	void *p;

	if (wanted <= *capacity)
		return 0;
	if (grown < wanted)
		grown = wanted;
	p = realloc(*array, grown * size);
	if (!p)
		return -ENOMEM;
	*array = p;
	*capacity = grown;
	return 0;
}

static const char *text_at(const struct usher_endpoints *e, uint32_t offset)
{
	return e->texts + offset;
}

/* The slot of a text that is equal to `text`, or the free one where it belongs. `offset_of` says
 * which text a table's value stands for. */
static uint32_t *table_slot(const struct usher_endpoints *e, const struct table *t,
		const char *text, uint32_t (*offset_of)(const struct usher_endpoints *, uint32_t))
{
	size_t mask = t->size - 1;
	size_t i = XXH3_64bits(text, strlen(text)) & mask;

	while (t->slots[i] && strcmp(text_at(e, offset_of(e, t->slots[i] - 1)), text) != 0)
		i = (i + 1) & mask;
	return &t->slots[i];
}

static uint32_t offset_of_text(const struct usher_endpoints *e, uint32_t value)
{
	(void) e;
	return value;
}

static uint32_t offset_of_id(const struct usher_endpoints *e, uint32_t value)
{
	return e->records[value].id;
}

/* Room for `more` values at a load of at most a half. */
static int table_reserve(const struct usher_endpoints *e, struct table *t, size_t more,
		uint32_t (*offset_of)(const struct usher_endpoints *, uint32_t))
{
	struct table grown = { .size = t->size ? t->size : TABLE_FIRST, .used = t->used };

	while (grown.size < 2 * (t->used + more))
		grown.size *= 2;
	if (grown.size == t->size)
		return 0;
	grown.slots = calloc(grown.size, sizeof(*grown.slots));
	if (!grown.slots)
		return -ENOMEM;
	for (size_t i = 0; i < t->size; i++)
		if (t->slots[i])
			*table_slot(e, &grown, text_at(e, offset_of(e, t->slots[i] - 1)),
					offset_of) = t->slots[i];
	free(t->slots);
	*t = grown;
	return 0;
}

/* Put a text into the set, once. Room has been made: cannot fail. */
static uint32_t text_put(struct usher_endpoints *e, const char *text)
{
	uint32_t *slot, offset;
	size_t size;

	if (!text || !*text)
		return 0;
	slot = table_slot(e, &e->strings, text, offset_of_text);
	if (*slot)
		return *slot - 1;
	size = strlen(text) + 1;
	offset = (uint32_t) e->texts_size;
	memcpy(e->texts + offset, text, size);
	e->texts_size += size;
	*slot = offset + 1;
	e->strings.used++;
	return offset;
}

static int check_text(const char *what, const char *text, struct usher_error *reterr)
{
	if (!text)
		return 0;
	if (strlen(text) >= USHER_TEXT_MAX)
		return usher_error_set(reterr, -E2BIG, "%s has more than %d bytes", what,
				USHER_TEXT_MAX - 1);
	if (!utf8_is_clean(text))
		return usher_error_set(
				reterr, -EINVAL, "%s is not UTF-8 or has control characters", what);
	return 0;
}

static int check_metadata(const struct usher_endpoint *endpoint, struct usher_error *reterr)
{
	int r;

	if (endpoint->metadata_count > USHER_METADATA_MAX)
		return usher_error_set(reterr, -E2BIG,
				"metadata has %zu pairs; at most %d are allowed",
				endpoint->metadata_count, USHER_METADATA_MAX);
	for (size_t i = 0; i < endpoint->metadata_count; i++) {
		const struct usher_label *label = &endpoint->metadata[i];

		if (!label->name || !*label->name || !label->value)
			return usher_error_set(reterr, -EINVAL,
					"metadata has a pair without name or value");
		r = check_text("a metadata name", label->name, reterr);
		if (r < 0)
			return r;
		r = check_text("a metadata value", label->value, reterr);
		if (r < 0)
			return usher_error_prefix(reterr, r, "metadata \"%s\"", label->name);
		for (size_t k = 0; k < i; k++)
			if (strcmp(endpoint->metadata[k].name, label->name) == 0)
				return usher_error_set(reterr, -EINVAL,
						"metadata \"%s\" is given twice", label->name);
	}
	return 0;
}

static int check_endpoint(const struct usher_endpoint *endpoint, struct usher_error *reterr)
{
	int r;

	if (endpoint->size < offsetof(struct usher_endpoint, metadata_count) + sizeof(size_t))
		return usher_error_set(reterr, -EINVAL,
				"its size is not set: an endpoint starts from USHER_ENDPOINT_INIT");
	r = check_text("id", endpoint->id, reterr);
	if (r < 0)
		return r;
	if (endpoint->id && !*endpoint->id)
		return usher_error_set(reterr, -EINVAL, "id is empty");
	r = check_text("address", endpoint->address, reterr);
	if (r < 0)
		return r;
	r = usher_address_check(endpoint->address, reterr);
	if (r < 0)
		return r;
	if (endpoint->port == 0)
		return usher_error_set(reterr, -EINVAL, "port 0 is not in 1..65535");
	if ((unsigned) endpoint->admin_state > USHER_ADMIN_MAINTENANCE)
		return usher_error_set(reterr, -EINVAL, "admin_state %d is none that there is",
				(int) endpoint->admin_state);
	r = check_text("uid", endpoint->uid, reterr);
	if (r < 0)
		return r;
	r = check_text("zone", endpoint->zone, reterr);
	if (r < 0)
		return r;
	return check_metadata(endpoint, reterr);
}

static const char *label_value(const struct usher_endpoint *endpoint, const char *name)
{
	for (size_t i = 0; i < endpoint->metadata_count; i++)
		if (strcmp(endpoint->metadata[i].name, name) == 0)
			return endpoint->metadata[i].value;
	return NULL;
}

static void put_weight(struct record *record, const struct usher_endpoint *endpoint)
{
	const char *label = label_value(endpoint, USHER_WEIGHT_LABEL);
	const char *text = label ? label : endpoint->weight_text;

	record->weight = endpoint->weight;
	if (text ? usher_weight_parse(text, &record->weight) < 0
		 : endpoint->weight > USHER_WEIGHT_MAX) {
		record->weight = 1;
		record->flags |= RECORD_WEIGHT_INVALID;
	}
	if (endpoint->weight_invalid)
		record->flags |= RECORD_WEIGHT_INVALID;
}

static const char *zone_of(const struct usher_endpoint *endpoint)
{
	if (endpoint->zone && *endpoint->zone)
		return endpoint->zone;
	return label_value(endpoint, USHER_ZONE_LABEL);
}

/* What adding this endpoint can need at most, so that nothing fails half way. */
static int make_room(
		struct usher_endpoints *e, const struct usher_endpoint *endpoint, const char *id)
{
	size_t bytes = 1 + strlen(id) + 1 + strlen(endpoint->address) + 1 + CANONICAL_MORE;
	int r;

	bytes += endpoint->uid ? strlen(endpoint->uid) + 1 : 0;
	bytes += endpoint->zone ? strlen(endpoint->zone) + 1 : 0;
	for (size_t i = 0; i < endpoint->metadata_count; i++)
		bytes += strlen(endpoint->metadata[i].name) + strlen(endpoint->metadata[i].value) +
				2;
	if (e->texts_size + bytes > TEXTS_MAX)
		return -E2BIG;

	r = reserve((void **) &e->texts, &e->texts_capacity, e->texts_size, bytes, 1);
	if (r < 0)
		return r;
	if (e->texts_size == 0)
		e->texts[e->texts_size++] = 0;
	r = reserve((void **) &e->records, &e->capacity, e->count, 1, sizeof(*e->records));
	if (r < 0)
		return r;
	r = reserve((void **) &e->labels, &e->label_capacity, e->label_count,
			endpoint->metadata_count, sizeof(*e->labels));
	if (r < 0)
		return r;
	r = table_reserve(e, &e->strings, 4 + 2 * endpoint->metadata_count, offset_of_text);
	if (r < 0)
		return r;
	return table_reserve(e, &e->ids, 1, offset_of_id);
}

static int compare_labels(const void *a, const void *b)
{
	return strcmp(((const struct usher_label *) a)->name,
			((const struct usher_label *) b)->name);
}

/* In the order of names, so that equal metadata is equal byte for byte. */
static void put_labels(struct usher_endpoints *e, struct record *record,
		const struct usher_endpoint *endpoint)
{
	struct usher_label sorted[USHER_METADATA_MAX];

	if (endpoint->metadata_count > 0) {
		memcpy(sorted, endpoint->metadata, endpoint->metadata_count * sizeof(*sorted));
		qsort(sorted, endpoint->metadata_count, sizeof(*sorted), compare_labels);
	}
	record->labels = (uint32_t) e->label_count;
	record->label_count = (uint16_t) endpoint->metadata_count;
	for (size_t i = 0; i < endpoint->metadata_count; i++)
		e->labels[e->label_count++] = (struct label){
			.name = text_put(e, sorted[i].name),
			.value = text_put(e, sorted[i].value),
		};
}

static uint8_t condition_flags(const struct usher_endpoint *endpoint)
{
	return (uint8_t) ((endpoint->secure ? RECORD_SECURE : 0) |
			(endpoint->ready ? RECORD_READY : 0) |
			(endpoint->serving ? RECORD_SERVING : 0) |
			(endpoint->terminating ? RECORD_TERMINATING : 0));
}

int usher_endpoints_add(struct usher_endpoints *e, const struct usher_endpoint *endpoint,
		struct usher_error *reterr)
{
	char spelling[USHER_TEXT_MAX], authority[USHER_AUTHORITY_MAX];
	const char *address, *id;
	struct record record = {};
	uint32_t *slot;
	int r;

	assert(e);
	assert(endpoint);

	if (e->sealed)
		return usher_error_set(reterr, -EPERM, "the set has been offered and is read-only");
	if (e->count == USHER_ENDPOINTS_MAX)
		return usher_error_set(reterr, -E2BIG, "a service has more than %d endpoints",
				USHER_ENDPOINTS_MAX);
	r = check_endpoint(endpoint, reterr);
	if (r < 0)
		return r;
	address = address_canonical(endpoint->address, spelling);
	id = endpoint->id ? endpoint->id
			  : usher_authority_format(address, endpoint->port, authority);
	r = make_room(e, endpoint, id);
	if (r < 0)
		return usher_error_set(reterr, r,
				r == -E2BIG ? "the set's texts are too large" : "out of memory");
	slot = table_slot(e, &e->ids, id, offset_of_id);
	if (*slot)
		return usher_error_set(reterr, -EEXIST, "id \"%s\" is in the set twice", id);

	record.flags = condition_flags(endpoint);
	record.admin_state = (uint8_t) endpoint->admin_state;
	record.port = endpoint->port;
	put_weight(&record, endpoint);
	record.id = text_put(e, id);
	record.uid = text_put(e, endpoint->uid);
	record.address = text_put(e, address);
	record.zone = text_put(e, zone_of(endpoint));
	put_labels(e, &record, endpoint);
	e->records[e->count] = record;
	*slot = (uint32_t) ++e->count;
	e->ids.used++;
	return 0;
}

static int compare_records(const void *a, const void *b, void *set)
{
	const struct usher_endpoints *e = set;

	return strcmp(text_at(e, ((const struct record *) a)->id),
			text_at(e, ((const struct record *) b)->id));
}

static void shrink(void **array, size_t *capacity, size_t count, size_t size)
{
	void *p = count > 0 ? realloc(*array, count * size) : NULL;

	if (p) {
		*array = p;
		*capacity = count;
	}
}

void usher_endpoints_seal(struct usher_endpoints *e)
{
	if (e->sealed)
		return;
	e->sealed = true;
	if (e->count > 1)
		qsort_r(e->records, e->count, sizeof(*e->records), compare_records, e);
	free(e->strings.slots);
	free(e->ids.slots);
	e->strings = e->ids = (struct table){};
	shrink((void **) &e->records, &e->capacity, e->count, sizeof(*e->records));
	shrink((void **) &e->labels, &e->label_capacity, e->label_count, sizeof(*e->labels));
	shrink((void **) &e->texts, &e->texts_capacity, e->texts_size, 1);
}

/* ---- reading ---- */

size_t usher_endpoints_count(const struct usher_endpoints *e)
{
	return e->count;
}

size_t usher_endpoints_size(const struct usher_endpoints *e)
{
	return sizeof(*e) + e->capacity * sizeof(*e->records) +
			e->label_capacity * sizeof(*e->labels) + e->texts_capacity +
			(e->strings.size + e->ids.size) * sizeof(uint32_t);
}

static const char *text_or_null(const struct usher_endpoints *e, uint32_t offset)
{
	return offset ? text_at(e, offset) : NULL;
}

void usher_endpoints_read(const struct usher_endpoints *e, size_t i, struct usher_endpoint *ret,
		size_t ret_size)
{
	const struct record *record;
	struct usher_endpoint endpoint;

	assert(i < e->count);
	record = &e->records[i];
	endpoint = (struct usher_endpoint){
		.size = ret_size < sizeof(endpoint) ? ret_size : sizeof(endpoint),
		.id = text_at(e, record->id),
		.uid = text_or_null(e, record->uid),
		.address = text_at(e, record->address),
		.zone = text_or_null(e, record->zone),
		.weight = record->weight,
		.port = record->port,
		.secure = record->flags & RECORD_SECURE,
		.ready = record->flags & RECORD_READY,
		.serving = record->flags & RECORD_SERVING,
		.terminating = record->flags & RECORD_TERMINATING,
		.weight_invalid = record->flags & RECORD_WEIGHT_INVALID,
		.admin_state = (enum usher_admin_state) record->admin_state,
		.metadata_count = record->label_count,
	};
	memcpy(ret, &endpoint, endpoint.size);
}

const char *usher_endpoints_id(const struct usher_endpoints *e, size_t i)
{
	assert(i < e->count);
	return text_at(e, e->records[i].id);
}

const char *usher_endpoints_zone(const struct usher_endpoints *e, size_t i)
{
	assert(i < e->count);
	return text_or_null(e, e->records[i].zone);
}

static ssize_t find_sorted(const struct usher_endpoints *e, const char *id)
{
	size_t low = 0, high = e->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(id, text_at(e, e->records[middle].id));

		if (order == 0)
			return (ssize_t) middle;
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return -ENOENT;
}

ssize_t usher_endpoints_find(const struct usher_endpoints *e, const char *id)
{
	uint32_t value;

	if (e->count == 0)
		return -ENOENT;
	if (e->sealed)
		return find_sorted(e, id);
	value = *table_slot(e, &e->ids, id, offset_of_id);
	return value ? (ssize_t) value - 1 : -ENOENT;
}

const char *usher_endpoints_metadata(const struct usher_endpoints *e, size_t i, const char *name)
{
	const struct record *record;

	assert(i < e->count);
	record = &e->records[i];
	for (uint32_t k = 0; k < record->label_count; k++) {
		const struct label *label = &e->labels[record->labels + k];
		const char *text = text_at(e, label->name);

		/* Most differ in their first letter, and stages ask this of every endpoint. */
		if (text[0] == name[0] && strcmp(text, name) == 0)
			return text_at(e, label->value);
	}
	return NULL;
}

struct usher_label usher_endpoints_metadata_at(const struct usher_endpoints *e, size_t i, size_t k)
{
	const struct label *label;

	assert(i < e->count);
	assert(k < e->records[i].label_count);
	label = &e->labels[e->records[i].labels + k];
	return (struct usher_label){ text_at(e, label->name), text_at(e, label->value) };
}

#define COMMON_STEP 4096

size_t endpoints_common(const struct usher_endpoints *a, const struct usher_endpoints *b)
{
	size_t size = a->texts_size < b->texts_size ? a->texts_size : b->texts_size, n = 0;

	while (n + COMMON_STEP <= size && memcmp(a->texts + n, b->texts + n, COMMON_STEP) == 0)
		n += COMMON_STEP;
	while (n < size && a->texts[n] == b->texts[n])
		n++;
	/* Back to the end of the last whole text. */
	while (n > 0 && a->texts[n - 1] != 0)
		n--;
	return n;
}

static bool text_same(const struct usher_endpoints *a, uint32_t x, const struct usher_endpoints *b,
		uint32_t y, size_t common)
{
	if (x < common || y < common)
		return x == y;
	return strcmp(text_at(a, x), text_at(b, y)) == 0;
}

bool endpoints_same(const struct usher_endpoints *a, size_t i, const struct usher_endpoints *b,
		size_t k, size_t common)
{
	const struct record *x = &a->records[i], *y = &b->records[k];

	assert(i < a->count);
	assert(k < b->count);
	if (x->weight != y->weight || x->port != y->port || x->flags != y->flags ||
			x->admin_state != y->admin_state || x->label_count != y->label_count ||
			!text_same(a, x->id, b, y->id, common) ||
			!text_same(a, x->uid, b, y->uid, common) ||
			!text_same(a, x->address, b, y->address, common) ||
			!text_same(a, x->zone, b, y->zone, common))
		return false;
	for (uint32_t l = 0; l < x->label_count; l++) {
		const struct label *p = &a->labels[x->labels + l], *q = &b->labels[y->labels + l];

		if (!text_same(a, p->name, b, q->name, common) ||
				!text_same(a, p->value, b, q->value, common))
			return false;
	}
	return true;
}

bool usher_endpoints_same(const struct usher_endpoints *a, size_t i,
		const struct usher_endpoints *b, size_t k)
{
	return endpoints_same(a, i, b, k, 0);
}

bool usher_endpoints_equal(const struct usher_endpoints *a, const struct usher_endpoints *b)
{
	size_t common;

	if (a == b)
		return true;
	if (!a || !b || a->count != b->count)
		return false;
	common = endpoints_common(a, b);
	for (size_t i = 0; i < a->count; i++)
		if (!endpoints_same(a, i, b, i, common))
			return false;
	return true;
}
