#pragma once

/* What systemd is told, in one place: the protocol of sd_notify(3) with Type=notify. Without a
 * NOTIFY_SOCKET nothing happens. */

#include <stdint.h>

void notify_ready(const char *status);
void notify_status(const char *status);
/* With MONOTONIC_USEC, as reloads want it; notify_ready() must follow, whatever becomes of the
 * reload. */
void notify_reloading(void);
void notify_stopping(const char *status);
/* What goes on may take this much longer from now on. */
void notify_extend_timeout(uint64_t usec);
