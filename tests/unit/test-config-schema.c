/* What is made from the tables stands in the tree as the tables have it: the schema, and the
 * reference in the documentation. USHER_UPDATE=1 in the environment writes them anew. */

#include "config.h"
#include "ownership.h"
#include "test.h"
#include "text.h"

#define TREE  USHER_TREE "/"
#define BEGIN "<!-- reference: made from the tables of usherd -->\n"
#define END   "<!-- end of reference -->\n"

static char *read_file(const char *path)
{
	cleanup(fclosep) FILE *f = fopen(path, "re");
	struct text text = {};
	char piece[4096];
	size_t size;

	if (!f)
		return strdup("");
	while ((size = fread(piece, 1, sizeof(piece), f)) > 0)
		text_add(&text, piece, size);
	return text_take(&text);
}

static void write_file(const char *path, const char *content)
{
	cleanup(fclosep) FILE *f = fopen(path, "we");

	assert_non_null(f);
	assert_true(fputs(content, f) >= 0);
}

static void assert_file_is(const char *path, const char *expected)
{
	autofree char *found = NULL;

	if (getenv("USHER_UPDATE")) /* NOLINT(concurrency-mt-unsafe): one thread */
		write_file(path, expected);
	found = read_file(path);
	assert_non_null(found);
	if (strcmp(found, expected) != 0)
		fail_msg("%s is not what the tables give; run this test with USHER_UPDATE=1", path);
}

/* The file, with what stands between the marks replaced. */
static void assert_file_refers(const char *path, enum config_reference_style style)
{
	autofree char *found = read_file(path), *reference = config_reference(style),
		      *expected = NULL;
	const char *begin = strstr(found, BEGIN), *end = strstr(found, END);
	struct text text = {};

	assert_non_null(reference);
	assert_non_null(begin);
	assert_true(end && end > begin);
	begin += strlen(BEGIN);
	text_add(&text, found, (size_t) (begin - found));
	text_add_format(&text, "\n%s", reference);
	text_add_string(&text, end);
	expected = text_take(&text);
	assert_non_null(expected);
	assert_file_is(path, expected);
}

static void the_schema_in_the_tree_is_that_of_the_tables(void **state)
{
	autofree char *schema = config_schema();
	struct text text = {};
	autofree char *expected = NULL;

	(void) state;
	assert_non_null(schema);
	text_add_format(&text, "%s\n", schema);
	expected = text_take(&text);
	assert_file_is(TREE "api/usher.schema.json", expected);
}

static void the_references_in_the_documentation_are_those_of_the_tables(void **state)
{
	(void) state;
	assert_file_refers(TREE "docs/configuration.md", CONFIG_REFERENCE_TABLE);
	assert_file_refers(TREE "docs/man/usher.yaml.5.md", CONFIG_REFERENCE_MANUAL);
}

static void the_installed_default_loads(void **state)
{
	struct config *c = NULL;
	struct usher_error err = {};

	(void) state;
	if (config_load(TREE "packaging/usher.yaml", &c, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(c->source_count, 1);
	config_unref(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_schema_in_the_tree_is_that_of_the_tables),
		cmocka_unit_test(the_references_in_the_documentation_are_those_of_the_tables),
		cmocka_unit_test(the_installed_default_loads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
