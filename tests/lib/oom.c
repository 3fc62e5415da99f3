/* Failing allocations in turn: malloc and its siblings are replaced by the linker (--wrap). */

#include "test.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *p, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *p, size_t size);
char *__wrap_strdup(const char *text);

#define NEVER SIZE_MAX

static _Thread_local size_t until_failure = NEVER;

static bool fails_now(void)
{
	if (until_failure == NEVER || until_failure == 0)
		return until_failure == 0;
	return --until_failure == 0;
}

void *__wrap_malloc(size_t size)
{
	return fails_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
	return fails_now() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *p, size_t size)
{
	return fails_now() ? NULL : __real_realloc(p, size);
}

char *__wrap_strdup(const char *text)
{
	return fails_now() ? NULL : __real_strdup(text);
}

void assert_survives_oom(int (*fn)(void *userdata), void *userdata)
{
	for (size_t i = 1;; i++) {
		int r;

		until_failure = i;
		r = fn(userdata);
		if (until_failure != 0) {
			until_failure = NEVER;
			assert_ok(r);
			return;
		}
		until_failure = NEVER;
		if (r != -ENOMEM)
			fail_msg("allocation %zu failed and was answered with %s (%d)", i,
					test_code_name(r), r);
	}
}
