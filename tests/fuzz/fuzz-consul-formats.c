/* Whatever an agent of Consul answers: reading it neither crashes nor leaks. The first byte says as
 * what it is read. */

#include <stdlib.h>

#include "answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_instances(const char *text, size_t size)
{
	const struct answer_options options[] = { { 0 },
		{ .tagged_address = "wan", .port = "8080" } };
	struct answer a;

	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++) {
		struct answer_options again = options[i];
		struct answer b;

		if (answer_parse(text, size, &again, &a, NULL) < 0)
			return;
		again.trusted = a.set;
		if (answer_parse(text, size, &again, &b, NULL) == 0)
			answer_done(&b);
		answer_done(&a);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *) data + 1;
	char **names, *node;
	struct answer_own own;
	size_t count;

	if (size < 1)
		return 0;
	switch (data[0] % 4) {
	case 0:
		read_instances(text, size - 1);
		break;
	case 1:
		if (answer_parse_names(text, size - 1, &names, &count, NULL) == 0)
			answer_names_free(names, count);
		break;
	case 2:
		if (answer_parse_node(text, size - 1, &node, NULL) == 0)
			free(node);
		break;
	default:
		if (answer_parse_own(text, size - 1, "usher:a", &own, NULL) == 0)
			answer_own_done(&own);
		break;
	}
	return 0;
}
