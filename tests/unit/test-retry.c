/* When plug-ins try again what has failed. */

#include "retry.h"
#include "test.h"

#define DAEMONS 500

/* As many daemons that lost one registry at one moment: how much of the window they spread over,
 * in tenths of it. */
static unsigned tenths_used(unsigned failures, uint64_t window_usec)
{
	bool used[10] = { false };
	unsigned count = 0;

	for (uint64_t i = 0; i < DAEMONS; i++) {
		uint64_t state = i * UINT64_C(0x123456789), delay;

		delay = retry_delay_usec(&state, failures);
		assert_in_range(delay, 1, window_usec);
		used[(delay - 1) * 10 / window_usec] = true;
	}
	for (size_t i = 0; i < 10; i++)
		count += used[i];
	return count;
}

static void many_daemons_spread_over_the_whole_window(void **state)
{
	(void) state;
	assert_int_equal(tenths_used(1, RETRY_FIRST_USEC), 10);
	assert_int_equal(tenths_used(4, RETRY_FIRST_USEC << 3), 10);
	assert_int_equal(tenths_used(1000, RETRY_MOST_USEC), 10);
}

static void the_window_doubles_up_to_its_most(void **state)
{
	uint64_t longest = 0, random = 1;

	(void) state;
	for (unsigned failures = 0; failures < 100; failures++)
		for (unsigned i = 0; i < 100; i++) {
			uint64_t delay = retry_delay_usec(&random, failures);

			assert_in_range(delay, 1, RETRY_MOST_USEC);
			longest = delay > longest ? delay : longest;
		}
	assert_true(longest > RETRY_MOST_USEC * 9 / 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_daemons_spread_over_the_whole_window),
		cmocka_unit_test(the_window_doubles_up_to_its_most),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
