/* Any bytes may lie in the folder of plug-ins under a name that ends in .so. */

#include <stddef.h>
#include <stdint.h>

#include "elf-note.h"
#include "plugin-preview.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct usher_error err = {};
	struct elf_abi abi = { 1, 0 };

	if (elf_check(data, size, &err) < 0)
		return 0;
	(void) elf_note_read(data, size, &abi, &err);
	(void) plugin_preview(data, size, "seed", &abi, &err);
	return 0;
}
