#include "followed-directory.h"
#include "test.h"

static void apply(struct followed_directory *d, bool snapshot, const char *endpoints,
		const char *removed, uint64_t random)
{
	char text[4096];
	struct watch_line line;

	(void) snprintf(text, sizeof(text),
			"{\"type\": \"%s\", \"revision\": 1, \"freshness\": {\"age_ms\": 0}, \"%s\": [%s], \"removed\": [%s]}",
			snapshot ? "snapshot" : "update", snapshot ? "endpoints" : "changed",
			endpoints, removed);
	assert_ok(watch_line_parse(text, strlen(text), &line, NULL));
	if (snapshot)
		assert_ok(followed_directory_replace(d, &line, random));
	else
		assert_ok(followed_directory_update(d, &line, random));
	watch_line_done(&line);
}

#define E(id, weight)                                                                              \
	"{\"id\": \"" id "\", \"address\": \"" id ".example\", \"port\": 80, \"weight\": " #weight \
	"}"
#define DRAINING(id) \
	"{\"id\": \"" id "\", \"address\": \"" id "\", \"port\": 80, \"admin_state\": \"draining\"}"

/* The ids of the next turns, one letter each. */
static const char *turns(struct followed_directory *d, size_t count)
{
	static char text[64];
	size_t i;

	for (i = 0; i < count; i++) {
		const struct followed_endpoint *endpoint = followed_directory_turn(d);

		text[i] = '-';
		if (endpoint)
			text[i] = endpoint->id[0];
	}
	text[i] = 0;
	return text;
}

static const char *ids(const struct followed_directory *d)
{
	static char text[64];
	size_t i;

	for (i = 0; i < d->count; i++)
		text[i] = d->endpoints[i]->id[0];
	text[i] = 0;
	return text;
}

static void equal_weights_take_turns_in_order(void **state)
{
	struct followed_directory d = {};

	(void) state;
	apply(&d, true, E("c", 3) "," E("a", 3) "," E("b", 3), "", 0);
	assert_string_equal(turns(&d, 7), "abcabca");
	followed_directory_done(&d);
}

static void unequal_weights_take_smooth_turns(void **state)
{
	struct followed_directory d = {};

	(void) state;
	apply(&d, true, E("a", 5) "," E("b", 1) "," E("c", 1), "", 0);
	assert_string_equal(turns(&d, 14), "aabacaaaabacaa");
	followed_directory_done(&d);
}

static void a_random_start_keeps_the_shares(void **state)
{
	struct followed_directory d = {};
	unsigned counts[3] = {};

	(void) state;
	for (uint64_t random = 1; random < 50; random++) {
		apply(&d, true, E("a", 5) "," E("b", 2) "," E("c", 1), "", random * 7919);
		for (size_t i = 0; i < 800; i++)
			counts[followed_directory_turn(&d)->id[0] - 'a']++;
	}
	assert_in_range(counts[0], 49 * 498, 49 * 502);
	assert_in_range(counts[1], 49 * 198, 49 * 202);
	assert_in_range(counts[2], 49 * 98, 49 * 102);
	followed_directory_done(&d);
}

static void different_randoms_start_at_different_endpoints(void **state)
{
	bool seen[3] = {};

	(void) state;
	for (uint64_t random = 1; random < 100; random++) {
		struct followed_directory d = {};

		apply(&d, true, E("a", 1) "," E("b", 1) "," E("c", 1), "", random);
		seen[followed_directory_turn(&d)->id[0] - 'a'] = true;
		followed_directory_done(&d);
	}
	assert_true(seen[0] && seen[1] && seen[2]);
}

static void what_drains_or_weighs_nothing_has_no_turn(void **state)
{
	struct followed_directory d = {};

	(void) state;
	apply(&d, true, E("a", 1) "," DRAINING("b") "," E("c", 0) "," E("d", 1), "", 0);
	assert_string_equal(turns(&d, 4), "adad");
	apply(&d, false, DRAINING("a") "," DRAINING("d"), "", 0);
	assert_null(followed_directory_turn(&d));
	followed_directory_done(&d);
}

static void an_empty_directory_has_no_turn(void **state)
{
	struct followed_directory d = {};

	(void) state;
	assert_null(followed_directory_turn(&d));
	apply(&d, true, "", "", 5);
	assert_null(followed_directory_turn(&d));
	followed_directory_done(&d);
}

static void an_update_adds_changes_and_removes_in_order(void **state)
{
	struct followed_directory d = {};

	(void) state;
	apply(&d, true, E("b", 1) "," E("d", 1) "," E("f", 1), "", 0);
	apply(&d, false, E("g", 1) "," E("a", 1) "," E("d", 4) "," E("e", 1), "\"b\", \"x\", \"b\"",
			0);
	assert_string_equal(ids(&d), "adefg");
	assert_int_equal(d.endpoints[1]->weight, 4000);
	assert_int_equal(d.total, 8000);
	apply(&d, false, "", "\"a\", \"d\", \"e\", \"f\", \"g\"", 0);
	assert_int_equal(d.count, 0);
	followed_directory_done(&d);
}

static void an_endpoint_that_changes_keeps_its_turn(void **state)
{
	struct followed_directory d = {};

	(void) state;
	apply(&d, true, E("a", 5) "," E("b", 1) "," E("c", 1), "", 0);
	assert_string_equal(turns(&d, 3), "aab");
	apply(&d, false, E("a", 5), "", 0);
	assert_string_equal(turns(&d, 4), "acaa");
	followed_directory_done(&d);
}

#define RAMPED(id, weight, ramp)                                                                   \
	"{\"id\": \"" id "\", \"address\": \"" id ".example\", \"port\": 80, \"weight\": " #weight \
	", \"ramp\": " #ramp ", \"admin_state\": \"ready\"}"

static void a_ramp_gives_a_part_of_a_weight_of_one(void **state)
{
	struct followed_directory d = {};
	unsigned a = 0;

	(void) state;
	apply(&d, true, RAMPED("a", 1, 0.25) "," E("b", 1), "", 0);
	assert_int_equal(d.total, 1250);
	for (const char *turn = turns(&d, 50); *turn; turn++)
		a += *turn == 'a';
	assert_int_equal(a, 10);
	apply(&d, false, E("a", 1), "", 0);
	assert_true(d.uniform);
	apply(&d, false, RAMPED("a", 1, 0), "", 0);
	assert_string_equal(turns(&d, 3), "bbb");
	apply(&d, false, RAMPED("a", 100000, 1000), "", 0);
	assert_int_equal(d.endpoints[0]->weight, 1000000000);
	followed_directory_done(&d);
}

static void an_id_that_stands_twice_is_one_endpoint(void **state)
{
	struct followed_directory d = {};

	(void) state;
	apply(&d, true, E("a", 1) "," E("a", 1) "," E("b", 1), "", 0);
	assert_string_equal(ids(&d), "ab");
	followed_directory_done(&d);
}

static int replace_and_update(void *userdata)
{
	static const struct watch_endpoint endpoints[] = {
		{ .id = "a", .address = "a", .weight = 1, .ramp = WATCH_RAMP_UNIT, .port = 1 },
		{ .id = "b", .address = "b", .weight = 2, .ramp = WATCH_RAMP_UNIT, .port = 1 },
	};
	struct watch_endpoint changed[] = {
		{ .id = "c", .address = "c", .weight = 1, .ramp = WATCH_RAMP_UNIT, .port = 1 }
	};
	const char *removed[] = { "a" };
	struct watch_endpoint all[2];
	struct watch_line line = { .endpoints = all, .endpoint_count = 2 };
	struct followed_directory d = {};
	int r;

	(void) userdata;
	memcpy(all, endpoints, sizeof(all));
	r = followed_directory_replace(&d, &line, 1);
	if (r == 0) {
		line = (struct watch_line){ .endpoints = changed,
			.endpoint_count = 1,
			.removed = removed,
			.removed_count = 1 };
		r = followed_directory_update(&d, &line, 1);
		if (r < 0)
			assert_string_equal(ids(&d), "ab");
	}
	followed_directory_done(&d);
	return r;
}

static void a_failed_allocation_leaves_the_directory_as_it_was(void **state)
{
	(void) state;
	assert_survives_oom(replace_and_update, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_weights_take_turns_in_order),
		cmocka_unit_test(unequal_weights_take_smooth_turns),
		cmocka_unit_test(a_random_start_keeps_the_shares),
		cmocka_unit_test(different_randoms_start_at_different_endpoints),
		cmocka_unit_test(what_drains_or_weighs_nothing_has_no_turn),
		cmocka_unit_test(an_empty_directory_has_no_turn),
		cmocka_unit_test(an_update_adds_changes_and_removes_in_order),
		cmocka_unit_test(an_endpoint_that_changes_keeps_its_turn),
		cmocka_unit_test(a_ramp_gives_a_part_of_a_weight_of_one),
		cmocka_unit_test(an_id_that_stands_twice_is_one_endpoint),
		cmocka_unit_test(a_failed_allocation_leaves_the_directory_as_it_was),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
