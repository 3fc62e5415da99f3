#include "followed-directory.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ownership.h"

/* Balances stay below the sum of all weights in units: 10^5 endpoints of 10^9 each, times 2^12. */
#define TURN_UNIT     4096
#define EFFECTIVE_MAX 1000000000

/* What turns go by: the weight as far as it is given for now. */
static uint32_t effective_weight(const struct watch_endpoint *from)
{
	uint64_t weight = (uint64_t) from->weight * from->ramp;

	return weight < EFFECTIVE_MAX ? (uint32_t) weight : EFFECTIVE_MAX;
}

static struct followed_endpoint *followed_endpoint_free(struct followed_endpoint *endpoint)
{
	if (!endpoint)
		return NULL;
	free(endpoint->id);
	free(endpoint->address);
	free(endpoint);
	return NULL;
}

DEFINE_CLEANUP(struct followed_endpoint, followed_endpoint_free);

/* splitmix64 (Steele, Lea, Flood 2014): many values from one. */
static uint64_t scatter(uint64_t *state)
{
	uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static struct followed_endpoint *followed_endpoint_new(
		const struct watch_endpoint *from, uint64_t *random)
{
	cleanup(followed_endpoint_freep) struct followed_endpoint *endpoint =
			calloc(1, sizeof(*endpoint));

	if (!endpoint)
		return NULL;
	endpoint->id = strdup(from->id);
	endpoint->address = strdup(from->address);
	if (!endpoint->id || !endpoint->address)
		return NULL;
	endpoint->port = from->port;
	endpoint->secure = from->secure;
	endpoint->weight = effective_weight(from);
	endpoint->ready = from->admin_state == USHER_ADMIN_READY;
	if (*random != 0 && endpoint->weight > 0)
		endpoint->balance = (int64_t) (scatter(random) %
				((uint64_t) endpoint->weight * TURN_UNIT));
	return take(endpoint);
}

static int compare_ids(const void *a, const void *b)
{
	const struct followed_endpoint *const *left = a, *const *right = b;

	return strcmp((*left)->id, (*right)->id);
}

static void endpoints_free(struct followed_endpoint **endpoints, size_t count)
{
	for (size_t i = 0; i < count; i++)
		followed_endpoint_free(endpoints[i]);
	free(endpoints);
}

/* The endpoints of a line in the order of their ids; of one that stands there twice, one. */
static int endpoints_prepare(const struct watch_line *line, uint64_t *random,
		struct followed_endpoint ***ret, size_t *ret_count)
{
	struct followed_endpoint **endpoints =
			calloc(line->endpoint_count + 1, sizeof(struct followed_endpoint *));
	size_t kept = 0;

	if (!endpoints)
		return -ENOMEM;
	for (size_t i = 0; i < line->endpoint_count; i++) {
		endpoints[i] = followed_endpoint_new(&line->endpoints[i], random);
		if (!endpoints[i]) {
			endpoints_free(endpoints, i);
			return -ENOMEM;
		}
	}
	qsort(endpoints, line->endpoint_count, sizeof(struct followed_endpoint *), compare_ids);
	for (size_t i = 0; i < line->endpoint_count; i++) {
		if (kept > 0 && strcmp(endpoints[kept - 1]->id, endpoints[i]->id) == 0)
			followed_endpoint_free(endpoints[i]);
		else
			endpoints[kept++] = endpoints[i];
	}
	*ret = endpoints;
	*ret_count = kept;
	return 0;
}

static bool may_be_chosen(const struct followed_endpoint *endpoint)
{
	return endpoint->ready && endpoint->weight > 0;
}

static void directory_count_weights(struct followed_directory *d)
{
	uint32_t first = 0;

	d->total = 0;
	d->uniform = true;
	for (size_t i = 0; i < d->count; i++) {
		if (!may_be_chosen(d->endpoints[i]))
			continue;
		if (first == 0)
			first = d->endpoints[i]->weight;
		if (d->endpoints[i]->weight != first)
			d->uniform = false;
		d->total += d->endpoints[i]->weight;
	}
}

void followed_directory_done(struct followed_directory *d)
{
	endpoints_free(d->endpoints, d->count);
	*d = (struct followed_directory){};
}

int followed_directory_replace(
		struct followed_directory *d, const struct watch_line *line, uint64_t random)
{
	struct followed_directory fresh = {};
	int r;

	r = endpoints_prepare(line, &random, &fresh.endpoints, &fresh.count);
	if (r < 0)
		return r;
	fresh.capacity = line->endpoint_count + 1;
	fresh.cursor = fresh.count > 0 ? (size_t) (random % fresh.count) : 0;
	directory_count_weights(&fresh);
	followed_directory_done(d);
	*d = fresh;
	return 0;
}

static ssize_t directory_find(const struct followed_directory *d, const char *id)
{
	size_t low = 0, high = d->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(d->endpoints[middle]->id, id);

		if (order == 0)
			return (ssize_t) middle;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return -ENOENT;
}

static int compare_positions(const void *a, const void *b)
{
	const ssize_t *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

/* positions has room for line->removed_count. */
static void directory_remove(
		struct followed_directory *d, const struct watch_line *line, ssize_t *positions)
{
	size_t gone = 0, next = 0, kept = 0;

	for (size_t i = 0; i < line->removed_count; i++) {
		ssize_t position = directory_find(d, line->removed[i]);

		if (position >= 0)
			positions[gone++] = position;
	}
	qsort(positions, gone, sizeof(*positions), compare_positions);
	for (size_t i = 0; i < d->count; i++) {
		bool remove = false;

		while (next < gone && positions[next] == (ssize_t) i) {
			remove = true;
			next++;
		}
		if (remove)
			followed_endpoint_free(d->endpoints[i]);
		else
			d->endpoints[kept++] = d->endpoints[i];
	}
	d->count = kept;
}

/* Put the changed ones in their places; those that are new, which are left in changed, merge from
 * the back. Room for all of them is there. */
static void directory_merge(
		struct followed_directory *d, struct followed_endpoint **changed, size_t count)
{
	size_t fresh = 0, from, into;

	for (size_t i = 0; i < count; i++) {
		ssize_t position = directory_find(d, changed[i]->id);

		if (position < 0) {
			changed[fresh++] = changed[i];
			continue;
		}
		changed[i]->balance = d->endpoints[position]->balance;
		followed_endpoint_free(d->endpoints[position]);
		d->endpoints[position] = changed[i];
	}
	from = d->count;
	into = d->count + fresh;
	d->count = into;
	while (fresh > 0) {
		if (from > 0 && strcmp(d->endpoints[from - 1]->id, changed[fresh - 1]->id) > 0)
			d->endpoints[--into] = d->endpoints[--from];
		else
			d->endpoints[--into] = changed[--fresh];
	}
}

int followed_directory_update(
		struct followed_directory *d, const struct watch_line *line, uint64_t random)
{
	autofree ssize_t *positions = calloc(line->removed_count + 1, sizeof(*positions));
	struct followed_endpoint **changed = NULL;
	size_t count = 0;
	int r;

	if (!positions)
		return -ENOMEM;
	r = endpoints_prepare(line, &random, &changed, &count);
	if (r < 0)
		return r;
	if (d->count + count > USHER_ENDPOINTS_MAX) {
		endpoints_free(changed, count);
		return -E2BIG;
	}
	if (d->count + count > d->capacity) {
		size_t capacity = d->count + count + d->count / 2;
		struct followed_endpoint **grown = realloc(
				d->endpoints, capacity * sizeof(struct followed_endpoint *));

		if (!grown) {
			endpoints_free(changed, count);
			return -ENOMEM;
		}
		d->endpoints = grown;
		d->capacity = capacity;
	}
	directory_remove(d, line, positions);
	directory_merge(d, changed, count);
	free(changed);
	directory_count_weights(d);
	return 0;
}

static const struct followed_endpoint *turn_of_cursor(struct followed_directory *d)
{
	for (size_t tries = 0; tries < d->count; tries++) {
		const struct followed_endpoint *endpoint = d->endpoints[d->cursor % d->count];

		d->cursor = (d->cursor + 1) % d->count;
		if (may_be_chosen(endpoint))
			return endpoint;
	}
	return NULL;
}

const struct followed_endpoint *followed_directory_turn(struct followed_directory *d)
{
	struct followed_endpoint *richest = NULL;

	if (d->total == 0)
		return NULL;
	if (d->uniform)
		return turn_of_cursor(d);
	for (size_t i = 0; i < d->count; i++) {
		struct followed_endpoint *endpoint = d->endpoints[i];

		if (!may_be_chosen(endpoint))
			continue;
		endpoint->balance += (int64_t) endpoint->weight * TURN_UNIT;
		if (!richest || endpoint->balance > richest->balance)
			richest = endpoint;
	}
	assert(richest);
	richest->balance -= (int64_t) d->total * TURN_UNIT;
	return richest;
}
