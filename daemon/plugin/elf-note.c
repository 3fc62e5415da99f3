#include "elf-note.h"

#include <assert.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>
#include <usher/plugin.h>

#include "ownership.h"

/* Made by the linker: the ELF header of the program we run in, which says what this machine is. */
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

static bool within(size_t size, uint64_t offset, uint64_t length)
{
	return offset <= size && length <= size - offset;
}

static const char *machine_name(unsigned machine)
{
	static const struct {
		unsigned machine;
		const char *name;
	} names[] = {
		{ EM_386, "32-bit x86" },
		{ EM_X86_64, "x86-64" },
		{ EM_ARM, "32-bit ARM" },
		{ EM_AARCH64, "64-bit ARM" },
		{ EM_PPC64, "64-bit POWER" },
		{ EM_S390, "S/390" },
		{ EM_RISCV, "RISC-V" },
	};

	for (size_t i = 0; i < ELEMENTS(names); i++)
		if (names[i].machine == machine)
			return names[i].name;
	return "another kind of machine";
}

static const char *type_name(unsigned type)
{
	static const char *const names[] = {
		[ET_REL] = "an object file",
		[ET_EXEC] = "a program",
		[ET_CORE] = "a core dump",
	};

	return type < ELEMENTS(names) && names[type] ? names[type] : "an ELF file of another type";
}

static int check_identity(const uint8_t *image, size_t size, struct usher_error *reterr)
{
	if (size < SELFMAG || memcmp(image, ELFMAG, SELFMAG) != 0)
		return usher_error_set(reterr, -ENOEXEC,
				"is no ELF file; a plug-in is a shared object, as cc -shared makes it");
	if (size < sizeof(ElfW(Ehdr)))
		return usher_error_set(reterr, -EBADMSG,
				"is cut short: it has %zu bytes, its ELF header alone takes %zu",
				size, sizeof(ElfW(Ehdr)));
	if (image[EI_CLASS] != __ehdr_start.e_ident[EI_CLASS])
		return usher_error_set(reterr, -ENOEXEC,
				"built for a %s-bit machine, this usherd is a %s-bit program",
				image[EI_CLASS] == ELFCLASS32 ? "32" : "64",
				__ehdr_start.e_ident[EI_CLASS] == ELFCLASS32 ? "32" : "64");
	if (image[EI_DATA] != __ehdr_start.e_ident[EI_DATA])
		return usher_error_set(reterr, -ENOEXEC,
				"built for a machine of the other byte order than this usherd");
	return 0;
}

static int check_segments(const uint8_t *image, size_t size, const ElfW(Ehdr) * header,
		struct usher_error *reterr)
{
	if (header->e_phentsize != sizeof(ElfW(Phdr)) || header->e_phnum == 0 ||
			header->e_phnum > ELF_HEADERS_MAX)
		return usher_error_set(reterr, -EBADMSG,
				"its ELF header makes no sense: %u program headers of %u bytes",
				header->e_phnum, header->e_phentsize);
	if (!within(size, header->e_phoff, (uint64_t) header->e_phnum * sizeof(ElfW(Phdr))))
		return usher_error_set(reterr, -EBADMSG,
				"is cut short: its program headers lie beyond its %zu bytes", size);

	for (unsigned i = 0; i < header->e_phnum; i++) {
		ElfW(Phdr) segment;

		memcpy(&segment, image + header->e_phoff + i * sizeof(segment), sizeof(segment));
		if (segment.p_type != PT_LOAD && segment.p_type != PT_DYNAMIC &&
				segment.p_type != PT_NOTE)
			continue;
		if (!within(size, segment.p_offset, segment.p_filesz))
			return usher_error_set(reterr, -EBADMSG,
					"is cut short: it has %zu bytes, segment %u ends at byte "
					"%llu; install it again",
					size, i,
					(unsigned long long) segment.p_offset + segment.p_filesz);
	}
	return 0;
}

int elf_check(const uint8_t *image, size_t size, struct usher_error *reterr)
{
	ElfW(Ehdr) header;
	int r;

	assert(image || size == 0);

	r = check_identity(image, size, reterr);
	if (r < 0)
		return r;

	memcpy(&header, image, sizeof(header));
	if (header.e_machine != __ehdr_start.e_machine)
		return usher_error_set(reterr, -ENOEXEC,
				"built for %s (ELF machine %u), this usherd "
				"runs on %s (%u)",
				machine_name(header.e_machine), header.e_machine,
				machine_name(__ehdr_start.e_machine), __ehdr_start.e_machine);
	if (header.e_type != ET_DYN)
		return usher_error_set(reterr, -ENOEXEC,
				"is %s, no shared object; link it with -shared",
				type_name(header.e_type));
	return check_segments(image, size, &header, reterr);
}

/* Whether the note at `notes` is ours, and what it says. */
static int read_abi(const uint8_t *description, const ElfW(Nhdr) * note, struct elf_abi *ret,
		struct usher_error *reterr)
{
	if (note->n_type != USHER_NOTE_TYPE || note->n_descsz < sizeof(*ret))
		return usher_error_set(reterr, -EBADMSG,
				"its plug-in ABI note makes no sense: type %u, %u bytes (expected "
				"type %u, %zu bytes); build it with <usher/plugin.h>",
				note->n_type, note->n_descsz, USHER_NOTE_TYPE, sizeof(*ret));
	memcpy(ret, description, sizeof(*ret));
	return 1;
}

/* Look through one block of notes. 1: found; 0: not here. A malformed rest is the end of it. */
static int search_notes(const uint8_t *notes, uint64_t size, uint64_t align, struct elf_abi *ret,
		struct usher_error *reterr)
{
	uint64_t mask = align == 8 ? 7 : 3;
	uint64_t at = 0;

	while (size - at >= sizeof(ElfW(Nhdr))) {
		uint64_t description, next;
		ElfW(Nhdr) note;

		memcpy(&note, notes + at, sizeof(note));
		description = (at + sizeof(note) + note.n_namesz + mask) & ~mask;
		next = (description + note.n_descsz + mask) & ~mask;
		if (!within(size, description, note.n_descsz))
			return 0;
		if (note.n_namesz == sizeof(USHER_NOTE_NAME) &&
				memcmp(notes + at + sizeof(note), USHER_NOTE_NAME,
						sizeof(USHER_NOTE_NAME)) == 0)
			return read_abi(notes + description, &note, ret, reterr);
		if (next > size)
			return 0;
		at = next;
	}
	return 0;
}

static int search_segments(const uint8_t *image, size_t size, const ElfW(Ehdr) * header,
		struct elf_abi *ret, struct usher_error *reterr)
{
	for (unsigned i = 0; i < header->e_phnum; i++) {
		ElfW(Phdr) segment;
		int r;

		memcpy(&segment, image + header->e_phoff + i * sizeof(segment), sizeof(segment));
		if (segment.p_type != PT_NOTE || !within(size, segment.p_offset, segment.p_filesz))
			continue;
		r = search_notes(image + segment.p_offset, segment.p_filesz, segment.p_align, ret,
				reterr);
		if (r != 0)
			return r;
	}
	return 0;
}

/* For a linker that gave the note no segment of its own. */
static int search_sections(const uint8_t *image, size_t size, const ElfW(Ehdr) * header,
		struct elf_abi *ret, struct usher_error *reterr)
{
	if (header->e_shentsize != sizeof(ElfW(Shdr)) || header->e_shnum > ELF_HEADERS_MAX ||
			!within(size, header->e_shoff,
					(uint64_t) header->e_shnum * sizeof(ElfW(Shdr))))
		return 0;

	for (unsigned i = 0; i < header->e_shnum; i++) {
		ElfW(Shdr) section;
		int r;

		memcpy(&section, image + header->e_shoff + i * sizeof(section), sizeof(section));
		if (section.sh_type != SHT_NOTE ||
				!within(size, section.sh_offset, section.sh_size))
			continue;
		r = search_notes(image + section.sh_offset, section.sh_size, section.sh_addralign,
				ret, reterr);
		if (r != 0)
			return r;
	}
	return 0;
}

int elf_note_read(
		const uint8_t *image, size_t size, struct elf_abi *ret, struct usher_error *reterr)
{
	ElfW(Ehdr) header;
	struct elf_abi abi;
	int r;

	assert(image);
	assert(ret);
	assert(size >= sizeof(header));

	memcpy(&header, image, sizeof(header));
	r = search_segments(image, size, &header, &abi, reterr);
	if (r == 0)
		r = search_sections(image, size, &header, &abi, reterr);
	if (r < 0)
		return r;
	if (r == 0)
		return usher_error_set(reterr, -ENOENT,
				"has no plug-in ABI note (%s): it is no plug-in of usher, or was not "
				"written with USHER_PLUGIN()",
				USHER_NOTE_SECTION);

	*ret = abi;
	return 0;
}
