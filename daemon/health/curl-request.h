#pragma once

/* One attempt of a probe as a transfer of libcurl's: what is asked, and what has come of the
 * answer. */

#include <stdbool.h>
#include <stddef.h>

#include "curl-loop.h"
#include "grpc-health.h"
#include "tcp-talk.h"
#include "text.h"

#define REQUEST_HEAD_MAX 65536 /* bytes of headers and trailers */

/* A connection that outlives its attempt: libcurl has it, and closes it when it is of no use or
 * nobody has asked for it for two minutes. With this it ends as soon as its probe goes. */
struct kept {
	unsigned refs; /* the probe, and each open descriptor */
	int fd;        /* the last that was opened; -1 */
};
struct kept *kept_unref(struct kept *kept);

struct request {
	struct curl_transfer transfer; /* first */
	struct tcp_talk talk;          /* tcp */
	struct attempt *attempt;
	struct kept *kept; /* a reference; NULL: nothing is kept alive */
	struct curl_slist *headers, *connect_to;
	int fault;         /* errno of why no socket could be had; 0 */
	bool has_enough;   /* we hung up: what is needed is there */
	unsigned *lookups; /* names being resolved, this one's among them; NULL: it is not */
	size_t head_size;
	size_t body_seen;
	struct text body;         /* http: as much of it as matters */
	struct grpc_answer *grpc; /* NULL: another check */
	uint8_t question[GRPC_QUESTION_MAX];
	char error[CURL_ERROR_SIZE];
};

/* What all requests of a shard share. */
struct request_host {
	/* Where the system's certificates are in one file, which libcurl then reads once and not
	 * for each connection; NULL. */
	const char *system_ca;
	unsigned lookups; /* names being resolved */
	unsigned started;
};

/* Errors: ENOMEM. */
int request_new(struct request_host *host, struct attempt *attempt, struct request **ret);
struct request *request_free(struct request *q); /* not in a loop; NULL is fine */
