#pragma once

/* Calls for a service that nobody has asked for before: its context has just been made, and its
 * sources answer in a moment. They wait for that moment rather than be told that nothing is known,
 * but not longer than FIRST_ANSWER_USEC after the context was made. */

#include <stdbool.h>
#include <stdint.h>

#define FIRST_ANSWER_USEC UINT64_C(2000000)

struct context;
struct request;
struct server;

/* Whether the call waits now; its handler is run again afterwards, and then does not wait. created:
 * the call made the context. */
bool first_answer_wait(struct request *q, struct context *context, bool created);
/* Something may be known of it: an answer, or a failure. */
void first_answer_on_change(struct server *s, const struct context *context);
void first_answer_on_removed(struct server *s, const struct context *context);
