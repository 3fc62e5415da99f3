/* The configuration: whatever the files say, it loads or is refused with a message. A zero byte
 * ends one file and begins the next. */

#include <assert.h>
#include <string.h>

#include "config-parse.h"

#define FILES_MAX 4

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
	config_unref(c);
	for (size_t i = 0; i < count; i++)
		usher_document_unref(documents[i]);
	return 0;
}
