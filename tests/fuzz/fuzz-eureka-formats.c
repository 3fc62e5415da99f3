/* Whatever a server of Eureka answers, in whatever pieces it arrives: reading it neither crashes
 * nor leaks, and the pieces make no difference. The first byte says how large they are, and by what
 * services are looked up. */

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "reader.h"
#include "registry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int read_all(struct reader *r, const char *text, size_t size, size_t piece)
{
	int e = 0;

	reader_init(r);
	for (size_t at = 0; at < size && e == 0; at += piece)
		e = reader_feed(r, &text[at], at + piece < size ? piece : size - at, NULL);
	return e < 0 ? e : reader_finish(r, NULL);
}

/* Read again, into the registry. */
static void know(struct registry *registry, const char *text, size_t size, bool changes)
{
	struct reader r;

	if (read_all(&r, text, size, size) == 0) {
		struct instance **items = r.items;

		r.items = NULL;
		if (changes)
			(void) registry_apply(registry, items, r.count);
		else
			(void) registry_replace(registry, items, r.count, 1, 2);
	}
	reader_done(&r);
}

static void add_all(const struct registry *registry)
{
	static const char *const ports[] = { NULL, "http", "https", "management", "8080" };

	for (size_t i = 0; i < sizeof(ports) / sizeof(*ports); i++) {
		const struct instance_options options = {
			.by = registry->by, .hostname = i % 2, .port = ports[i]
		};
		struct usher_endpoints *set = usher_endpoints_new();

		for (size_t k = 0; set && k < registry->count; k++)
			(void) instance_add_to(registry->items[k], &options, set, NULL);
		(void) usher_endpoints_unref(set);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *) data + 1;
	struct registry registry;
	struct reader whole, pieces;
	char hash[REGISTRY_HASH_MAX];
	int a, b;

	if (size < 2)
		return 0;
	size--;
	a = read_all(&whole, text, size, size);
	b = read_all(&pieces, text, size, data[0] / 3 + 1U);
	assert(a == b && whole.count == pieces.count && strcmp(whole.hash, pieces.hash) == 0);
	reader_done(&pieces);
	reader_done(&whole);
	registry_init(&registry, (enum instance_by)(data[0] % 3));
	know(&registry, text, size, false);
	know(&registry, text, size, true);
	add_all(&registry);
	(void) registry_drop_missing(&registry, 3);
	registry_hash(&registry, hash);
	registry_done(&registry);
	return 0;
}
