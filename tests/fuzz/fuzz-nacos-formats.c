/* Whatever a server of Nacos answers: reading it neither crashes nor leaks. The first byte says as
 * what it is read. */

#include <stdlib.h>

#include "answer.h"
#include "push.h"
#include "reply.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_instances(const char *text, size_t size)
{
	const struct answer_options options[] = { { 0 },
		{ .port = "8080", .cluster_is_zone = true } };
	struct answer_instance i;
	struct answer a, b;

	for (size_t k = 0; k < sizeof(options) / sizeof(*options); k++) {
		struct answer_options again = options[k];

		if (answer_parse(text, size, &again, &a, NULL) < 0)
			return;
		usher_endpoints_seal(a.set);
		again.before = again.trusted = a.set;
		if (answer_parse(text, size, &again, &b, NULL) == 0)
			answer_done(&b);
		if (usher_endpoints_count(a.set) > 0 &&
				answer_find(text, size, usher_endpoints_id(a.set, 0), &i, NULL) ==
						0)
			answer_instance_done(&i);
		answer_done(&a);
	}
}

static void read_names(const char *text, size_t size)
{
	size_t count, total;
	char **names;

	if (reply_parse_names(text, size, &names, &count, &total, NULL) == 0)
		reply_names_free(names, count);
}

static void read_login(const char *text, size_t size)
{
	uint64_t ttl_usec;
	char *token;

	if (reply_parse_login(text, size, &token, &ttl_usec, NULL) == 0)
		free(token);
}

static void read_packet(const char *data, size_t size)
{
	char acknowledged[32], *service;

	if (push_parse(data, size, &service, acknowledged) == 0)
		free(service);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *) data + 1;
	struct answer_instance i;

	if (size < 1)
		return 0;
	switch (data[0] % 6) {
	case 0:
		read_instances(text, size - 1);
		break;
	case 1:
		read_names(text, size - 1);
		break;
	case 2:
		read_login(text, size - 1);
		break;
	case 3:
		if (answer_parse_instance(text, size - 1, &i, NULL) == 0)
			answer_instance_done(&i);
		break;
	case 4:
		read_packet(text, size - 1);
		break;
	default:
		(void) reply_is_envelope(text, size - 1);
		(void) reply_check(text, size - 1, NULL);
		break;
	}
	return 0;
}
