#pragma once

/* What systemd is told, in one place: the protocol of sd_notify(3) with Type=notify.
 *
 * Telling never waits, as sd_notify() does for whoever does not read: what cannot be sent at once
 * is kept, the oldest the shortest, and sent later. Without a NOTIFY_SOCKET nothing happens. NULL
 * is a notify that nobody listens to. */

#include <stdint.h>

#include "ownership.h"

#define NOTIFY_UNSENT_MAX 8 /* messages; the oldest go */

struct notify;

/* NULL when nobody listens, or without memory. */
struct notify *notify_new(void);
struct notify *notify_free(struct notify *n); /* tries once more to send what is left */
DEFINE_CLEANUP(struct notify, notify_free);

void notify_ready(struct notify *n, const char *status);
void notify_status(struct notify *n, const char *status);
/* With MONOTONIC_USEC, as reloads want it; notify_ready() must follow, whatever becomes of the
 * reload. */
void notify_reloading(struct notify *n);
void notify_stopping(struct notify *n, const char *status);
/* What goes on may take this much longer from now on. */
void notify_extend_timeout(struct notify *n, uint64_t usec);
/* Send what could not be sent; to be called every now and then. */
void notify_again(struct notify *n);
