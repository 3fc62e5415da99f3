#include "waits.h"

#include <stdlib.h>

#include "clock.h"
#include "peer.h"
#include "request.h"

static void arm(struct waits *waits, uint64_t until_usec)
{
	int enabled = SD_EVENT_OFF;

	/* The one that is armed is for an earlier time: each waits equally long. */
	(void) sd_event_source_get_enabled(waits->late, &enabled);
	if (enabled != SD_EVENT_OFF)
		return;
	(void) sd_event_source_set_time(waits->late, until_usec);
	(void) sd_event_source_set_enabled(waits->late, SD_EVENT_ONESHOT);
}

static int waits_on_late(sd_event_source *source, uint64_t usec, void *userdata)
{
	uint64_t now_usec = clock_boot_usec(), next_usec = USEC_FOREVER;
	struct waits *waits = userdata;
	struct wait *next;

	(void) source;
	(void) usec;
	for (struct wait *w = waits->first; w; w = next) {
		next = w->next;
		if (w->until_usec <= now_usec)
			waits_resume(waits, w);
		else if (w->until_usec < next_usec)
			next_usec = w->until_usec;
	}
	if (next_usec != USEC_FOREVER)
		arm(waits, next_usec);
	return 0;
}

int waits_init(struct waits *waits, sd_event *event)
{
	int r;

	r = sd_event_add_time(event, &waits->late, CLOCK_BOOTTIME, 0, 0, waits_on_late, waits);
	if (r < 0)
		return r;
	return sd_event_source_set_enabled(waits->late, SD_EVENT_OFF);
}

void waits_done(struct waits *waits)
{
	waits->late = sd_event_source_disable_unref(waits->late);
}

void waits_add(struct waits *waits, struct wait *wait, struct request *q,
		int (*then)(struct request *q))
{
	wait->request = q;
	wait->prev = NULL;
	wait->next = waits->first;
	if (wait->next)
		wait->next->prev = wait;
	waits->first = wait;
	request_suspend(q, then, free, wait);
	arm(waits, wait->until_usec);
}

void waits_resume(struct waits *waits, struct wait *wait)
{
	if (wait->next)
		wait->next->prev = wait->prev;
	if (wait->prev)
		wait->prev->next = wait->next;
	else
		waits->first = wait->next;
	request_resume(wait->request);
}

void waits_cancel(struct waits *waits, const struct door *door)
{
	struct wait *next;

	for (struct wait *w = waits->first; w; w = next) {
		next = w->next;
		if (!door || w->request->peer->door == door)
			waits_resume(waits, w);
	}
}
