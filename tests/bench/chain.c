/* What a request costs in the stages that look at it: chains as usherd makes them, of the plug-ins
 * of a folder, over endpoints with labels as a registry has them.
 *
 *     bench-chain PLUGIN-FOLDER
 *
 * Prints a line of JSON for each chain and number of endpoints. Rounds of all of them are
 * interleaved, and the best of the rounds is printed, in CPU time of this thread: whoever shares
 * the caches can only add to it. */

#include "chain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "loader.h"
#include "random.h"

#define ROUNDS         7
#define ROUND_LOOKS    1000000 /* at an endpoint, in one round */
#define ELEMENTS_OF(a) (sizeof(a) / sizeof((a)[0]))

static const size_t sizes[] = { 100, 10000 };

static const struct {
	const char *name, *stages;
} chains[] = {
	{ "hint", "hint: {}" },
	{ "version", "version: {}" },
	{ "zone", "zone: {spill_over: {}}" },
	{ "priority", "priority: {label: tier, order: [gold, silver]}" },
	{ "canary", "canary: {match: track=canary, share: 5%}" },
};

/* Endpoints to choose from. */
struct directory {
	struct usher_endpoints *endpoints;
	size_t count;
	uint32_t *weights, *chosen, *candidates, *scratch;
	uint8_t *admin_states;
};

struct row {
	const char *name;
	struct directory *directory;
	struct chain *chain;
	uint64_t *marks;
	double mark_usec; /* what it takes to compute them */
	struct usher_view view;
	double ns[ROUNDS];
};

static struct random dice;

static void add_endpoint(struct usher_endpoints *set, size_t i)
{
	static const char *const zones[] = { "east", "west", "north" };
	static const char *const versions[] = { "1.0", "1.1.3", "1.1", "2.0" };
	static const char *const hints[] = { "stable", "canary" };
	static const char *const tiers[] = { "gold", "silver", "bronze" };
	struct usher_endpoint e = USHER_ENDPOINT_INIT;
	const struct usher_label labels[] = {
		{ "API_VERSION", versions[random_below(&dice, ELEMENTS_OF(versions))] },
		{ "app", "catalog" },
		{ "hint", hints[random_below(&dice, ELEMENTS_OF(hints))] },
		{ "team", "shop" },
		{ "tier", tiers[random_below(&dice, ELEMENTS_OF(tiers))] },
		{ "track", random_below(&dice, 20) == 0 ? "canary" : "stable" },
	};
	struct usher_error err = {};
	char id[32], address[32];
	int r;

	(void) snprintf(id, sizeof(id), "catalog-%zu", i);
	(void) snprintf(address, sizeof(address), "10.0.%zu.%zu", i >> 8 & 255, i & 255);
	e.id = id;
	e.address = address;
	e.port = 8080;
	e.zone = zones[random_below(&dice, ELEMENTS_OF(zones))];
	e.metadata = labels;
	e.metadata_count = ELEMENTS_OF(labels);
	r = usher_endpoints_add(set, &e, &err);
	if (r < 0)
		die(id, r, &err);
}

static void directory_init(struct directory *d, size_t count)
{
	d->endpoints = usher_endpoints_new();
	if (!d->endpoints)
		die("endpoints", -ENOMEM, NULL);
	for (size_t i = 0; i < count; i++)
		add_endpoint(d->endpoints, i);
	usher_endpoints_seal(d->endpoints);
	d->count = count;
	d->weights = allocate(count, sizeof(*d->weights));
	d->chosen = allocate(count, sizeof(*d->chosen));
	d->candidates = allocate(count, sizeof(*d->candidates));
	d->scratch = allocate(count, sizeof(*d->scratch));
	d->admin_states = allocate(count, sizeof(*d->admin_states));
	for (size_t i = 0; i < count; i++) {
		d->weights[i] = USHER_WEIGHT_UNIT;
		d->chosen[i] = (uint32_t) i;
	}
}

/* As the configuration has it, for a service that this is all of. */
static struct chain *make_chain(struct plugins *plugins, const char *stages)
{
	char path[] = "/tmp/usher-bench-XXXXXX.yaml";
	struct config *config = NULL;
	struct usher_error err = {};
	struct chain *chain = NULL;
	int fd = mkstemps(path, 5), r;

	if (fd < 0)
		die(path, -errno, NULL);
	(void) dprintf(fd,
			"sources: [{name: one, plugin: file, options: {path: /nowhere}}]\n"
			"services: {catalog: {sources: [one], chain: [{%s}], select: random}}\n",
			stages);
	(void) close(fd);
	r = config_load(path, &config, &err);
	(void) unlink(path);
	if (r >= 0)
		r = chain_new(plugins, config_find_service(config, "catalog"), &chain, &err);
	if (r < 0)
		die(stages, r, &err);
	return chain; /* and the configuration stays, for the chain points into it */
}

static void mark(struct row *row)
{
	double usec[ROUNDS];

	for (size_t i = 0; i < ROUNDS; i++) {
		double start = now_ns();
		int r;

		free(row->marks);
		r = chain_mark(row->chain, &row->view, &row->marks);
		if (r < 0)
			die(row->name, r, NULL);
		usec[i] = (now_ns() - start) / 1000;
	}
	row->mark_usec = least(usec, ROUNDS);
}

static void row_init(struct row *row, size_t kind, struct directory *d, struct plugins *plugins)
{
	row->name = chains[kind].name;
	row->directory = d;
	row->chain = make_chain(plugins, chains[kind].stages);
	row->view = (struct usher_view){ .size = sizeof(row->view),
		.endpoints = d->endpoints,
		.weights = d->weights,
		.admin_states = d->admin_states,
		.zone = "east",
		.service = "catalog",
		.node = "n",
		.panic_threshold = -1 };
	mark(row);
}

/* One request, and as a pick does it. */
static size_t look(const struct row *row, const struct usher_request *request)
{
	struct directory *d = row->directory;
	struct chain_work work = { .view = &row->view,
		.request = request,
		.candidates = d->candidates,
		.scratch = d->scratch,
		.marks = row->marks,
		.count = d->count };

	memcpy(work.candidates, d->chosen, d->count * sizeof(*d->chosen));
	return chain_run(row->chain, 0, row->chain->stage_count, &work, NULL, NULL);
}

static double measure(const struct row *row)
{
	size_t count = ROUND_LOOKS / row->directory->count, kept = 0;
	struct usher_request request = {
		.size = sizeof(request), .hint = "canary", .version = "^1.0", .now_usec = 2000000
	};
	double start = now_ns();

	for (size_t i = 0; i < count; i++) {
		request.random = random_next(&dice);
		kept += look(row, &request);
	}
	start = (now_ns() - start) / (double) count;
	if (kept == 0)
		die(row->name, -ENODATA, NULL);
	return start;
}

int main(int argc, char **argv)
{
	static struct directory directories[ELEMENTS_OF(sizes)];
	static struct row rows[ELEMENTS_OF(chains) * ELEMENTS_OF(sizes)];
	struct plugins *plugins;
	char *folders[] = { argc == 2 ? argv[1] : NULL, NULL };
	size_t count = 0;
	int r;

	if (argc != 2)
		die("one argument, the folder of plug-ins, is needed", -EINVAL, NULL);
	random_init(&dice);
	for (size_t i = 0; i < ELEMENTS_OF(sizes); i++)
		directory_init(&directories[i], sizes[i]);
	r = plugins_new(folders, &plugins);
	if (r < 0)
		die(argv[1], r, NULL);
	for (size_t i = 0; i < ELEMENTS_OF(chains); i++)
		for (size_t k = 0; k < ELEMENTS_OF(sizes); k++)
			row_init(&rows[count++], i, &directories[k], plugins);
	for (size_t round = 0; round < ROUNDS; round++)
		for (size_t i = 0; i < count; i++)
			rows[i].ns[round] = measure(&rows[i]);
	for (size_t i = 0; i < count; i++)
		printf("{\"name\": \"%s\", \"endpoints\": %zu, \"request_ns\": %.0f, "
		       "\"mark_usec\": %.1f}\n",
				rows[i].name, rows[i].directory->count, least(rows[i].ns, ROUNDS),
				rows[i].mark_usec);
	return 0; /* the process's end gives all of it back */
}
