/* Called otherwise than its file. */

#include <usher/plugin.h>

#include "trace.h"

static int run(void *instance, struct usher_source *source)
{
	(void) instance;
	return usher_source_wait(source, NULL);
}

USHER_PLUGIN(.name = "right-name", .discovery = &(const struct usher_discovery){ .run = run });
