/* maglev when memory is short. */

#include "preparing.h"

static void preparing_survives_oom(void **state)
{
	static const int64_t table_size = 251;

	(void) state;
	check_prepare_survives_oom(&table_size);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(preparing_survives_oom) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
