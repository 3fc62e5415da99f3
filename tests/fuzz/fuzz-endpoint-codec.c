/* What is read from a text, written and read again is the same set. */

#include <assert.h>
#include <stdint.h>

#include "endpoint-codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct usher_endpoints *first = NULL, *second = NULL;
	struct usher_error err = {};
	struct text text = {};

	if (endpoints_decode((const char *) data, size, &first, &err) < 0) {
		assert(err.code < 0);
		return 0;
	}
	endpoints_encode(first, &text);
	assert(!text.failed);
	assert(endpoints_decode(text.data, text.length, &second, NULL) == 0);
	assert(usher_endpoints_equal(first, second));
	text_done(&text);
	usher_endpoints_unref(first);
	usher_endpoints_unref(second);

	return 0;
}
