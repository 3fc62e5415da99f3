#include <sys/stat.h>
#include <unistd.h>
#include <usher/document.h>

#include "test.h"

static struct usher_document *parse(const char *text)
{
	struct usher_document *d = NULL;
	struct usher_error err = {};

	if (usher_document_parse("f.yaml", text, strlen(text), &d, &err) < 0)
		fail_msg("%s", err.text);
	return d;
}

static void assert_refused(const char *text, const char *message)
{
	struct usher_document *d = NULL;
	struct usher_error err = {};

	assert_true(usher_document_parse("f.yaml", text, strlen(text), &d, &err) < 0);
	assert_string_equal(err.text, message);
	assert_null(d);
}

static void every_value_knows_where_it_stands(void **state)
{
	struct usher_document *d = parse("a:\n  - x\n  - {b: 1}\n");
	const struct usher_node *list = usher_node_get(usher_document_root(d), "a");
	const struct usher_node *b = usher_node_get(usher_node_at(list, 1), "b");

	(void) state;
	assert_int_equal(usher_node_kind(list), USHER_NODE_LIST);
	assert_int_equal(usher_node_count(list), 2);
	assert_string_equal(usher_node_text(b), "1");
	assert_int_equal(usher_node_line(b), 3);
	assert_int_equal(usher_node_column(b), 9);
	usher_document_unref(d);
}

static void json_is_read_as_well(void **state)
{
	struct usher_document *d = parse("{\"a\": [1, \"t\\u00e9\", null, true],\n\t\"b\": {}}");
	const struct usher_node *list = usher_node_get(usher_document_root(d), "a");

	(void) state;
	assert_string_equal(usher_node_text(usher_node_at(list, 1)), "t\u00e9");
	assert_int_equal(usher_node_kind(usher_node_at(list, 2)), USHER_NODE_NULL);
	assert_int_equal(usher_node_kind(usher_node_get(usher_document_root(d), "b")),
			USHER_NODE_MAP);
	usher_document_unref(d);
}

static void an_empty_text_has_nothing_at_its_root(void **state)
{
	struct usher_document *d = parse("# only a comment\n");

	(void) state;
	assert_int_equal(usher_node_kind(usher_document_root(d)), USHER_NODE_NULL);
	usher_document_unref(d);
}

static void what_could_mean_two_things_is_refused(void **state)
{
	(void) state;
	assert_refused("a: 1\nb: 2\na: 3\n",
			"f.yaml:3:1: key \"a\" stands twice in one map; the first is in line 1");
	assert_refused("a: &x 1\n", "f.yaml:1:4: anchors (&NAME) are not supported");
	assert_refused("a: *x\n", "f.yaml:1:4: aliases (*NAME) are not supported");
	assert_refused("a: !!int 1\n", "f.yaml:1:4: tags (!NAME) are not supported");
	assert_refused("a: 1\n---\nb: 2\n",
			"f.yaml:2:1: a second document begins here; one file holds one");
	assert_refused("? [a]\n: 1\n", "f.yaml:1:3: a key must be a text");
	assert_refused("a: \"x\\0y\"\n", "f.yaml:1:4: a text contains a NUL byte");
}

static void what_is_no_yaml_is_refused_with_its_place(void **state)
{
	struct usher_document *d = NULL;
	struct usher_error err = {};

	(void) state;
	assert_errno(usher_document_parse("f.yaml", "a: [1\nb: 2", 10, &d, &err), EBADMSG);
	assert_non_null(strstr(err.text, "f.yaml:2:"));
	assert_errno(usher_document_parse("f.yaml", "a: \xff\xfe", 5, &d, &err), EBADMSG);
	assert_non_null(strstr(err.text, "not UTF-8"));
}

static void nesting_has_a_maximum(void **state)
{
	char text[2 * (USHER_DOCUMENT_DEPTH_MAX + 1) + 1];

	(void) state;
	memset(text, '[', sizeof(text));
	memset(text + USHER_DOCUMENT_DEPTH_MAX + 1, ']', USHER_DOCUMENT_DEPTH_MAX + 1);
	text[sizeof(text) - 1] = 0;
	assert_refused(text, "f.yaml:1:65: values are nested too deeply");
}

static void trees_are_compared_by_what_they_hold(void **state)
{
	struct usher_document *a = parse("{x: 1, y: [a, {b: c}]}");
	struct usher_document *b = parse("y:\n- a\n- b: c\nx: 1\n");
	struct usher_document *c = parse("{x: 1, y: [a, {b: d}]}");

	(void) state;
	assert_true(usher_node_equal(usher_document_root(a), usher_document_root(b)));
	assert_false(usher_node_equal(usher_document_root(a), usher_document_root(c)));
	usher_document_unref(a);
	usher_document_unref(b);
	usher_document_unref(c);
}

static void durations_are_numbers_with_units(void **state)
{
	static const struct {
		const char *text;
		int64_t usec; /* < 0: refused */
	} cases[] = {
		{ "0", 0 },
		{ "250ms", 250000 },
		{ "5s", 5000000 },
		{ "1.5s", 1500000 },
		{ "2m", 120000000 },
		{ "1m30s", 90000000 },
		{ "1h", 3600000000 },
		{ "10us", 10 },
		{ "5", -EINVAL },
		{ "-5s", -EINVAL },
		{ "5 s", -EINVAL },
		{ "s", -EINVAL },
		{ "", -EINVAL },
		{ "5x", -EINVAL },
		{ "1.s", -EINVAL },
		{ "999999999999999999d", -EINVAL },
		{ "106751991d5h", -ERANGE },
	};

	(void) state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint64_t usec = 0;
		int r = usher_duration_parse(cases[i].text, &usec);

		assert_int_equal(r, cases[i].usec < 0 ? cases[i].usec : 0);
		assert_int_equal(usec, cases[i].usec < 0 ? 0 : cases[i].usec);
	}
}

static void a_duration_is_written_in_its_shortest_exact_form(void **state)
{
	char text[USHER_DURATION_TEXT_MAX];

	(void) state;
	assert_string_equal(usher_duration_format(0, text), "0s");
	assert_string_equal(usher_duration_format(90000000, text), "1m30s");
	assert_string_equal(usher_duration_format(250000, text), "250ms");
	assert_string_equal(usher_duration_format(86400000000, text), "1d");
	assert_true(strlen(usher_duration_format(UINT64_MAX, text)) < sizeof(text));
}

static void a_value_of_the_wrong_type_is_refused_with_its_place(void **state)
{
	struct usher_document *d = parse("{i: \"1\", s: 10, b: yes, d: 5, n: [1]}");
	const struct usher_node *root = usher_document_root(d);
	struct usher_error err = {};
	uint64_t usec;
	int64_t integer;
	double share;
	bool boolean;

	(void) state;
	assert_errno(usher_node_integer(usher_node_get(root, "i"), 0, 9, &integer, &err), EINVAL);
	assert_string_equal(err.text, "f.yaml:1:5: expected a whole number, got \"1\"");
	assert_errno(usher_node_integer(usher_node_get(root, "s"), 0, 9, &integer, &err), ERANGE);
	assert_string_equal(err.text, "f.yaml:1:13: 10 is not in 0..9");
	assert_errno(usher_node_share(usher_node_get(root, "s"), &share, &err), EINVAL);
	assert_string_equal(err.text,
			"f.yaml:1:13: \"10\" is not a share; write a percentage, such as 10%");
	assert_errno(usher_node_bool(usher_node_get(root, "b"), &boolean, &err), EINVAL);
	assert_string_equal(err.text, "f.yaml:1:20: expected true or false, got \"yes\"");
	assert_errno(usher_node_duration(usher_node_get(root, "d"), &usec, &err), EINVAL);
	assert_errno(usher_node_integer(usher_node_get(root, "n"), 0, 9, &integer, &err), EINVAL);
	assert_string_equal(err.text, "f.yaml:1:34: expected a whole number, got a list");
	usher_document_unref(d);
}

static void sizes_and_shares_are_read(void **state)
{
	struct usher_document *d = parse("[64k, 8M, 512, 2.5%, 100%]");
	const struct usher_node *root = usher_document_root(d);
	uint64_t bytes;
	double share;

	(void) state;
	assert_ok(usher_node_size(usher_node_at(root, 0), &bytes, NULL));
	assert_int_equal(bytes, 65536);
	assert_ok(usher_node_size(usher_node_at(root, 1), &bytes, NULL));
	assert_int_equal(bytes, 8 << 20);
	assert_ok(usher_node_size(usher_node_at(root, 2), &bytes, NULL));
	assert_int_equal(bytes, 512);
	assert_ok(usher_node_share(usher_node_at(root, 3), &share, NULL));
	assert_true(share > 0.02499 && share < 0.02501);
	assert_ok(usher_node_share(usher_node_at(root, 4), &share, NULL));
	assert_true(share == 1.0);
	usher_document_unref(d);
}

static void a_percentage_may_be_more_than_the_whole(void **state)
{
	struct usher_document *d = parse("[140%, 99.5%, 1000.5%, 140]");
	const struct usher_node *root = usher_document_root(d);
	struct usher_error err = {};
	double factor;

	(void) state;
	assert_ok(usher_node_percent(usher_node_at(root, 0), 100, 1000, &factor, NULL));
	assert_true(factor == 1.4);
	assert_errno(usher_node_percent(usher_node_at(root, 1), 100, 1000, &factor, &err), ERANGE);
	assert_string_equal(err.text, "f.yaml:1:8: share 99.5% is not in 100%..1000%");
	assert_errno(usher_node_percent(usher_node_at(root, 2), 100, 1000, &factor, NULL), ERANGE);
	assert_errno(usher_node_percent(usher_node_at(root, 3), 100, 1000, &factor, NULL), EINVAL);
	usher_document_unref(d);
}

static void the_nearest_word_is_near(void **state)
{
	static const char *const words[] = { "path", "format", "interval", NULL };

	(void) state;
	assert_string_equal(usher_nearest_word("pth", words), "path");
	assert_string_equal(usher_nearest_word("fromat", words), "format");
	assert_string_equal(usher_nearest_word("intervall", words), "interval");
	assert_null(usher_nearest_word("zone", words));
	assert_null(usher_nearest_word("", words));
}

static void what_is_no_file_is_not_read(void **state)
{
	struct usher_document *d = NULL;
	struct usher_error err = {};

	(void) state;
	assert_errno(usher_document_load("/nonexistent/f.yaml", &d, &err), ENOENT);
	assert_string_equal(err.text,
			"/nonexistent/f.yaml: cannot be opened: No such file or directory");
	assert_errno(usher_document_load("/dev/null", &d, &err), EINVAL);
	assert_errno(usher_document_load("/", &d, &err), EINVAL);
}

static int parse_a_document(void *userdata)
{
	static const char text[] = "a: [1, 2, {b: c}]\nd: e\n";
	struct usher_document *d = NULL;
	int r = usher_document_parse("f.yaml", text, sizeof(text) - 1, &d, NULL);

	(void) userdata;
	usher_document_unref(d);
	return r;
}

static void running_out_of_memory_is_an_answer(void **state)
{
	(void) state;
	assert_survives_oom(parse_a_document, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_value_knows_where_it_stands),
		cmocka_unit_test(json_is_read_as_well),
		cmocka_unit_test(an_empty_text_has_nothing_at_its_root),
		cmocka_unit_test(what_could_mean_two_things_is_refused),
		cmocka_unit_test(what_is_no_yaml_is_refused_with_its_place),
		cmocka_unit_test(nesting_has_a_maximum),
		cmocka_unit_test(trees_are_compared_by_what_they_hold),
		cmocka_unit_test(durations_are_numbers_with_units),
		cmocka_unit_test(a_duration_is_written_in_its_shortest_exact_form),
		cmocka_unit_test(a_value_of_the_wrong_type_is_refused_with_its_place),
		cmocka_unit_test(sizes_and_shares_are_read),
		cmocka_unit_test(a_percentage_may_be_more_than_the_whole),
		cmocka_unit_test(the_nearest_word_is_near),
		cmocka_unit_test(what_is_no_file_is_not_read),
		cmocka_unit_test(running_out_of_memory_is_an_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
