#pragma once

/* How other threads speak to the core: messages that the core's loop runs in order.
 *
 * Posting never blocks and never fails: the message is memory of the poster's, handed over whole.
 * The core takes a bounded number a turn, so that a busy poster starves nobody. */

#include <systemd/sd-event.h>

struct inbox;

/* Embed at the start of a message. `receive` runs on the core and owns the message from then on. */
struct message {
	struct message *next;
	void (*receive)(struct message *message, void *userdata);
	void (*discard)(struct message *message); /* when the inbox goes before it was received */
	void *userdata;
};

int inbox_new(sd_event *event, struct inbox **ret);
struct inbox *inbox_free(struct inbox *inbox); /* discards what is left; NULL is fine */

/* Thread: any. */
void inbox_post(struct inbox *inbox, struct message *message);
