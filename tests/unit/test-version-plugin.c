/* The stage version: what a version and a range are, where the one that is asked for comes from,
 * and who stays. */

#include "compiled-stage.h"
#include "range.h"

/* ---- versions ---- */

static void read_all(const char *text, struct version *ret)
{
	struct fault fault;

	if (!version_read(text, ret, &fault))
		fail_msg("%s: expected %s at %zu", text, fault.expected,
				(size_t) (fault.at - text));
}

/* The rows "api-version-parse" of the conformance vectors for Spring Cloud LoadBalancer (basis:
 * upstream run), but for the errors. */
static void a_version_is_read_as_the_vectors_have_it(void **state)
{
	static const struct {
		const char *number, *text;
		uint32_t part[3];
	} rows[] = {
		{ "01", "1", { 1, 0, 0 } },
		{ "02", "1.0", { 1, 0, 0 } },
		{ "04", "v1.0", { 1, 0, 0 } },
		{ "05", "V2", { 2, 0, 0 } },
		{ "07", "01.002.3", { 1, 2, 3 } },
		{ "the greatest number", "2147483647", { 2147483647, 0, 0 } },
		{ "a sign in front", "-1", { 1, 0, 0 } },
		{ "a blank in front", " 1.0", { 1, 0, 0 } },
		{ "a word in front", "release-2.1", { 2, 1, 0 } },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS_OF(rows); i++) {
		struct version v;

		print_message("api-version-parse-%s\n", rows[i].number);
		read_all(rows[i].text, &v);
		assert_memory_equal(v.part, rows[i].part, sizeof(v.part));
		assert_int_equal(v.pre.length, 0);
	}
}

/* The errors of the same rows, and what is none to Spring, but no version either. */
static void what_is_no_version_is_refused_with_the_place(void **state)
{
	static const struct {
		const char *number, *text, *fault;
	} rows[] = {
		{ "08", "1.2.3.4", "\"1.2.3.4\" is wrong at character 6: expected the end" },
		{ "10", "1.0-SNAPSHOT",
				"\"1.0-SNAPSHOT\" is wrong at character 4: expected \".\" and a "
				"number, or the end" },
		{ "11", "1.0 ",
				"\"1.0 \" is wrong at character 4: expected \".\" and a number, or "
				"the end" },
		{ "13", "", "\"\" ends too early: expected a version, as in 1, 1.0 or 1.2.3" },
		{ "14", "abc",
				"\"abc\" ends too early: expected a version, as in 1, 1.0 or "
				"1.2.3" },
		{ "16", "1..2", "\"1..2\" is wrong at character 3: expected a number" },
		{ "17", "1.", "\"1.\" ends too early: expected a number" },
		{ "19", "2147483648",
				"\"2147483648\" is wrong at character 1: expected a number up to "
				"2147483647" },
		{ "20", "\357\274\2211.0",
				"\"\357\274\2211.0\" is wrong at character 1: expected a version, "
				"as in 1, 1.0 or 1.2.3" },
		{ "a range", "1.x", "\"1.x\" is wrong at character 3: expected a number" },
		{ "a sign", ">=1",
				"\">=1\" is wrong at character 1: expected a version, as in 1, "
				"1.0 or 1.2.3" },
		{ "no pre-release", "1.0.0-",
				"\"1.0.0-\" ends too early: expected letters, digits or \"-\", as "
				"in 1.0.0-rc.1" },
		{ "an empty word", "1.0.0-a..b",
				"\"1.0.0-a..b\" is wrong at character 9: expected letters, digits "
				"or \"-\", as in 1.0.0-rc.1" },
		{ "no build", "1.0.0+",
				"\"1.0.0+\" ends too early: expected letters, digits or "
				"\"-\", as in 1.0.0-rc.1" },
		{ "many digits", "1.99999999999999999999999999",
				"\"1.99999999999999999999999999\" is wrong at character 3: "
				"expected a number up to 2147483647" },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS_OF(rows); i++) {
		struct version v;
		struct fault fault;
		char text[160];

		print_message("api-version-parse-%s\n", rows[i].number);
		assert_false(version_read(rows[i].text, &v, &fault));
		fault_describe(&fault, text, sizeof(text));
		assert_string_equal(text, rows[i].fault);
	}
}

static bool is_in(const char *version, const char *range)
{
	struct version v;
	struct range r;
	struct fault fault;
	char text[160];

	read_all(version, &v);
	if (!range_read(range, &r, &fault)) {
		fault_describe(&fault, text, sizeof(text));
		fail_msg("%s", text);
	}
	return range_fits(&r, &v) == RANGE_YES;
}

/* The rows "api-version-compare" of the same vectors, and the order of pre-releases that
 * https://semver.org shows in 11.4. A range that names the version itself takes it also when it is
 * a pre-release. */
static void versions_are_ordered(void **state)
{
	static const struct {
		const char *number, *left, *right;
		int order;
	} rows[] = {
		{ "01", "1", "1.0.0", 0 },
		{ "02", "1.0", "1.0.1", -1 },
		{ "04", "1.10", "1.9", 1 },
		{ "05", "2", "10", -1 },
		{ "semver 1", "1.0.0-alpha", "1.0.0-alpha.1", -1 },
		{ "semver 2", "1.0.0-alpha.1", "1.0.0-alpha.beta", -1 },
		{ "semver 3", "1.0.0-alpha.beta", "1.0.0-beta", -1 },
		{ "semver 4", "1.0.0-beta", "1.0.0-beta.2", -1 },
		{ "semver 5", "1.0.0-beta.2", "1.0.0-beta.11", -1 },
		{ "semver 6", "1.0.0-beta.11", "1.0.0-rc.1", -1 },
		{ "semver 7", "1.0.0-rc.1", "1.0.0", -1 },
		{ "long numbers", "1.0.0-9999999999999999999999", "1.0.0-10000000000000000000000",
				-1 },
		{ "zeros in front", "1.0.0-007", "1.0.0-7", 0 },
		{ "the build does not count", "1.0.0+1", "1.0.0+2.x", 0 },
		{ "the build behind a pre-release", "1.0.0-a+1", "1.0.0-a", 0 },
		{ "a hyphen within", "1.0.0-a-b", "1.0.0-a", 1 },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS_OF(rows); i++) {
		char before[128], after[128];

		print_message("api-version-compare-%s\n", rows[i].number);
		assert_int_equal(is_in(rows[i].left, rows[i].right), rows[i].order == 0);
		assert_int_equal(is_in(rows[i].right, rows[i].left), rows[i].order == 0);
		(void) snprintf(before, sizeof(before), "<%s >=%s", rows[i].right, rows[i].left);
		(void) snprintf(after, sizeof(after), ">%s <=%s", rows[i].right, rows[i].left);
		assert_int_equal(is_in(rows[i].left, before), rows[i].order < 0);
		assert_int_equal(is_in(rows[i].left, after), rows[i].order > 0);
	}
}

/* ---- ranges ---- */

/* The examples of https://github.com/npm/node-semver#ranges, and their edges: the last version
 * before, the first, the last, and the first one behind. */
static void a_range_is_what_node_semver_says(void **state)
{
	static const struct {
		const char *range, *in, *out; /* versions, with a blank between */
	} rows[] = {
		{ ">=1.2.7", "1.2.7 1.2.8 2.5.3 1.3.9", "1.2.6 1.1.0" },
		{ ">=1.2.7 <1.3.0", "1.2.7 1.2.8 1.2.99", "1.2.6 1.3.0 1.1.0" },
		{ "1.2.7 || >=1.2.9 <2.0.0", "1.2.7 1.2.9 1.4.6", "1.2.8 2.0.0" },
		{ ">1.2.3-alpha.3", "1.2.3-alpha.7 1.2.3 3.4.5", "1.2.3-alpha.3 3.4.5-alpha.9" },
		{ "1.2.3 - 2.3.4", "1.2.3 2.3.4 2.0.0", "1.2.2 2.3.5" },
		{ "1.2 - 2.3.4", "1.2.0 2.3.4", "1.1.9 2.3.5" },
		{ "1.2.3 - 2.3", "1.2.3 2.3.99", "1.2.2 2.4.0 2.4.0-0" },
		{ "1.2.3 - 2", "1.2.3 2.99.99", "1.2.2 3.0.0 3.0.0-0" },
		{ "1.2.3 - x", "1.2.3 99.0.0", "1.2.2" },
		{ "x - 2", "0.0.0 2.99.0", "3.0.0" },
		{ "* - *", "0.0.0 9.9.9", "9.9.9-rc" },
		{ "1.2.3-a - 1.2.3-c", "1.2.3-a 1.2.3-b 1.2.3-c", "1.2.3 1.2.3-d" },
		{ "*", "0.0.0 9.9.9", "1.0.0-rc.1" },
		{ "x", "0.0.0 9.9.9", "1.0.0-rc.1" },
		{ "1.x", "1.0.0 1.99.99", "0.99.99 2.0.0 2.0.0-0" },
		{ "1.X.3", "1.0.0 1.99.99", "0.99.99 2.0.0" },
		{ "1.2.x", "1.2.0 1.2.99", "1.1.99 1.3.0" },
		{ "1.2.*", "1.2.0 1.2.99", "1.1.99 1.3.0" },
		{ "~1.2.3", "1.2.3 1.2.99", "1.2.2 1.3.0" },
		{ "~1.2", "1.2.0 1.2.99", "1.1.99 1.3.0" },
		{ "~1.2.x", "1.2.0 1.2.99", "1.1.99 1.3.0" },
		{ "~1", "1.0.0 1.99.99", "0.99.99 2.0.0" },
		{ "~0.2.3", "0.2.3 0.2.99", "0.2.2 0.3.0" },
		{ "~0", "0.0.0 0.99.0", "1.0.0" },
		{ "~1.2.3-beta.2", "1.2.3-beta.2 1.2.3-beta.4 1.2.3 1.2.99",
				"1.2.3-beta.1 1.2.4-beta.2 1.3.0" },
		{ "~>1.2", "1.2.0 1.2.99", "1.3.0" },
		{ "~*", "0.0.0 9.9.9", "1.0.0-rc.1" },
		{ "^1.2.3", "1.2.3 1.99.99", "1.2.2 2.0.0 2.0.0-0" },
		{ "^0.2.3", "0.2.3 0.2.99", "0.2.2 0.3.0" },
		{ "^0.0.3", "0.0.3", "0.0.2 0.0.4" },
		{ "^0.0.0", "0.0.0", "0.0.1" },
		{ "^1.2.3-beta.2", "1.2.3-beta.2 1.2.3-beta.4 1.2.3 1.9.0",
				"1.2.3-beta.1 1.2.4-beta.2 2.0.0" },
		{ "^0.0.3-beta", "0.0.3-beta 0.0.3-pr.2 0.0.3", "0.0.3-alpha 0.0.4" },
		{ "^1.2.x", "1.2.0 1.99.0", "1.1.99 2.0.0" },
		{ "^0.0.x", "0.0.0 0.0.99", "0.1.0" },
		{ "^0.0", "0.0.0 0.0.99", "0.1.0" },
		{ "^1.x", "1.0.0 1.99.0", "0.99.0 2.0.0" },
		{ "^0.x", "0.0.0 0.99.0", "1.0.0" },
		{ "^x", "0.0.0 9.9.9", "1.0.0-rc.1" },
		{ ">1", "2.0.0 2.0.1", "1.0.0 1.99.99" },
		{ ">1.2", "1.3.0", "1.2.0 1.2.99" },
		{ ">1.2.x", "1.3.0", "1.2.0 1.2.99" },
		{ "<=1", "0.0.0 1.99.99", "2.0.0 2.0.0-0" },
		{ "<=1.2", "1.2.99 0.0.0", "1.3.0 1.3.0-0" },
		{ "<1", "0.99.99", "1.0.0 1.0.0-0" },
		{ "<1.2.3", "1.2.2", "1.2.3 1.2.3-rc" },
		{ "<1.2.3-rc", "1.2.3-beta 1.2.2", "1.2.3-rc 1.2.3 1.2.2-rc" },
		{ ">=1", "1.0.0 9.0.0", "0.99.99" },
		{ ">=*", "0.0.0 9.9.9", "1.0.0-rc.1" },
		{ "<=*", "0.0.0 9.9.9", "1.0.0-rc.1" },
		{ ">*", "", "0.0.0 9.9.9" },
		{ "<x", "", "0.0.0 9.9.9" },
		{ ">=1.2 <2 || ^3", "1.2.0 1.99.0 3.0.0 3.9.9", "1.1.0 2.0.0 2.9.9 4.0.0" },
		{ ">2147483647", "", "2147483647.2147483647.2147483647" },
		/* blanks, and a "v" in front of a number */
		{ " >= 1.2  <\t2", "1.2.0 1.9.9", "1.1.0 2.0.0" },
		{ "^ v1.2 ||=V3.0.0", "1.2.0 3.0.0", "2.0.0 3.0.1" },
		{ "1.2||3.x", "1.2.0 3.9.9", "1.3.0 2.0.0" },
		/* Unlike there, a version without a sign is no range. */
		{ "1", "1.0.0 1", "1.0.1 1.1.0 2.0.0" },
		{ "=1.2", "1.2.0", "1.2.1" },
		{ "v1.2 || 2", "1.2.0 2.0.0", "1.2.1 2.1.0" },
		{ "1.0.0-rc.1", "1.0.0-rc.1", "1.0.0-rc.2 1.0.0" },
		{ "1.0.0+build", "1.0.0 1.0.0+other", "1.0.1" },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS_OF(rows); i++) {
		char in[128], out[128], *rest = NULL;

		(void) snprintf(in, sizeof(in), "%s", rows[i].in);
		(void) snprintf(out, sizeof(out), "%s", rows[i].out);
		for (char *v = strtok_r(in, " ", &rest); v; v = strtok_r(NULL, " ", &rest))
			if (!is_in(v, rows[i].range))
				fail_msg("%s is not in %s", v, rows[i].range);
		for (char *v = strtok_r(out, " ", &rest); v; v = strtok_r(NULL, " ", &rest))
			if (is_in(v, rows[i].range))
				fail_msg("%s is in %s", v, rows[i].range);
	}
}

static void what_is_no_range_is_refused_with_the_place(void **state)
{
	static const struct {
		const char *text, *fault;
	} rows[] = {
		{ "", "\"\" ends too early: expected a version, as in 1.0, ^1.2 or 1.x" },
		{ " ", "\" \" is wrong at character 1: expected no blank at the end" },
		{ "1.0 ", "\"1.0 \" is wrong at character 4: expected no blank at the end" },
		{ "latest", "\"latest\" is wrong at character 1: expected a version" },
		{ "^", "\"^\" ends too early" },
		{ "1.0 ||", "\"1.0 ||\" ends too early" },
		{ "|| 1.0", "is wrong at character 1" },
		{ "1.0 | 2.0", "is wrong at character 5: expected \"||\" or the end" },
		{ "1.0 || || 2.0", "is wrong at character 8" },
		{ ">=1.0<2", "is wrong at character 6: expected a blank, \"||\" or the end" },
		{ ">=1.0, <2", "is wrong at character 6" },
		{ "1.2.3.4", "is wrong at character 6" },
		{ "1.x-rc", "is wrong at character 4" },
		{ "1.2 -2.3", "is wrong at character 5" },
		{ "1.2 - ", "\"1.2 - \" is wrong at character 6: expected no blank at the end" },
		{ "1.2 - 2.3 3", "is wrong at character 11: expected \"||\" or the end" },
		{ "^1.2 - 2.3", "is wrong at character 6" },
		{ "1.x.", "\"1.x.\" ends too early: expected a number" },
		{ "1.x.2147483648", "is wrong at character 5: expected a number up to 2147483647" },
		{ ">==1", "is wrong at character 3" },
		{ "^^1", "is wrong at character 2" },
		{ "vv1.x", "is wrong at character 2" },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS_OF(rows); i++) {
		struct range r;
		struct fault fault;
		char text[160];

		if (range_read(rows[i].text, &r, &fault))
			fail_msg("\"%s\" is read", rows[i].text);
		fault_describe(&fault, text, sizeof(text));
		if (!strstr(text, rows[i].fault))
			fail_msg("\"%s\": %s", rows[i].text, text);
	}
}

static void a_range_has_so_many_bounds_and_no_more(void **state)
{
	char text[8 * RANGE_BOUNDS_MAX] = "^1.0";
	struct range r;
	struct fault fault;

	(void) state;
	for (size_t i = 1; i < RANGE_BOUNDS_MAX / 2; i++)
		strcat(text, " ^1.0");
	assert_true(range_read(text, &r, &fault));
	assert_int_equal(r.count, RANGE_BOUNDS_MAX);
	strcat(text, " 1.x");
	assert_false(range_read(text, &r, &fault));
	assert_string_equal(fault.expected, "a range of at most 32 bounds");
}

/* ---- the stage ---- */

/* The rows "api-version-filter" of the conformance vectors for Spring Cloud LoadBalancer (basis:
 * upstream run), as far as a version comes from a header, or from the request itself: the rows
 * whose version a client finds in the query, the path or a media type (16 to 25) it passes on as
 * `version`. What is an error to Spring (10, 11, 16, 22) matches nothing here. A fallback to all
 * (04) is on_empty's. */
static void version_answers_as_the_vectors_do(void **state)
{
	static const struct labelled three[] = { { "A", "1.0" }, { "B", "2.0" }, { "C", NULL },
		{} };
	static const struct labelled malformed[] = { { "A", "1.0" }, { "X", "latest" }, {} };
	static const struct labelled without[] = { { "C", NULL }, {} };
	static const struct {
		const char *number, *options;
		const struct labelled *endpoints;
		const char *header, *version; /* NULL: none */
		const char *expected;
	} rows[] = {
		{ "01", "{}", three, "1.0", NULL, "A" },
		{ "02", "{}", three, "v2", NULL, "B" },
		{ "04", "{}", three, "3", NULL, "" },
		{ "05", "{}", three, NULL, NULL, "" },
		{ "07", "{default: '1.0'}", three, NULL, NULL, "A" },
		{ "08", "{}", three, NULL, NULL, "" },
		{ "10", "{}", three, "latest", NULL, "" },
		{ "11", "{default: '1.0'}", three, "", NULL, "" },
		{ "13", "{}", malformed, NULL, NULL, "" },
		{ "13, asked for", "{}", malformed, "1", NULL, "A" },
		{ "14", "{header: ''}", three, "1.0", NULL, "" },
		{ "17", "{default: '1'}", three, NULL, NULL, "A" },
		{ "19", "{}", three, NULL, "2", "B" },
		{ "20", "{}", three, NULL, "v2", "B" },
		{ "22", "{default: '1'}", three, NULL, "items", "" },
		{ "23", "{}", three, NULL, "2", "B" },
		{ "25", "{default: '1'}", three, NULL, NULL, "A" },
		{ "26", "{default: '2'}", three, NULL, NULL, "B" },
		{ "28", "{}", without, "1", NULL, "" },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS_OF(rows); i++) {
		const struct usher_label header = { "X-API-Version", rows[i].header };
		const struct usher_request request = { .size = sizeof(request),
			.version = rows[i].version,
			.headers = &header,
			.header_count = rows[i].header ? 1 : 0 };
		struct compiled_stage s;
		struct labelled_set l;

		print_message("api-version-filter-%s\n", rows[i].number);
		assert_ok(compiled_stage_init(&s, rows[i].options, NULL));
		labelled_set_init(&l, "API_VERSION", rows[i].endpoints);
		assert_string_equal(kept_ids(&s, &l, &request), rows[i].expected);
		labelled_set_done(&l);
		compiled_stage_done(&s);
	}
}

/* The greatest numbers that a mark holds, greater ones, and more versions than are kept in mind. */
static void version_tells_apart_what_no_mark_holds(void **state)
{
	static const struct labelled endpoints[LABELLED_MAX] = { { "a", "2097151.2097151.2097151" },
		{ "b", "2097152" }, { "c", "0.2097152.0" }, { "d", "2147483647.0.2147483647" },
		{ "e", "1.0.0" }, { "f", "1.0.0-1" }, { "g", "1.0.0-rc.1" }, { "h", "0" },
		{ "i", "none" }, { "j", NULL }, { "k", "" }, { "l", "0.0.1" }, { "m", "1.0.0+b" },
		{ "n", "0.1" }, { "o", "2" }, { "p", "3" } };
	static const struct {
		const char *version, *expected;
	} rows[] = {
		{ "2097151.2097151.2097151", "a" },
		{ "2097152", "b" },
		{ ">2097151.0.0", "a b d" },
		{ "0.2097152", "c" },
		{ "~2147483647", "d" },
		{ "1", "e m" },
		{ "1.0.0-1", "f" },
		{ ">=1.0.0-1 <2", "e f g m" },
		{ "0", "h" },
		{ "0.x", "c h l n" },
		{ "*", "a b c d e h l m n o p" },
		{ "<0", "" },
	};
	struct compiled_stage s;
	struct labelled_set l;

	(void) state;
	assert_ok(compiled_stage_init(&s, "{}", NULL));
	labelled_set_init(&l, "API_VERSION", endpoints);
	for (size_t i = 0; i < ELEMENTS_OF(rows); i++) {
		const struct usher_request request = { .size = sizeof(request),
			.version = rows[i].version };

		print_message("%s\n", rows[i].version);
		assert_string_equal(kept_ids(&s, &l, &request), rows[i].expected);
	}
	labelled_set_done(&l);
	compiled_stage_done(&s);
}

/* a 1.0, b 1.2.5, c 2.0.0-rc.1, d has none, e has one that is none, f 2.0 */
static const struct labelled mixed[] = { { "a", "1.0" }, { "b", "v1.2.5" }, { "c", "2.0.0-rc.1" },
	{ "d", NULL }, { "e", "newest" }, { "f", "2.0" }, {} };

static void version_says_what_is_asked_for_and_by_whom(void **state)
{
	static const struct {
		const char *options, *version, *header, *expected, *told;
	} rows[] = {
		{ "{}", "^1.0", "2.0", "a b",
				"asked for is ^1.0; 1 cannot be read in label API_VERSION" },
		{ "{}", "", "2.0", "f",
				"asked for is 2.0, from header X-API-Version; 1 cannot be read in "
				"label API_VERSION" },
		{ "{default: 1.x}", NULL, NULL, "a b",
				"asked for is 1.x, by default; 1 cannot be read in label "
				"API_VERSION" },
		{ "{default: 1.x}", ">=2.0.0-rc.0", NULL, "c f",
				"asked for is >=2.0.0-rc.0; 1 cannot be read in label "
				"API_VERSION" },
		{ "{default: 1.x, label: other}", NULL, NULL, "", "asked for is 1.x, by default" },
		{ "{default: 1.x, header: ''}", NULL, "2.0", "a b",
				"asked for is 1.x, by default; 1 cannot be read in label "
				"API_VERSION" },
		{ "{header: X-V}", NULL, "2.0", "",
				"no version is asked for, and there is no default" },
		{ "{default: 1.x}", "2,0", NULL, "",
				"the version that is asked for cannot be read: \"2,0\" is wrong at "
				"character 2: expected a blank, \"||\" or the end" },
		{ "{default: 1.x}", NULL, "", "",
				"the version that is asked for cannot be read: \"\" ends too "
				"early: expected a version, as in 1.0, ^1.2 or 1.x" },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS_OF(rows); i++) {
		const struct usher_label header = { "x-api-version", rows[i].header };
		const struct usher_request request = { .size = sizeof(request),
			.version = rows[i].version,
			.headers = &header,
			.header_count = rows[i].header ? 1 : 0 };
		struct compiled_stage s;
		struct labelled_set l;

		print_message("row %zu\n", i);
		assert_ok(compiled_stage_init(&s, rows[i].options, NULL));
		labelled_set_init(&l, "API_VERSION", mixed);
		assert_string_equal(kept_ids(&s, &l, &request), rows[i].expected);
		assert_string_equal(told(&s, &l, &request), rows[i].told);
		labelled_set_done(&l);
		compiled_stage_done(&s);
	}
}

static void version_says_why_an_endpoint_is_left_out(void **state)
{
	static const struct {
		const char *version, *id, *why;
	} rows[] = {
		{ "2.x", "a", "version 1.0, asked for is 2.x" },
		{ "2.x", "d", "has no label API_VERSION, asked for is 2.x" },
		{ "2.x", "e",
				"label API_VERSION cannot be read: \"newest\" ends too early: "
				"expected a version, as in 1, 1.0 or 1.2.3" },
		{ "2.0", "c", "version 2.0.0-rc.1, asked for is 2.0" },
		{ "<3", "c", "2.0.0-rc.1 is a pre-release, and <3 names none of that version" },
		{ "", "a", "no version is asked for, and there is no default" },
		{ "?", "a",
				"the version that is asked for cannot be read: \"?\" is wrong at "
				"character 1: expected a version, as in 1.0, ^1.2 or 1.x" },
	};
	struct compiled_stage s;
	struct labelled_set l;

	(void) state;
	assert_ok(compiled_stage_init(&s, "{}", NULL));
	labelled_set_init(&l, "API_VERSION", mixed);
	for (size_t i = 0; i < ELEMENTS_OF(rows); i++) {
		const struct usher_request request = { .size = sizeof(request),
			.version = rows[i].version };

		assert_string_equal(why_left(&s, &l, &request, rows[i].id), rows[i].why);
	}
	labelled_set_done(&l);
	compiled_stage_done(&s);
}

static void version_is_strict_and_refuses_options_that_cannot_be_meant(void **state)
{
	static const struct {
		const char *options, *text;
	} rows[] = {
		{ "{default: latest}",
				"default \"latest\" is wrong at character 1: expected a version, "
				"as in 1.0, ^1.2 or 1.x; a version is written as \"1.0\", a range "
				"as" },
		{ "{default: ''}", "default \"\" ends too early" },
		{ "{default: '>=1.0<2'}", "is wrong at character 6" },
		{ "{label: ''}", "label is empty: name the label" },
		{ "{header: 'X Version'}", "header \"X Version\" is no name of a header" },
	};

	(void) state;
	assert_int_equal(usher_plugin.stage->flags, USHER_STAGE_STRICT);
	assert_true(usher_plugin.stage->looks_at_request);
	for (size_t i = 0; i < ELEMENTS_OF(rows); i++) {
		struct compiled_stage s;
		struct usher_error err = {};

		assert_errno(compiled_stage_init(&s, rows[i].options, &err), EINVAL);
		if (!strstr(err.text, rows[i].text))
			fail_msg("%s: %s", rows[i].options, err.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_version_is_read_as_the_vectors_have_it),
		cmocka_unit_test(what_is_no_version_is_refused_with_the_place),
		cmocka_unit_test(versions_are_ordered),
		cmocka_unit_test(a_range_is_what_node_semver_says),
		cmocka_unit_test(what_is_no_range_is_refused_with_the_place),
		cmocka_unit_test(a_range_has_so_many_bounds_and_no_more),
		cmocka_unit_test(version_answers_as_the_vectors_do),
		cmocka_unit_test(version_tells_apart_what_no_mark_holds),
		cmocka_unit_test(version_says_what_is_asked_for_and_by_whom),
		cmocka_unit_test(version_says_why_an_endpoint_is_left_out),
		cmocka_unit_test(version_is_strict_and_refuses_options_that_cannot_be_meant),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
