#pragma once

/* Starting threads that leave every signal to the core and carry a name. */

#include <pthread.h>
#include <stdint.h>

/* name is cut to what the kernel keeps (15 bytes). Errors: EAGAIN. */
int thread_start(pthread_t *ret, const char *name, void *(*run)(void *), void *userdata);
/* Wait for the thread's end until the given CLOCK_BOOTTIME. Errors: ETIMEDOUT, and then it still
 * runs. */
int thread_join_until(pthread_t thread, uint64_t until_usec);
