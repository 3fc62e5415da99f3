#pragma once

/* What an ELF file says of itself, read as bytes: nothing of it is mapped for execution, so no code
 * of a plug-in has run when it is refused.
 *
 * The image is outside input: every offset, count and size in it is checked against its length
 * before it is followed. Source: the gABI ("ELF-64 Object File Format") and <elf.h>. Thread: any.
 */

#include <stddef.h>
#include <stdint.h>
#include <usher/error.h>

#define ELF_HEADERS_MAX 4096u /* program headers, and section headers, of one file */

struct elf_abi {
	uint32_t major, minor;
};

/* Whether the image is a whole shared object for this machine: class, byte order, machine, type,
 * and that every loadable segment lies inside the file (a cut file that is mapped kills the
 * process). Errors: ENOEXEC (no such object), EBADMSG (cut short or nonsense); with a message that
 * continues "FILE: ". */
int elf_check(const uint8_t *image, size_t size, struct usher_error *reterr);

/* The plug-in ABI in the note "usher" of a checked image. Errors: ENOENT (no such note), EBADMSG (a
 * note that contradicts itself); with a message. */
int elf_note_read(
		const uint8_t *image, size_t size, struct elf_abi *ret, struct usher_error *reterr);
