#pragma once

/* libcurl's transfers in the loop of a shard.
 *
 * libcurl keeps its connections and what it has resolved in tables of some seventy to a hundred
 * lists each, and goes through them whole, so that its cost grows with the square of how many
 * targets there are. They are spread over CURL_POOLS handles, which takes that away. */

#include <stdint.h>

#include <curl/curl.h>

#include "engine.h"

#define CURL_POOLS 16

struct curl_loop;

struct curl_pool {
	struct curl_loop *loop;
	CURLM *multi; /* NULL until it is needed */
	uint64_t timer_usec;
	struct curl_transfer *transfers; /* under way */
};

/* Embed at the start of what an engine keeps for a shard. */
struct curl_loop {
	struct shard *shard;
	const struct engine *engine;
	/* A transfer has ended. It stays in the loop, with the connection of one that only
	 * connects, until it is removed. Called outside of libcurl. */
	void (*done)(struct curl_loop *loop, struct curl_transfer *transfer, CURLcode code);
	struct curl_pool pools[CURL_POOLS];
};

/* Embed in what stands for one transfer. */
struct curl_transfer {
	CURL *easy; /* the owner's */
	struct curl_pool *pool;
	struct curl_transfer *next, **link; /* of those under way */
};

void curl_loop_init(struct curl_loop *loop, struct shard *shard, const struct engine *engine,
		void (*done)(struct curl_loop *loop, struct curl_transfer *transfer,
				CURLcode code));
void curl_loop_done(struct curl_loop *loop); /* closes what is kept alive; nothing is under way */

/* Transfers with the same key share connections. Sets CURLOPT_PRIVATE. Errors: ENOMEM. */
int curl_loop_add(struct curl_loop *loop, struct curl_transfer *transfer, uint64_t key);
/* Not inside of libcurl's callbacks. One that is not in the loop is fine. */
void curl_loop_remove(struct curl_transfer *transfer);
