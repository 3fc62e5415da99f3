#include "answers.h"

#include <microhttpd.h>

static unsigned slot_of(const struct answer_key *key)
{
	uint64_t mixed = (key->snapshot_serial * UINT64_C(0x9e3779b97f4a7c15)) + key->endpoint;

	return (unsigned) ((mixed ^ (mixed >> 32)) & (ANSWERS_MAX - 1));
}

struct MHD_Response *answers_find(const struct answers *a, const struct answer_key *key)
{
	const struct answer *answer = &a->slots[slot_of(key)];

	if (answer->response && answer->key.told_serial == key->told_serial &&
			answer->key.snapshot_serial == key->snapshot_serial &&
			answer->key.endpoint == key->endpoint && answer->key.panic == key->panic)
		return answer->response;
	return NULL;
}

void answers_put(struct answers *a, const struct answer_key *key, struct MHD_Response *response)
{
	struct answer *answer = &a->slots[slot_of(key)];

	if (answer->response)
		MHD_destroy_response(answer->response);
	*answer = (struct answer){ .key = *key, .response = response };
}

void answers_done(struct answers *a)
{
	for (unsigned i = 0; i < ANSWERS_MAX; i++)
		if (a->slots[i].response)
			MHD_destroy_response(a->slots[i].response);
	*a = (struct answers){};
}
