#pragma once

/* The question of the gRPC health protocol (grpc.health.v1.Health/Check) and its answer, as they
 * travel over HTTP/2: https://github.com/grpc/grpc/blob/master/doc/health-checking.md and
 * doc/PROTOCOL-HTTP2.md there. Whoever carries them hands in headers, trailers and body as they
 * come. Outside input, so what reads it is fuzzed. Pure. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <usher/endpoint.h>

#include "verdict.h"

#define GRPC_PATH         "/grpc.health.v1.Health/Check"
#define GRPC_QUESTION_MAX (USHER_TEXT_MAX + 16)
#define GRPC_ANSWER_MAX   4096 /* bytes of a body; a sensible one has 7 */

/* HealthCheckRequest{service}, in one frame; ret needs GRPC_QUESTION_MAX bytes. service may be NULL
 * and has at most USHER_TEXT_MAX bytes. Returns the size. */
size_t grpc_question(const char *service, uint8_t *ret);

struct grpc_answer {
	bool is_grpc;  /* the content type says so */
	bool too_long; /* of the body */
	int status;    /* grpc-status; -1: none yet, -2: what came is none */
	char message[VERDICT_TEXT_MAX];
	uint8_t body[GRPC_ANSWER_MAX];
	size_t size;
};

void grpc_answer_init(struct grpc_answer *a);
/* A block of headers begins: what an earlier one said does not count. */
void grpc_answer_begin(struct grpc_answer *a);
/* One line, "name: value", with or without its end. */
void grpc_answer_header(struct grpc_answer *a, const char *line, size_t size);
/* False: it is too long to be looked at any further. */
bool grpc_answer_body(struct grpc_answer *a, const void *data, size_t size);
/* Now that the answer is whole. service may be NULL. */
void grpc_answer_judge(const struct grpc_answer *a, int http_status, const char *service,
		struct verdict *ret);
