/* What plug-ins may rely on: their options are parsed by their table, with the messages of the
 * daemon's own keys. */

#include <math.h>

#include "plugin-options.h"
#include "test.h"

#define MAIN "/etc/usher/usher.yaml"

struct instance {
	const char *path;
	const char *name;
	bool follow;
	int64_t count;
	uint64_t interval;
	double share, factor;
	uint64_t size;
	int format;
	const char *const *tags;
	const struct usher_node *rules;
	const char *token;
};

#define AT(field) offsetof(struct instance, field)

static const char *const formats[] = { "auto", "usher", "kubernetes", NULL };
static const struct usher_option table[] = {
	{ "path", USHER_OPTION_PATH, AT(path), USHER_REQUIRED, "The file or folder to read." },
	{ "name", USHER_OPTION_STRING, AT(name), 0, "A name.", "{id}: a" },
	{ "follow", USHER_OPTION_BOOL, AT(follow), 0, "Whether to follow.", "true" },
	{ "count", USHER_OPTION_INTEGER, AT(count), 0, "How many.", "3", 1, 10 },
	{ "interval", USHER_OPTION_DURATION, AT(interval), 0, "How often.", "5s" },
	{ "share", USHER_OPTION_SHARE, AT(share), 0, "How much.", "10%" },
	{ "factor", USHER_OPTION_SHARE, AT(factor), 0, "How many times.", "140%", 100, 1000 },
	{ "size", USHER_OPTION_SIZE, AT(size), 0, "How large.", "64k" },
	{ "format", USHER_OPTION_CHOICE, AT(format), 0, "Which format.", "usher", 0, 0, formats },
	{ "tags", USHER_OPTION_STRINGS, AT(tags), 0, "Which tags.", "[a, b]" },
	{ "rules", USHER_OPTION_NODE, AT(rules), 0, "Anything else." },
	{ "token", USHER_OPTION_STRING, AT(token), USHER_SECRET, "Proves who asks." },
	{},
};

/* A configuration of one source, with these options. */
struct given {
	struct usher_document *document;
	const struct usher_node *options, *place;
};

static void give(struct given *g, const char *options)
{
	struct usher_error err = {};
	const struct usher_node *source;
	char text[1024];

	(void) snprintf(text, sizeof(text), "sources:\n  - plugin: file\n    options: %s\n",
			options);
	if (usher_document_parse(MAIN, text, strlen(text), &g->document, &err) < 0)
		fail_msg("%s", err.text);
	source = usher_node_at(usher_node_get(usher_document_root(g->document), "sources"), 0);
	g->options = usher_node_get(source, "options");
	g->place = usher_node_get(source, "plugin");
}

static void assert_refused(const char *options, int code, const char *expected)
{
	struct plugin_options *owned = NULL;
	struct instance instance = {};
	struct usher_error err = {};
	struct given g;

	give(&g, options);
	assert_errno(plugin_options_parse(table, sizeof(*table), g.options, g.place, &instance,
				     &owned, &err),
			code);
	assert_string_equal(err.text, expected);
	assert_null(owned);
	usher_document_unref(g.document);
}

static void what_is_absent_has_its_default(void **state)
{
	struct plugin_options *owned = NULL;
	struct instance instance = {};
	struct usher_error err = {};
	struct given g;

	(void) state;
	give(&g, "{path: /srv}");
	assert_ok(plugin_options_parse(
			table, sizeof(*table), g.options, g.place, &instance, &owned, &err));
	usher_document_unref(g.document);
	assert_string_equal(instance.path, "/srv");
	assert_string_equal(instance.name, "{id}: a");
	assert_true(instance.follow);
	assert_int_equal(instance.count, 3);
	assert_int_equal(instance.interval, 5000000);
	assert_true(fabs(instance.share - 0.1) < 1e-9);
	assert_true(fabs(instance.factor - 1.4) < 1e-9);
	assert_int_equal(instance.size, 65536);
	assert_int_equal(instance.format, 1);
	assert_string_equal(instance.tags[0], "a");
	assert_string_equal(instance.tags[1], "b");
	assert_null(instance.tags[2]);
	assert_null(instance.rules);
	assert_null(instance.token);
	assert_null(plugin_options_free(owned));
}

static void every_type_is_read_and_lives_as_long_as_the_options(void **state)
{
	struct plugin_options *owned = NULL;
	struct instance instance = {};
	struct given g;

	(void) state;
	give(&g,
			"{path: /a, name: b, follow: false, count: 10, interval: 1m30s, share: 2.5%,"
			" size: 1G, format: kubernetes, tags: one, rules: {x: [1]}, token: s3cret}");
	assert_ok(plugin_options_parse(
			table, sizeof(*table), g.options, g.place, &instance, &owned, NULL));
	usher_document_unref(g.document);
	assert_string_equal(instance.name, "b");
	assert_false(instance.follow);
	assert_int_equal(instance.count, 10);
	assert_int_equal(instance.interval, 90000000);
	assert_true(fabs(instance.share - 0.025) < 1e-9);
	assert_int_equal(instance.size, 1 << 30);
	assert_int_equal(instance.format, 2);
	assert_string_equal(instance.tags[0], "one");
	assert_null(instance.tags[1]);
	assert_int_equal(usher_node_count(usher_node_get(instance.rules, "x")), 1);
	assert_string_equal(instance.token, "s3cret");
	plugin_options_free(owned);
}

static void messages_name_the_place_the_path_and_what_is_right(void **state)
{
	(void) state;
	assert_refused("{pth: /srv}", EINVAL,
			MAIN
			":3:15: sources[0].options: unknown key \"pth\"; did you mean \"path\"?");
	assert_refused("{path: /srv, colour: red}", EINVAL,
			MAIN
			":3:27: sources[0].options: unknown key \"colour\"; known are path, name, follow, count, interval, share, factor, size, format, tags, rules and token");
	assert_refused("{name: a}", EINVAL,
			MAIN
			":2:13: sources[0].plugin: file needs the option \"path\": The file or folder to read.");
	assert_refused("{path: srv}", EINVAL,
			MAIN
			":3:21: sources[0].options.path: \"srv\" is not an absolute path; start it with /");
	assert_refused("{path: [a]}", EINVAL,
			MAIN ":3:21: sources[0].options.path: expected a text, got a list");
	assert_refused("{path: /a, count: 11}", ERANGE,
			MAIN ":3:32: sources[0].options.count: 11 is not in 1..10");
	assert_refused("{path: /a, factor: 99%}", ERANGE,
			MAIN ":3:33: sources[0].options.factor: share 99% is not in 100%..1000%");
	assert_refused("{path: /a, interval: 5}", EINVAL,
			MAIN
			":3:35: sources[0].options.interval: \"5\" is not a duration; write a number and a unit, such as 250ms, 5s or 2m");
	assert_refused("{path: /a, format: kubernets}", EINVAL,
			MAIN
			":3:33: sources[0].options.format: \"kubernets\" is not a choice; did you mean \"kubernetes\"?");
	assert_refused("{path: /a, format: xml}", EINVAL,
			MAIN
			":3:33: sources[0].options.format: \"xml\" is not a choice; there are auto, usher and kubernetes");
	assert_refused("{path: /a, tags: {b: c}}", EINVAL,
			MAIN
			":3:31: sources[0].options.tags: must be a text or a list of texts, not a map");
	assert_refused("{path: /a, tags: [b, [c]]}", EINVAL,
			MAIN ":3:35: sources[0].options.tags[1]: expected a text, got a list");
}

static void a_secret_is_in_no_message(void **state)
{
	static const struct usher_option secret[] = {
		{ "pin", USHER_OPTION_INTEGER, 0, USHER_SECRET, "The number that opens." }, {}
	};
	struct plugin_options *owned = NULL;
	struct usher_error err = {};
	int64_t pin = 0;
	struct given g;

	(void) state;
	give(&g, "{pin: hunter2}");
	assert_errno(plugin_options_parse(secret, sizeof(*secret), g.options, g.place, &pin, &owned,
				     &err),
			EINVAL);
	assert_string_equal(err.text,
			MAIN
			":3:20: sources[0].options.pin: is not of the kind that this option takes (its value is a secret and not shown): The number that opens.");
	usher_document_unref(g.document);
}

static void no_options_and_no_place_are_fine_where_nothing_is_required(void **state)
{
	struct plugin_options *owned = NULL;
	struct instance instance = {};
	struct usher_error err = {};

	(void) state;
	assert_ok(plugin_options_parse(
			table + 1, sizeof(*table), NULL, NULL, &instance, &owned, &err));
	assert_int_equal(instance.count, 3);
	plugin_options_free(owned);
	owned = NULL;
	assert_ok(plugin_options_parse(NULL, sizeof(*table), NULL, NULL, NULL, &owned, &err));
	plugin_options_free(owned);
	owned = NULL;
	assert_errno(plugin_options_parse(
				     table, sizeof(*table), NULL, NULL, &instance, &owned, &err),
			EINVAL);
	assert_string_equal(err.text,
			"the plug-in needs the option \"path\": The file or folder to read.");
}

static void a_plugin_without_options_takes_none(void **state)
{
	struct plugin_options *owned = NULL;
	struct usher_error err = {};
	struct given g;

	(void) state;
	give(&g, "{a: b}");
	assert_errno(plugin_options_parse(
				     NULL, sizeof(*table), g.options, g.place, NULL, &owned, &err),
			EINVAL);
	assert_string_equal(err.text,
			MAIN ":3:15: sources[0].options: unknown key \"a\"; none is known here");
	usher_document_unref(g.document);
}

static void the_hosts_own_word_is_looked_past(void **state)
{
	struct plugin_options *owned = NULL;
	struct instance instance = {};
	struct given g;

	(void) state;
	give(&g, "{count: 4, on_empty: fail}");
	assert_ok(plugin_options_parse(
			table + 1, sizeof(*table), g.options, g.place, &instance, &owned, NULL));
	assert_int_equal(instance.count, 4);
	plugin_options_free(owned);
	usher_document_unref(g.document);
}

/* Rows as a plug-in of a later minor has them. */
struct longer_option {
	struct usher_option option;
	uint64_t added;
};

/* Rows as an earlier host might have had them: up to the default. */
struct shorter_option {
	const char *name;
	enum usher_option_type type;
	size_t offset;
	unsigned flags;
	const char *help;
	const char *default_text;
};

static void rows_of_another_size_are_read_by_their_stride(void **state)
{
	static const struct longer_option longer[] = {
		{ { "count", USHER_OPTION_INTEGER, AT(count), 0, "How many.", "3" }, 7 },
		{ { "interval", USHER_OPTION_DURATION, AT(interval), 0, "How often.", "5s" }, 7 },
		{},
	};
	static const struct shorter_option shorter[] = {
		{ "count", USHER_OPTION_INTEGER, AT(count), 0, "How many.", "1000" },
		{ "interval", USHER_OPTION_DURATION, AT(interval), 0, "How often.", "6s" },
		{},
	};
	struct plugin_options *owned = NULL;
	struct instance instance = {};

	(void) state;
	assert_ok(plugin_options_parse((const struct usher_option *) (const void *) longer,
			sizeof(*longer), NULL, NULL, &instance, &owned, NULL));
	assert_int_equal(instance.count, 3);
	assert_int_equal(instance.interval, 5000000);
	plugin_options_free(owned);
	owned = NULL;
	assert_ok(plugin_options_parse((const struct usher_option *) (const void *) shorter,
			sizeof(*shorter), NULL, NULL, &instance, &owned, NULL));
	assert_int_equal(instance.count, 1000);
	assert_int_equal(instance.interval, 6000000);
	plugin_options_free(owned);
}

static void a_default_that_does_not_parse_is_the_plugins_fault(void **state)
{
	static const struct usher_option wrong[] = {
		{ "count", USHER_OPTION_INTEGER, AT(count), 0, "How many.", "many" }, {}
	};
	struct plugin_options *owned = NULL;
	struct instance instance = {};
	struct usher_error err = {};

	(void) state;
	assert_errno(plugin_options_parse(
				     wrong, sizeof(*wrong), NULL, NULL, &instance, &owned, &err),
			EINVAL);
	assert_string_equal(err.text,
			"the plug-in's option \"count\": default:1:1: expected a whole number, got \"many\"");
}

static int parse_with_failing_memory(void *userdata)
{
	struct plugin_options *owned = NULL;
	struct instance instance = {};
	const struct given *g = userdata;
	int r = plugin_options_parse(
			table, sizeof(*table), g->options, g->place, &instance, &owned, NULL);

	plugin_options_free(owned);
	return r;
}

static void every_failing_allocation_is_survived(void **state)
{
	struct given g;

	(void) state;
	give(&g, "{path: /a, rules: [x]}");
	assert_survives_oom(parse_with_failing_memory, &g);
	usher_document_unref(g.document);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_absent_has_its_default),
		cmocka_unit_test(every_type_is_read_and_lives_as_long_as_the_options),
		cmocka_unit_test(messages_name_the_place_the_path_and_what_is_right),
		cmocka_unit_test(a_secret_is_in_no_message),
		cmocka_unit_test(no_options_and_no_place_are_fine_where_nothing_is_required),
		cmocka_unit_test(a_plugin_without_options_takes_none),
		cmocka_unit_test(the_hosts_own_word_is_looked_past),
		cmocka_unit_test(rows_of_another_size_are_read_by_their_stride),
		cmocka_unit_test(a_default_that_does_not_parse_is_the_plugins_fault),
		cmocka_unit_test(every_failing_allocation_is_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
