/* Linked with a library that the machine does not have. */

#include <usher/plugin.h>

#include "trace.h"

int usher_test_absent(void);

static int run(void *instance, struct usher_source *source)
{
	(void) instance;
	(void) source;
	return usher_test_absent();
}

USHER_PLUGIN(.name = "lonely", .discovery = &(const struct usher_discovery){ .run = run });
