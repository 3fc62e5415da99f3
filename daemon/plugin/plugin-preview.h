#pragma once

/* The judgement of plugin-description.h on a file that has not been loaded: the constant
 * `usher_plugin` is put together from the file's bytes, so that a plug-in that does not hold is
 * refused before its constructors run. What cannot be read that way is judged after loading. */

#include "elf-note.h"

/* image has passed elf_check(), file_name is the file's without folder and .so. Errors: EINVAL,
 * with a message that continues "FILE: "; ENOMEM. */
int plugin_preview(const uint8_t *image, size_t size, const char *file_name,
		const struct elf_abi *abi, struct usher_error *reterr);
