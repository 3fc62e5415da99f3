#include "thread.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "clock.h"

#define NAME_BYTES 16

int thread_start(pthread_t *ret, const char *name, void *(*run)(void *), void *userdata)
{
	char cut[NAME_BYTES];
	sigset_t all, before;
	int r;

	(void) sigfillset(&all);
	(void) pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(ret, NULL, run, userdata);
	(void) pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r != 0)
		return -r;
	(void) snprintf(cut, sizeof(cut), "%s", name);
	(void) pthread_setname_np(*ret, cut);
	return 0;
}

#ifdef __SANITIZE_THREAD__
/* The thread sanitizer of gcc 12 does not know pthread_clockjoin_np, and takes every thread that
 * was joined by it for one that still runs. Its clock may jump; a test does not mind. */
static int join_until(pthread_t thread, uint64_t left_usec)
{
	uint64_t until = clock_wall_usec() + left_usec;
	struct timespec deadline = {
		.tv_sec = (time_t) (until / USEC_PER_SEC),
		.tv_nsec = (long) (until % USEC_PER_SEC) * 1000,
	};

	return -pthread_timedjoin_np(thread, NULL, &deadline);
}
#else
static int join_until(pthread_t thread, uint64_t left_usec)
{
	uint64_t until = clock_monotonic_usec() + left_usec;
	struct timespec deadline = {
		.tv_sec = (time_t) (until / USEC_PER_SEC),
		.tv_nsec = (long) (until % USEC_PER_SEC) * 1000,
	};

	return -pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &deadline);
}
#endif

int thread_join_until(pthread_t thread, uint64_t until_usec)
{
	uint64_t now = clock_boot_usec();

	return join_until(thread, until_usec > now ? until_usec - now : 0);
}
