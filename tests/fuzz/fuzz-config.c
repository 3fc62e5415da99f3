/* The configuration: whatever the files say, it loads or is refused with a message. A zero byte
 * ends one file and begins the next. The options of sources are then read by a table of every type.
 */

#include <assert.h>
#include <string.h>

#include "config-parse.h"
#include "plugin-options.h"

#define FILES_MAX 4

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct instance {
	const char *text, *path;
	bool flag;
	int64_t number;
	uint64_t duration, size;
	double share;
	int choice;
	const char *const *list;
	const struct usher_node *node;
};

#define AT(field) offsetof(struct instance, field)

static void read_options(const struct plugin_use *use)
{
	static const char *const choices[] = { "a", "b", NULL };
	static const struct usher_option table[] = {
		{ "text", USHER_OPTION_STRING, AT(text) },
		{ "path", USHER_OPTION_PATH, AT(path) },
		{ "flag", USHER_OPTION_BOOL, AT(flag) },
		{ "number", USHER_OPTION_INTEGER, AT(number) },
		{ "duration", USHER_OPTION_DURATION, AT(duration), USHER_SECRET },
		{ "share", USHER_OPTION_SHARE, AT(share) },
		{ "size", USHER_OPTION_SIZE, AT(size) },
		{ "choice", USHER_OPTION_CHOICE, AT(choice), .choices = choices },
		{ "list", USHER_OPTION_STRINGS, AT(list) },
		{ "node", USHER_OPTION_NODE, AT(node) },
		{},
	};
	struct plugin_options *owned = NULL;
	struct usher_error err = {};
	struct instance instance = {};
	int r = plugin_options_parse(
			table, sizeof(*table), use->options, use->place, &instance, &owned, &err);

	assert(r >= 0 ? owned != NULL : err.text[0]);
	plugin_options_free(owned);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct usher_document *documents[FILES_MAX] = {};
	struct usher_error err = {};
	struct config *c = NULL;
	size_t count = 0;
	int r = 0;

	for (size_t at = 0; at <= size && count < FILES_MAX && r >= 0; count++) {
		const char *text = (const char *) data + at;
		size_t length = strnlen(text, size - at);

		r = usher_document_parse("fuzz.yaml", text, length, &documents[count], &err);
		at += length + 1;
	}
	if (r >= 0)
		r = config_parse("fuzz.yaml", documents, count, &c, &err);
	assert(r >= 0 ? c != NULL : err.text[0]);
	for (size_t i = 0; r >= 0 && i < c->service_count; i++)
		assert(config_find_service(c, c->services[i].name) == &c->services[i]);
	for (size_t i = 0; r >= 0 && i < c->source_count; i++)
		read_options(&c->sources[i].use);
	config_unref(c);
	for (size_t i = 0; i < count; i++)
		usher_document_unref(documents[i]);
	return 0;
}
