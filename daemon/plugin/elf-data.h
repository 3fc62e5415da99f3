#pragma once

/* The constants of a shared object as the dynamic loader would lay them out, read from its bytes.
 *
 * Nothing is mapped for execution and no relocation is applied: a pointer is followed through the
 * relocation that would write it. What this does not understand (a machine without entries with
 * addends, a symbol table without a hash) it does not guess. As in elf-note.h, the image is outside
 * input. Sources: the gABI, the psABIs, "DT_GNU_HASH" (Bendersky), "RELR" (Zaman). Thread: any. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_data {
	const uint8_t *image; /* borrowed */
	size_t size;
	uint64_t symbols, strings, strings_size;
	uint64_t gnu_hash, sysv_hash; /* addresses; 0: none */
	uint64_t relocations, relocations_size;
	uint64_t packed, packed_size; /* DT_RELR */
};

/* image has passed elf_check(). > 0: it can be read; 0: it cannot, which says nothing about it. */
int elf_data_open(const uint8_t *image, size_t size, struct elf_data *ret);

/* The bytes at an address, in the image, or NULL: not all of them are in the file. */
const void *elf_data_at(const struct elf_data *data, uint64_t address, uint64_t length);
/* The text at an address, in the image; NULL: there is none that ends. */
const char *elf_data_text(const struct elf_data *data, uint64_t address);

/* Where an exported symbol lies. Errors: ENOENT. */
int elf_data_find(const struct elf_data *data, const char *name, uint64_t *ret_address);

enum elf_pointer {
	ELF_POINTER_NULL,
	ELF_POINTER_HERE,      /* to an address of this object */
	ELF_POINTER_ELSEWHERE, /* into another object */
	ELF_POINTER_UNKNOWN,
};

/* What the pointer at an address will point to. *ret_target is written for ELF_POINTER_HERE. */
enum elf_pointer elf_data_pointer(
		const struct elf_data *data, uint64_t address, uint64_t *ret_target);
