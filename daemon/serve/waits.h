#pragma once

/* Calls whose answer is put off, each until its own time at the latest: a list and one timer. */

#include <stdint.h>

#include <systemd/sd-event.h>

struct door;
struct request;

/* Embed at the start of what a call waits with. */
struct wait {
	struct wait *next, *prev;
	struct request *request;
	uint64_t until_usec; /* CLOCK_BOOTTIME */
};

struct waits {
	struct wait *first;
	sd_event_source *late;
};

int waits_init(struct waits *waits, sd_event *event);
void waits_done(struct waits *waits);

/* Put the call off; `then` answers it later, and owns the wait (of malloc) from then on. until_usec
 * is set. */
void waits_add(struct waits *waits, struct wait *wait, struct request *q,
		int (*then)(struct request *q));
/* It waits no longer. */
void waits_resume(struct waits *waits, struct wait *wait);
/* Nobody who came by the door waits any longer; NULL: by any. */
void waits_cancel(struct waits *waits, const struct door *door);
