/* Several sources, one set. */

#include "endpoint-sets.h"
#include "merge.h"

static const struct merge_rules all = { .policy = MERGE_UNION };

struct merge_case {
	enum merge_policy policy;
	const char *feeds[4]; /* NULL: never answered; the count is up to the last that is named */
	size_t count;
	const char *ids;     /* NULL: nobody has answered */
	const char *sources; /* a digit an endpoint */
	const char *conflict;
};

static const struct merge_case cases[] = {
	{ MERGE_FIRST, { NULL, NULL }, 2, NULL, "", "" },
	{ MERGE_FIRST, { "a", "b" }, 2, "a", "0", "0" },
	{ MERGE_FIRST, { "", "b c" }, 2, "b c", "11", "00" },
	{ MERGE_FIRST, { NULL, "b" }, 2, "b", "1", "0" },
	{ MERGE_FIRST, { "", NULL, "c" }, 3, "c", "2", "0" },
	{ MERGE_FIRST, { "", "" }, 2, "", "", "" },
	{ MERGE_FIRST, { NULL, "" }, 2, "", "", "" },
	{ MERGE_FIRST, {}, 0, NULL, "", "" },
	{ MERGE_UNION, { NULL, NULL }, 2, NULL, "", "" },
	{ MERGE_UNION, { "b", "a" }, 2, "a b", "10", "00" },
	{ MERGE_UNION, { "a b", NULL, "" }, 3, "a b", "00", "00" },
	{ MERGE_UNION, { "", NULL }, 2, "", "", "" },
	/* the same endpoint from both is no conflict, a different one is, and the earlier wins */
	{ MERGE_UNION, { "a b", "b c" }, 2, "a b c", "001", "000" },
	{ MERGE_UNION, { "a b*2", "b*3 c" }, 2, "a b c", "001", "010" },
	{ MERGE_UNION, { "c", "a", "a*2 b" }, 3, "a b c", "120", "100" },
	/* two names for one address are one endpoint */
	{ MERGE_UNION, { "x@10.0.0.1:80", "y@10.0.0.1:80 z" }, 2, "x z", "01", "10" },
	{ MERGE_UNION, { "x@10.0.0.1:80", "y@10.0.0.1:81" }, 2, "x y", "01", "00" },
	{ MERGE_UNION, { "x@10.0.0.1:80", "y@10.0.0.1:80", "y@10.0.0.2:80" }, 3, "x", "0", "1" },
	/* but a source may name one address twice if it wants to */
	{ MERGE_UNION, { "x@10.0.0.1:80 y@10.0.0.1:80", "z" }, 2, "x y z", "001", "000" },
};

static void check(const struct merge_case *c)
{
	struct usher_endpoints *feeds[4] = {};
	struct merged m;

	for (size_t i = 0; i < c->count; i++)
		feeds[i] = c->feeds[i] ? set_of(c->feeds[i]) : NULL;
	assert_ok(merge(&(const struct merge_rules){ .policy = c->policy }, feeds, c->count, &m));
	if (!c->ids) {
		assert_null(m.endpoints);
	} else {
		assert_string_equal(ids_of(m.endpoints), c->ids);
		for (size_t i = 0; i < usher_endpoints_count(m.endpoints); i++) {
			size_t source = m.sources ? m.sources[i] : m.only;

			assert_int_equal(source, c->sources[i] - '0');
			assert_int_equal(m.conflict ? m.conflict[i] : 0, c->conflict[i] - '0');
		}
	}
	merged_done(&m);
	for (size_t i = 0; i < c->count; i++)
		(void) usher_endpoints_unref(feeds[i]);
}

static void sources_merge_as_the_table_says(void **state)
{
	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		print_message("case %zu\n", i);
		check(&cases[i]);
	}
}

static void a_merged_endpoint_keeps_every_field(void **state)
{
	struct usher_label labels[] = { { "tier", "gold" }, { "A", "1" } };
	struct usher_endpoint e = USHER_ENDPOINT_INIT;
	struct usher_endpoints *feeds[2] = { set_of("b"), usher_endpoints_new() };
	struct merged m;

	(void) state;
	e.id = "a";
	e.uid = "u1";
	e.address = "fd00::10";
	e.port = 8080;
	e.zone = "east";
	e.weight_text = "30%";
	e.secure = true;
	e.ready = false;
	e.terminating = true;
	e.admin_state = USHER_ADMIN_MAINTENANCE;
	e.metadata = labels;
	e.metadata_count = 2;
	assert_ok(usher_endpoints_add(feeds[1], &e, NULL));
	usher_endpoints_seal(feeds[1]);

	assert_ok(merge(&all, feeds, 2, &m));
	assert_true(usher_endpoints_same(m.endpoints, 0, feeds[1], 0));
	assert_true(usher_endpoints_same(m.endpoints, 1, feeds[0], 0));

	merged_done(&m);
	(void) usher_endpoints_unref(feeds[0]);
	(void) usher_endpoints_unref(feeds[1]);
}

/* ---- what one source decides ---- */

static struct usher_endpoints *set_of_one(const char *id, const char *zone, uint32_t weight,
		bool ready, const struct usher_label *labels, size_t count)
{
	struct usher_endpoints *set = usher_endpoints_new();
	struct usher_endpoint e = USHER_ENDPOINT_INIT;

	e.id = id;
	e.address = "10.0.0.1";
	e.port = 80;
	e.zone = zone;
	e.weight = weight;
	e.ready = ready;
	e.metadata = labels;
	e.metadata_count = count;
	assert_ok(usher_endpoints_add(set, &e, NULL));
	usher_endpoints_seal(set);
	return set;
}

static const struct usher_label gold[] = { { "tier", "gold" }, { "weight", "5" } };

/* The first shows weight 5 (by its metadata) and the zone east, the second 7 and nothing. */
static void merge_pair(const char *second_id, unsigned decides, struct merged *ret)
{
	const struct merge_rules rules = { .policy = MERGE_UNION, .decides = { 0, decides } };
	struct usher_endpoints *feeds[2] = { set_of_one("a", "east", 1, true, gold, 2),
		set_of_one(second_id, NULL, 7, false, NULL, 0) };

	assert_ok(merge(&rules, feeds, 2, ret));
	assert_int_equal(usher_endpoints_count(ret->endpoints), 1);
	(void) usher_endpoints_unref(feeds[0]);
	(void) usher_endpoints_unref(feeds[1]);
}

static void a_source_decides_what_it_is_asked_to(void **state)
{
	struct usher_endpoint e = USHER_ENDPOINT_INIT;
	struct merged m;

	(void) state;
	merge_pair("a", 1u << MERGE_WEIGHT, &m);
	usher_endpoints_get(m.endpoints, 0, &e);
	assert_int_equal(e.weight, 7);
	assert_string_equal(usher_endpoints_metadata(m.endpoints, 0, "weight"), "7");
	assert_string_equal(usher_endpoints_metadata(m.endpoints, 0, "tier"), "gold");
	assert_true(e.ready);
	assert_int_equal(m.sources[0], 0);
	assert_int_equal(m.origins[0][MERGE_WEIGHT], 1);
	assert_int_equal(m.origins[0][MERGE_CONDITIONS], 0);
	merged_done(&m);

	merge_pair("a", 1u << MERGE_CONDITIONS | 1u << MERGE_METADATA, &m);
	usher_endpoints_get(m.endpoints, 0, &e);
	assert_int_equal(e.weight, 5);
	assert_int_equal(e.metadata_count, 0);
	assert_false(e.ready);
	merged_done(&m);
}

static void a_source_that_knows_no_zone_leaves_it_to_the_others(void **state)
{
	struct merged m;

	(void) state;
	merge_pair("a", 1u << MERGE_ZONE, &m);
	assert_string_equal(usher_endpoints_zone(m.endpoints, 0), "east");
	assert_int_equal(m.origins[0][MERGE_ZONE], 0);
	merged_done(&m);
}

static void nobody_disagrees_about_what_is_decided(void **state)
{
	const unsigned but_zone =
			1u << MERGE_WEIGHT | 1u << MERGE_CONDITIONS | 1u << MERGE_METADATA;
	struct merged m;

	(void) state;
	merge_pair("a", but_zone, &m);
	assert_non_null(m.conflict);
	merged_done(&m);
	merge_pair("a", but_zone | 1u << MERGE_ZONE, &m);
	assert_null(m.conflict);
	merged_done(&m);
}

static void it_decides_of_its_address_too_whatever_the_id(void **state)
{
	struct usher_endpoint e = USHER_ENDPOINT_INIT;
	struct merged m;

	(void) state;
	merge_pair("b", 1u << MERGE_WEIGHT, &m);
	usher_endpoints_get(m.endpoints, 0, &e);
	assert_string_equal(e.id, "a");
	assert_int_equal(e.weight, 7);
	merged_done(&m);
}

static void only_those_that_show_an_endpoint_decide_about_it(void **state)
{
	const struct merge_rules rules = { .policy = MERGE_UNION,
		.decides = { 0, 1u << MERGE_WEIGHT } };
	struct usher_endpoints *feeds[2] = { set_of("c*3 a*2"), set_of("b*4 a*5") };
	struct merged m;

	(void) state;
	assert_ok(merge(&rules, feeds, 2, &m));
	assert_string_equal(ids_of(m.endpoints), "a b c");
	for (size_t i = 0; i < 3; i++) {
		static const struct {
			uint32_t weight;
			uint8_t source, decider;
		} wanted[] = { { 5, 0, 1 }, { 4, 1, 1 }, { 3, 0, 0 } };
		struct usher_endpoint e = USHER_ENDPOINT_INIT;

		usher_endpoints_get(m.endpoints, i, &e);
		assert_int_equal(e.weight, wanted[i].weight);
		assert_int_equal(m.sources[i], wanted[i].source);
		assert_int_equal(m.origins[i][MERGE_WEIGHT], wanted[i].decider);
	}
	merged_done(&m);
	(void) usher_endpoints_unref(feeds[0]);
	(void) usher_endpoints_unref(feeds[1]);
}

/* ---- a race ---- */

#define RACER(a, e, l, age)                                                   \
	{                                                                     \
		.answered = (a), .empty = (e), .live = (l), .age_usec = (age) \
	}

static const struct race_case {
	const char *what;
	struct racer racers[3];
	size_t leader, wanted;
} races[] = {
	{ "nobody has answered", { RACER(false, false, false, 0) }, MERGE_NONE, MERGE_NONE },
	{ "a failure does not win", { RACER(false, false, false, 0), RACER(true, false, true, 5) },
			MERGE_NONE, 1 },
	{ "none does not win over some",
			{ RACER(true, true, true, 1), RACER(true, false, true, 5) }, 0, 1 },
	{ "nor over some of the disk", { RACER(true, true, true, 1), RACER(true, false, false, 5) },
			MERGE_NONE, 1 },
	{ "all are empty", { RACER(true, true, true, 3), RACER(true, true, true, 5) }, MERGE_NONE,
			0 },
	{ "the leader stays though others are younger",
			{ RACER(true, false, true, 9), RACER(true, false, true, 1) }, 0, 0 },
	{ "the youngest takes over from one that fails",
			{ RACER(true, false, false, 9), RACER(true, false, true, 4),
					RACER(true, false, true, 2) },
			0, 2 },
	{ "where all fail the leader keeps what it has",
			{ RACER(true, false, false, 9), RACER(true, false, false, 4) }, 0, 0 },
	{ "an answer goes before the disk's",
			{ RACER(true, false, false, 0), RACER(true, false, true, 4) }, 0, 1 },
	{ "a leader that is gone leads no more",
			{ RACER(true, false, true, 9), RACER(true, false, true, 4) }, 7, 1 },
};

static void a_race_goes_as_the_table_says(void **state)
{
	(void) state;
	for (size_t i = 0; i < sizeof(races) / sizeof(*races); i++) {
		print_message("%s\n", races[i].what);
		assert_int_equal(merge_race(races[i].racers, 3, races[i].leader), races[i].wanted);
	}
}

static void a_race_takes_all_of_its_leader(void **state)
{
	const struct merge_rules rules = { .policy = MERGE_RACE, .leader = 1 };
	struct usher_endpoints *feeds[2] = { set_of("a b"), set_of("c") };
	struct merged m;

	(void) state;
	assert_ok(merge(&rules, feeds, 2, &m));
	assert_string_equal(ids_of(m.endpoints), "c");
	assert_int_equal(m.only, 1);
	merged_done(&m);
	(void) usher_endpoints_unref(feeds[0]);
	(void) usher_endpoints_unref(feeds[1]);
}

static int merge_two(void *userdata)
{
	struct usher_endpoints **feeds = userdata;
	struct merged m;
	const struct merge_rules rules = { .policy = MERGE_UNION, .decides = { 1u << MERGE_ZONE } };
	int r = merge(&rules, feeds, 2, &m);

	if (r < 0)
		return r;
	merged_done(&m);
	return memory_is_short() ? -ENOMEM : 0;
}

static void merging_survives_the_lack_of_memory(void **state)
{
	struct usher_endpoints *feeds[2] = { set_of("a b"), set_of("b*2 c") };

	(void) state;
	assert_survives_oom(merge_two, feeds);
	(void) usher_endpoints_unref(feeds[0]);
	(void) usher_endpoints_unref(feeds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sources_merge_as_the_table_says),
		cmocka_unit_test(a_merged_endpoint_keeps_every_field),
		cmocka_unit_test(a_source_decides_what_it_is_asked_to),
		cmocka_unit_test(a_source_that_knows_no_zone_leaves_it_to_the_others),
		cmocka_unit_test(nobody_disagrees_about_what_is_decided),
		cmocka_unit_test(it_decides_of_its_address_too_whatever_the_id),
		cmocka_unit_test(only_those_that_show_an_endpoint_decide_about_it),
		cmocka_unit_test(a_race_goes_as_the_table_says),
		cmocka_unit_test(a_race_takes_all_of_its_leader),
		cmocka_unit_test(merging_survives_the_lack_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
