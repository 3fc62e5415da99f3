/* ring_hash when memory is short. */

#include "preparing.h"

static void preparing_survives_oom(void **state)
{
	static const struct {
		int64_t min_size, max_size;
		double bound;
	} options = { 256, 256, 0 };

	(void) state;
	check_prepare_survives_oom(&options);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(preparing_survives_oom) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
