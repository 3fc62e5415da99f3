/* Was not linked with the library that it calls. */

#include <usher/plugin.h>

#include "trace.h"

int registry_client_connect(void);

static int run(void *instance, struct usher_source *source)
{
	(void) instance;
	(void) source;
	return registry_client_connect();
}

USHER_PLUGIN(.name = "unlinked", .discovery = &(const struct usher_discovery){ .run = run });
