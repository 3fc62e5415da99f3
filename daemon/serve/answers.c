#include "answers.h"

#include <microhttpd.h>

static unsigned slot_of(uint64_t snapshot_serial, uint32_t endpoint)
{
	uint64_t mixed = (snapshot_serial * UINT64_C(0x9e3779b97f4a7c15)) + endpoint;

	return (unsigned) ((mixed ^ (mixed >> 32)) & (ANSWERS_MAX - 1));
}

struct MHD_Response *answers_find(const struct answers *a, uint64_t snapshot_serial,
		uint32_t endpoint, uint64_t told_serial)
{
	const struct answer *answer = &a->slots[slot_of(snapshot_serial, endpoint)];

	if (answer->response && answer->told_serial == told_serial &&
			answer->snapshot_serial == snapshot_serial && answer->endpoint == endpoint)
		return answer->response;
	return NULL;
}

void answers_put(struct answers *a, uint64_t snapshot_serial, uint32_t endpoint,
		uint64_t told_serial, struct MHD_Response *response)
{
	struct answer *answer = &a->slots[slot_of(snapshot_serial, endpoint)];

	if (answer->response)
		MHD_destroy_response(answer->response);
	*answer = (struct answer){ .snapshot_serial = snapshot_serial,
		.endpoint = endpoint,
		.told_serial = told_serial,
		.response = response };
}

void answers_done(struct answers *a)
{
	for (unsigned i = 0; i < ANSWERS_MAX; i++)
		if (a->slots[i].response)
			MHD_destroy_response(a->slots[i].response);
	*a = (struct answers){};
}
