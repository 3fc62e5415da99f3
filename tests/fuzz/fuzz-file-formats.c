/* Whatever a file holds: reading it in each of the formats of the plug-in file, and editing what is
 * in usher's own, neither crashes nor leaks. */

#include <stdlib.h>
#include <string.h>

#include "catalog.h"
#include "edit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void build_all(const struct catalog *c)
{
	for (size_t i = 0; i < c->service_count; i++) {
		static const char *const ports[] = { NULL, "http", "8080" };

		for (size_t p = 0; p < sizeof(ports) / sizeof(*ports); p++) {
			struct usher_endpoints *set = usher_endpoints_new();

			if (!set)
				return;
			(void) c->format->build(set, &c->parts[c->services[i].first],
					c->services[i].count, ports[p], NULL);
			usher_endpoints_seal(set);
			(void) usher_endpoints_unref(set);
		}
	}
}

static void edit_first(const struct catalog *c, const uint8_t *data, size_t size)
{
	const struct usher_node *services =
			usher_node_get(usher_document_root(c->document), "services");
	const struct usher_endpoint endpoint = { .size = sizeof(endpoint),
		.id = "new",
		.address = "h",
		.port = 1,
		.weight = 1,
		.ready = true,
		.serving = true };
	struct edit_text text = { .size = size };

	if (c->format != &format_usher || c->part_count == 0)
		return;
	text.bytes = strndup((const char *) data, size);
	if (text.bytes && strlen(text.bytes) == size) {
		const struct usher_node *list = c->parts[0].node;
		struct edit_text edited[4] = { 0 };

		(void) edit_append(&text, services, list, &endpoint, &edited[0]);
		(void) edit_add_service(&text, services, "new", &endpoint, &edited[1]);
		if (usher_node_count(list) > 0) {
			(void) edit_remove(&text, services, list, 0, &edited[2]);
			(void) edit_set_state(&text, list, 0, USHER_ADMIN_DRAINING, &edited[3]);
		}
		for (size_t i = 0; i < sizeof(edited) / sizeof(*edited); i++)
			free(edited[i].bytes);
	}
	free(text.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct format_options options = { .service_label = "service", .stem = "stem" };
	struct file_text text = { .size = size, .bytes = malloc(size + 1) };

	if (!text.bytes)
		return 0;
	if (size > 0)
		memcpy(text.bytes, data, size);
	text.bytes[size] = '\0';
	for (int choice = FORMAT_AUTO; choice <= FORMAT_SPRING; choice++) {
		struct usher_error why = { 0 };
		struct catalog *c = NULL;

		if (catalog_read("f.yaml", &text, (enum format_choice) choice, &options, &c, &why) <
				0)
			continue;
		build_all(c);
		edit_first(c, data, size);
		(void) catalog_free(c);
	}
	free(text.bytes);
	return 0;
}
