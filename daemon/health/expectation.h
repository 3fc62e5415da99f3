#pragma once

/* What an HTTP answer must be like to count as well: its status, then its body. The same for every
 * engine. Pure. */

#include <stdbool.h>
#include <stddef.h>

#include "config.h"
#include "verdict.h"

/* How much of the body is needed. */
enum expectation_body {
	EXPECTS_NO_BODY,
	EXPECTS_TEXT,  /* once expectation_is_met(): no more of it */
	EXPECTS_VALUE, /* all of it, up to CHECK_BODY_MAX bytes */
};
enum expectation_body expectation_of_body(const struct check_config *config);

/* Whether the body can still matter: the status is one of those expected. */
bool expectation_takes_status(const struct check_config *config, unsigned status);
/* EXPECTS_TEXT: whether the text is in what has come so far. */
bool expectation_is_met(const struct check_config *config, const char *body, size_t size);

/* size is cut to CHECK_BODY_MAX; body may be NULL when it is 0. Out of memory: PROBE_LOCAL. */
void expectation_judge(const struct check_config *config, unsigned status, const char *body,
		size_t size, struct verdict *ret);
