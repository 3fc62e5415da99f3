#include "table.h"

#include <errno.h>
#include <string.h>
#include <usher/plugin.h>

#include "layout.h"
#include "own.h"
#include "value.h"

struct etcd_entry {
	char *id; /* what stands behind the prefix */
	size_t id_size;
	char *value; /* NULL: no instance's */
	size_t value_size;
	char *good; /* the value before it, where this one cannot be read; NULL: none */
	size_t good_size;
	int64_t mod_revision, lease;
	bool is_read; /* the value has been found good */
	bool is_told; /* the log knows that it cannot be read */
};

static void entry_done(struct etcd_entry *e)
{
	free(e->id);
	free(e->value);
	free(e->good);
}

void etcd_table_done(struct etcd_table *t)
{
	for (size_t i = 0; i < t->count; i++)
		entry_done(&t->entries[i]);
	free(t->entries);
	*t = (struct etcd_table){ 0 };
}

/* ---- the keys ---- */

static int compare(const char *a, size_t a_size, const char *b, size_t b_size)
{
	int r = memcmp(a, b, a_size < b_size ? a_size : b_size);

	return r != 0 ? r : (a_size > b_size) - (a_size < b_size);
}

/* Where the key is, or would be. */
static size_t find(const struct etcd_table *t, const char *id, size_t size, bool *ret_found)
{
	size_t low = 0, high = t->count;

	*ret_found = false;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct etcd_entry *e = &t->entries[middle];
		int r = compare(e->id, e->id_size, id, size);

		if (r == 0) {
			*ret_found = true;
			return middle;
		}
		if (r < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int insert(struct etcd_table *t, size_t at, const char *id, size_t size)
{
	autofree char *copy = malloc(size + 1);

	if (!copy)
		return -ENOMEM;
	if (t->count == ETCD_KEYS_MAX)
		return -E2BIG;
	if (t->count == t->capacity) {
		size_t capacity = t->capacity ? 2 * t->capacity : 16;
		struct etcd_entry *grown = realloc(t->entries, capacity * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		t->entries = grown;
		t->capacity = capacity;
	}
	memcpy(copy, id, size);
	copy[size] = '\0';
	memmove(&t->entries[at + 1], &t->entries[at], (t->count - at) * sizeof(*t->entries));
	t->entries[at] = (struct etcd_entry){ .id = take(copy), .id_size = size };
	t->count++;
	return 0;
}

int etcd_table_put(struct etcd_table *t, size_t prefix_size, struct etcd_kv *kv)
{
	cleanup(etcd_kv_done) struct etcd_kv taken = *kv;
	struct etcd_entry *e;
	const char *id;
	size_t at, size;
	bool found;
	int r;

	*kv = (struct etcd_kv){ 0 };
	if (taken.key_size < prefix_size)
		return -EBADMSG;
	id = taken.key + prefix_size;
	size = taken.key_size - prefix_size;
	at = find(t, id, size, &found);
	r = found ? 0 : insert(t, at, id, size);
	if (r < 0)
		return r;
	e = &t->entries[at];
	e->mod_revision = taken.mod_revision;
	e->lease = taken.lease;
	if (!etcd_layout_is_id(id, size))
		return 0;
	if (e->is_read) {
		free(e->good);
		e->good = take(e->value);
		e->good_size = e->value_size;
	}
	free(e->value);
	if (!taken.value) /* an empty one is left out */
		taken.value = strdup("");
	e->value = take(taken.value);
	e->value_size = e->value ? taken.value_size : 0;
	e->is_read = e->is_told = false;
	return e->value ? 0 : -ENOMEM;
}

void etcd_table_remove(struct etcd_table *t, size_t prefix_size, const struct etcd_kv *kv)
{
	bool found;
	size_t at;

	if (kv->key_size < prefix_size)
		return;
	at = find(t, kv->key + prefix_size, kv->key_size - prefix_size, &found);
	if (!found)
		return;
	entry_done(&t->entries[at]);
	t->count--;
	memmove(&t->entries[at], &t->entries[at + 1], (t->count - at) * sizeof(*t->entries));
}

static void inherit(struct etcd_entry *e, struct etcd_entry *before)
{
	bool same = e->value && before->value && e->value_size == before->value_size &&
			memcmp(e->value, before->value, e->value_size) == 0;

	if (same) {
		e->is_told = before->is_told;
		e->is_read = before->is_read;
	}
	if (before->is_read && !same) {
		e->good = take(before->value);
		e->good_size = before->value_size;
	} else if (!before->is_read) {
		e->good = take(before->good);
		e->good_size = before->good_size;
	}
}

void etcd_table_inherit(struct etcd_table *t, struct etcd_table *before)
{
	for (size_t i = 0; i < t->count; i++) {
		struct etcd_entry *e = &t->entries[i];
		bool found;
		size_t at = find(before, e->id, e->id_size, &found);

		if (found && e->value && !e->good)
			inherit(e, &before->entries[at]);
	}
}

int64_t etcd_table_newest(const struct etcd_table *t)
{
	int64_t newest = 0;

	for (size_t i = 0; i < t->count; i++)
		if (t->entries[i].mod_revision > newest)
			newest = t->entries[i].mod_revision;
	return newest;
}

/* ---- what they say ---- */

static int add(struct usher_endpoints *set, const struct etcd_entry *e, const char *text,
		size_t size, const char *port, struct usher_error *reterr)
{
	struct etcd_value value;
	int r = etcd_value_read(text, size, port, &value, reterr);

	if (r < 0)
		return r;
	value.endpoint.id = e->id;
	etcd_value_set_lease(&value, e->lease);
	r = usher_endpoints_add(set, &value.endpoint, reterr);
	etcd_value_done(&value);
	return r;
}

/* Returns 1: it is in the set; 0: it is no instance, or says nothing that can be read. */
static int build_entry(struct usher_endpoints *set, struct etcd_entry *e, const char *service,
		const char *port)
{
	struct usher_error why = { 0 };
	int r = add(set, e, e->value, e->value_size, port, &why);

	if (r == 0) {
		e->is_read = true;
		free(take(e->good));
		return 1;
	}
	if (r == -ENOENT) {
		free(take(e->good));
		return 0;
	}
	if (r == -ENOMEM || usher_endpoints_count(set) == USHER_ENDPOINTS_MAX)
		return r;
	if (!e->is_told)
		usher_log(USHER_LOG_WARNING, "The value of %s of %s cannot be read: %s; %s", e->id,
				service, usher_error_text(&why, r),
				e->good ? "keeping what it said before" : "leaving it out");
	e->is_told = true;
	return e->good && add(set, e, e->good, e->good_size, port, NULL) == 0;
}

static void unref_set(struct usher_endpoints **set)
{
	(void) usher_endpoints_unref(*set);
}

int etcd_table_build(struct etcd_table *t, const char *service, const char *port,
		struct usher_endpoints **ret, struct usher_error *reterr)
{
	cleanup(unref_set) struct usher_endpoints *set = usher_endpoints_new();
	size_t instances = 0, unread = 0;

	if (!set)
		return usher_error_set(reterr, -ENOMEM, "out of memory");
	for (size_t i = 0; i < t->count; i++) {
		struct etcd_entry *e = &t->entries[i];
		int r = e->value ? build_entry(set, e, service, port) : 0;

		if (r < 0)
			return usher_error_set(reterr, r, "%s",
					r == -ENOMEM ? "out of memory"
						     : "there are more endpoints than usher takes");
		instances += e->value != NULL;
		unread += e->value && r == 0 && e->is_told;
	}
	if (instances > 0 && unread == instances)
		return usher_error_set(reterr, -EBADMSG,
				"none of the values of its %zu keys can be read as an endpoint; the "
				"log says why",
				instances);
	*ret = take(set);
	return 0;
}
