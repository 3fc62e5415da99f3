#pragma once

/* What a plug-in says of itself, judged and made whole.
 *
 * Structs of an older minor are shorter than ours: they are read as far as their `size` covers and
 * copied into full ones, in which the members they do not have are NULL. So nobody else needs to
 * look at a size. A struct whose size is 0 is as long as it was in ABI 1.0. */

#include <usher/plugin.h>

#include "elf-note.h"

#define PLUGIN_OPTIONS_MAX  256                         /* rows of one table */
#define PLUGIN_INSTANCE_MAX ((size_t) 16 * 1024 * 1024) /* bytes of one instance */

/* Bytes that the structs which have grown since had in ABI 1.0. */
#define REGISTRATION_SIZE_1_0 offsetof(struct usher_registration, renew_after_usec)
#define STAGE_SIZE_1_0        offsetof(struct usher_stage, flags)
#define SELECTOR_SIZE_1_0     offsetof(struct usher_selector, flags)

struct plugin_description {
	struct usher_plugin plugin; /* its facets point to the copies below, or are NULL */
	struct usher_discovery discovery;
	struct usher_registration registration;
	struct usher_stage stage;
	struct usher_selector selector;
};

/* file_name is the file's, without folder and .so; abi what its note says. ret must stay where it
 * is. Errors: EINVAL, with a message that continues "FILE: ". */
int plugin_description_read(const struct usher_plugin *said, const char *file_name,
		const struct elf_abi *abi, struct plugin_description *ret,
		struct usher_error *reterr);
