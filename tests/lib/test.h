#pragma once

/* What every unit test starts with: cmocka, and assertions that print errno's names. */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static inline const char *test_code_name(int r)
{
	return r < 0 ? strerrorname_np(-r) : r == 0 ? "0" : "a positive value";
}

#define assert_ok(expression)                                                                   \
	do {                                                                                    \
		int test_r_ = (expression);                                                     \
		if (test_r_ < 0)                                                                \
			fail_msg("%s: %s (%d)", #expression, test_code_name(test_r_), test_r_); \
	} while (0)

#define assert_errno(expression, expected)                                 \
	do {                                                               \
		int test_r_ = (expression);                                \
		if (test_r_ != -(expected))                                \
			fail_msg("%s: %s (%d) instead of %s", #expression, \
					test_code_name(test_r_), test_r_,  \
					strerrorname_np(expected));        \
	} while (0)

/* Call fn(userdata) with its first allocation failing, then its second, and so on, until none is
 * left to fail. fn returns -ENOMEM when an allocation failed and 0 when none did; it must not leak
 * or break anything. Works for what is linked into the test itself. Defined in oom.c. */
void assert_survives_oom(int (*fn)(void *userdata), void *userdata);
