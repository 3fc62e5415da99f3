/* What one pick costs: the selectors of a folder of plug-ins, loaded as usherd loads them, among
 * few and many endpoints.
 *
 *     bench-pick PLUGIN-FOLDER
 *
 * Prints a line of JSON for each selector and number of endpoints, and one each for what the loop
 * itself takes (a selector that does nothing) and for one atomic increment. Rounds of all of them
 * are interleaved, and the best of the rounds is printed, in CPU time of this thread: whoever
 * shares the caches can only add to it. */

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "loader.h"
#include "plugin-instance.h"
#include "random.h"

#define ROUNDS         25
#define PICKS          200000 /* of a round */
#define PREPARE_ROUNDS 9
#define KEYS           1024
#define ROWS_MAX       256
#define WEIGHT_LARGEST 100

static const size_t sizes[] = { 3, 100, 10000, 100000 };
#define SIZES        (sizeof(sizes) / sizeof(sizes[0]))
#define SIZES_PICKED 3 /* of them, the others are only prepared for */

/* Endpoints to choose from, and what is known of them. */
struct directory {
	struct usher_endpoints *endpoints;
	size_t count;
	uint32_t *weights, *active, *candidates;
};

struct row {
	const char *name;
	const struct directory *directory;
	const struct usher_selector *selector;
	struct plugin_instance *instance;
	struct usher_view view;
	void *prepared;
	double prepare_usec;
	double ns[ROUNDS];
};

static struct random dice;
static char keys[KEYS][24];
static _Atomic uint64_t counter;

static void directory_init(struct directory *d, size_t count)
{
	d->endpoints = usher_endpoints_new();
	if (!d->endpoints)
		die("endpoints", -ENOMEM, NULL);
	for (size_t i = 0; i < count; i++) {
		struct usher_endpoint e = USHER_ENDPOINT_INIT;
		struct usher_error err = {};
		char id[32], address[32];
		int r;

		(void) snprintf(id, sizeof(id), "catalog-%zu", i);
		(void) snprintf(address, sizeof(address), "10.%zu.%zu.%zu", i >> 16, i >> 8 & 255,
				i & 255);
		e.id = id;
		e.address = address;
		e.port = 8080;
		r = usher_endpoints_add(d->endpoints, &e, &err);
		if (r < 0)
			die(id, r, &err);
	}
	usher_endpoints_seal(d->endpoints);
	d->count = count;
	d->weights = allocate(count, sizeof(*d->weights));
	d->active = allocate(count, sizeof(*d->active));
	d->candidates = allocate(count, sizeof(*d->candidates));
	for (size_t i = 0; i < count; i++) {
		d->weights[i] = (uint32_t) (1 + random_below(&dice, WEIGHT_LARGEST)) *
				USHER_WEIGHT_UNIT;
		d->active[i] = (uint32_t) random_below(&dice, 4);
		d->candidates[i] = (uint32_t) i;
	}
}

/* ---- rows ---- */

/* A report for each endpoint, so that a selector that learns has something to compare. */
static void teach(struct row *row)
{
	char *slots = allocate(row->directory->count, row->selector->slot_size);

	row->view.slots = slots;
	for (size_t i = 0; i < row->directory->count; i++) {
		struct usher_report report = { .size = sizeof(report),
			.outcome = USHER_OUTCOME_OK,
			.count = 1,
			.latency_usec = 1000 + random_below(&dice, 20000),
			.now_usec = 1000000 + random_below(&dice, 1000000) };

		row->selector->report(
				row->instance->data, slots + i * row->selector->slot_size, &report);
	}
}

static void prepare(struct row *row)
{
	const struct directory *d = row->directory;
	double usec[PREPARE_ROUNDS];

	for (size_t i = 0; i < PREPARE_ROUNDS && row->selector->prepare; i++) {
		double start = now_ns();
		int r;

		if (row->prepared)
			row->selector->release(row->prepared);
		r = row->selector->prepare(row->instance ? row->instance->data : NULL, &row->view,
				d->candidates, d->count, &row->prepared);
		if (r < 0)
			die(row->name, r, NULL);
		usec[i] = (now_ns() - start) / 1000;
	}
	if (row->selector->prepare)
		row->prepare_usec = least(usec, PREPARE_ROUNDS);
}

static void row_init(struct row *row, const struct directory *d, const struct usher_plugin *plugin,
		struct plugins *plugins)
{
	char name[64];
	struct plugin_use use = { .plugin = name };
	struct usher_error err = {};
	int r;

	(void) snprintf(name, sizeof(name), "%s", plugin->name);
	r = plugin_instance_new(plugins, &use, FACET_SELECTOR, &row->instance, &err);
	if (r < 0)
		die(plugin->name, r, &err);
	row->name = plugin->name;
	row->directory = d;
	row->selector = plugin->selector;
	row->view = (struct usher_view){ .size = sizeof(row->view),
		.endpoints = d->endpoints,
		.weights = d->weights,
		.active = d->active,
		.panic_threshold = -1 };
	if (row->selector->report && row->selector->slot_size > 0)
		teach(row);
	prepare(row);
}

static ssize_t pick_nothing(const void *instance, const void *prepared,
		const struct usher_view *view, const struct usher_request *request,
		const uint32_t *candidates, size_t count)
{
	(void) instance;
	(void) prepared;
	(void) view;
	(void) candidates;
	(void) count;
	return (ssize_t) (request->random & 1);
}

/* ---- measuring ---- */

static double measure(const struct row *row)
{
	const struct directory *d = row->directory;
	struct usher_request request = {
		.size = sizeof(request), .cursor = random_next(&dice), .now_usec = 2000000
	};
	const void *instance = row->instance ? row->instance->data : NULL;
	size_t chosen = 0;
	double start = now_ns();

	for (size_t i = 0; i < PICKS; i++) {
		request.random = random_next(&dice);
		request.cursor++;
		request.key = keys[request.random % KEYS];
		chosen += (size_t) row->selector->pick(instance, row->prepared, &row->view,
				&request, d->candidates, d->count);
	}
	start = (now_ns() - start) / PICKS;
	/* So that no pick can be left out. */
	if (chosen == SIZE_MAX)
		die(row->name, -EINVAL, NULL);
	return start;
}

static double measure_atomic(void)
{
	double start = now_ns();

	for (size_t i = 0; i < PICKS; i++)
		(void) atomic_fetch_add(&counter, 1);
	return (now_ns() - start) / PICKS;
}

static size_t add_selectors(struct row *rows, size_t count, struct plugins *plugins,
		const struct directory *directories)
{
	for (size_t i = 0; i < plugins_count(plugins); i++) {
		struct plugin_info info;

		plugins_get(plugins, i, &info);
		if (!info.loaded || !info.loaded->selector)
			continue;
		for (size_t k = 0; k < SIZES && count < ROWS_MAX; k++)
			row_init(&rows[count++], &directories[k], info.loaded, plugins);
	}
	return count;
}

static void print_row(struct row *row)
{
	bool picked = row->directory->count <= sizes[SIZES_PICKED - 1];

	printf("{\"name\": \"%s\", \"endpoints\": %zu, \"prepare_usec\": %.1f", row->name,
			row->directory->count, row->prepare_usec);
	if (picked)
		printf(", \"pick_ns\": %.2f", least(row->ns, ROUNDS));
	printf("}\n");
}

int main(int argc, char **argv)
{
	static const struct usher_selector nothing = { .size = sizeof(nothing),
		.pick = pick_nothing };
	static struct directory directories[SIZES];
	static struct row rows[ROWS_MAX];
	struct plugins *plugins;
	char *folders[] = { argc == 2 ? argv[1] : NULL, NULL };
	double atomic_ns[ROUNDS];
	size_t count = 0;
	int r;

	if (argc != 2)
		die("one argument, the folder of plug-ins, is needed", -EINVAL, NULL);
	random_init(&dice);
	for (size_t i = 0; i < SIZES; i++)
		directory_init(&directories[i], sizes[i]);
	for (size_t i = 0; i < KEYS; i++)
		(void) snprintf(keys[i], sizeof(keys[i]), "session-%08zx", i * 2654435761u);
	r = plugins_new(folders, &plugins);
	if (r < 0)
		die(argv[1], r, NULL);

	rows[count++] = (struct row){ "loop", &directories[0], &nothing };
	count = add_selectors(rows, count, plugins, directories);
	for (size_t round = 0; round < ROUNDS; round++) {
		atomic_ns[round] = measure_atomic();
		for (size_t i = 0; i < count; i++)
			if (rows[i].directory->count <= sizes[SIZES_PICKED - 1])
				rows[i].ns[round] = measure(&rows[i]);
	}
	printf("{\"name\": \"atomic increment\", \"pick_ns\": %.2f}\n", least(atomic_ns, ROUNDS));
	for (size_t i = 0; i < count; i++)
		print_row(&rows[i]);
	return 0; /* the process's end gives all of it back */
}
