/* Whatever a kubeconfig holds: reading it neither crashes nor leaks. */

#include <stdlib.h>

#include "access.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct access *a = calloc(1, sizeof(*a));

	if (!a)
		return 0;
	if (usher_document_parse("/k/config", (const char *) data, size, &a->document, NULL) == 0)
		(void) kubeconfig_apply(a, NULL, NULL);
	(void) access_free(a);
	return 0;
}
