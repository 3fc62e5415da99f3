#include "registry.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "own-json.h"

#define USEC_PER_MSEC UINT64_C(1000)
#define ITEM_SIZE     sizeof(struct instance *) // NOLINT(bugprone-sizeof-expression)
/* A lease is over after twice its time, and evicted by a timer of a minute. Beyond that much again
 * the server keeps it on purpose. */
#define OVERDUE_SLACK_MSEC INT64_C(120000)

void registry_init(struct registry *r, enum instance_by by)
{
	*r = (struct registry){ .by = by };
}

static void free_items(struct instance **items, size_t count)
{
	for (size_t i = 0; items && i < count; i++)
		free(items[i]);
	free(items);
}

void registry_done(struct registry *r)
{
	free_items(r->items, r->count);
	free(r->index);
	free(r->touched);
	*r = (struct registry){ 0 };
}

/* ---- order ---- */

static int compare(const struct instance *a, const struct instance *b)
{
	int r = strcmp(a->app, b->app);

	return r != 0 ? r : strcmp(a->id, b->id);
}

struct arrival {
	struct instance *instance;
	size_t number;
};

static int compare_arrivals(const void *a, const void *b)
{
	const struct arrival *x = a, *y = b;
	int r = compare(x->instance, y->instance);

	return r != 0 ? r : (x->number > y->number) - (x->number < y->number);
}

/* Sort, and free all but the last of those alike. */
static int sort_items(struct instance **items, size_t *count)
{
	autofree struct arrival *arrivals = calloc(*count + 1, sizeof(*arrivals));
	size_t kept = 0;

	if (!arrivals)
		return -ENOMEM;
	for (size_t i = 0; i < *count; i++)
		arrivals[i] = (struct arrival){ items[i], i };
	qsort(arrivals, *count, sizeof(*arrivals), compare_arrivals);
	for (size_t i = 0; i < *count; i++) {
		if (kept > 0 && compare(items[kept - 1], arrivals[i].instance) == 0)
			free(items[--kept]);
		items[kept++] = arrivals[i].instance;
	}
	*count = kept;
	return 0;
}

/* ---- keys ---- */

static int compare_keys(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static int compare_entries(const void *a, const void *b)
{
	const struct registry_entry *x = a, *y = b;

	if (x->key != y->key)
		return x->key > y->key ? 1 : -1;
	return compare(x->instance, y->instance);
}

static size_t count_keys(const struct instance *i, enum instance_by by)
{
	size_t count = 0;
	uint64_t key;

	while (instance_key_at(i, by, count, &key))
		count++;
	return count;
}

static int make_index(enum instance_by by, struct instance *const *items, size_t count,
		struct registry_entry **ret, size_t *ret_count)
{
	struct registry_entry *index;
	size_t size = 0, at = 0;

	for (size_t i = 0; i < count; i++)
		size += count_keys(items[i], by);
	index = calloc(size + 1, sizeof(*index));
	if (!index)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		uint64_t key;

		for (size_t k = 0; at < size && instance_key_at(items[i], by, k, &key); k++)
			index[at++] = (struct registry_entry){ key, items[i] };
	}
	qsort(index, at, sizeof(*index), compare_entries);
	*ret = index;
	*ret_count = at;
	return 0;
}

const struct registry_entry *registry_find(
		const struct registry *r, uint64_t key, size_t *ret_count)
{
	size_t low = 0, high = r->index_count, end;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (r->index[middle].key < key)
			low = middle + 1;
		else
			high = middle;
	}
	for (end = low; end < r->index_count && r->index[end].key == key; end++)
		;
	*ret_count = end - low;
	return &r->index[low];
}

bool registry_is_touched(const struct registry *r, uint64_t key)
{
	return r->all_touched ||
			(r->touched_count > 0 &&
					bsearch(&key, r->touched, r->touched_count,
							sizeof(*r->touched), compare_keys));
}

void registry_settle(struct registry *r)
{
	r->touched_count = 0;
	r->all_touched = false;
}

/* ---- another state ---- */

/* What takes the place of the state there is, once it is whole. */
struct next {
	struct instance **items;
	size_t count;
	uint64_t *touched;
	size_t touched_count, touched_capacity;
};

static void touch(struct next *n, const struct instance *i, enum instance_by by)
{
	uint64_t key;

	for (size_t k = 0;
			n->touched_count < n->touched_capacity && instance_key_at(i, by, k, &key);
			k++)
		n->touched[n->touched_count++] = key;
}

static void count_items(struct registry *r)
{
	r->missing = r->overdue = 0;
	for (size_t i = 0; i < r->count; i++) {
		r->missing += r->items[i]->missing_usec != 0;
		r->overdue += r->items[i]->overdue;
	}
}

/* The items that are not in it are the caller's to free. Cannot fail after the index is made. */
static int install(struct registry *r, struct next *n, bool all_touched)
{
	struct registry_entry *index = NULL;
	size_t count = 0;
	int e = make_index(r->by, n->items, n->count, &index, &count);

	if (e < 0)
		return e;
	free(r->items);
	free(r->index);
	free(r->touched);
	r->items = take(n->items);
	r->count = n->count;
	r->index = index;
	r->index_count = count;
	/* What was changed before and not told of yet is not kept apart. */
	r->all_touched = r->all_touched || all_touched || r->touched_count > 0;
	r->touched = take(n->touched);
	r->touched_count = n->touched_count;
	if (r->touched_count > 0)
		qsort(r->touched, r->touched_count, sizeof(*r->touched), compare_keys);
	count_items(r);
	return 0;
}

/* ---- the list of all ---- */

/* By the newest sign of life in the same answer, for an answer may be minutes old, and the server's
 * clock another one. */
static void find_overdue(struct instance *const *items, size_t count)
{
	int64_t newest = 0;

	for (size_t i = 0; i < count; i++)
		if (items[i]->renewed_msec > newest)
			newest = items[i]->renewed_msec;
	for (size_t i = 0; i < count; i++)
		items[i]->overdue = items[i]->renewed_msec > 0 &&
				newest - items[i]->renewed_msec >
						2 * items[i]->lease_msec + OVERDUE_SLACK_MSEC;
}

/* Whether somebody that is listed is at the address of one that is not: the same under another id.
 */
static bool has_moved(const struct instance *gone, struct instance *const *items, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (gone->ip && items[i]->ip && strcmp(gone->app, items[i]->app) == 0 &&
				gone->port == items[i]->port &&
				gone->secure_port == items[i]->secure_port &&
				strcmp(gone->ip, items[i]->ip) == 0)
			return true;
	return false;
}

/* Where the instances of an app are in a sorted list. */
static void find_app(const char *app, struct instance *const *items, size_t count,
		size_t *ret_first, size_t *ret_count)
{
	size_t low = 0, high = count, end;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(items[middle]->app, app) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	for (end = low; end < count && strcmp(items[end]->app, app) == 0; end++)
		;
	*ret_first = low;
	*ret_count = end - low;
}

static bool stays(const struct instance *gone, struct instance *const *items, size_t count)
{
	size_t first, alike;

	find_app(gone->app, items, count, &first, &alike);
	return !has_moved(gone, &items[first], alike);
}

static int compare_pointers(const void *a, const void *b)
{
	return compare(*(struct instance *const *) a, *(struct instance *const *) b);
}

/* Those of the state there is that are not in the list, as they were, at the end of it. Returns how
 * many. */
static size_t add_missing(const struct registry *r, struct instance **items, size_t count)
{
	size_t added = 0, at = 0;

	for (size_t i = 0; i < r->count; i++) {
		while (at < count && compare(items[at], r->items[i]) < 0)
			at++;
		if (at < count && compare(items[at], r->items[i]) == 0)
			continue;
		if (stays(r->items[i], items, count))
			items[count + added++] = r->items[i];
	}
	return added;
}

static int replace(struct registry *r, struct instance ***items, size_t *count, uint64_t seen_usec,
		uint64_t now_usec)
{
	struct instance **grown, **old = r->items;
	size_t old_count = r->count, listed;
	struct next n = { 0 };
	int e = sort_items(*items, count);

	if (e < 0)
		return e;
	grown = reallocarray(*items, *count + old_count + 1, ITEM_SIZE);
	if (!grown)
		return -ENOMEM;
	*items = grown;
	find_overdue(grown, *count);
	listed = *count;
	n.items = calloc(listed + old_count + 1, ITEM_SIZE);
	if (!n.items)
		return -ENOMEM;
	n.count = listed + add_missing(r, grown, listed);
	memcpy(n.items, grown, n.count * ITEM_SIZE);
	qsort(n.items, n.count, ITEM_SIZE, compare_pointers);
	r->items = NULL; /* of which some stay */
	e = install(r, &n, true);
	if (e < 0) {
		r->items = old;
		free(n.items);
		return e;
	}
	for (size_t i = listed; i < r->count; i++) {
		if (grown[i]->missing_usec != 0)
			continue;
		grown[i]->missing_usec = now_usec;
		grown[i]->seen_usec = seen_usec;
	}
	count_items(r);
	/* Whoever does not stay goes; those that do are behind the listed ones. */
	for (size_t i = 0, k = listed; i < old_count; i++) {
		if (k < r->count && grown[k] == old[i])
			k++;
		else
			free(old[i]);
	}
	free(old);
	free(take(*items));
	return 0;
}

int registry_replace(struct registry *r, struct instance **items, size_t count, uint64_t seen_usec,
		uint64_t now_usec)
{
	int e = replace(r, &items, &count, seen_usec, now_usec);

	free_items(items, items ? count : 0);
	return e;
}

/* ---- what has changed ---- */

/* An answer out of a server's cache may be older than what is known. */
static bool is_older(const struct instance *change, const struct instance *known)
{
	return known->missing_usec == 0 && change->updated_msec < known->updated_msec;
}

/* One that has a sign of life newer than the list of all is not overdue. */
static bool is_same(const struct instance *change, const struct instance *known)
{
	return known->missing_usec == 0 && !change->deleted &&
			change->updated_msec == known->updated_msec && change->updated_msec != 0 &&
			change->status == known->status && change->overridden == known->overridden;
}

/* Put one change and one known instance, of which either may be NULL, into the next state. What is
 * not in there is in `out`. Returns what goes in, or NULL. */
static struct instance *merge(struct instance *change, struct instance *known, struct next *n,
		enum instance_by by, struct instance **ret_out)
{
	*ret_out = NULL;
	if (!change)
		return known;
	if (!known) {
		if (change->deleted) {
			*ret_out = change;
			return NULL;
		}
		touch(n, change, by);
		return change;
	}
	if (is_older(change, known) || is_same(change, known)) {
		*ret_out = change;
		return known;
	}
	touch(n, known, by);
	touch(n, change, by);
	*ret_out = known;
	return change;
}

struct merged {
	struct next next;
	struct instance **out; /* to be freed when it is done */
	size_t out_count;
};

static int merged_new(const struct registry *r, struct instance *const *items, size_t count,
		struct merged *ret)
{
	struct next *n = &ret->next;

	for (size_t i = 0; i < count; i++)
		n->touched_capacity += count_keys(items[i], r->by);
	/* Of known ones, too, which may have had other keys. */
	for (size_t i = 0; i < r->count; i++) {
		if (count > 0 && bsearch(&r->items[i], items, count, ITEM_SIZE, compare_pointers))
			n->touched_capacity += count_keys(r->items[i], r->by);
	}
	n->items = calloc(r->count + count + 1, ITEM_SIZE);
	n->touched = calloc(n->touched_capacity + 1, sizeof(*n->touched));
	ret->out = calloc(2 * count + 1, ITEM_SIZE);
	return n->items && n->touched && ret->out ? 0 : -ENOMEM;
}

static void merge_all(const struct registry *r, struct instance *const *items, size_t count,
		struct merged *m)
{
	size_t i = 0, k = 0;

	while (i < count || k < r->count) {
		int order = i == count ? 1 : k == r->count ? -1 : compare(items[i], r->items[k]);
		struct instance *change = order <= 0 ? items[i] : NULL;
		struct instance *known = order >= 0 ? r->items[k] : NULL;
		struct instance *out, *in = merge(change, known, &m->next, r->by, &out);

		if (in && in == change && change->deleted) { /* it takes the known one along */
			m->out[m->out_count++] = in;
			in = NULL;
		}
		if (in)
			m->next.items[m->next.count++] = in;
		if (out)
			m->out[m->out_count++] = out;
		i += order <= 0;
		k += order >= 0;
	}
}

static int apply(struct registry *r, struct instance **items, size_t *count)
{
	struct merged m = { 0 };
	int e = sort_items(items, count);

	if (e == 0)
		e = merged_new(r, items, *count, &m);
	if (e == 0) {
		merge_all(r, items, *count, &m);
		e = install(r, &m.next, false);
	}
	for (size_t i = 0; e == 0 && i < m.out_count; i++)
		free(m.out[i]);
	free(m.next.items);
	free(m.next.touched);
	free(m.out);
	return e;
}

int registry_apply(struct registry *r, struct instance **items, size_t count)
{
	int e = apply(r, items, &count);

	/* Done, they are in the registry, or freed. */
	free_items(items, e < 0 ? count : 0);
	return e;
}

int registry_drop_missing(struct registry *r, uint64_t before_usec)
{
	struct merged m = { 0 };
	int e;

	if (r->missing == 0)
		return 0;
	m.next.items = calloc(r->count + 1, ITEM_SIZE);
	m.out = calloc(r->count + 1, ITEM_SIZE);
	e = m.next.items && m.out ? 0 : -ENOMEM;
	for (size_t i = 0; e == 0 && i < r->count; i++) {
		struct instance *one = r->items[i];

		if (one->missing_usec != 0 && one->missing_usec < before_usec)
			m.out[m.out_count++] = one;
		else
			m.next.items[m.next.count++] = one;
	}
	if (e == 0 && m.out_count > 0)
		e = install(r, &m.next, true);
	for (size_t i = 0; e == 0 && i < m.out_count; i++)
		free(m.out[i]);
	free(m.next.items);
	free(m.out);
	return e;
}

/* ---- what it says ---- */

void registry_hash(const struct registry *r, char *ret)
{
	size_t counts[INSTANCE_STATUSES] = { 0 }, used = 0;

	for (size_t i = 0; i < r->count; i++)
		counts[r->items[i]->status] += r->items[i]->missing_usec == 0;
	ret[0] = '\0';
	for (int s = 0; s < INSTANCE_STATUSES; s++) {
		int n = counts[s] == 0 ? 0
				       : snprintf(&ret[used], REGISTRY_HASH_MAX - used, "%s_%zu_",
							 instance_status_to_string(
									 (enum instance_status) s),
							 counts[s]);

		assert(n >= 0 && (size_t) n < REGISTRY_HASH_MAX - used);
		used += (size_t) n;
	}
}

uint64_t registry_span_usec(const struct registry *r)
{
	int64_t oldest = INT64_MAX, newest = 0;

	for (size_t i = 0; i < r->count; i++) {
		const struct instance *one = r->items[i];

		if (one->missing_usec != 0 || one->registered_msec <= 0)
			continue;
		if (one->registered_msec < oldest)
			oldest = one->registered_msec;
		if (one->registered_msec > newest)
			newest = one->registered_msec;
		if (one->renewed_msec > newest)
			newest = one->renewed_msec;
	}
	return newest > oldest ? (uint64_t) (newest - oldest) * USEC_PER_MSEC : 0;
}
