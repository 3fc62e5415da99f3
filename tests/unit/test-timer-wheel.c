/* The wheel against a list that is searched. */

#include "random.h"
#include "test.h"
#include "timer-wheel.h"

#define TIMERS 500

struct bench {
	struct timer_wheel wheel;
	struct timer timers[TIMERS];
	uint64_t at[TIMERS]; /* 0: not set */
	uint64_t now;
};

static void check_due(struct bench *b, size_t i)
{
	assert_true(b->at[i] != 0);
	assert_true(b->at[i] <= b->now);
	b->at[i] = 0;
}

/* Everything whose time has come for a whole tick has been given. */
static void check_rest(const struct bench *b)
{
	uint64_t next = timer_wheel_next_usec(&b->wheel), first = UINT64_MAX;

	for (size_t i = 0; i < TIMERS; i++) {
		if (b->at[i] == 0)
			continue;
		assert_true(b->at[i] + TIMER_TICK_USEC > b->now);
		if (b->at[i] < first)
			first = b->at[i];
	}
	if (first == UINT64_MAX)
		assert_true(next == UINT64_MAX);
	else
		assert_true(next < first + TIMER_TICK_USEC && next + TIMER_TICK_USEC > b->now);
}

static void step(struct bench *b, struct random *random, unsigned reach)
{
	struct timer *timer;

	for (int n = 0; n < 20; n++) {
		size_t i = random_below(random, TIMERS);

		if (random_below(random, 3) == 0) {
			timer_wheel_clear(&b->wheel, &b->timers[i]);
			b->at[i] = 0;
			continue;
		}
		b->at[i] = b->now + 1 +
				random_below(random, UINT64_C(1) << random_below(random, reach));
		timer_wheel_set(&b->wheel, &b->timers[i], b->at[i]);
	}
	b->now += random_below(random, UINT64_C(1) << random_below(random, reach));
	while ((timer = timer_wheel_pop(&b->wheel, b->now)))
		check_due(b, (size_t) (timer - b->timers));
	check_rest(b);
}

static void it_gives_what_a_list_would(void **state)
{
	static struct bench b;
	struct random random = { { 1, 2, 3, 4 } };

	(void) state;
	for (unsigned reach = 8; reach <= 38; reach += 5) {
		b = (struct bench){ .now = random_below(&random, UINT64_C(1) << 40) };
		timer_wheel_init(&b.wheel, b.now);
		for (int i = 0; i < 2000; i++)
			step(&b, &random, reach);
	}
}

static void a_time_that_has_passed_is_due_at_once(void **state)
{
	struct timer_wheel wheel;
	struct timer timer = {};

	(void) state;
	timer_wheel_init(&wheel, 1000000);
	timer_wheel_set(&wheel, &timer, 5);
	assert_true(timer_wheel_next_usec(&wheel) <= 1000000);
	assert_ptr_equal(timer_wheel_pop(&wheel, 1000000), &timer);
	assert_null(timer_wheel_pop(&wheel, 1000000));
}

static void no_timer_means_no_next_time(void **state)
{
	struct timer_wheel wheel;
	struct timer timer = {};

	(void) state;
	timer_wheel_init(&wheel, 77);
	assert_true(timer_wheel_next_usec(&wheel) == UINT64_MAX);
	timer_wheel_clear(&wheel, &timer);
	timer_wheel_set(&wheel, &timer, UINT64_MAX);
	assert_null(timer_wheel_pop(&wheel, UINT64_C(1) << 50));
	timer_wheel_clear(&wheel, &timer);
	assert_true(timer_wheel_next_usec(&wheel) == UINT64_MAX);
}

static void a_due_timer_may_be_moved_before_it_is_given(void **state)
{
	struct timer_wheel wheel;
	struct timer a = {}, b = {};

	(void) state;
	timer_wheel_init(&wheel, 0);
	timer_wheel_set(&wheel, &a, 5000);
	timer_wheel_set(&wheel, &b, 5000);
	timer_wheel_set(&wheel, &a, 9000000);
	assert_ptr_equal(timer_wheel_pop(&wheel, 8000000), &b);
	assert_null(timer_wheel_pop(&wheel, 8000000));
	timer_wheel_set(&wheel, &b, 1);
	timer_wheel_clear(&wheel, &b);
	assert_ptr_equal(timer_wheel_pop(&wheel, 9999999), &a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_gives_what_a_list_would),
		cmocka_unit_test(a_time_that_has_passed_is_due_at_once),
		cmocka_unit_test(no_timer_means_no_next_time),
		cmocka_unit_test(a_due_timer_may_be_moved_before_it_is_given),
	};

	return cmocka_run_group_tests_name("timer-wheel", tests, NULL, NULL);
}
