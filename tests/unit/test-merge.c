/* Several sources, one set. */

#include "endpoint-sets.h"
#include "merge.h"

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
	assert_ok(merge(c->policy, feeds, c->count, &m));
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

	assert_ok(merge(MERGE_UNION, feeds, 2, &m));
	assert_true(usher_endpoints_same(m.endpoints, 0, feeds[1], 0));
	assert_true(usher_endpoints_same(m.endpoints, 1, feeds[0], 0));

	merged_done(&m);
	(void) usher_endpoints_unref(feeds[0]);
	(void) usher_endpoints_unref(feeds[1]);
}

static int merge_two(void *userdata)
{
	struct usher_endpoints **feeds = userdata;
	struct merged m;
	int r = merge(MERGE_UNION, feeds, 2, &m);

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
		cmocka_unit_test(merging_survives_the_lack_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
