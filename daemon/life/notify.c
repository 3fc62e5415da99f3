#include "notify.h"

#include <inttypes.h>

#include <systemd/sd-daemon.h>

#include "clock.h"

void notify_ready(const char *status)
{
	(void) sd_notifyf(0, "READY=1\nSTATUS=%s", status);
}

void notify_status(const char *status)
{
	(void) sd_notifyf(0, "STATUS=%s", status);
}

void notify_reloading(void)
{
	(void) sd_notifyf(0,
			"RELOADING=1\nMONOTONIC_USEC=%" PRIu64
			"\nSTATUS=Reading the configuration again",
			clock_monotonic_usec());
}

void notify_stopping(const char *status)
{
	(void) sd_notifyf(0, "STOPPING=1\nSTATUS=%s", status);
}

void notify_extend_timeout(uint64_t usec)
{
	(void) sd_notifyf(0, "EXTEND_TIMEOUT_USEC=%" PRIu64, usec);
}
