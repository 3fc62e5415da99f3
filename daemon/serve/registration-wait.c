#include "registration-wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inside.h"
#include "problem.h"

struct registration_wait {
	struct wait wait;
	uint64_t ticket;
	unsigned status;
	bool decided;
	int r;
	char reason[USHER_ERROR_TEXT_MAX];
};

static int respond_waited(struct request *q)
{
	autofree struct registration_wait *w = q->waiting;

	if (!w->decided)
		return respond_problem(q, PROBLEM_STORE_FAILED,
				"the disk has not taken the change of %s of %s yet; it stays asked for: look again in a moment",
				q->params[1], q->params[0]);
	if (w->r == -ECANCELED)
		return respond_problem(q, PROBLEM_CONFIGURED, "%s of %s: %s", q->params[1],
				q->params[0], w->reason);
	if (w->r < 0)
		return respond_problem(q, PROBLEM_STORE_FAILED,
				"the disk does not take the record of %s of %s: %s; nothing has changed",
				q->params[1], q->params[0], w->reason);
	return respond_registration(q, w->status);
}

int registration_wait(struct request *q, const struct registrations_change *change, unsigned status)
{
	struct registration_wait *w;

	if (change->ticket == 0)
		return respond_registration(q, status);
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	w->ticket = change->ticket;
	w->status = status;
	w->wait.until_usec = q->now_usec + REGISTRATION_WAIT_USEC;
	waits_add(&q->server->registration_waits, &w->wait, q, respond_waited);
	return 0;
}

void registration_wait_on_decided(void *userdata, uint64_t ticket, int r, const char *reason)
{
	struct server *s = userdata;
	struct wait *next;

	for (struct wait *wait = s->registration_waits.first; wait; wait = next) {
		struct registration_wait *w = (struct registration_wait *) wait;

		next = wait->next;
		if (w->ticket != ticket)
			continue;
		w->decided = true;
		w->r = r;
		(void) snprintf(w->reason, sizeof(w->reason), "%s", reason ? reason : "");
		waits_resume(&s->registration_waits, wait);
	}
}
