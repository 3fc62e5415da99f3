/* What a server sends instead of an answer of the gRPC health protocol. */

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "grpc-health.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Lines of headers up to an empty one, the body up to as many bytes as the first byte says, and
 * trailers. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct grpc_answer answer;
	struct verdict verdict = { .reason = PROBE_LOCAL };
	const char *at = (const char *) data, *end = at + size;
	size_t body;

	if (size < 1)
		return 0;
	body = data[0];
	at++;
	grpc_answer_init(&answer);
	while (at < end) {
		const char *stop = memchr(at, '\n', (size_t) (end - at));
		size_t length = stop ? (size_t) (stop + 1 - at) : (size_t) (end - at);

		if (length == 1) {
			size_t left = (size_t) (end - at - 1);

			if (body > left)
				body = left;
			(void) grpc_answer_body(&answer, at + 1, body);
			length += body;
			grpc_answer_begin(&answer);
		} else {
			grpc_answer_header(&answer, at, length);
		}
		at += length;
	}
	grpc_answer_judge(&answer, 200, "shop", &verdict);
	assert(verdict.reason != PROBE_LOCAL);
	assert(memchr(verdict.text, '\0', sizeof(verdict.text)));
	assert(verdict.reason != PROBE_OK || (answer.status == 0 && answer.is_grpc));
	return 0;
}
