#include "first-answer.h"

#include <errno.h>

#include "clock.h"
#include "context.h"
#include "inside.h"
#include "peer.h"

struct first_wait {
	struct first_wait *next, *prev;
	const struct context *context;
	struct request *request;
	uint64_t until_usec;
};

static void resume(struct server *s, struct first_wait *w)
{
	if (w->next)
		w->next->prev = w->prev;
	if (w->prev)
		w->prev->next = w->next;
	else
		s->first_waits = w->next;
	request_resume(w->request);
	free(w);
}

static int handle_again(struct request *q)
{
	return q->route->handle(q);
}

/* Until when calls for the context wait; 0: they do not. */
static uint64_t wait_until(const struct server *s, const struct request *q, const struct context *c,
		bool created)
{
	if (created)
		return q->now_usec + FIRST_ANSWER_USEC;
	for (const struct first_wait *w = s->first_waits; w; w = w->next)
		if (w->context == c)
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

static void arm(struct server *s, uint64_t until_usec)
{
	int enabled = SD_EVENT_OFF;

	/* The one that is armed is for an earlier time: each waits equally long. */
	(void) sd_event_source_get_enabled(s->first_answer, &enabled);
	if (enabled != SD_EVENT_OFF)
		return;
	(void) sd_event_source_set_time(s->first_answer, until_usec);
	(void) sd_event_source_set_enabled(s->first_answer, SD_EVENT_ONESHOT);
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
	*w = (struct first_wait){
		.next = s->first_waits, .context = context, .request = q, .until_usec = until_usec
	};
	if (w->next)
		w->next->prev = w;
	s->first_waits = w;
	q->waited = true;
	request_suspend(q, handle_again, NULL);
	arm(s, until_usec);
	return true;
}

void first_answer_on_change(struct server *s, const struct context *context)
{
	if (s->first_waits && !is_unknown(context, clock_boot_usec()))
		first_answer_on_removed(s, context);
}

void first_answer_on_removed(struct server *s, const struct context *context)
{
	struct first_wait *next;

	for (struct first_wait *w = s->first_waits; w; w = next) {
		next = w->next;
		if (w->context == context)
			resume(s, w);
	}
}

void first_answer_cancel(struct server *s, const struct door *door)
{
	struct first_wait *next;

	for (struct first_wait *w = s->first_waits; w; w = next) {
		next = w->next;
		if (!door || w->request->peer->door == door)
			resume(s, w);
	}
}

static int first_answer_on_late(sd_event_source *source, uint64_t usec, void *userdata)
{
	uint64_t now_usec = clock_boot_usec(), next_usec = USEC_FOREVER;
	struct server *s = userdata;
	struct first_wait *next;

	(void) source;
	(void) usec;
	for (struct first_wait *w = s->first_waits; w; w = next) {
		next = w->next;
		if (w->until_usec <= now_usec)
			resume(s, w);
		else if (w->until_usec < next_usec)
			next_usec = w->until_usec;
	}
	if (next_usec != USEC_FOREVER)
		arm(s, next_usec);
	return 0;
}

int first_answer_init(struct server *s)
{
	int r;

	r = sd_event_add_time(
			s->event, &s->first_answer, CLOCK_BOOTTIME, 0, 0, first_answer_on_late, s);
	if (r < 0)
		return r;
	return sd_event_source_set_enabled(s->first_answer, SD_EVENT_OFF);
}

void first_answer_done(struct server *s)
{
	s->first_answer = sd_event_source_disable_unref(s->first_answer);
}
