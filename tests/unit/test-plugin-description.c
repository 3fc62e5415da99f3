/* What a plug-in says of itself: structs of other sizes, and contradictions. */

#include "ownership.h"
#include "plugin-description.h"
#include "test.h"

static const struct elf_abi abi = { USHER_ABI_MAJOR, USHER_ABI_MINOR };

static int run(void *instance, struct usher_source *source)
{
	(void) instance;
	(void) source;
	return 0;
}

static size_t filter(const void *instance, const struct usher_view *view,
		const struct usher_request *request, uint32_t *candidates, size_t count)
{
	(void) instance;
	(void) view;
	(void) request;
	(void) candidates;
	return count;
}

static void explain(const void *instance, const struct usher_view *view,
		const struct usher_request *request, uint32_t candidate, char *ret_text,
		size_t size)
{
	(void) instance;
	(void) view;
	(void) request;
	(void) candidate;
	(void) snprintf(ret_text, size, "because");
}

static size_t run_stage(
		const void *instance, struct usher_pass *pass, uint32_t *candidates, size_t count)
{
	(void) instance;
	(void) pass;
	(void) candidates;
	return count;
}

static ssize_t pick(const void *instance, const void *prepared, const struct usher_view *view,
		const struct usher_request *request, const uint32_t *candidates, size_t count)
{
	(void) instance;
	(void) prepared;
	(void) view;
	(void) request;
	(void) candidates;
	return (ssize_t) count - 1;
}

static double share(const void *instance, const struct usher_view *view, const uint32_t *candidates,
		size_t count, size_t position)
{
	(void) instance;
	(void) view;
	(void) candidates;
	return position + 1 == count;
}

static void report(const void *instance, void *slot, const struct usher_report *report)
{
	(void) instance;
	(void) slot;
	(void) report;
}

static const struct usher_discovery discovery = { .size = sizeof(discovery), .run = run };

struct instance {
	const char *path;
	bool flag;
};

static struct usher_plugin plugin_new(void)
{
	return (struct usher_plugin){
		.size = sizeof(struct usher_plugin),
		.abi_major = USHER_ABI_MAJOR,
		.abi_minor = USHER_ABI_MINOR,
		.option_size = sizeof(struct usher_option),
		.name = "some",
		.instance_size = sizeof(struct instance),
		.discovery = &discovery,
	};
}

static void assert_refused(const struct usher_plugin *plugin, const char *text)
{
	struct plugin_description description;
	struct usher_error err = {};

	assert_errno(plugin_description_read(plugin, "some", &abi, &description, &err), EINVAL);
	assert_string_equal(err.text, text);
}

static void a_shorter_struct_is_read_as_far_as_it_goes(void **state)
{
	struct plugin_description description;
	struct usher_plugin plugin = plugin_new();

	(void) state;
	plugin.size = offsetof(struct usher_plugin, registration);
	plugin.stage = (const void *) 1; /* beyond its size: whatever lies in memory there */
	assert_ok(plugin_description_read(&plugin, "some", &abi, &description, NULL));
	assert_int_equal(description.plugin.size, sizeof(struct usher_plugin));
	assert_ptr_equal(description.plugin.discovery, &description.discovery);
	assert_null(description.plugin.registration);
	assert_null(description.plugin.stage);
	assert_null(description.plugin.selector);
	assert_string_equal(description.plugin.version, "1.0");
	assert_string_equal(description.plugin.summary, "");
}

static void a_shorter_facet_lacks_what_it_does_not_cover(void **state)
{
	const struct usher_stage stage = {
		.size = offsetof(struct usher_stage, explain),
		.filter = filter,
		.explain = explain,
	};
	struct usher_plugin plugin = plugin_new();

	(void) state;
	plugin.stage = &stage;
	assert_refused(&plugin, "offers a stage without the function explain");
}

static void a_facet_without_a_size_is_as_long_as_in_1_0(void **state)
{
	const struct usher_discovery unsaid = { .run = run };
	struct plugin_description description;
	struct usher_plugin plugin = plugin_new();

	(void) state;
	plugin.discovery = &unsaid;
	assert_ok(plugin_description_read(&plugin, "some", &abi, &description, NULL));
	assert_ptr_equal(description.plugin.discovery->run, run);
	assert_int_equal(description.plugin.discovery->size, sizeof(unsaid));
}

static uint64_t renew_after(const void *instance)
{
	(void) instance;
	return 0;
}

static int remove_it(void *instance, const struct usher_wanted *service, const char *id,
		struct usher_error *reterr)
{
	(void) instance;
	(void) service;
	(void) id;
	(void) reterr;
	return 0;
}

static void a_registration_of_1_0_does_not_say_when_it_is_to_be_renewed(void **state)
{
	const struct usher_registration older = { .remove = remove_it,
		.renew_after_usec = renew_after };
	struct plugin_description description;
	struct usher_plugin plugin = plugin_new();

	(void) state;
	plugin.registration = &older; /* without a size */
	assert_ok(plugin_description_read(&plugin, "some", &abi, &description, NULL));
	assert_ptr_equal(description.plugin.registration->remove, remove_it);
	assert_null(description.plugin.registration->renew_after_usec);
}

static void a_longer_struct_of_the_same_abi_is_a_contradiction(void **state)
{
	const struct usher_discovery longer = { .size = sizeof(longer) + 8, .run = run };
	struct usher_plugin plugin = plugin_new();

	(void) state;
	plugin.discovery = &longer;
	assert_refused(&plugin,
			"says ABI 1.1, but its struct usher_discovery has 24 bytes; there it has 16");
}

static void a_struct_that_is_longer_than_in_the_minor_it_names_is_a_contradiction(void **state)
{
	static const struct elf_abi oldest = { USHER_ABI_MAJOR, 0 };
	const struct usher_stage stage = {
		.size = sizeof(stage), .filter = filter, .explain = explain
	};
	struct plugin_description description;
	struct usher_plugin plugin = plugin_new();
	struct usher_error err = {};

	(void) state;
	plugin.abi_minor = 0;
	plugin.stage = &stage;
	assert_errno(plugin_description_read(&plugin, "some", &oldest, &description, &err), EINVAL);
	assert_string_equal(err.text,
			"says ABI 1.0, but its struct usher_stage has 72 bytes; there it has 32");
}

static void a_stage_may_run_in_place_of_filtering(void **state)
{
	const struct usher_stage stage = {
		.size = sizeof(stage), .run = run_stage, .explain = explain
	};
	struct plugin_description description;
	struct usher_plugin plugin = plugin_new();

	(void) state;
	plugin.stage = &stage;
	assert_ok(plugin_description_read(&plugin, "some", &abi, &description, NULL));
	assert_ptr_equal(description.stage.run, run_stage);
	assert_null(description.stage.filter);
}

static void flags_and_slots_that_this_minor_does_not_have_are_refused(void **state)
{
	const struct usher_stage stage = {
		.size = sizeof(stage), .filter = filter, .explain = explain, .flags = 1u << 20
	};
	struct usher_selector selector = { .size = sizeof(selector),
		.pick = pick,
		.share = share,
		.slot_size = USHER_SLOT_MAX + 8 };
	struct usher_plugin plugin = plugin_new();

	(void) state;
	plugin.stage = &stage;
	assert_refused(&plugin,
			"offers a stage with the flags 0x100000, not all of which ABI 1.1 has");
	plugin.stage = NULL;
	plugin.selector = &selector;
	assert_refused(&plugin, "asks for slots of 72 bytes an endpoint; the most is 64");
	selector.slot_size = 0;
	selector.report = report;
	assert_refused(&plugin,
			"offers a selector with the function report and without slots to learn in");
	selector.slot_size = 8;
	selector.flags = 1u << 9;
	assert_refused(&plugin,
			"offers a selector with the flags 0x200, not all of which ABI 1.1 has");
}

static void a_note_that_says_otherwise_is_a_contradiction(void **state)
{
	struct usher_plugin plugin = plugin_new();

	(void) state;
	plugin.abi_minor = 4;
	assert_refused(&plugin,
			"contradicts itself: its note says ABI 1.1, its usher_plugin says 1.4");
}

static void a_plug_in_that_offers_nothing_is_refused(void **state)
{
	struct usher_plugin plugin = plugin_new();

	(void) state;
	plugin.discovery = NULL;
	assert_refused(&plugin, "offers nothing: neither discovery, a stage nor a selector");
}

static void incomplete_facets_are_named(void **state)
{
	const struct usher_selector selector = { .size = sizeof(selector) };
	const struct usher_registration registration = { .size = sizeof(registration) };
	struct usher_plugin plugin = plugin_new();

	(void) state;
	plugin.selector = &selector;
	assert_refused(&plugin, "offers a selector without the function pick");
	plugin = plugin_new();
	plugin.registration = &registration;
	assert_refused(&plugin,
			"offers registration without any of its functions (add, renew, set_state, "
			"remove, progress)");
	plugin.discovery = NULL;
	assert_refused(&plugin, "offers registration without discovery, which it belongs to");
}

static void options_that_cannot_be_are_refused(void **state)
{
	static const struct {
		struct usher_option option;
		const char *text;
	} cases[] = {
		{ { .name = "far", .type = USHER_OPTION_STRING, .offset = 16 },
				"its option far lies outside the instance (8 bytes at 16, the instance "
				"has 16)" },
		{ { .name = "odd", .type = USHER_OPTION_STRING, .offset = 3 },
				"its option odd lies at 3 in the instance, which is no place for 8 "
				"bytes" },
		{ { .name = "new", .type = (enum usher_option_type) 99 },
				"its option new has the type 99, which ABI 1.1 does not have" },
		{ { .name = "which", .type = USHER_OPTION_CHOICE },
				"its option which has nothing to choose from" },
	};

	(void) state;
	for (size_t i = 0; i < ELEMENTS(cases); i++) {
		const struct usher_option table[] = { cases[i].option, {} };
		struct usher_plugin plugin = plugin_new();

		plugin.options = table;
		assert_refused(&plugin, cases[i].text);
	}
}

static void an_option_twice_is_refused(void **state)
{
	static const struct usher_option table[] = {
		{ .name = "path", .type = USHER_OPTION_PATH },
		{ .name = "path", .type = USHER_OPTION_BOOL, .offset = 8 },
		{},
	};
	struct usher_plugin plugin = plugin_new();

	(void) state;
	plugin.options = table;
	assert_refused(&plugin, "has the option path twice");
}

static void a_table_without_an_end_is_refused(void **state)
{
	static struct usher_option table[PLUGIN_OPTIONS_MAX + 1];
	static char names[PLUGIN_OPTIONS_MAX + 1][8];
	struct usher_plugin plugin = plugin_new();

	(void) state;
	for (size_t i = 0; i < ELEMENTS(table); i++) {
		(void) snprintf(names[i], sizeof(names[i]), "o%zu", i);
		table[i].name = names[i];
	}
	plugin.options = table;
	assert_refused(&plugin, "its table of options has no end within 256 rows");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_shorter_struct_is_read_as_far_as_it_goes),
		cmocka_unit_test(a_shorter_facet_lacks_what_it_does_not_cover),
		cmocka_unit_test(a_facet_without_a_size_is_as_long_as_in_1_0),
		cmocka_unit_test(a_registration_of_1_0_does_not_say_when_it_is_to_be_renewed),
		cmocka_unit_test(a_longer_struct_of_the_same_abi_is_a_contradiction),
		cmocka_unit_test(
				a_struct_that_is_longer_than_in_the_minor_it_names_is_a_contradiction),
		cmocka_unit_test(a_stage_may_run_in_place_of_filtering),
		cmocka_unit_test(flags_and_slots_that_this_minor_does_not_have_are_refused),
		cmocka_unit_test(a_note_that_says_otherwise_is_a_contradiction),
		cmocka_unit_test(a_plug_in_that_offers_nothing_is_refused),
		cmocka_unit_test(incomplete_facets_are_named),
		cmocka_unit_test(options_that_cannot_be_are_refused),
		cmocka_unit_test(an_option_twice_is_refused),
		cmocka_unit_test(a_table_without_an_end_is_refused),
	};

	return cmocka_run_group_tests_name("plugin-description", tests, NULL, NULL);
}
