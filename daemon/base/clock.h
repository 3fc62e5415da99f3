#pragma once

/* Time. Everything that is measured is microseconds of CLOCK_BOOTTIME, which goes on while the
 * machine is suspended and never jumps; wall-clock time is for people and records only. */

#include <stddef.h>
#include <stdint.h>

#define USEC_PER_MSEC UINT64_C(1000)
#define USEC_PER_SEC  UINT64_C(1000000)
#define USEC_FOREVER  UINT64_MAX

uint64_t clock_boot_usec(void);
uint64_t clock_wall_usec(void); /* since the epoch */
/* CLOCK_MONOTONIC, which systemd wants beside RELOADING=1. */
uint64_t clock_monotonic_usec(void);

#define CLOCK_TEXT_MAX 32
/* "2026-11-30T02:55:06.123456Z"; ret needs CLOCK_TEXT_MAX bytes. Returns ret. */
const char *clock_wall_format(uint64_t wall_usec, char *ret);
