#include "elf-data.h"

#include <assert.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>

#include "ownership.h"

#define SYMBOL_TYPE(info) ((info) &0xf)

/* How a machine calls the two relocations that write a pointer into data. */
struct pointer_relocations {
	unsigned machine;
	uint32_t relative;
	uint32_t absolute;
};

static const struct pointer_relocations known_machines[] = {
	{ EM_X86_64, R_X86_64_RELATIVE, R_X86_64_64 },
	{ EM_AARCH64, R_AARCH64_RELATIVE, R_AARCH64_ABS64 },
	{ EM_PPC64, R_PPC64_RELATIVE, R_PPC64_ADDR64 },
	{ EM_S390, R_390_RELATIVE, R_390_64 },
	{ EM_RISCV, R_RISCV_RELATIVE, R_RISCV_64 },
};

static const struct pointer_relocations *find_machine(const struct elf_data *data)
{
	Elf64_Ehdr header;

	memcpy(&header, data->image, sizeof(header));
	for (size_t i = 0; i < ELEMENTS(known_machines); i++)
		if (known_machines[i].machine == header.e_machine)
			return &known_machines[i];
	return NULL;
}

static bool get_segment(const struct elf_data *data, unsigned i, Elf64_Phdr *ret)
{
	Elf64_Ehdr header;

	memcpy(&header, data->image, sizeof(header));
	if (i >= header.e_phnum)
		return false;
	memcpy(ret, data->image + header.e_phoff + i * sizeof(*ret), sizeof(*ret));
	return true;
}

const void *elf_data_at(const struct elf_data *data, uint64_t address, uint64_t length)
{
	Elf64_Phdr segment;

	for (unsigned i = 0; get_segment(data, i, &segment); i++) {
		uint64_t offset = address - segment.p_vaddr;

		if (segment.p_type != PT_LOAD || address < segment.p_vaddr)
			continue;
		if (offset <= segment.p_filesz && length <= segment.p_filesz - offset)
			return data->image + segment.p_offset + offset;
	}
	return NULL;
}

const char *elf_data_text(const struct elf_data *data, uint64_t address)
{
	Elf64_Phdr segment;

	for (unsigned i = 0; get_segment(data, i, &segment); i++) {
		uint64_t offset = address - segment.p_vaddr;
		const char *text;

		if (segment.p_type != PT_LOAD || address < segment.p_vaddr ||
				offset >= segment.p_filesz)
			continue;
		text = (const char *) data->image + segment.p_offset + offset;
		return memchr(text, '\0', segment.p_filesz - offset) ? text : NULL;
	}
	return NULL;
}

static bool read_at(const struct elf_data *data, uint64_t address, void *ret, size_t size)
{
	const void *found = elf_data_at(data, address, size);

	if (found)
		memcpy(ret, found, size);
	return found;
}

static void take_entry(struct elf_data *data, const Elf64_Dyn *entry)
{
	switch (entry->d_tag) {
	case DT_SYMTAB:
		data->symbols = entry->d_un.d_ptr;
		break;
	case DT_STRTAB:
		data->strings = entry->d_un.d_ptr;
		break;
	case DT_STRSZ:
		data->strings_size = entry->d_un.d_val;
		break;
	case DT_GNU_HASH:
		data->gnu_hash = entry->d_un.d_ptr;
		break;
	case DT_HASH:
		data->sysv_hash = entry->d_un.d_ptr;
		break;
	case DT_RELA:
		data->relocations = entry->d_un.d_ptr;
		break;
	case DT_RELASZ:
		data->relocations_size = entry->d_un.d_val;
		break;
	case DT_RELR:
		data->packed = entry->d_un.d_ptr;
		break;
	case DT_RELRSZ:
		data->packed_size = entry->d_un.d_val;
		break;
	default:
		break;
	}
}

int elf_data_open(const uint8_t *image, size_t size, struct elf_data *ret)
{
	struct elf_data data = { .image = image, .size = size };
	Elf64_Phdr segment;

	if (image[EI_CLASS] != ELFCLASS64 || !find_machine(&data))
		return 0;
	for (unsigned i = 0; get_segment(&data, i, &segment); i++) {
		if (segment.p_type != PT_DYNAMIC)
			continue;
		for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= segment.p_filesz;
				at += sizeof(Elf64_Dyn)) {
			Elf64_Dyn entry;

			memcpy(&entry, image + segment.p_offset + at, sizeof(entry));
			if (entry.d_tag == DT_NULL)
				break;
			take_entry(&data, &entry);
		}
	}
	if (!data.symbols || !data.strings || (!data.gnu_hash && !data.sysv_hash))
		return 0;
	*ret = data;
	return 1;
}

/* ---- symbols ---- */

/* > 0: the symbol has the name and is defined here; 0: it is another; negative: there is none. */
static int match_symbol(const struct elf_data *data, uint32_t index, const char *name,
		uint64_t *ret_address)
{
	Elf64_Sym symbol;
	const char *text;

	if (!read_at(data, data->symbols + (uint64_t) index * sizeof(symbol), &symbol,
			    sizeof(symbol)))
		return -EBADMSG;
	if (symbol.st_name >= data->strings_size || symbol.st_shndx == SHN_UNDEF)
		return 0;
	text = elf_data_text(data, data->strings + symbol.st_name);
	if (!text || strcmp(text, name) != 0 || SYMBOL_TYPE(symbol.st_info) == STT_TLS)
		return 0;
	*ret_address = symbol.st_value;
	return 1;
}

static uint32_t gnu_hash(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (uint8_t) *name;
	return hash;
}

static int find_by_gnu_hash(const struct elf_data *data, const char *name, uint64_t *ret_address)
{
	struct {
		uint32_t buckets, first, bloom_words, bloom_shift;
	} head;
	uint32_t hash = gnu_hash(name), index, link;
	uint64_t buckets, chains;

	if (!read_at(data, data->gnu_hash, &head, sizeof(head)) || head.buckets == 0)
		return -ENOENT;
	buckets = data->gnu_hash + sizeof(head) + (uint64_t) head.bloom_words * sizeof(Elf64_Xword);
	chains = buckets + (uint64_t) head.buckets * sizeof(uint32_t);
	if (!read_at(data, buckets + hash % head.buckets * sizeof(uint32_t), &index, sizeof(index)))
		return -ENOENT;

	/* Ends where the chain says, or where the file does. */
	for (; index >= head.first; index++) {
		uint64_t at = chains + (uint64_t) (index - head.first) * sizeof(link);

		if (!read_at(data, at, &link, sizeof(link)))
			return -ENOENT;
		if ((link | 1) == (hash | 1) && match_symbol(data, index, name, ret_address) > 0)
			return 0;
		if (link & 1)
			return -ENOENT;
	}
	return -ENOENT;
}

/* The table's chains say how many symbols there are; looking at each is simple and rare. */
static int find_by_sysv_hash(const struct elf_data *data, const char *name, uint64_t *ret_address)
{
	uint32_t counts[2];

	if (!read_at(data, data->sysv_hash, counts, sizeof(counts)))
		return -ENOENT;
	for (uint32_t i = 0; i < counts[1]; i++) {
		int r = match_symbol(data, i, name, ret_address);

		if (r != 0)
			return r > 0 ? 0 : -ENOENT;
	}
	return -ENOENT;
}

int elf_data_find(const struct elf_data *data, const char *name, uint64_t *ret_address)
{
	return data->gnu_hash ? find_by_gnu_hash(data, name, ret_address)
			      : find_by_sysv_hash(data, name, ret_address);
}

/* ---- pointers ---- */

static enum elf_pointer follow_symbol(
		const struct elf_data *data, const Elf64_Rela *relocation, uint64_t *ret_target)
{
	uint64_t at = data->symbols + ELF64_R_SYM(relocation->r_info) * sizeof(Elf64_Sym);
	Elf64_Sym symbol;

	if (!read_at(data, at, &symbol, sizeof(symbol)))
		return ELF_POINTER_UNKNOWN;
	if (symbol.st_shndx == SHN_UNDEF)
		return ELF_POINTER_ELSEWHERE;
	*ret_target = symbol.st_value + (uint64_t) relocation->r_addend;
	return ELF_POINTER_HERE;
}

/* The relocation of this address, if there is one. */
static bool find_relocation(const struct elf_data *data, uint64_t address, Elf64_Rela *ret)
{
	const uint8_t *table;

	table = elf_data_at(data, data->relocations, data->relocations_size);
	if (!data->relocations || !table)
		return false;
	for (uint64_t at = 0; at + sizeof(*ret) <= data->relocations_size; at += sizeof(*ret)) {
		memcpy(ret, table + at, sizeof(*ret));
		if (ret->r_offset == address)
			return true;
	}
	return false;
}

/* Whether DT_RELR relocates the address: an even entry is an address, an odd one a bitmap of the 63
 * words after the last. */
static bool is_packed(const struct elf_data *data, uint64_t address)
{
	const uint8_t *table = elf_data_at(data, data->packed, data->packed_size);
	uint64_t next = 0;

	if (!data->packed || !table)
		return false;
	for (uint64_t at = 0; at + sizeof(uint64_t) <= data->packed_size; at += sizeof(uint64_t)) {
		uint64_t entry;

		memcpy(&entry, table + at, sizeof(entry));
		if ((entry & 1) == 0) {
			if (entry == address)
				return true;
			next = entry + sizeof(uint64_t);
			continue;
		}
		if (address >= next && (address - next) % sizeof(uint64_t) == 0 &&
				(address - next) / sizeof(uint64_t) < 63 &&
				entry >> (1 + (address - next) / sizeof(uint64_t)) & 1)
			return true;
		next += 63 * sizeof(uint64_t);
	}
	return false;
}

enum elf_pointer elf_data_pointer(
		const struct elf_data *data, uint64_t address, uint64_t *ret_target)
{
	const struct pointer_relocations *machine = find_machine(data);
	Elf64_Rela relocation;
	uint64_t stored;

	if (find_relocation(data, address, &relocation)) {
		uint32_t type = (uint32_t) ELF64_R_TYPE(relocation.r_info);

		if (type == machine->absolute)
			return follow_symbol(data, &relocation, ret_target);
		if (type != machine->relative)
			return ELF_POINTER_UNKNOWN;
		*ret_target = (uint64_t) relocation.r_addend;
		return ELF_POINTER_HERE;
	}
	if (!read_at(data, address, &stored, sizeof(stored)))
		return ELF_POINTER_UNKNOWN;
	if (is_packed(data, address)) {
		*ret_target = stored;
		return ELF_POINTER_HERE;
	}
	return stored == 0 ? ELF_POINTER_NULL : ELF_POINTER_UNKNOWN;
}
