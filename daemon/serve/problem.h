#pragma once

/* Errors as RFC 9457 problem details, each with a code that never changes its meaning. */

#include <usher/error.h>

#include "request.h"

enum problem {
	PROBLEM_BAD_REQUEST,
	PROBLEM_FORBIDDEN,
	PROBLEM_NOT_FOUND,
	PROBLEM_UNKNOWN_SERVICE,
	PROBLEM_UNKNOWN_ENDPOINT,
	PROBLEM_UNKNOWN_DRAIN,
	PROBLEM_UNKNOWN_REGISTRATION,
	PROBLEM_METHOD_NOT_ALLOWED,
	PROBLEM_REFUSED,
	PROBLEM_CONFLICT,
	PROBLEM_CONFIGURED,
	PROBLEM_TOO_LARGE,
	PROBLEM_INVALID_CONFIG,
	PROBLEM_TOO_MANY,
	PROBLEM_INTERNAL,
	PROBLEM_SOURCE_UNKNOWN,
	PROBLEM_SOURCE_FAILED,
	PROBLEM_STALE,
	PROBLEM_EMPTY,
	PROBLEM_ALL_UNHEALTHY,
	PROBLEM_FILTERED,
	PROBLEM_STORE_FAILED,
	PROBLEM_MAX,
};

/* Answer with it. Returns 0. */
__attribute__((format(printf, 3, 4))) int respond_problem(
		struct request *q, enum problem problem, const char *format, ...);
/* 405, with what is allowed: bits 1 << METHOD_... */
int respond_not_allowed(struct request *q, unsigned allowed);
/* Why a pick found nothing. */
int respond_pick_problem(struct request *q, struct context *context, const struct pick *pick);
