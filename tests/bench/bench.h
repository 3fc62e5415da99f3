#pragma once

/* What programs that measure in themselves have in common. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <usher/error.h>

static inline _Noreturn void die(const char *what, int r, const struct usher_error *err)
{
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name,
			what, /* NOLINT(cert-err33-c) */
			err && err->text[0] ? err->text : strerrordesc_np(-r));
	exit(1); /* NOLINT(concurrency-mt-unsafe) */
}

static inline void *allocate(size_t count, size_t size)
{
	void *p = calloc(count, size);

	if (!p)
		die("memory", -ENOMEM, NULL);
	return p;
}

static inline double now_ns(void)
{
	struct timespec t;

	(void) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double) t.tv_sec * 1e9 + (double) t.tv_nsec;
}

static inline double least(const double *numbers, size_t count)
{
	double found = numbers[0];

	for (size_t i = 1; i < count; i++)
		found = numbers[i] < found ? numbers[i] : found;
	return found;
}
