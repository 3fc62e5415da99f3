/* Plug-in files as people break them: each is refused in words of its own, and no code of it runs.
 */

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader.h"
#include "ownership.h"
#include "plugin-instance.h"
#include "test.h"

#define TRACE "USHER_TEST_TRACE" /* set by the constructor of each test plug-in */

struct folder {
	char path[64];
	struct plugins *plugins;
};

static void remove_tree(const char *path)
{
	autofree char *command = NULL;

	assert_true(asprintf(&command, "rm -rf '%s'", path) > 0);
	FILE *done = popen(command, "r");

	assert_non_null(done);
	assert_int_equal(pclose(done), 0);
}

static int folder_setup(void **state)
{
	struct folder *f = calloc(1, sizeof(*f));

	(void) snprintf(f->path, sizeof(f->path), "/tmp/usher-plugins-XXXXXX");
	assert_non_null(mkdtemp(f->path));
	assert_int_equal(unsetenv(TRACE), 0);
	*state = f;
	return 0;
}

static int folder_teardown(void **state)
{
	struct folder *f = *state;

	plugins_free(f->plugins);
	remove_tree(f->path);
	free(f);
	return 0;
}

/* "FOLDER/name", valid until the tenth call from now. */
static const char *in(const struct folder *f, const char *name)
{
	static char paths[10][PATH_MAX];
	static unsigned next;
	char *path = paths[next++ % 10];

	(void) snprintf(path, PATH_MAX, "%s/%s", f->path, name);
	return path;
}

static size_t read_file(const char *path, unsigned char **ret)
{
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat status;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &status), 0);
	*ret = malloc((size_t) status.st_size);
	assert_int_equal(read(fd, *ret, (size_t) status.st_size), status.st_size);
	return (size_t) status.st_size;
}

static void write_file(const char *path, const void *bytes, size_t size)
{
	autoclose int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(fchmod(fd, 0644), 0);
	assert_int_equal(write(fd, bytes, size), size);
}

/* A copy of a test plug-in under a name; returns its path. */
static const char *copy_as(const struct folder *f, const char *plugin, const char *name)
{
	autofree unsigned char *bytes = NULL;
	autofree char *from = NULL;
	const char *to = in(f, name);
	size_t size;

	assert_true(asprintf(&from, "%s/%s.so", USHER_TEST_PLUGINS, plugin) > 0);
	size = read_file(from, &bytes);
	write_file(to, bytes, size);
	return to;
}

static const char *copy(const struct folder *f, const char *plugin)
{
	char name[64];

	(void) snprintf(name, sizeof(name), "%s.so", plugin);
	return copy_as(f, plugin, name);
}

/* Change bytes at an offset of a copy. */
static void patch(const char *path, long offset, const void *bytes, size_t size)
{
	autoclose int fd = open(path, O_WRONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, size, offset), size);
}

static long note_offset(const char *path)
{
	static const char name[8] = USHER_NOTE_NAME;
	autofree unsigned char *bytes = NULL;
	size_t size = read_file(path, &bytes);
	const unsigned char *found = memmem(bytes, size, name, sizeof(name));

	assert_non_null(found);
	return found - bytes - (long) offsetof(struct usher_abi_note, name);
}

/* Load FOLDER alone. */
static void load(struct folder *f)
{
	char *dirs[] = { f->path, NULL };

	assert_ok(plugins_new(dirs, &f->plugins));
}

static void assert_refused(struct folder *f, const char *path, const char *words)
{
	struct usher_error err = {};
	struct plugin_info info;

	load(f);
	assert_int_equal(plugins_count(f->plugins), 1);
	plugins_get(f->plugins, 0, &info);
	assert_null(info.loaded);
	assert_non_null(info.refusal);
	assert_int_equal(strncmp(info.refusal, path, strlen(path)), 0);
	if (!strstr(info.refusal, words))
		fail_msg("\"%s\" is not in \"%s\"", words, info.refusal);

	assert_true(plugin_check_file(path, &err) < 0);
	assert_string_equal(err.text, info.refusal);
	assert_null(getenv(TRACE)); /* none of its code has run */
}

/* ---- what is right ---- */

static void a_whole_plug_in_is_loaded_with_all_its_facets(void **state)
{
	const struct usher_plugin *plugin = NULL;
	struct folder *f = *state;
	struct plugin_info info;

	copy(f, "complete");
	load(f);
	assert_ok(plugins_find(f->plugins, "complete", &plugin, NULL));
	assert_string_equal(plugin->name, "complete");
	assert_string_equal(plugin->version, "2.1");
	assert_non_null(plugin->discovery->run);
	assert_non_null(plugin->registration->remove);
	assert_null(plugin->registration->add);
	assert_non_null(plugin->stage->filter);
	assert_non_null(plugin->selector->pick);
	plugins_get(f->plugins, 0, &info);
	assert_ptr_equal(info.loaded, plugin);
	assert_string_equal(info.path, in(f, "complete.so"));
	assert_null(info.refusal);
	assert_ok(plugin_check_file(info.path, NULL));
}

static void other_files_and_missing_folders_are_nothing(void **state)
{
	struct folder *f = *state;
	char *dirs[] = { (char *) (uintptr_t) "/nonexistent/usher", f->path, NULL };

	copy_as(f, "complete", ".complete.so.swp");
	copy_as(f, "complete", ".so");
	copy_as(f, "complete", "complete.so.dpkg-old");
	assert_ok(plugins_new(dirs, &f->plugins));
	assert_int_equal(plugins_count(f->plugins), 0);
}

static void a_link_to_a_trusted_file_is_loaded(void **state)
{
	const struct usher_plugin *plugin = NULL;
	struct folder *f = *state;

	assert_int_equal(mkdir(in(f, "real"), 0755), 0);
	copy_as(f, "complete", "real/complete.so");
	assert_int_equal(symlink("real/complete.so", in(f, "complete.so")), 0);
	load(f);
	assert_ok(plugins_find(f->plugins, "complete", &plugin, NULL));
}

/* ---- who could have written it ---- */

static void a_file_that_others_may_write_is_refused(void **state)
{
	struct folder *f = *state;
	const char *path = copy(f, "complete");

	assert_int_equal(chmod(path, 0666), 0);
	assert_refused(f, path, "others may write it (mode 0666)");
}

static void a_file_that_its_group_may_write_is_refused(void **state)
{
	struct folder *f = *state;
	const char *path = copy(f, "complete");

	assert_int_equal(chmod(path, 0664), 0);
	assert_refused(f, path, "others may write it (mode 0664)");
}

static void a_folder_that_others_may_write_is_refused_sticky_or_not(void **state)
{
	struct folder *f = *state;
	const char *path = copy(f, "complete");

	assert_int_equal(chmod(f->path, 01777), 0);
	assert_refused(f, path, "others may write in the folder");
}

static void a_folder_further_up_that_others_may_write_is_refused(void **state)
{
	struct folder *f = *state;
	const char *path;
	struct usher_error err = {};

	assert_int_equal(mkdir(in(f, "open"), 0755), 0);
	assert_int_equal(chmod(in(f, "open"), 0777), 0);
	assert_int_equal(mkdir(in(f, "open/inner"), 0755), 0);
	path = copy_as(f, "complete", "open/inner/complete.so");
	assert_errno(plugin_check_file(path, &err), EPERM);
	assert_non_null(strstr(err.text, "/open (mode 0777)"));
	assert_null(getenv(TRACE));
}

static void a_link_to_a_file_in_an_open_folder_is_refused(void **state)
{
	struct folder *f = *state;

	assert_int_equal(mkdir(in(f, "open"), 0755), 0);
	assert_int_equal(chmod(in(f, "open"), 0777), 0);
	copy_as(f, "complete", "open/complete.so");
	assert_int_equal(symlink("open/complete.so", in(f, "complete.so")), 0);
	assert_refused(f, in(f, "complete.so"), "others may write in the folder");
}

static void a_file_of_somebody_else_is_refused(void **state)
{
	struct folder *f = *state;
	const char *path = copy(f, "complete");

	if (geteuid() != 0)
		skip();
	assert_int_equal(chown(path, 12345, 0), 0);
	assert_refused(f, path, "belongs to uid 12345");
}

static void what_is_no_regular_file_is_refused(void **state)
{
	struct folder *f = *state;

	assert_int_equal(mkfifo(in(f, "pipe.so"), 0644), 0);
	assert_refused(f, in(f, "pipe.so"), "is no regular file");
}

/* ---- what its bytes say ---- */

static void a_text_file_is_refused(void **state)
{
	struct folder *f = *state;

	write_file(in(f, "text.so"), "#!/bin/sh\n", 10);
	assert_refused(f, in(f, "text.so"), "is no ELF file");
}

static void an_empty_file_is_refused(void **state)
{
	struct folder *f = *state;

	write_file(in(f, "empty.so"), "", 0);
	assert_refused(f, in(f, "empty.so"), "is no ELF file");
}

/* Where the last of what is loaded ends in the file. */
static size_t loaded_end(const unsigned char *bytes)
{
	ElfW(Ehdr) header;
	size_t end = 0;

	memcpy(&header, bytes, sizeof(header));
	for (size_t i = 0; i < header.e_phnum; i++) {
		ElfW(Phdr) segment;

		memcpy(&segment, bytes + header.e_phoff + i * sizeof(segment), sizeof(segment));
		if (segment.p_type == PT_LOAD && segment.p_offset + segment.p_filesz > end)
			end = segment.p_offset + segment.p_filesz;
	}
	return end;
}

static void a_file_cut_short_is_refused_wherever_it_was_cut(void **state)
{
	struct folder *f = *state;
	const char *path = copy(f, "complete");
	autofree unsigned char *bytes = NULL;
	size_t size = read_file(path, &bytes), end = loaded_end(bytes);

	/* What is not loaded comes last and is nobody's business. */
	for (size_t cut = end - 1; cut > sizeof(ElfW(Ehdr)); cut -= 61) {
		struct usher_error err = {};

		assert_int_equal(truncate(path, (off_t) cut), 0);
		assert_true(plugin_check_file(path, &err) < 0);
		assert_non_null(strstr(err.text, path));
	}
	assert_true(size > 0);
	assert_refused(f, path, "is cut short");
}

static void another_machine_is_named(void **state)
{
	const uint16_t machine = EM_S390;
	struct folder *f = *state;
	const char *path = copy(f, "complete");

	patch(path, (long) offsetof(ElfW(Ehdr), e_machine), &machine, sizeof(machine));
	assert_refused(f, path, "built for S/390 (ELF machine 22), this usherd runs on ");
}

static void the_other_word_size_is_named(void **state)
{
	const uint8_t other = sizeof(void *) == 8 ? ELFCLASS32 : ELFCLASS64;
	struct folder *f = *state;
	const char *path = copy(f, "complete");

	patch(path, EI_CLASS, &other, 1);
	assert_refused(f, path, "-bit machine, this usherd is a ");
}

static void a_program_is_no_plug_in(void **state)
{
	const uint16_t type = ET_EXEC;
	struct folder *f = *state;
	const char *path = copy(f, "complete");

	patch(path, (long) offsetof(ElfW(Ehdr), e_type), &type, sizeof(type));
	assert_refused(f, path, "is a program, no shared object; link it with -shared");
}

static void a_library_of_somebody_else_is_refused(void **state)
{
	struct folder *f = *state;

	assert_refused(f, copy(f, "no-note"), "has no plug-in ABI note");
}

static void another_major_is_refused_with_both_numbers(void **state)
{
	const uint32_t major = USHER_ABI_MAJOR + 1;
	struct folder *f = *state;
	const char *path = copy(f, "complete");

	patch(path, note_offset(path) + (long) offsetof(struct usher_abi_note, major), &major,
			sizeof(major));
	assert_refused(f, path, "built for plug-in ABI 2.1, this usherd offers 1.1");
}

static void a_newer_minor_is_refused_with_both_numbers(void **state)
{
	const uint32_t minor = USHER_ABI_MINOR + 1;
	struct folder *f = *state;
	const char *path = copy(f, "complete");

	patch(path, note_offset(path) + (long) offsetof(struct usher_abi_note, minor), &minor,
			sizeof(minor));
	assert_refused(f, path, "built for plug-in ABI 1.2, this usherd offers 1.1");
}

static void one_of_the_oldest_minor_is_taken_and_lacks_what_came_later(void **state)
{
	const struct usher_plugin *plugin;
	struct folder *f = *state;

	(void) copy(f, "oldest");
	load(f);
	assert_ok(plugins_find(f->plugins, "oldest", &plugin, NULL));
	assert_int_equal(plugin->abi_minor, 0);
	assert_true(plugin->stage->looks_at_request);
	assert_non_null(plugin->stage->filter);
	assert_int_equal(plugin->stage->flags, 0);
	assert_null(plugin->stage->needs_request);
	assert_null(plugin->stage->run);
	assert_null(plugin->stage->tell);
	assert_null(plugin->stage->mark);
	assert_non_null(plugin->selector->pick);
	assert_int_equal(plugin->selector->flags, 0);
	assert_int_equal(plugin->selector->slot_size, 0);
	assert_null(plugin->selector->report);
}

static void a_note_of_another_size_is_refused(void **state)
{
	const uint32_t size = 4;
	struct folder *f = *state;
	const char *path = copy(f, "complete");

	patch(path, note_offset(path) + (long) offsetof(struct usher_abi_note, desc_size), &size,
			sizeof(size));
	assert_refused(f, path, "its plug-in ABI note makes no sense");
}

/* ---- what it lacks ---- */

static void a_missing_library_is_told_from_a_missing_file(void **state)
{
	struct folder *f = *state;
	struct usher_error err = {};

	assert_errno(plugin_check_file(in(f, "nobody.so"), &err), ENOENT);
	assert_non_null(strstr(err.text, "nobody.so: there is no such file"));
	assert_refused(f, copy(f, "lonely"),
			"needs the library libusher-test-absent.so, which this machine does not have");
}

static void a_function_that_no_usherd_has_is_named(void **state)
{
	struct folder *f = *state;

	assert_refused(f, copy(f, "undefined"),
			"calls the function usher_source_teleport, which this usherd (plug-in ABI 1.1) "
			"does not have");
}

static void a_symbol_that_nobody_has_is_named(void **state)
{
	struct folder *f = *state;

	assert_refused(f, copy(f, "unlinked"), "needs the symbol registry_client_connect");
}

static void a_missing_constant_is_said(void **state)
{
	struct folder *f = *state;

	assert_refused(f, copy(f, "no-constant"), "does not export the constant usher_plugin");
}

static void a_missing_callback_is_named(void **state)
{
	struct folder *f = *state;

	assert_refused(f, copy(f, "no-run"), "offers discovery without the function run");
}

static void a_name_that_is_not_the_files_is_refused_with_both(void **state)
{
	struct folder *f = *state;

	assert_refused(f, copy(f, "wrong-name"),
			"calls itself \"right-name\", but its file is called wrong-name.so");
}

static void a_plug_ins_own_library_never_stands_in_for_the_host(void **state)
{
	const struct usher_plugin *plugin = NULL;
	struct folder *f = *state;

	copy(f, "second-core");
	load(f);
	assert_ok(plugins_find(f->plugins, "second-core", &plugin, NULL));
	assert_ok(plugin->init(NULL, NULL));
	usher_endpoints_unref(usher_endpoints_new());
	assert_ok(plugin->init(NULL, NULL));
}

/* ---- the registry ---- */

static void the_first_of_a_name_wins_and_the_second_is_refused(void **state)
{
	const struct usher_plugin *plugin = NULL;
	struct folder *f = *state;
	char *dirs[] = { f->path, NULL, NULL };
	struct plugin_info info;

	copy(f, "complete");
	assert_int_equal(mkdir(in(f, "second"), 0755), 0);
	copy_as(f, "complete", "second/complete.so");
	dirs[1] = (char *) (uintptr_t) in(f, "second");
	assert_ok(plugins_new(dirs, &f->plugins));
	assert_int_equal(plugins_count(f->plugins), 2);
	assert_ok(plugins_find(f->plugins, "complete", &plugin, NULL));
	plugins_get(f->plugins, 1, &info);
	assert_null(info.loaded);
	assert_non_null(strstr(info.refusal, "a plug-in of the name complete comes first"));
	assert_non_null(strstr(info.refusal, in(f, "complete.so")));
}

static void an_unknown_name_gets_the_nearest_one(void **state)
{
	const struct usher_plugin *plugin = NULL;
	struct folder *f = *state;
	struct usher_error err = {};

	copy(f, "complete");
	load(f);
	assert_errno(plugins_find(f->plugins, "compleet", &plugin, &err), ENOENT);
	assert_string_equal(err.text, "there is no plug-in compleet; did you mean complete?");
}

static void an_unknown_name_is_told_with_the_folders_that_were_searched(void **state)
{
	const struct usher_plugin *plugin = NULL;
	struct folder *f = *state;
	struct usher_error err = {};
	char expected[512];

	load(f);
	assert_errno(plugins_find(f->plugins, "nothing-like-it", &plugin, &err), ENOENT);
	(void) snprintf(expected, sizeof(expected),
			"no nothing-like-it.so in plugin_dirs, which is %s", f->path);
	assert_non_null(strstr(err.text, expected));
}

static void a_refused_one_is_found_as_refused(void **state)
{
	const struct usher_plugin *plugin = NULL;
	struct folder *f = *state;
	struct usher_error err = {};

	copy(f, "no-note");
	load(f);
	assert_errno(plugins_find(f->plugins, "no-note", &plugin, &err), EINVAL);
	assert_non_null(strstr(err.text, "was refused: "));
	assert_non_null(strstr(err.text, "has no plug-in ABI note"));
}

static void looking_again_finds_new_files_and_mended_ones(void **state)
{
	const struct usher_plugin *plugin = NULL;
	struct folder *f = *state;
	char *dirs[] = { f->path, NULL };
	const char *path = copy(f, "complete");

	assert_int_equal(chmod(path, 0666), 0);
	load(f);
	assert_errno(plugins_find(f->plugins, "complete", &plugin, NULL), EINVAL);
	assert_int_equal(chmod(path, 0644), 0);
	copy(f, "second-core");
	assert_ok(plugins_rescan(f->plugins, dirs));
	assert_ok(plugins_find(f->plugins, "complete", &plugin, NULL));
	assert_ok(plugins_find(f->plugins, "second-core", &plugin, NULL));
}

static void a_corrected_file_of_the_same_path_is_loaded_anew(void **state)
{
	const struct usher_plugin *plugin = NULL;
	struct folder *f = *state;
	char *dirs[] = { f->path, NULL };

	copy_as(f, "no-run", "complete.so");
	load(f);
	assert_errno(plugins_find(f->plugins, "complete", &plugin, NULL), EINVAL);
	copy_as(f, "complete", "complete.so.new");
	assert_int_equal(rename(in(f, "complete.so.new"), in(f, "complete.so")), 0);
	assert_ok(plugins_rescan(f->plugins, dirs));
	assert_ok(plugins_find(f->plugins, "complete", &plugin, NULL));
}

static void a_loaded_file_that_is_replaced_stays_as_it_was_loaded(void **state)
{
	const struct usher_plugin *before = NULL, *after = NULL;
	struct folder *f = *state;
	char *dirs[] = { f->path, NULL };

	copy(f, "complete");
	load(f);
	assert_ok(plugins_find(f->plugins, "complete", &before, NULL));
	copy_as(f, "no-run", "complete.so.new");
	assert_int_equal(rename(in(f, "complete.so.new"), in(f, "complete.so")), 0);
	assert_ok(plugins_rescan(f->plugins, dirs));
	assert_ok(plugins_find(f->plugins, "complete", &after, NULL));
	assert_ptr_equal(before, after);
	assert_non_null(after->discovery->run);
}

static void a_refused_file_that_is_taken_away_is_forgotten(void **state)
{
	struct folder *f = *state;
	char *dirs[] = { f->path, NULL };
	const char *path = copy(f, "no-note");

	load(f);
	assert_int_equal(plugins_count(f->plugins), 1);
	assert_int_equal(unlink(path), 0);
	assert_ok(plugins_rescan(f->plugins, dirs));
	assert_int_equal(plugins_count(f->plugins), 0);
}

static int look_through(void *userdata)
{
	cleanup(plugins_freep) struct plugins *plugins = NULL;

	return plugins_new(userdata, &plugins);
}

static void running_out_of_memory_is_no_refusal(void **state)
{
	struct folder *f = *state;
	char *dirs[] = { f->path, NULL };

	copy(f, "complete");
	copy(f, "no-note");
	assert_survives_oom(look_through, dirs);
}

/* ---- instances ---- */

static struct usher_document *parse(const char *text)
{
	struct usher_document *document = NULL;

	assert_ok(usher_document_parse("usher.yaml", text, strlen(text), &document, NULL));
	return document;
}

/* An instance of `complete` (or another) with the options of a configuration's line. */
static int make_instance(struct folder *f, const char *plugin, enum plugin_facet facet,
		const char *yaml, struct plugin_instance **ret, struct usher_error *reterr)
{
	struct usher_document *document = parse(yaml);
	const struct usher_node *root = usher_document_root(document);
	struct plugin_use use = { .plugin = strdup(plugin), .options = root, .place = root };
	int r;

	r = plugin_instance_new(f->plugins, &use, facet, ret, reterr);
	free(use.plugin);
	usher_document_unref(document); /* the instance holds its own */
	return r;
}

static void an_instance_has_its_options_and_keeps_what_they_point_to(void **state)
{
	struct plugin_instance *instance = NULL;
	struct folder *f = *state;
	const struct {
		const char *path;
		int64_t count;
		char *greeting;
	} * data;

	copy(f, "complete");
	load(f);
	assert_ok(make_instance(
			f, "complete", FACET_STAGE, "{path: /etc/x, count: 7}", &instance, NULL));
	data = instance->data;
	assert_string_equal(data->path, "/etc/x");
	assert_int_equal(data->count, 7);
	assert_string_equal(data->greeting, "hello");
	assert_ptr_equal(plugin_instance_ref(instance), instance);
	plugin_instance_unref(instance);
	plugin_instance_unref(instance);
}

static void what_init_refuses_is_refused_with_its_place(void **state)
{
	struct plugin_instance *instance = NULL;
	struct folder *f = *state;
	struct usher_error err = {};

	copy(f, "complete");
	load(f);
	assert_errno(make_instance(f, "complete", FACET_DISCOVERY, "{path: /etc/x, count: 13}",
				     &instance, &err),
			EINVAL);
	assert_null(instance);
	assert_string_equal(err.text, "usher.yaml:1:1: complete: 13 is no count for /etc/x");
}

static void what_init_says_of_an_option_is_told_with_the_place_of_that_option(void **state)
{
	struct plugin_instance *instance = NULL;
	struct folder *f = *state;
	struct usher_error err = {};

	copy(f, "complete");
	load(f);
	assert_errno(make_instance(f, "complete", FACET_DISCOVERY, "{path: /etc/x, count: 14}",
				     &instance, &err),
			EINVAL);
	assert_string_equal(err.text, "usher.yaml:1:23: count: is not wanted");
}

static void wrong_options_are_refused(void **state)
{
	struct plugin_instance *instance = NULL;
	struct folder *f = *state;
	struct usher_error err = {};

	copy(f, "complete");
	load(f);
	assert_errno(make_instance(f, "complete", FACET_DISCOVERY, "{count: 3}", &instance, &err),
			EINVAL);
	assert_non_null(strstr(err.text, "path"));
	assert_null(instance);
}

static void a_missing_facet_is_refused_and_those_that_have_it_are_named(void **state)
{
	struct plugin_instance *instance = NULL;
	struct folder *f = *state;
	struct usher_error err = {};

	copy(f, "complete");
	copy(f, "second-core");
	load(f);
	assert_errno(make_instance(f, "second-core", FACET_SELECTOR, "{}", &instance, &err),
			EINVAL);
	assert_string_equal(err.text,
			"usher.yaml:1:1: second-core is no selector; selectors are complete");
}

#define loader_test(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* First, those that must leave no trace: a path that was loaded once stays loaded.
		 */
		loader_test(a_file_that_others_may_write_is_refused),
		loader_test(a_file_that_its_group_may_write_is_refused),
		loader_test(a_folder_that_others_may_write_is_refused_sticky_or_not),
		loader_test(a_folder_further_up_that_others_may_write_is_refused),
		loader_test(a_link_to_a_file_in_an_open_folder_is_refused),
		loader_test(a_file_of_somebody_else_is_refused),
		loader_test(what_is_no_regular_file_is_refused),
		loader_test(a_text_file_is_refused),
		loader_test(an_empty_file_is_refused),
		loader_test(a_file_cut_short_is_refused_wherever_it_was_cut),
		loader_test(another_machine_is_named),
		loader_test(the_other_word_size_is_named),
		loader_test(a_program_is_no_plug_in),
		loader_test(a_library_of_somebody_else_is_refused),
		loader_test(another_major_is_refused_with_both_numbers),
		loader_test(a_newer_minor_is_refused_with_both_numbers),
		loader_test(one_of_the_oldest_minor_is_taken_and_lacks_what_came_later),
		loader_test(a_note_of_another_size_is_refused),
		loader_test(a_missing_library_is_told_from_a_missing_file),
		loader_test(a_function_that_no_usherd_has_is_named),
		loader_test(a_symbol_that_nobody_has_is_named),
		loader_test(a_missing_constant_is_said),
		loader_test(a_missing_callback_is_named),
		loader_test(a_name_that_is_not_the_files_is_refused_with_both),
		loader_test(a_whole_plug_in_is_loaded_with_all_its_facets),
		loader_test(other_files_and_missing_folders_are_nothing),
		loader_test(a_link_to_a_trusted_file_is_loaded),
		loader_test(a_plug_ins_own_library_never_stands_in_for_the_host),
		loader_test(the_first_of_a_name_wins_and_the_second_is_refused),
		loader_test(an_unknown_name_gets_the_nearest_one),
		loader_test(an_unknown_name_is_told_with_the_folders_that_were_searched),
		loader_test(a_refused_one_is_found_as_refused),
		loader_test(looking_again_finds_new_files_and_mended_ones),
		loader_test(a_corrected_file_of_the_same_path_is_loaded_anew),
		loader_test(a_loaded_file_that_is_replaced_stays_as_it_was_loaded),
		loader_test(a_refused_file_that_is_taken_away_is_forgotten),
		loader_test(running_out_of_memory_is_no_refusal),
		loader_test(an_instance_has_its_options_and_keeps_what_they_point_to),
		loader_test(what_init_refuses_is_refused_with_its_place),
		loader_test(what_init_says_of_an_option_is_told_with_the_place_of_that_option),
		loader_test(wrong_options_are_refused),
		loader_test(a_missing_facet_is_refused_and_those_that_have_it_are_named),
	};

	return cmocka_run_group_tests_name("loader", tests, NULL, NULL);
}
