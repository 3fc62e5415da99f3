/* ELF files made by hand, right and wrong, and what is read out of them without loading them. */

#include <elf.h>
#include <link.h>
#include <usher/plugin.h>

#include "elf-note.h"
#include "ownership.h"
#include "plugin-preview.h"
#include "test.h"

extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

#define NOTES_AT (sizeof(ElfW(Ehdr)) + 2 * sizeof(ElfW(Phdr)))

/* A shared object of one segment, whose notes a test writes. */
struct object {
	ElfW(Ehdr) header;
	ElfW(Phdr) load, notes;
	unsigned char bytes[512];
};

static struct object object_new(void)
{
	return (struct object){
		.header = {
			.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3,
				__ehdr_start.e_ident[EI_CLASS], __ehdr_start.e_ident[EI_DATA], EV_CURRENT },
			.e_type = ET_DYN,
			.e_machine = __ehdr_start.e_machine,
			.e_version = EV_CURRENT,
			.e_phoff = offsetof(struct object, load),
			.e_phentsize = sizeof(ElfW(Phdr)),
			.e_phnum = 2,
		},
		.load = { .p_type = PT_LOAD, .p_filesz = sizeof(struct object) },
		.notes = { .p_type = PT_NOTE, .p_offset = NOTES_AT, .p_align = 4 },
	};
}

/* Append one note, with its name and description padded to `align`. */
static void add_note(struct object *o, const char *name, uint32_t type, const void *description,
		uint32_t size, size_t align)
{
	const ElfW(Nhdr) note = {
		.n_namesz = (uint32_t) strlen(name) + 1, .n_descsz = size, .n_type = type
	};
	size_t at = o->notes.p_filesz, name_at = at + sizeof(note), description_at;

	description_at = (name_at + note.n_namesz + align - 1) / align * align;
	memcpy(o->bytes + at, &note, sizeof(note));
	memcpy(o->bytes + name_at, name, note.n_namesz);
	memcpy(o->bytes + description_at, description, size);
	o->notes.p_filesz = (description_at + size + align - 1) / align * align;
	o->notes.p_align = align;
}

static void add_abi(struct object *o, uint32_t major, uint32_t minor, size_t align)
{
	const uint32_t abi[] = { major, minor };

	add_note(o, USHER_NOTE_NAME, USHER_NOTE_TYPE, abi, sizeof(abi), align);
}

static int read_abi(const struct object *o, struct elf_abi *ret, struct usher_error *reterr)
{
	int r;

	r = elf_check((const uint8_t *) o, sizeof(*o), reterr);
	if (r < 0)
		return r;
	return elf_note_read((const uint8_t *) o, sizeof(*o), ret, reterr);
}

static void the_note_is_found_behind_others(void **state)
{
	struct object o = object_new();
	struct elf_abi abi;

	(void) state;
	add_note(&o, "GNU", 3, "01234567890123456789", 20, 4);
	add_note(&o, "ushers", 1, "12345678", 8, 4);
	add_abi(&o, 3, 7, 4);
	assert_ok(read_abi(&o, &abi, NULL));
	assert_int_equal(abi.major, 3);
	assert_int_equal(abi.minor, 7);
}

static void notes_in_steps_of_eight_are_read(void **state)
{
	struct object o = object_new();
	struct elf_abi abi;

	(void) state;
	add_note(&o, "GNU", 5, "123456789", 9, 8);
	add_abi(&o, 1, 0, 8);
	assert_ok(read_abi(&o, &abi, NULL));
	assert_int_equal(abi.major, 1);
}

static void a_note_in_a_section_alone_is_read(void **state)
{
	struct object o = object_new();
	ElfW(Shdr) section = { .sh_type = SHT_NOTE, .sh_addralign = 4 };
	struct elf_abi abi;

	(void) state;
	add_abi(&o, 1, 5, 4);
	section.sh_offset = NOTES_AT;
	section.sh_size = o.notes.p_filesz;
	o.notes.p_type = PT_NULL;
	o.header.e_shoff = NOTES_AT + 256;
	o.header.e_shentsize = sizeof(section);
	o.header.e_shnum = 1;
	memcpy(o.bytes + 256, &section, sizeof(section));
	assert_ok(read_abi(&o, &abi, NULL));
	assert_int_equal(abi.minor, 5);
}

static void without_the_note_it_is_no_plug_in(void **state)
{
	struct object o = object_new();
	struct elf_abi abi = { 9, 9 };

	(void) state;
	assert_errno(read_abi(&o, &abi, NULL), ENOENT);
	add_note(&o, "GNU", 3, "01234567890123456789", 20, 4);
	assert_errno(read_abi(&o, &abi, NULL), ENOENT);
	assert_int_equal(abi.major, 9);
}

static void a_note_that_contradicts_itself_is_refused(void **state)
{
	struct object wrong_type = object_new(), too_short = object_new();
	struct elf_abi abi;

	(void) state;
	add_note(&wrong_type, USHER_NOTE_NAME, 2, "12345678", 8, 4);
	assert_errno(read_abi(&wrong_type, &abi, NULL), EBADMSG);
	add_note(&too_short, USHER_NOTE_NAME, USHER_NOTE_TYPE, "1234", 4, 4);
	assert_errno(read_abi(&too_short, &abi, NULL), EBADMSG);
}

/* Sizes that lead out of the block, or around the end of the numbers. */
static void sizes_that_lead_nowhere_are_not_followed(void **state)
{
	static const uint32_t sizes[] = { 0x7fffffff, 0xfffffff0, 0xffffffff, 500, 100000 };

	(void) state;
	for (size_t i = 0; i < ELEMENTS(sizes); i++) {
		struct object name = object_new(), description = object_new();
		struct elf_abi abi;

		add_abi(&name, 1, 0, 4);
		memcpy(name.bytes, &sizes[i], sizeof(sizes[i]));
		assert_errno(read_abi(&name, &abi, NULL), ENOENT);
		add_abi(&description, 1, 0, 4);
		memcpy(description.bytes + sizeof(uint32_t), &sizes[i], sizeof(sizes[i]));
		assert_errno(read_abi(&description, &abi, NULL), ENOENT);
	}
}

static void headers_that_make_no_sense_are_refused(void **state)
{
	struct object none = object_new(), many = object_new(), far = object_new();
	struct object wrap = object_new(), small = object_new();

	(void) state;
	none.header.e_phnum = 0;
	assert_errno(elf_check((const uint8_t *) &none, sizeof(none), NULL), EBADMSG);
	many.header.e_phnum = UINT16_MAX;
	assert_errno(elf_check((const uint8_t *) &many, sizeof(many), NULL), EBADMSG);
	far.header.e_phoff = (ElfW(Off)) - 16;
	assert_errno(elf_check((const uint8_t *) &far, sizeof(far), NULL), EBADMSG);
	wrap.load.p_offset = (ElfW(Off)) - 1;
	wrap.load.p_filesz = 2;
	assert_errno(elf_check((const uint8_t *) &wrap, sizeof(wrap), NULL), EBADMSG);
	small.header.e_phentsize = 8;
	assert_errno(elf_check((const uint8_t *) &small, sizeof(small), NULL), EBADMSG);
}

static void every_length_of_a_file_is_survived(void **state)
{
	struct object o = object_new();

	(void) state;
	add_abi(&o, 1, 0, 4);
	for (size_t size = 0; size < sizeof(o); size++)
		assert_true(elf_check((const uint8_t *) &o, size, NULL) < 0);
	assert_ok(elf_check((const uint8_t *) &o, sizeof(o), NULL));
}

/* ---- the constant of whole files, as linkers lay it out ---- */

static int preview(const char *seed, const char *name, struct usher_error *reterr)
{
	static uint8_t image[65536];
	char path[4096];
	const struct elf_abi abi = { 1, 0 }; /* that the files were built for */
	size_t size;
	FILE *f;

	(void) snprintf(path, sizeof(path), "%s/tests/fuzz/seeds/elf-note/%s", USHER_TREE, seed);
	f = fopen(path, "re");
	assert_non_null(f);
	size = fread(image, 1, sizeof(image), f);
	(void) fclose(f);
	if (elf_check(image, size, NULL) < 0)
		skip(); /* the files are for x86-64 */
	return plugin_preview(image, size, name, &abi, reterr);
}

static void the_constant_is_read_through_a_gnu_hash(void **state)
{
	struct usher_error err = {};

	(void) state;
	assert_ok(preview("gnu-hash.so", "seed", NULL));
	assert_errno(preview("gnu-hash.so", "other", &err), EINVAL);
	assert_non_null(strstr(err.text, "calls itself \"seed\""));
}

static void the_constant_is_read_through_a_system_v_hash(void **state)
{
	struct usher_error err = {};

	(void) state;
	assert_ok(preview("sysv-hash.so", "seed", NULL));
	assert_errno(preview("sysv-hash.so", "other", &err), EINVAL);
	assert_non_null(strstr(err.text, "calls itself \"seed\""));
}

static void the_constant_is_read_through_packed_relocations(void **state)
{
	struct usher_error err = {};

	(void) state;
	assert_errno(preview("packed-no-run.so", "seed", &err), EINVAL);
	assert_string_equal(err.text, "offers discovery without the function run");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_note_is_found_behind_others),
		cmocka_unit_test(notes_in_steps_of_eight_are_read),
		cmocka_unit_test(a_note_in_a_section_alone_is_read),
		cmocka_unit_test(without_the_note_it_is_no_plug_in),
		cmocka_unit_test(a_note_that_contradicts_itself_is_refused),
		cmocka_unit_test(sizes_that_lead_nowhere_are_not_followed),
		cmocka_unit_test(headers_that_make_no_sense_are_refused),
		cmocka_unit_test(every_length_of_a_file_is_survived),
		cmocka_unit_test(the_constant_is_read_through_a_gnu_hash),
		cmocka_unit_test(the_constant_is_read_through_a_system_v_hash),
		cmocka_unit_test(the_constant_is_read_through_packed_relocations),
	};

	return cmocka_run_group_tests_name("elf-note", tests, NULL, NULL);
}
