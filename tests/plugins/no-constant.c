/* The note, and no usher_plugin. */

#include <usher/plugin.h>

#include "trace.h"

__attribute__((used, aligned(4),
		section(USHER_NOTE_SECTION))) static const struct usher_abi_note note = {
	sizeof(USHER_NOTE_NAME), 2 * sizeof(uint32_t), USHER_NOTE_TYPE, USHER_NOTE_NAME,
	USHER_ABI_MAJOR, USHER_ABI_MINOR
};
