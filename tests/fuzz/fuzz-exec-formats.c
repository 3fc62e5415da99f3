/* Whatever a program prints: reading it as the directory neither crashes nor leaks, and what is
 * found in it is what it names. */

#include <stdlib.h>

#include "directory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct usher_error why = { 0 };
	struct directory *d = NULL;

	if (directory_parse("program", (const char *) data, size, &d, &why) != 0)
		return 0;
	for (size_t i = 0; i < d->count; i++)
		if (directory_find(d, d->all[i].name) != d->all[i].set ||
				directory_lacks(d->all[i].set, d->all[i].set))
			abort();
	(void) directory_free(d);
	return 0;
}
