#pragma once

/* Picks as answers that are ready to send: the same endpoint of the same snapshot within the time
 * that a freshness may be told is the same text. A small direct-mapped cache; a response made for
 * each request would cost more than the pick itself. */

#include <stdbool.h>
#include <stdint.h>

#define ANSWERS_MAX 1024 /* a power of two */

struct MHD_Response;

/* Which pick it is the answer to. */
struct answer_key {
	uint64_t snapshot_serial;
	uint64_t told_serial; /* of the freshness */
	uint32_t endpoint;    /* index into the snapshot */
	bool panic;
};

struct answers {
	struct answer {
		struct answer_key key;
		struct MHD_Response *response;
	} slots[ANSWERS_MAX];
};

/* Borrowed, or NULL. */
struct MHD_Response *answers_find(const struct answers *a, const struct answer_key *key);
/* Takes the response. */
void answers_put(struct answers *a, const struct answer_key *key, struct MHD_Response *response);
void answers_done(struct answers *a);
