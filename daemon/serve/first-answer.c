#include "first-answer.h"

#include <stdlib.h>

#include "clock.h"
#include "context.h"
#include "inside.h"
#include "request.h"

struct first_wait {
	struct wait wait;
	const struct context *context;
};

static int handle_again(struct request *q)
{
	free(q->waiting);
	q->waiting = NULL;
	return q->route->handle(q);
}

/* Until when calls for the context wait; 0: they do not. */
static uint64_t wait_until(const struct server *s, const struct request *q, const struct context *c,
		bool created)
{
	if (created)
		return q->now_usec + FIRST_ANSWER_USEC;
	for (const struct wait *w = s->first_waits.first; w; w = w->next)
		if (((const struct first_wait *) w)->context == c)
			return w->until_usec;
	return 0;
}

static bool is_unknown(const struct context *context, uint64_t now_usec)
{
	struct freshness freshness;

	if (context_snapshot(context))
		return false;
	context_freshness(context, now_usec, &freshness);
	return freshness.state == SOURCE_UNKNOWN;
}

bool first_answer_wait(struct request *q, struct context *context, bool created)
{
	struct server *s = q->server;
	struct first_wait *w;
	uint64_t until_usec;

	if (q->waited || s->quiescing || !is_unknown(context, q->now_usec))
		return false;
	until_usec = wait_until(s, q, context, created);
	w = until_usec > q->now_usec ? calloc(1, sizeof(*w)) : NULL;
	if (!w)
		return false;
	w->context = context;
	w->wait.until_usec = until_usec;
	q->waited = true;
	waits_add(&s->first_waits, &w->wait, q, handle_again);
	return true;
}

void first_answer_on_change(struct server *s, const struct context *context)
{
	if (s->first_waits.first && !is_unknown(context, clock_boot_usec()))
		first_answer_on_removed(s, context);
}

void first_answer_on_removed(struct server *s, const struct context *context)
{
	struct wait *next;

	for (struct wait *wait = s->first_waits.first; wait; wait = next) {
		next = wait->next;
		if (((const struct first_wait *) wait)->context == context)
			waits_resume(&s->first_waits, wait);
	}
}
