/* A body against a JSON pointer and a value, or a text: none of the three is to be trusted. */

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "expectation.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Two texts, each ended by a zero byte, then the body. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *copy = malloc(size + 1), *pointer = copy, *value, *body;
	struct check_config by_value = { .kind = CHECK_HTTP }, by_text = { .kind = CHECK_HTTP };
	struct verdict verdict = { .reason = PROBE_LOCAL };
	const char *end;

	if (!copy)
		return 0;
	memcpy(copy, data, size);
	copy[size] = '\0';
	end = copy + size;
	value = pointer + strlen(pointer) + 1;
	body = value <= end ? value + strlen(value) + 1 : NULL;
	if (body && body <= end) {
		by_value.match_pointer = pointer;
		by_value.match_value = value;
		expectation_judge(&by_value, 200, body, (size_t) (end - body), &verdict);
		assert(verdict.reason == PROBE_OK || verdict.reason == PROBE_BODY);
		by_text.match_text = value;
		expectation_judge(&by_text, 200, body, (size_t) (end - body), &verdict);
		assert(verdict.reason == PROBE_OK || verdict.reason == PROBE_BODY);
		assert(memchr(verdict.text, '\0', sizeof(verdict.text)));
	}
	free(copy);
	return 0;
}
