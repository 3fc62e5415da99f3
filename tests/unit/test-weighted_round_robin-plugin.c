/* weighted_round_robin when memory is short. */

#include "preparing.h"

static void preparing_survives_oom(void **state)
{
	(void) state;
	check_prepare_survives_oom(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(preparing_survives_oom) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
