/* least_request and peak_ewma: who is busy or slow gets less, and weights count. */

#include <math.h>

#include "selecting.h"

#define SECOND UINT64_C(1000000)

static const char *const names[] = { "least_request", "peak_ewma" };

static uint64_t count_of(struct selecting *s, ssize_t position, uint64_t picks)
{
	uint64_t count = 0;

	for (uint64_t i = 0; i < picks; i++)
		count += select_at(s, 0) == position;
	return count;
}

/* ---- both ---- */

static void with_nothing_open_shares_are_those_of_the_weights(void **state)
{
	(void) state;
	for (size_t n = 0; n < ELEMENTS(names); n++) {
		char slots[3 * USHER_SLOT_MAX] = {};
		uint32_t active[3] = {};
		struct selecting s;

		selecting_init(&s, names[n], "a*1 b*3 c*12");
		s.choice.view.active = active;
		s.choice.view.slots = slots;
		selecting_prepare(&s);
		assert_in_range(count_of(&s, 0, 40000), 2200, 2800);
		assert_in_range(count_of(&s, 1, 40000), 7100, 7900);
		selecting_done(&s);
	}
}

static void what_the_host_does_not_know_does_not_matter(void **state)
{
	(void) state;
	for (size_t n = 0; n < ELEMENTS(names); n++) {
		struct selecting s;

		selecting_init(&s, names[n], "a*1 b*3");
		assert_in_range(count_of(&s, 1, 40000), 29500, 30500);
		selecting_prepare(&s);
		assert_in_range(count_of(&s, 1, 40000), 29500, 30500);
		selecting_done(&s);
	}
}

/* ---- least_request ---- */

static void the_busier_of_two_gets_next_to_nothing(void **state)
{
	uint32_t active[2] = { 5, 4 };
	struct selecting s;

	(void) state;
	selecting_init(&s, "least_request", "a b");
	s.choice.view.active = active;
	selecting_prepare(&s);
	assert_int_equal(count_of(&s, 0, 10000), 0);
	active[0] = 3;
	assert_int_equal(count_of(&s, 0, 10000), 10000);
	selecting_done(&s);
}

static void open_requests_count_against_the_weight(void **state)
{
	uint32_t active[2] = { 5, 19 };
	struct selecting s;
	uint64_t more, less;

	(void) state;
	selecting_init(&s, "least_request", "a*1 b*4");
	s.choice.view.active = active;
	selecting_prepare(&s);
	more = count_of(&s, 1, 10000);
	active[1] = 21;
	less = count_of(&s, 1, 10000);
	assert_in_range(more, 9900, 10000);
	assert_in_range(less, 0, 2000);
	selecting_done(&s);
}

/* Requests that take as long everywhere: each pick opens one, and the oldest one ends. */
static void open_requests_settle_in_proportion_to_the_weights(void **state)
{
	enum {
		OPEN = 400,
		ROUNDS = 40000
	};
	static ssize_t positions[ROUNDS];
	uint32_t active[4] = {}, picks[4] = {};
	struct selecting s;

	(void) state;
	selecting_init(&s, "least_request", "a*1 b*2 c*3 d*4");
	s.choice.view.active = active;
	selecting_prepare(&s);
	for (size_t i = 0; i < ROUNDS; i++) {
		positions[i] = select_at(&s, i);
		active[positions[i]]++;
		picks[positions[i]]++;
		if (i >= OPEN)
			active[positions[i - OPEN]]--;
	}
	for (size_t i = 0; i < 4; i++) {
		assert_in_range(active[i], 40 * (i + 1) - 12, 40 * (i + 1) + 12);
		assert_in_range(picks[i], 3960 * (i + 1), 4040 * (i + 1));
	}
	selecting_done(&s);
}

static void a_bias_of_0_looks_at_weights_alone(void **state)
{
	uint32_t active[2] = { 0, 1000 };
	struct selecting s;

	(void) state;
	selecting_init_with(&s, "least_request", "{bias: 0}", "a*1 b*3");
	s.choice.view.active = active;
	selecting_prepare(&s);
	assert_in_range(count_of(&s, 1, 40000), 29500, 30500);
	selecting_done(&s);
}

/* 3 of a weight of 1 against 6 of a weight of 4: the root of one, and the square of the other. */
static void a_bias_bends_what_open_requests_count(void **state)
{
	uint32_t active[2] = { 3, 6 };
	struct selecting s;

	(void) state;
	selecting_init_with(&s, "least_request", "{bias: 0.5, choices: 8}", "a*1 b*4");
	s.choice.view.active = active;
	selecting_prepare(&s);
	assert_in_range(count_of(&s, 1, 10000), 9900, 10000);
	selecting_done(&s);

	active[1] = 7;
	selecting_init_with(&s, "least_request", "{bias: 2.0, choices: 8}", "a*1 b*4");
	s.choice.view.active = active;
	selecting_prepare(&s);
	assert_in_range(count_of(&s, 1, 10000), 0, 100);
	selecting_done(&s);
}

static void more_choices_find_the_idle_one_of_many(void **state)
{
	uint32_t active[50];
	uint64_t two, ten;
	struct selecting s;

	(void) state;
	for (size_t i = 0; i < 50; i++)
		active[i] = i != 33;
	selecting_init_many(&s, "least_request", NULL, 50);
	s.choice.view.active = active;
	selecting_prepare(&s);
	two = count_of(&s, 33, 20000);
	selecting_done(&s);
	selecting_init_many(&s, "least_request", "{choices: 10}", 50);
	s.choice.view.active = active;
	selecting_prepare(&s);
	ten = count_of(&s, 33, 20000);
	selecting_done(&s);
	/* 2 and 10 of 50 */
	assert_in_range(two, 640, 960);
	assert_in_range(ten, 3350, 4100);
}

/* ---- peak_ewma ---- */

struct learning {
	struct selecting s;
	uint32_t active[8];
	char slots[8 * USHER_SLOT_MAX];
	uint64_t now_usec;
};

static void learning_init(struct learning *l, const char *options, const char *endpoints)
{
	memset(l, 0, sizeof(*l));
	selecting_init_with(&l->s, "peak_ewma", options, endpoints);
	assert_in_range(l->s.selector->slot_size, 1, USHER_SLOT_MAX);
	l->s.choice.view.active = l->active;
	l->s.choice.view.slots = l->slots;
	l->now_usec = 1000 * SECOND;
	selecting_prepare(&l->s);
}

static void learn(struct learning *l, size_t position, enum usher_outcome outcome, uint64_t ms)
{
	struct usher_report report = { .size = sizeof(report),
		.outcome = outcome,
		.count = 1,
		.latency_usec = ms * 1000,
		.now_usec = l->now_usec };

	l->s.selector->report(l->s.instance->data, l->slots + position * l->s.selector->slot_size,
			&report);
}

static ssize_t choose(struct learning *l)
{
	struct usher_request request = { .size = sizeof(request),
		.random = random_next(&l->s.random),
		.now_usec = l->now_usec };

	return select_for(&l->s, &request);
}

static uint64_t times_chosen(struct learning *l, ssize_t position, uint64_t picks)
{
	uint64_t count = 0;

	for (uint64_t i = 0; i < picks; i++)
		count += choose(l) == position;
	return count;
}

static void the_faster_one_is_preferred(void **state)
{
	struct learning l;

	(void) state;
	learning_init(&l, NULL, "a b");
	learn(&l, 0, USHER_OUTCOME_OK, 10);
	learn(&l, 1, USHER_OUTCOME_OK, 30);
	assert_int_equal(times_chosen(&l, 0, 1000), 1000);
	/* Three open requests of 10 ms are as long as one of 30. */
	l.active[0] = 1;
	assert_int_equal(times_chosen(&l, 0, 1000), 1000);
	l.active[0] = 3;
	assert_int_equal(times_chosen(&l, 1, 1000), 1000);
	selecting_done(&l.s);
}

static void a_worse_latency_counts_at_once_and_a_better_one_slowly(void **state)
{
	struct learning l;

	(void) state;
	learning_init(&l, NULL, "a b");
	learn(&l, 0, USHER_OUTCOME_OK, 10);
	learn(&l, 1, USHER_OUTCOME_OK, 20);
	assert_int_equal(choose(&l), 0);
	learn(&l, 0, USHER_OUTCOME_OK, 500);
	assert_int_equal(choose(&l), 1);

	for (int i = 0; i < 20; i++) { /* two seconds of good ones: most of the peak is there */
		l.now_usec += SECOND / 10;
		learn(&l, 0, USHER_OUTCOME_OK, 10);
		learn(&l, 1, USHER_OUTCOME_OK, 20);
	}
	assert_int_equal(choose(&l), 1);
	for (int i = 0; i < 600; i++) { /* a minute of them: it is forgotten */
		l.now_usec += SECOND / 10;
		learn(&l, 0, USHER_OUTCOME_OK, 10);
		learn(&l, 1, USHER_OUTCOME_OK, 20);
	}
	assert_int_equal(choose(&l), 0);
	selecting_done(&l.s);
}

static void failing_fast_is_not_being_fast(void **state)
{
	static const enum usher_outcome outcomes[] = { USHER_OUTCOME_ERROR, USHER_OUTCOME_FAILED,
		USHER_OUTCOME_TIMEOUT };

	(void) state;
	for (size_t i = 0; i < ELEMENTS(outcomes); i++) {
		struct learning l;

		learning_init(&l, NULL, "a b");
		learn(&l, 0, outcomes[i], 0);
		learn(&l, 1, USHER_OUTCOME_OK, 300);
		assert_int_equal(times_chosen(&l, 1, 1000), 1000);
		learn(&l, 1, USHER_OUTCOME_OK, 1500);
		assert_int_equal(times_chosen(&l, 0, 1000), 1000);
		selecting_done(&l.s);
	}
}

static void a_newcomer_is_tried_with_one_request_at_a_time(void **state)
{
	struct learning l;

	(void) state;
	learning_init(&l, NULL, "a b");
	learn(&l, 0, USHER_OUTCOME_OK, 10);
	assert_int_equal(choose(&l), 1);
	l.active[1] = 1;
	l.active[0] = 100;
	assert_int_equal(times_chosen(&l, 0, 1000), 1000);
	learn(&l, 1, USHER_OUTCOME_OK, 5);
	l.active[1] = 0;
	assert_int_equal(choose(&l), 1);
	selecting_done(&l.s);
}

static void where_nobody_is_known_the_fewest_open_requests_decide(void **state)
{
	struct learning l;

	(void) state;
	learning_init(&l, NULL, "a b");
	l.active[0] = 3;
	l.active[1] = 2;
	assert_int_equal(times_chosen(&l, 1, 1000), 1000);
	learn(&l, 0, USHER_OUTCOME_OK, 0); /* all is well, says somebody who has no watch */
	assert_int_equal(times_chosen(&l, 1, 1000), 1000);
	selecting_done(&l.s);
}

/* It was slow, and nobody has tried it since: it is tried with a few and not with all. */
static void what_was_slow_is_tried_again_with_care(void **state)
{
	struct learning l;
	uint32_t most = 0;

	(void) state;
	learning_init(&l, NULL, "a b");
	learn(&l, 0, USHER_OUTCOME_OK, 5000);
	learn(&l, 1, USHER_OUTCOME_OK, 10);
	for (int i = 0; i < 1000; i++) {
		l.now_usec += SECOND / 10;
		if (choose(&l) == 0)
			l.active[0]++;
		learn(&l, 1, USHER_OUTCOME_OK, 10);
		if (i == 200)
			assert_int_equal(l.active[0], 0);
		most = l.active[0] > most ? l.active[0] : most;
	}
	assert_in_range(most, 1, 5);
	selecting_done(&l.s);
}

static void clocks_that_stand_still_do_no_harm(void **state)
{
	struct learning l;

	(void) state;
	learning_init(&l, NULL, "a b");
	learn(&l, 0, USHER_OUTCOME_OK, 10);
	learn(&l, 1, USHER_OUTCOME_OK, 20);
	l.now_usec = 0;
	learn(&l, 1, USHER_OUTCOME_OK, 15);
	assert_int_equal(choose(&l), 0);
	l.now_usec = UINT64_MAX;
	assert_in_range(choose(&l), 0, 1);
	selecting_done(&l.s);
}

/* ---- options ---- */

static void options_that_make_no_sense_are_refused(void **state)
{
	static const char *const cases[][3] = {
		{ "least_request", "{choices: 1}", "2" },
		{ "least_request", "{choices: 65}", "64" },
		{ "least_request", "{bias: -1}", "not a number" },
		{ "least_request", "{bias: nan}", "not a number" },
		{ "least_request", "{bias: 0x1}", "not a number" },
		{ "least_request", "{bias: 1.2.3}", "0..10" },
		{ "least_request", "{bias: .}", "0..10" },
		{ "least_request", "{bias: \"\"}", "not a number" },
		{ "least_request", "{bias: 10.5}", "0..10" },
		{ "peak_ewma", "{decay: 0s}", "forgotten at once" },
		{ "peak_ewma", "{choices: 1}", "2" },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS(cases); i++) {
		struct plugin_instance *instance = NULL;
		struct usher_error err = {};

		if (selection_new(cases[i][0], cases[i][1], FACET_SELECTOR, &instance, &err) >= 0)
			fail_msg("%s is taken", cases[i][1]);
		if (!strstr(err.text, cases[i][2]))
			fail_msg("%s: \"%s\" does not say \"%s\"", cases[i][1], err.text,
					cases[i][2]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(with_nothing_open_shares_are_those_of_the_weights),
		cmocka_unit_test(what_the_host_does_not_know_does_not_matter),
		cmocka_unit_test(the_busier_of_two_gets_next_to_nothing),
		cmocka_unit_test(open_requests_count_against_the_weight),
		cmocka_unit_test(open_requests_settle_in_proportion_to_the_weights),
		cmocka_unit_test(a_bias_of_0_looks_at_weights_alone),
		cmocka_unit_test(a_bias_bends_what_open_requests_count),
		cmocka_unit_test(more_choices_find_the_idle_one_of_many),
		cmocka_unit_test(the_faster_one_is_preferred),
		cmocka_unit_test(a_worse_latency_counts_at_once_and_a_better_one_slowly),
		cmocka_unit_test(failing_fast_is_not_being_fast),
		cmocka_unit_test(a_newcomer_is_tried_with_one_request_at_a_time),
		cmocka_unit_test(where_nobody_is_known_the_fewest_open_requests_decide),
		cmocka_unit_test(what_was_slow_is_tried_again_with_care),
		cmocka_unit_test(clocks_that_stand_still_do_no_harm),
		cmocka_unit_test(options_that_make_no_sense_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
